"""Removals of the queue gate: one patch per pod, repeated with the same bytes until its outcome is known.

A removal is *open* from the first patch until a response or the watch confirms it, or the API server refuses it.

:meth:`GateRemovals.begin` is called when a queue has reserved capacity for the pod; the patch is sent while the
scheduler searches for a node. Before the pod is bound or reported as Unschedulable, :meth:`GateRemovals.is_open` must
be false. The response or the watch confirms a removal, whichever comes first. A patch with an unknown outcome is sent
again, which is idempotent: the writer repeats it at once, also if the watch has confirmed the removal in the meantime.
So it may arrive after the binding of the pod, and then changes nothing. It would write a removed stamp again, so a
stamp is removed only when no response is outstanding (:meth:`GateRemovals.is_settled`). ``capacity/`` decides which
pods get capacity; ``queue_admission.py`` handles the outcomes.
"""

from __future__ import annotations

import math
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
_MAX_LATER_RETRIES: Final = 2
"""A patch that was not performed (``LATER``) counts as no more than this number of failures, so it is sent again after
2 s at the latest: the API server probably restarts."""
_SHOWN_AFTER_S: Final = 30.0
"""How long the watch may need to show a patch whose outcome is unknown. Until then a refusal is no proof that the first
patch was not performed, so the patch is repeated and the promise stays."""
_RETRIED: Final = (WriteResult.LATER, WriteResult.UNKNOWN, WriteResult.TAKEN, WriteResult.GATED)


# Mutable: the state of one removal.
class _Removal(msgspec.Struct, eq=False):
    """``sent``: the stamp in the patch in progress; ``written``: the last stamp that a response confirmed."""

    effect: RemoveSchedulingGate
    sent: str
    written: str = ""
    retries: int = 0
    unknown_until_s: float = -math.inf
    has_new_stamp: bool = False
    """The stamp has changed since the patch in progress was sent."""
    is_deferred: bool = False
    """Nothing was sent yet, because the response to an earlier patch is outstanding."""


class GateRemovals:
    def __init__(self) -> None:
        self._open: dict[str, _Removal] = {}
        self._unanswered: set[str] = set()  # patches that were sent and have no response yet
        # When each removal began. Kept until the caller has read the duration: the response may come after the watch.
        self._began_s: dict[str, float] = {}
        self._confirmed: dict[str, str] = {}  # the stamp that was written, until the watch shows it
        self._refused: dict[str, str] = {}  # why the API server refused the removal
        self._retries: DeadlineHeap[str] = DeadlineHeap()

    @property
    def free_slots(self) -> int:
        """How many more removals may begin now."""
        return max(MAX_CONCURRENT - len(self._open), 0)

    def is_open(self, uid: str) -> bool:
        """Whether the removal was sent and its outcome is not known yet."""
        return uid in self._open

    def is_confirmed(self, uid: str) -> bool:
        """Whether a response confirmed the removal; the watch may not show it yet. Also if the patch with the stamp of
        a larger promise was refused after that."""
        return uid in self._confirmed

    def is_settled(self, uid: str) -> bool:
        """Whether no patch of the pod is in progress or will be sent again, so that no patch writes its stamp any
        more."""
        return uid not in self._open and uid not in self._unanswered

    def is_awaited(self, uid: str, stamp: str) -> bool:
        """Whether the watch, which shows the pod without its gate and with this stamp, does not show the last patch
        yet: another client may have removed the gate, and a larger promise has a new stamp."""
        removal = self._open.get(uid)
        written = self._confirmed.get(uid, "") if removal is None else removal.effect.stamp
        return (removal is not None or bool(written)) and written != stamp

    def confirmed_stamp(self, uid: str) -> str:
        """The stamp that the response confirmed, while the watch does not show it; otherwise empty."""
        return self._confirmed.get(uid, "")

    def refusal(self, uid: str) -> str:
        """Why the API server refused the removal; empty if it did not."""
        return self._refused.get(uid, "")

    def begin(self, pod: PodInfo, stamp: str, now_s: float) -> RemoveSchedulingGate | None:
        """The patch to send; ``None`` if it was sent before. A changed stamp is sent after the response to the patch in
        progress, also if the watch has shown that patch: the writer may repeat it, and its response must not be taken
        for that of the new one."""
        pending = self._open.get(pod.uid)
        if pending is not None and pending.effect.stamp != stamp:
            pending.effect, pending.has_new_stamp = RemoveSchedulingGate(pod, stamp), True
        if pending is not None or self._confirmed.get(pod.uid) == stamp:
            return None
        self._refused.pop(pod.uid, None)
        removal = self._open[pod.uid] = _Removal(
            RemoveSchedulingGate(pod, stamp),
            stamp,
            self._confirmed.get(pod.uid, ""),
            is_deferred=pod.uid in self._unanswered,
        )
        self._began_s[pod.uid] = now_s
        if removal.is_deferred:
            return None
        self._unanswered.add(pod.uid)
        return removal.effect

    def answered(self, uid: str, result: WriteResult, message: str, now_s: float) -> bool:
        """The response has arrived. Returns whether the outcome is known. Otherwise :meth:`due` sends the patch
        again."""
        self._unanswered.discard(uid)
        removal = self._open.get(uid)
        if removal is None:
            return False
        if removal.is_deferred:  # the response is that to the earlier patch
            removal.is_deferred = removal.has_new_stamp = False
            self._retries.put(uid, now_s)
            return False
        if removal.has_new_stamp and result is WriteResult.DONE:
            removal.has_new_stamp, removal.written = False, removal.sent
            self._retries.put(uid, now_s)
            return False
        if result is WriteResult.UNKNOWN:
            removal.unknown_until_s = now_s + _SHOWN_AFTER_S
        if result in _RETRIED or (result is WriteResult.REFUSED and now_s < removal.unknown_until_s):
            removal.retries += 1
            if result is WriteResult.LATER:
                removal.retries = min(removal.retries, _MAX_LATER_RETRIES)
            self._retries.put(uid, now_s + _BACKOFF.delay_s(removal.retries))
            return False
        self.forget(uid)
        if result is WriteResult.DONE:
            self._confirmed[uid] = removal.effect.stamp
        elif result is WriteResult.REFUSED:
            self._refused[uid] = message
            if removal.written:
                self._confirmed[uid] = removal.written
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
            self._unanswered.add(uid)
            removal = self._open[uid]
            removal.sent = removal.effect.stamp
            yield removal.effect

    def next_deadline_s(self) -> float | None:
        return self._retries.next_deadline_s()

    def forget(self, uid: str) -> None:
        """The pod was deleted, or has a node, or the watch shows it without the gate."""
        self._open.pop(uid, None)
        self._retries.discard(uid)
        self._confirmed.pop(uid, None)
        self._refused.pop(uid, None)
