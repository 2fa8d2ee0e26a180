"""The resources that are recorded, and the rights that recording them needs.

Every resource is listed and watched in all namespaces, and nothing is ever written. A resource with several versions is
read in the first one that the cluster serves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.kube.api_resources import EVENTS, JOBS, NAMESPACES, NODES, PODS, APIResource
from headgate.quota.kinds import names as kueue

NODE_CLAIMS: Final = APIResource("karpenter.sh", "v1", "nodeclaims", namespaced=False)
ROLE: Final = "headgate-record"
_VERBS: Final = ("list", "watch")


class RecordedResource(msgspec.Struct, frozen=True):
    """``older_versions``: the newest first. ``use``: what an audit reads from it."""

    resource: APIResource
    use: str
    older_versions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return resource_key(self.resource)

    @property
    def candidates(self) -> tuple[APIResource, ...]:
        older = (msgspec.structs.replace(self.resource, version=each) for each in self.older_versions)
        return (self.resource, *older)


def resource_key(resource: APIResource) -> str:
    """``pods``, ``queues.scheduling.volcano.sh``: as in the store and in recordings."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


RECORDED: Final = (
    RecordedResource(NAMESPACES, "the queue that a namespace names"),
    RecordedResource(NODES, "machines: their size, type and time"),
    RecordedResource(QUEUES, "limits of Volcano's queues"),
    RecordedResource(POD_GROUPS, "queue and size of gangs"),
    RecordedResource(kueue.RESOURCE_FLAVORS, "flavors of quota", (kueue.OLDER,)),
    RecordedResource(kueue.COHORTS, "quota of cohorts", (kueue.OLDER,)),
    RecordedResource(kueue.CLUSTER_QUEUES, "quota of ClusterQueues", (kueue.OLDER,)),
    RecordedResource(kueue.LOCAL_QUEUES, "the ClusterQueue of a namespace's queue", (kueue.OLDER,)),
    RecordedResource(kueue.WORKLOADS, "who holds quota", (kueue.OLDER,)),
    RecordedResource(JOBS, "owners of Workloads: suspended, running, finished"),
    RecordedResource(PODS, "gates, promises, nodes, conditions"),
    RecordedResource(NODE_CLAIMS, "when Karpenter ordered a machine", ("v1beta1",)),
    RecordedResource(EVENTS, "why a scheduler or an autoscaler acted"),
)
"""Limits before holders, and owners before pods: lists are read in this order."""
BY_NAME: Final = {each.name: each for each in RECORDED}


def read_role(resources: Iterable[RecordedResource] = RECORDED) -> dict[str, Any]:
    """The ClusterRole that a recorder and an audit of a live cluster need."""
    groups: dict[str, list[str]] = {}
    for each in resources:
        groups.setdefault(each.resource.group, []).append(each.resource.plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": list(_VERBS)} for group, plurals in groups.items()
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": rules,
    }
