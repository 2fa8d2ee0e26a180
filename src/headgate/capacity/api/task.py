"""A pod as its queue uses it: its requests, its queue and group, and its admission state. A frozen value.

*Task* is Volcano's word for a pod of a job. ``scheduling/gates/capacity_objects.py`` makes it from a pod. The queue
engine (``capacity/engine.py``) decides in which queue the pod counts, which amounts it holds there, and whether the
scheduler may try it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from headgate.capacity.api.lease import Lapse, read_lapse, read_lease_s
from headgate.capacity.api.stamp import Stamp, read_stamp
from headgate.capacity.api.times import RunTime, read_sla_s
from headgate.capacity.names import (
    GATE,
    GROUP_NAMES,
    LAPSED,
    LEASE,
    OPT_IN,
    PREEMPTABLE,
    QUEUE_NAME,
    SLA_WAITING_TIMES,
    STAMP,
    TASK_SPEC,
)

ANNOTATIONS: Final = frozenset(
    {OPT_IN, QUEUE_NAME, *GROUP_NAMES, TASK_SPEC, STAMP, PREEMPTABLE, LEASE, LAPSED, *SLA_WAITING_TIMES}
)
"""The annotations of pods that queues read."""
NOTHING: Final[Mapping[str, int]] = MappingProxyType({})
"""No amounts of any resource."""


class TaskInfo(msgspec.Struct, frozen=True, gc=False):
    """``requests``: integers as in ``kube/resource_amounts.py``, without zeros. ``group``: the PodGroup in the same
    namespace; empty for a pod without one. ``queue``: the queue that the pod itself names. ``role``: its task in the
    PodGroup (``volcano.sh/task-spec``). ``opted_in``: it opted in to the queue gate. ``stamp``: a stamp that is valid
    for this pod. ``is_terminal``: its phase is Succeeded or Failed, so it uses nothing on its node;
    ``is_terminal_or_terminating``: this is so, or the pod is being deleted. ``succeeded``: its phase is Succeeded, so
    it counts for its gang's minimum. ``preemptable``: it may be a preemption victim. ``lease_s``: the time of its
    lease, if the pod sets it. ``lapse``: the last promise to it that lapsed, as the API shows it. ``run_time``: its
    run-time limit. ``sla_s``: how long it may wait until it is protected, if the pod sets it."""

    uid: str
    namespace: str
    name: str
    requests: Mapping[str, int] = NOTHING
    priority: int = 0
    created_s: float = 0.0
    group: str = ""
    queue: str = ""
    role: str = ""
    opted_in: bool = False
    gates: tuple[str, ...] = ()
    stamp: Stamp | None = None
    node_name: str = ""
    is_terminal_or_terminating: bool = False
    succeeded: bool = False
    is_terminal: bool = False
    preemptable: bool = True
    priority_class: str = ""
    lease_s: float | None = None
    lapse: Lapse | None = None
    run_time: RunTime | None = None
    sla_s: float | None = None

    @property
    def has_queue_gate(self) -> bool:
        return GATE in self.gates

    @property
    def has_foreign_gate(self) -> bool:
        """Whether the pod has a scheduling gate of another component. Until that gate is removed, the queue grants the
        pod nothing. The queue gate of a pod that did not opt in is not foreign, but Headgate does not remove it
        either."""
        return any(gate != GATE for gate in self.gates)

    @property
    def is_best_effort(self) -> bool:
        return not self.requests


class QueueAnnotations(msgspec.Struct, frozen=True):
    """The annotations of a pod that concern its queue."""

    group: str
    queue: str
    role: str
    opted_in: bool
    preemptable: bool
    stamp: Stamp | None
    lease_s: float | None
    lapse: Lapse | None
    sla_s: float | None


def read_annotations(annotations: Mapping[str, str], uid: str) -> QueueAnnotations:
    lease_s = read_lease_s(annotations.get(LEASE))
    return QueueAnnotations(
        group=next((annotations[each] for each in GROUP_NAMES if annotations.get(each)), ""),
        queue=annotations.get(QUEUE_NAME) or "",
        role=annotations.get(TASK_SPEC) or "",
        opted_in=annotations.get(OPT_IN) == "true",
        preemptable=annotations.get(PREEMPTABLE) != "false",
        stamp=read_stamp(annotations.get(STAMP), uid),
        lease_s=None if isinstance(lease_s, str) else lease_s,
        lapse=read_lapse(annotations.get(LAPSED), uid),
        sla_s=read_sla_s(annotations),
    )
