"""Removals of the queue gate: one patch per pod, repeated with the same bytes until its outcome is known.

:meth:`GateRemovals.begin` is called when a queue has reserved capacity for the pod; the patch is sent while the
scheduler searches for a node. Before the pod is bound or reported as Unschedulable, :meth:`GateRemovals.is_open` must
be false. The response or the watch confirms a removal, whichever comes first. A patch with an unknown outcome is sent
again, which is idempotent. ``capacity/`` decides which pods get capacity; ``queue_admission.py`` handles the outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headgate.kube.backoff import ExponentialBackoff
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.effects import RemoveSchedulingGate, WriteResult
from headgate.waiting.heap import DeadlineHeap

MAX_CONCURRENT: Final = 64
"""Removals in progress: more would only wait for a connection."""

_BACKOFF: Final = ExponentialBackoff(1.0, 30.0)
_AGAIN: Final = (WriteResult.LATER, WriteResult.UNKNOWN, WriteResult.TAKEN, WriteResult.GATED)


# Mutable: the state of one removal.
class _Removal(msgspec.Struct, eq=False):
    effect: RemoveSchedulingGate
    retries: int = 0
    is_renewed: bool = False
    """The stamp has changed since the patch in progress was sent."""


class GateRemovals:
    def __init__(self) -> None:
        self._open: dict[str, _Removal] = {}
        self._began_s: dict[str, float] = {}  # of each removal that is not over: the response may come after the watch
        self._confirmed: dict[str, str] = {}  # the stamp that was written
        self._refused: dict[str, str] = {}
        self._retries: DeadlineHeap[str] = DeadlineHeap()

    @property
    def free_slots(self) -> int:
        """How many more removals may begin now."""
        return max(MAX_CONCURRENT - len(self._open), 0)

    def is_open(self, uid: str) -> bool:
        """Sent, and not confirmed yet."""
        return uid in self._open

    def is_confirmed(self, uid: str) -> bool:
        """Confirmed by the response; the watch may not show it yet."""
        return uid in self._confirmed

    def stamp(self, uid: str) -> str:
        """The stamp that a removal in progress writes: the absence of the gate alone may be due to another client."""
        removal = self._open.get(uid)
        return "" if removal is None else removal.effect.stamp

    def refusal(self, uid: str) -> str:
        """Why the API server refused the removal; empty if it did not."""
        return self._refused.get(uid, "")

    def begin(self, pod: PodInfo, stamp: str, now_s: float) -> RemoveSchedulingGate | None:
        """The patch to send; ``None`` if it was sent before. A changed stamp is sent after the response to the patch in
        progress."""
        pending = self._open.get(pod.uid)
        if pending is not None and pending.effect.stamp != stamp:
            pending.effect, pending.is_renewed = RemoveSchedulingGate(pod, stamp), True
        if pending is not None or self._confirmed.get(pod.uid) == stamp:
            return None
        self._refused.pop(pod.uid, None)
        removal = self._open[pod.uid] = _Removal(RemoveSchedulingGate(pod, stamp))
        self._began_s[pod.uid] = now_s
        return removal.effect

    def answered(self, uid: str, result: WriteResult, message: str, now_s: float) -> bool:
        """Returns whether the removal is settled. Otherwise :meth:`due` sends it again later."""
        removal = self._open.get(uid)
        if removal is None:
            return False
        if removal.is_renewed and result is WriteResult.DONE:
            removal.is_renewed = False
            self._retries.put(uid, now_s)
            return False
        if result in _AGAIN:
            removal.retries += 1
            self._retries.put(uid, now_s + _BACKOFF.delay_s(removal.retries))
            return False
        self.forget(uid)
        if result is WriteResult.DONE:
            self._confirmed[uid] = removal.effect.stamp
        elif result is WriteResult.REFUSED:
            self._refused[uid] = message
        return True

    def observed(self, uid: str) -> bool:
        """The watch shows the removal; returns whether it was in progress."""
        was_open = uid in self._open
        self.forget(uid)
        return was_open

    def awaits_retry(self, uid: str) -> bool:
        """Whether the removal will be sent again, so that no response is outstanding."""
        return uid in self._retries

    def ended(self, uid: str, now_s: float) -> float | None:
        """The duration of a removal that is over; ``None`` if it was returned before."""
        began_s = self._began_s.pop(uid, None)
        return None if began_s is None else now_s - began_s

    def due(self, now_s: float) -> Iterator[RemoveSchedulingGate]:
        for uid in self._retries.due(now_s):
            yield self._open[uid].effect

    def next_deadline_s(self) -> float | None:
        return self._retries.next_deadline_s()

    def forget(self, uid: str) -> None:
        """The pod is gone, or has a node, or the watch shows it without the gate."""
        self._open.pop(uid, None)
        self._retries.discard(uid)
        self._confirmed.pop(uid, None)
        self._refused.pop(uid, None)
