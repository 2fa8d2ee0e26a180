"""A pod as the views use it: a small frozen value, because a cluster may have a hundred thousand waiting pods.

``ViewedPod.state`` follows from the pod alone, so it changes only with an event of the pod. Why its queue does not
admit it is not kept: ``waiting_pages.py`` asks the queue engine about the pods that a reader looks at.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any, Final, Literal

import msgspec

from headgate.capacity.names import GATE, GROUP_NAMES
from headgate.jobs.names import ADMISSION_GATE, TOPOLOGY_GATE
from headgate.jobs.pods.pod_metadata import group_of
from headgate.kube import conditions
from headgate.kube.object_meta import controller_of, group_kind_of
from headgate.scheduling.cache.pod import PodInfo

Object = Mapping[str, Any]
ViewedState = Literal["gated", "queued", "without_node", "unschedulable", "running", "terminating", "ended"]

QUEUE_GATES: Final = frozenset({GATE, ADMISSION_GATE, TOPOLOGY_GATE})
"""The gates of queues; all others belong to other controllers."""
WAITING_STATES: Final = frozenset({"gated", "queued", "without_node", "unschedulable"})
_NO_NODE: Final = frozenset({conditions.UNSCHEDULABLE, conditions.WAITING_FOR_TERMINATING_PODS})


class ViewedPod(msgspec.Struct, frozen=True, gc=False):
    """``group``: its PodGroup. ``workload_group``: its group in Kueue's sense, if it waits for the admission of a
    Workload. ``owner``: as ``job.batch/train``. ``reason`` and ``message``: of its condition PodScheduled, while it
    waits."""

    uid: str
    namespace: str
    name: str
    state: ViewedState
    created_s: float = 0.0
    node: str = ""
    requests: Mapping[str, int] = {}
    gates: tuple[str, ...] = ()
    group: str = ""
    workload_group: str = ""
    owner: str = ""
    priority: int = 0
    scheduler: str = ""
    reason: str = ""
    message: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def waits(self) -> bool:
        return self.state in WAITING_STATES

    @property
    def waits_for_workload(self) -> bool:
        return ADMISSION_GATE in self.gates


def view_pod(pod: PodInfo, obj: Object) -> ViewedPod:
    state = _state_of(pod)
    waits = state in WAITING_STATES
    condition = pod.scheduled
    has_admission_gate = ADMISSION_GATE in pod.gates
    return ViewedPod(
        pod.uid,
        pod.namespace,
        pod.name,
        state,
        pod.created_s,
        pod.node_name,
        pod.shape.requests,
        pod.gates,
        intern(next((pod.annotations[each] for each in GROUP_NAMES if pod.annotations.get(each)), "")),
        group_of(dict(obj)) if has_admission_gate else "",
        _owner_of(obj) if waits else "",
        pod.priority,
        pod.scheduler_name,
        condition.reason if waits and condition is not None else "",
        condition.message if waits and condition is not None else "",
    )


def _state_of(pod: PodInfo) -> ViewedState:
    if pod.terminal:
        return "ended"
    if pod.deleting:
        return "terminating"
    if pod.node_name:
        return "running"
    if not QUEUE_GATES.issuperset(pod.gates):
        return "gated"
    if pod.gates:
        return "queued"
    if pod.scheduled is not None and pod.scheduled.reason == conditions.WAITING_FOR_QUEUE:
        return "queued"
    return "unschedulable" if pod.scheduled is not None and pod.scheduled.reason in _NO_NODE else "without_node"


def _owner_of(obj: Object) -> str:
    owner = controller_of(obj)
    if owner is None:
        return ""
    group, kind = group_kind_of(owner)
    return intern(f"{kind.lower()}{'.' if group else ''}{group}/{owner.get('name', '')}")
