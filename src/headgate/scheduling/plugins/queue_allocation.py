"""QueueAllocation (the queue-allocation gate): a pod is tried only when its queue has room for it.

It reports what the queues decided (``capacity/queues.py``) and decides nothing: who gets room is settled by the
admission step of a pass, in queue order (``scheduling/admitting.py``), which also wakes the pod. A pod that got a node
turns what was reserved for it into what it has; on the way back it is reserved again. A binding waits here until the
removal of the pod's gate is confirmed.
"""

from __future__ import annotations

from typing import Final

from headgate.capacity.names import GATE
from headgate.capacity.queues import Held, Queues
from headgate.scheduling.contract import Pending, Rejection
from headgate.scheduling.events import GRANTED, LIFTED, POD_GATES_ELIMINATED, QUEUE_GATE, UNSCHEDULABLE_POD, on
from headgate.scheduling.lifting import Lifts
from headgate.scheduling.pod import Pod
from headgate.scheduling.podlike import PodLike
from headgate.waiting.waker import Waker

NAME: Final = "QueueAllocation"
_UNTIL_LIFTED: Final = Pending((Waker((QUEUE_GATE, LIFTED), own=True),))
_GRANTED: Final = (Waker((QUEUE_GATE, GRANTED), own=True),)
_SWITCHED_OFF: Final = Rejection(
    NAME,
    f"the feature QueueAllocationGate is off: the gate {GATE} is lifted from pods with the annotation of that name",
    on(UNSCHEDULABLE_POD, POD_GATES_ELIMINATED),
    expires=False,
)
_PATIENCE_S: Final = 600.0


class QueueAllocation:
    name: Final = NAME
    timeout_s: Final = _PATIENCE_S
    """How long a node is kept for a pod whose gate does not come off; its share of the queue is kept for good."""

    def __init__(self, queues: Queues, lifts: Lifts, *, enabled: bool = True) -> None:
        self._queues = queues
        self._lifts = lifts
        self._enabled = enabled

    @staticmethod
    def owns(gate: str) -> bool:
        return gate == GATE

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        if not self._enabled and GATE in pod.gates and not self._lifts.is_confirmed(pod.uid):
            return _SWITCHED_OFF
        if self._queues.is_resting(pod.uid):
            return None  # room that it keeps only while it is tried is asked for when it is about to be
        held = self._queues.why(pod.uid)
        return None if held is None else self.rejection(held)

    @staticmethod
    def rejection(held: Held) -> Rejection:
        return Rejection(NAME, held.message, _GRANTED, expires=False)

    def reserve(self, pod: Pod, node_name: str, /) -> Rejection | None:
        self._queues.placed(pod.uid)
        return None

    def unreserve(self, pod: Pod, node_name: str, /) -> None:
        self._queues.unplaced(pod.uid)

    def awaited(self, pod: Pod, node_name: str, /) -> Pending | str | None:
        refusal = self._lifts.refusal(pod.uid)
        return refusal or (_UNTIL_LIFTED if self._lifts.is_open(pod.uid) else None)
