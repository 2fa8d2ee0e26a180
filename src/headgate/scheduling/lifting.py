"""Gates on their way off: one removal per pod, asked for once, repeated with the same bytes until it is answered.

:meth:`Lifts.begin` is called when a queue has room for the pod; the patch goes out beside the search for a node, and
whoever wants to bind the pod, or to say that there is no node for it, asks :meth:`Lifts.is_open` first. A removal is
*confirmed* by its answer or by the watch, whichever comes first. What may have happened is asked for again, since
asking twice changes nothing. Who gets room is ``capacity/``'s decision, what follows from an answer ``admitting.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headgate.scheduling.effects import LiftGate, Result
from headgate.scheduling.pod import Pod
from headgate.waiting.heap import Heap

AT_ONCE: Final = 64
"""Removals under way: more would only wait in line for a connection, so more wait for their turn instead."""

_FIRST_RETRY_S: Final = 1.0
_LONGEST_RETRY_S: Final = 30.0
_AGAIN: Final = (Result.LATER, Result.UNKNOWN, Result.TAKEN, Result.GATED)


# Mutable: the state of one removal.
class _Lift(msgspec.Struct, eq=False):
    effect: LiftGate
    retries: int = 0
    is_renewed: bool = False
    """Another stamp is to be written than the one that is under way."""


class Lifts:
    def __init__(self) -> None:
        self._open: dict[str, _Lift] = {}
        self._began_s: dict[str, float] = {}  # of each removal that is not over: the answer may come after the watch
        self._confirmed: dict[str, str] = {}  # and the stamp that was written
        self._refused: dict[str, str] = {}
        self._later: Heap[str] = Heap()

    @property
    def room(self) -> int:
        """How many more may be asked for now."""
        return max(AT_ONCE - len(self._open), 0)

    def is_open(self, uid: str) -> bool:
        """Asked for, and not confirmed yet."""
        return uid in self._open

    def is_confirmed(self, uid: str) -> bool:
        """Answered; the watch may not show it yet."""
        return uid in self._confirmed

    def stamp(self, uid: str) -> str:
        """What is to be written while the removal is under way; the loss of the gate alone may be somebody else's."""
        lift = self._open.get(uid)
        return "" if lift is None else lift.effect.stamp

    def refusal(self, uid: str) -> str:
        """Why the server will not have it; empty if it has not said so."""
        return self._refused.get(uid, "")

    def begin(self, pod: Pod, stamp: str, now_s: float) -> LiftGate | None:
        """The patch to send; nothing if it was asked for before. Another stamp than the one under way goes out when
        that is answered."""
        under_way = self._open.get(pod.uid)
        if under_way is not None and under_way.effect.stamp != stamp:
            under_way.effect, under_way.is_renewed = LiftGate(pod, stamp), True
        if under_way is not None or self._confirmed.get(pod.uid) == stamp:
            return None
        self._refused.pop(pod.uid, None)
        lift = self._open[pod.uid] = _Lift(LiftGate(pod, stamp))
        self._began_s[pod.uid] = now_s
        return lift.effect

    def answered(self, uid: str, result: Result, message: str, now_s: float) -> bool:
        """Whether that settles it. What is not settled goes out again later, by :meth:`due`."""
        lift = self._open.get(uid)
        if lift is None:
            return False
        if lift.is_renewed and result is Result.DONE:
            lift.is_renewed = False
            self._later.put(uid, now_s)
            return False
        if result in _AGAIN:
            self._later.put(uid, now_s + min(_FIRST_RETRY_S * 2.0**lift.retries, _LONGEST_RETRY_S))
            lift.retries += 1
            return False
        self.forget(uid)
        if result is Result.DONE:
            self._confirmed[uid] = lift.effect.stamp
        elif result is Result.REFUSED:
            self._refused[uid] = message
        return True

    def shown(self, uid: str) -> bool:
        """The watch shows what we wanted to write; whether that is news."""
        was_open = uid in self._open
        self.forget(uid)
        return was_open

    def awaits_retry(self, uid: str) -> bool:
        """Asked for, answered, and to be asked for again: no answer is on its way."""
        return uid in self._later

    def ended(self, uid: str, now_s: float) -> float | None:
        """The removal is over, and this is how long it took; None if that was said before."""
        began_s = self._began_s.pop(uid, None)
        return None if began_s is None else now_s - began_s

    def due(self, now_s: float) -> Iterator[LiftGate]:
        while (first := self._later.first()) is not None and first[0] <= now_s:
            self._later.pop()
            yield self._open[first[1]].effect

    def next_deadline_s(self) -> float | None:
        first = self._later.first()
        return None if first is None else float(first[0])

    def forget(self, uid: str) -> None:
        """The pod is gone, or has a node, or its gate is seen to be gone."""
        self._open.pop(uid, None)
        self._later.discard(uid)
        self._confirmed.pop(uid, None)
        self._refused.pop(uid, None)
