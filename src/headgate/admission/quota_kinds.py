"""Admission of ``kueue.x-k8s.io`` objects: calls ``quota/kinds/validation.py`` for one write.

While the webhook cannot be called, the API server accepts invalid objects. The engine ignores such an object and
reports the reason.
"""

from __future__ import annotations

from headgate.admission.admission_review import AdmissionRequest, AdmissionResponse
from headgate.admission.settings import AdmissionSettings, ClusterView
from headgate.kube.field_errors import aggregate
from headgate.quota.kinds.validation import validate_object


def validate(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> AdmissionResponse:
    """Reports all problems at once."""
    result = validate_object(request.obj, request.old or None, honours_gates=settings.features.admission_gated_by)
    refusal = aggregate(result.problems) if result.problems else ""
    return AdmissionResponse(refusal=refusal, warnings=tuple(result.warnings))
