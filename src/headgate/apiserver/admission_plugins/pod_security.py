"""PodSecurity: a namespace's labels must be valid. The policy that they name is not evaluated
(``apimachinery/validation/pod_security.py``)."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery import api_errors
from headgate.apimachinery.validation.pod_security import validate_pod_security_labels
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister

_NAMESPACE: Final = api_errors.GroupResource("", "Namespace")


def validate_namespace(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    """Invalid labels of the old object may stay."""
    problems = validate_pod_security_labels(new["metadata"].get("labels") or {})
    if not problems or (
        old is not None and problems == validate_pod_security_labels(old["metadata"].get("labels") or {})
    ):
        return None
    return api_errors.invalid(_NAMESPACE, attributes.name, problems)
