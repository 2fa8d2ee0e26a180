"""A pod as its queue uses it: its requests, its queue and group, and its admission state. A frozen value.

``scheduling/gates/capacity_objects.py`` makes it from a pod. The engine decides which queue it counts in, what it holds
there and whether it may be tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from headgate.capacity.api.stamp import Stamp, read_stamp
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, PREEMPTABLE, QUEUE_NAME, STAMP, TASK_SPEC

ANNOTATIONS: Final = frozenset({OPT_IN, QUEUE_NAME, *GROUP_NAMES, TASK_SPEC, STAMP, PREEMPTABLE})
"""The annotations of pods that queues read."""
NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


class TaskInfo(msgspec.Struct, frozen=True, gc=False):
    """``requests`` in units, without zeros. ``group``: the PodGroup in the same namespace; empty for a bare pod.
    ``queue``: the queue that the pod itself names. ``stamp``: only a valid one. ``leaving``: terminal or terminating.
    ``succeeded``: it counts for its gang's minimum and holds nothing (it is ``leaving``, too). ``ended``: terminal, so
    it uses nothing on its node. ``preemptable``: it may be a preemption victim."""

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
    leaving: bool = False
    succeeded: bool = False
    ended: bool = False
    preemptable: bool = True

    @property
    def has_our_gate(self) -> bool:
        return GATE in self.gates

    @property
    def has_foreign_gate(self) -> bool:
        """Whether another component has to remove a gate first; until then the queue grants nothing. The queue gate on
        a pod that did not opt in is not foreign, but Headgate does not remove it either."""
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


def read_annotations(annotations: Mapping[str, str], uid: str) -> QueueAnnotations:
    return QueueAnnotations(
        group=next((annotations[each] for each in GROUP_NAMES if annotations.get(each)), ""),
        queue=annotations.get(QUEUE_NAME) or "",
        role=annotations.get(TASK_SPEC) or "",
        opted_in=annotations.get(OPT_IN) == "true",
        preemptable=annotations.get(PREEMPTABLE) != "false",
        stamp=read_stamp(annotations.get(STAMP), uid),
    )
