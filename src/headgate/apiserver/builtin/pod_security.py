"""PodSecurity: a namespace's labels must be readable. What they ask for is not evaluated (``kube/pod_security.py``)."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.builtin.attributes import Attributes, Object, View
from headgate.kube import status
from headgate.kube.pod_security import label_problems

_NAMESPACE: Final = status.GroupResource("", "Namespace")


def validate_namespace(attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
    """Labels that were wrong before may stay as they are."""
    problems = label_problems(new["metadata"].get("labels") or {})
    if not problems or (old is not None and problems == label_problems(old["metadata"].get("labels") or {})):
        return None
    return status.invalid(_NAMESPACE, attributes.name, problems)
