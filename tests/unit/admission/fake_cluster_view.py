"""A view of other objects for handlers under test."""

from __future__ import annotations

from typing import Any

from headgate.admission.admission_cache import AdmissionCache
from headgate.admission.admission_review import AdmissionRequest
from headgate.admission.settings import AdmissionSettings
from headgate.capacity.names import OPT_IN, POD_GROUPS, QUEUE_NAME, QUEUES
from headgate.kube.api_resources import NAMESPACES, APIResource

Object = dict[str, Any]

SETTINGS = AdmissionSettings(schedulers=frozenset({"headgate"}), trusted_users=frozenset({"headgate-itself"}))


class FakeClusterView(AdmissionCache):
    def put(self, resource: APIResource, obj: Object) -> FakeClusterView:
        self.applied(resource, obj)
        return self

    def namespace(self, name: str, **annotations: str) -> FakeClusterView:
        return self.put(NAMESPACES, {"metadata": {"name": name, "annotations": _written(annotations)}})

    def queue(
        self, name: str, *, state: str = "", annotations: dict[str, str] | None = None, **spec: Any
    ) -> FakeClusterView:
        status = {"state": state} if state else {}
        metadata = {"name": name, "annotations": annotations or {}}
        return self.put(QUEUES, {"metadata": metadata, "spec": spec, "status": status})

    def group(self, name: str, namespace: str = "t", **spec: Any) -> FakeClusterView:
        return self.put(POD_GROUPS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


def _written(annotations: dict[str, str]) -> dict[str, str]:
    """Keyword arguments cannot have dots."""
    names = {"opt_in": OPT_IN, "queue": QUEUE_NAME}
    return {names[name]: value for name, value in annotations.items()}


def a_create(annotations: dict[str, str] | None = None, *, user: str = "alice", **spec: Any) -> AdmissionRequest:
    metadata: Object = {"name": "p", "namespace": "t"}
    if annotations is not None:
        metadata["annotations"] = annotations
    obj = {"metadata": metadata, "spec": {"schedulerName": "headgate", **spec}}
    return AdmissionRequest("CREATE", "pods", "t", "p", user=user, obj=obj)


def an_update(before: dict[str, str], after: dict[str, str], *, user: str = "alice") -> AdmissionRequest:
    old, new = ({"metadata": {"name": "p", "annotations": each}} for each in (before, after))
    return AdmissionRequest("UPDATE", "pods", "t", "p", user=user, obj=new, old=old)
