"""QueueAllocation (the queue-allocation gate): a pod is tried only when its queue has capacity for it.

The plugin reports the decisions of the queue engine (``capacity/engine.py``) and makes none:
``scheduling/gates/queue_admission.py`` asks the engine for grants in queue order and wakes the pods. When the pod gets
a node, Reserve reports that to the engine, which then counts the promised capacity as allocated; Unreserve reverts
this. PreBind waits until the removal of the pod's gate is confirmed.
"""

from __future__ import annotations

from typing import Final

from headgate.capacity.engine import QueueEngine, QueueWait
from headgate.capacity.names import GATE
from headgate.scheduling.cache.pod import PodInfo, PodLike
from headgate.scheduling.framework.cluster_events import (
    GATE_REMOVED,
    GRANTED,
    POD_GATES_ELIMINATED,
    QUEUE_GATE,
    UNSCHEDULABLE_POD,
    on,
)
from headgate.scheduling.framework.interface import PreBindPending, Rejection
from headgate.scheduling.gates.gate_removals import GateRemovals
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "QueueAllocation"
_GATE_PENDING: Final = PreBindPending((ClusterEventWithHint((QUEUE_GATE, GATE_REMOVED), own=True),))
_GRANTED: Final = (ClusterEventWithHint((QUEUE_GATE, GRANTED), own=True),)
_FEATURE_DISABLED: Final = Rejection(
    NAME,
    f"the feature QueueAllocationGate is off: the gate {GATE} is removed from pods with the annotation of that name",
    on(UNSCHEDULABLE_POD, POD_GATES_ELIMINATED),
    expires=False,
)
_TIMEOUT_S: Final = 600.0


class QueueAllocation:
    name: Final = NAME
    timeout_s: Final = _TIMEOUT_S
    """How long the binding cycle waits for the removal of the gate. After that the pod still has its promise."""

    def __init__(self, queues: QueueEngine, gate_removals: GateRemovals, *, enabled: bool = True) -> None:
        self._queues = queues
        self._gate_removals = gate_removals
        self._enabled = enabled

    @staticmethod
    def owns(gate: str) -> bool:
        """Whether the plugin SchedulingGates ignores the gate, because this plugin rejects the pods that have it."""
        return gate == GATE

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        if not self._enabled and GATE in pod.gates and not self._gate_removals.is_confirmed(pod.uid):
            return _FEATURE_DISABLED
        if self._queues.has_returned_grant(pod.uid):
            return None  # a tentative grant is requested when the pod is about to be tried
        wait = self._queues.peek_wait_reason(pod.uid)
        return None if wait is None else self.rejection(wait)

    @staticmethod
    def rejection(wait: QueueWait) -> Rejection:
        return Rejection(NAME, wait.message, _GRANTED, expires=False)

    def reserve(self, pod: PodInfo, node_name: str, /) -> Rejection | None:
        self._queues.placed(pod.uid)
        return None

    def unreserve(self, pod: PodInfo, node_name: str, /) -> None:
        self._queues.unplaced(pod.uid)

    def awaited(self, pod: PodInfo, node_name: str, /) -> PreBindPending | str | None:
        refusal = self._gate_removals.refusal(pod.uid)
        return refusal or (_GATE_PENDING if self._gate_removals.is_open(pod.uid) else None)
