"""The requested number of pods, by controller: ReplicaSets and their Deployments, StatefulSets, and so on.

The built-in kinds are watched (:class:`ControllerScales`); any other kind is asked for its ``scale`` (:func:`find`).
The ReplicaSets of one Deployment count once, as their Deployment.
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
    """``parent`` is its own controller."""

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
    """The total number of pods that the owners of these pods request, or why it is unknown."""
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
