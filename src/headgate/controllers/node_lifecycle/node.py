"""The fields of a node that the node controllers use, as a frozen value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube import conditions
from headgate.kube.timestamps import parse_time

Object = Mapping[str, Any]

READY: Final = "Ready"
_REGIONS: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_ZONES: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"


class LifecycleNode(msgspec.Struct, frozen=True):
    name: str
    uid: str
    revision: str
    created: str
    labels: Mapping[str, str]
    is_unschedulable: bool
    taints: Sequence[Object]
    conditions: Sequence[dict[str, Any]]

    @property
    def ready(self) -> str:
        """The status of its Ready condition; empty if it has none."""
        return str((conditions.find(self.conditions, READY) or {}).get("status", ""))

    @property
    def heartbeat(self) -> str | None:
        """The last heartbeat of its kubelet, as in its status; ``None`` if there is none."""
        found = conditions.find(self.conditions, READY)
        return None if found is None else str(found.get("lastHeartbeatTime", ""))

    @property
    def created_s(self) -> float:
        value = parse_time(self.created) if self.created else 0
        return 0.0 if isinstance(value, str) else float(value)

    @property
    def zone(self) -> tuple[str, str] | None:
        """Its failure zone; ``None`` if it is excluded from disruption."""
        if _EXCLUDED in self.labels:
            return None
        region, zone = (next(filter(None, map(self.labels.get, keys)), "") for keys in (_REGIONS, _ZONES))
        return region, zone

    def is_older_than(self, other: LifecycleNode) -> bool:
        """Whether it is an earlier version of the same node: a late watch event, after the response to an own write."""
        return self.uid == other.uid and int(self.revision or 0) < int(other.revision or 0)

    @property
    def readiness(self) -> tuple[Any, ...]:
        """All fields that affect the decisions, without times. Heartbeats do not change it."""
        states = tuple((each.get("type"), each.get("status")) for each in self.conditions)
        taints = tuple((each.get("key"), each.get("effect"), each.get("value")) for each in self.taints)
        return self.uid, self.is_unschedulable, states, taints, tuple(sorted(self.labels.items()))


def read(obj: Object) -> LifecycleNode:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    return LifecycleNode(
        name=metadata["name"],
        uid=metadata["uid"],
        revision=metadata.get("resourceVersion", ""),
        created=metadata.get("creationTimestamp", ""),
        labels=metadata.get("labels") or {},
        is_unschedulable=bool(spec.get("unschedulable")),
        taints=spec.get("taints") or (),
        conditions=status.get("conditions") or (),
    )
