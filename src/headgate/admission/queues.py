"""Admission of Queues: calls ``capacity/kinds/queue_validation.py`` for one write.

While the webhook cannot be called, the API server accepts invalid queues. Such a queue and the queues below it grant
nothing; other queues are not affected.
``pod_groups.py`` handles groups.
"""

from __future__ import annotations

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from headgate.admission.settings import AdmissionSettings, ClusterView
from headgate.capacity.kinds.queue_validation import find_deletion_problems, find_queue_problems, queue_warnings
from headgate.kube.lenient_reader import find_object


def validate_queue(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> AdmissionResponse:
    """Reports all problems at once."""
    if request.operation == "DELETE":
        problems, warnings = find_deletion_problems(_name(request), view.queues, view.group_count), []
    else:
        old = request.old if request.operation == "UPDATE" else None
        problems = find_queue_problems(request.obj, old, view.queues, view.group_count)
        warnings = queue_warnings(request.obj, old)
    if problems:
        return AdmissionResponse(refusal="; ".join(map(str, problems)))
    return AdmissionResponse(warnings=tuple(warnings)) if warnings else ALLOWED


def _name(request: AdmissionRequest) -> str:
    """The name of the queue. In a request of deletecollection only the object has it."""
    return request.name or str(find_object(request.old, "metadata").get("name") or "")
