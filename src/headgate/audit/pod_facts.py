"""What the checkers read of a pod, computed once per change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.audit.findings import subject_of
from headgate.capacity.api.stamp import Stamp, read_stamp
from headgate.capacity.names import GATE, GROUP_NAMES, LAPSED, OPT_IN, QUEUE_NAME, STAMP
from headgate.jobs import names as kueue
from headgate.kube import conditions
from headgate.kube.object_meta import controller_of
from headgate.kube.pods.requests import pod_requests
from headgate.kube.resource_amounts import as_units
from headgate.kube.scheduling_gates import gate_names
from headgate.kube.timestamps import parse_time

_TERMINAL: Final = ("Succeeded", "Failed")
_MIRROR: Final = "kubernetes.io/config.mirror"
KUEUE_GATES: Final = frozenset(kueue.OWN_GATES)
OWN_GATES: Final = frozenset({GATE, *KUEUE_GATES})


class PodFacts(msgspec.Struct, frozen=True, gc=False):
    """``requests``: units as in ``kube/resource_amounts.py``, without zeros. ``stamp``: the stamp, if it is valid for
    this pod; ``stamp_text``: the annotation as it is. ``reason``: of ``PodScheduled``, if it is False. ``queue``,
    ``group``: those that the pod names for Volcano's queues. ``kueue_queue``, ``kueue_group``: the same for Kueue's.
    ``is_daemon``: it belongs to a DaemonSet or to its node. ``terminates_s``: the end of its grace period."""

    uid: str
    namespace: str
    name: str
    gates: tuple[str, ...]
    stamp: Stamp | None
    stamp_text: str
    node: str
    is_terminating: bool
    is_terminal: bool
    requests: Mapping[str, int]
    priority: int
    created_s: float
    queue: str
    group: str
    opted_in: bool
    scheduler: str
    reason: str
    nominated: str
    owner: str
    is_daemon: bool
    has_lapsed: bool
    kueue_queue: str
    kueue_group: str
    is_kueue_managed: bool
    terminates_s: float

    @property
    def subject(self) -> str:
        return subject_of("Pod", self.namespace, self.name)

    @property
    def is_active(self) -> bool:
        return not self.is_terminating and not self.is_terminal

    @property
    def foreign_gates(self) -> tuple[str, ...]:
        return tuple(each for each in self.gates if each not in OWN_GATES)


def read_pod(obj: Mapping[str, Any]) -> PodFacts:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    uid = str(metadata.get("uid") or "")
    scheduled = conditions.find(status.get("conditions"), conditions.POD_SCHEDULED) or {}
    controller = controller_of(obj) or {}
    stamp_text = annotations.get(STAMP) or ""
    deletion = metadata.get("deletionTimestamp")
    return PodFacts(
        uid=uid,
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        gates=gate_names(obj),
        stamp=read_stamp(stamp_text, uid) if stamp_text else None,
        stamp_text=stamp_text,
        node=str(spec.get("nodeName") or ""),
        is_terminating=bool(deletion),
        is_terminal=status.get("phase") in _TERMINAL,
        requests={name: amount for name, amount in as_units(pod_requests(obj)).items() if amount},
        priority=int(spec.get("priority") or 0),
        created_s=seconds(metadata.get("creationTimestamp")),
        queue=annotations.get(QUEUE_NAME) or "",
        group=next((annotations[each] for each in GROUP_NAMES if annotations.get(each)), ""),
        opted_in=annotations.get(OPT_IN) == "true",
        scheduler=str(spec.get("schedulerName") or ""),
        reason=str(scheduled.get("reason") or "") if scheduled.get("status") == "False" else "",
        nominated=str(status.get("nominatedNodeName") or ""),
        owner=str(controller.get("uid") or ""),
        is_daemon=controller.get("kind") in ("DaemonSet", "Node") or _MIRROR in annotations,
        has_lapsed=LAPSED in annotations,
        kueue_queue=labels.get(kueue.QUEUE_NAME) or "",
        kueue_group=labels.get(kueue.POD_GROUP_NAME) or annotations.get(kueue.POD_GROUP_NAME) or "",
        is_kueue_managed=labels.get(kueue.MANAGED) == "true",
        terminates_s=seconds(deletion),
    )


def seconds(value: Any) -> float:
    """0 for a missing or invalid time."""
    found = parse_time(value) if isinstance(value, str) else ""
    return float(found) if isinstance(found, int) else 0.0
