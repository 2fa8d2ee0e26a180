"""The requested number of pods, by controller: ReplicaSets and their Deployments, StatefulSets, and so on.

The built-in kinds are watched (:class:`ControllerScales`). For other kinds, :func:`expected_pods` reads the ``scale``
subresource. All ReplicaSets of a Deployment count as one controller, with the number of pods of the Deployment.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import msgspec

from headgate.controllers.disruption.budget_pods import BudgetPodCounts, ControllerRef
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import Effect, EffectResponse, Get
from headgate.kube.api_resources import DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, APIResource
from headgate.kube.field_errors import quote
from headgate.kube.object_meta import controller_of

Object = dict[str, Any]

WATCHED: Final = {
    REPLICATION_CONTROLLERS: frozenset({"spec.replicas"}),
    REPLICA_SETS: frozenset({"spec.replicas", "metadata.ownerReferences"}),
    DEPLOYMENTS: frozenset({"spec.replicas"}),
    STATEFUL_SETS: frozenset({"spec.replicas"}),
}
"""The watched kinds, and the fields that are used."""

_KINDS: Final = {
    ("", "ReplicationController"): REPLICATION_CONTROLLERS,
    ("apps", "ReplicaSet"): REPLICA_SETS,
    ("extensions", "ReplicaSet"): REPLICA_SETS,
    ("apps", "StatefulSet"): STATEFUL_SETS,
}
_PARENTS: Final = {("apps", "Deployment"), ("extensions", "Deployment")}


class ControllerScale(msgspec.Struct, frozen=True):
    """How many pods a controller requests. ``parent``: the controller of this controller, such as the Deployment of a
    ReplicaSet."""

    uid: str
    replicas: int
    parent: ControllerRef | None = None


class ControllerScales:
    def __init__(self) -> None:
        self._known: Final[dict[tuple[APIResource, str, str], ControllerScale]] = {}

    def applied(self, resource: APIResource, obj: Object) -> None:
        metadata, parent = obj["metadata"], controller_of(obj)
        owner = (
            None
            if parent is None
            else ControllerRef(parent["apiVersion"], parent["kind"], parent["name"], parent["uid"])
        )
        replicas = (obj.get("spec") or {}).get("replicas", 1)
        self._known[resource, metadata["namespace"], metadata["name"]] = ControllerScale(
            metadata["uid"], replicas, owner
        )

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str) -> None:
        known = self._known.get((resource, namespace, name))
        if known is not None and known.uid == uid:
            del self._known[resource, namespace, name]

    def find(self, namespace: str, owner: ControllerRef) -> ControllerScale | None:
        resource = _KINDS.get(_group_kind(owner))
        scale = None if resource is None else self._find(resource, namespace, owner)
        if scale is None or scale.parent is None or scale.parent.kind != "Deployment":
            return scale
        return self._find(DEPLOYMENTS, namespace, scale.parent) if _group_kind(scale.parent) in _PARENTS else None

    def _find(self, resource: APIResource, namespace: str, owner: ControllerRef) -> ControllerScale | None:
        known = self._known.get((resource, namespace, owner.name))
        return known if known is not None and known.uid == owner.uid else None


def expected_pods(
    scales: ControllerScales, served: DiscoveredKinds, namespace: str, pod_counts: BudgetPodCounts
) -> Generator[Effect, EffectResponse, int | str]:
    """The total number of pods that the controllers of these pods request, or an error text that says why it is not
    known."""
    found: dict[str, int] = {}
    for owner in sorted(pod_counts.owners, key=lambda each: (each.name, each.uid)):
        scale = scales.find(namespace, owner) or (yield from _read_scale(served, namespace, owner))
        if isinstance(scale, str):
            return scale
        if scale is not None:
            found[scale.uid] = scale.replicas
        elif owner in pod_counts.owners:  # its pods may have been deleted during the request
            return f"found no controllers for pod {quote(pod_counts.first_pod_of(owner))}"
    return sum(found.values())


def _read_scale(
    served: DiscoveredKinds, namespace: str, owner: ControllerRef
) -> Generator[Effect, EffectResponse, ControllerScale | str | None]:
    """Reads the scale of a controller from the API server. Returns an error text if that is not possible, and None if
    the controller does not exist."""
    row = served.find(owner.api_version, owner.kind)
    if row is None:
        return f"no matches for kind {quote(owner.kind)} in version {quote(owner.api_version)}"
    response = yield Get(row.resource, namespace, owner.name, ("spec.replicas",), subresource="scale")
    if response.ok:
        replicas = (response.body.get("spec") or {}).get("replicas", 0)
        return ControllerScale(owner.uid, replicas) if response.body["metadata"]["uid"] == owner.uid else None
    if response.missing:
        return None
    if response.status == 404:
        group = f".{row.resource.group}" if row.resource.group else ""
        return f"{row.resource.plural}{group} does not implement the scale subresource"
    return response.message


def _group_kind(owner: ControllerRef) -> tuple[str, str]:
    group, slash, _ = owner.api_version.rpartition("/")
    return (group if slash else "", owner.kind)
