"""The back-off of pods that failed, and the two queues in which they wait.

The back-off doubles with each failure, up to a limit, and ends at a whole second, so that all pods of one second return
together in the order of the active queue. Pods that failed with an error are in a separate heap from pods that a plugin
rejected: an idle scheduler tries rejected pods early, but not failed ones, because that would add load to an API server
that fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import floor, inf, nextafter
from typing import Any

import msgspec

from headgate.kube.backoff import ExponentialBackoff
from headgate.scheduling.queue.queued_pod_info import P, QueuedPodInfo
from headgate.waiting.heap import Heap


class PodBackoff(msgspec.Struct, frozen=True):
    """``windows``: whether back-offs end at whole seconds. A ``max_s`` of 0 disables back-off."""

    initial_s: float = 1.0
    max_s: float = 10.0
    windows: bool = True

    def duration_s(self, count: int) -> float:
        return ExponentialBackoff(self.initial_s, self.max_s).delay_s(count)

    def until_s(self, queued: QueuedPodInfo[Any]) -> float:
        """When the back-off ends; minus infinity if there is none. Cached until the pod fails again."""
        count = queued.consecutive_errors or queued.unschedulable_count
        if not count or not self.max_s:
            return -inf
        if queued.backoff_until_s is None:
            queued.backoff_until_s = self._align(queued.since_s + self.duration_s(count))
        return queued.backoff_until_s

    def waits(self, queued: QueuedPodInfo[Any], now_s: float) -> bool:
        """Whether the back-off still lasts, including the whole second in which it ends."""
        return self.until_s(queued) >= self._align(now_s)

    def over_s(self, until_s: float) -> float:
        """The first moment at which a back-off that ends at ``until_s`` is over."""
        return until_s + 1 if self.windows else nextafter(until_s, inf)

    def _align(self, moment_s: float) -> float:
        return float(floor(moment_s)) if self.windows else moment_s


class BackoffQueue:
    """Uids by the end of their back-off, then by ``order``."""

    def __init__(self, rule: PodBackoff) -> None:
        self._rule = rule
        self._rejected: Heap[str] = Heap()
        self._failed: Heap[str] = Heap()

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def put(self, queued: QueuedPodInfo[P], order: tuple[Any, ...], *, by_error: bool) -> None:
        heap = self._failed if by_error else self._rejected
        heap.put(queued.uid, (self._rule.until_s(queued), order if self._rule.windows else ()))

    def discard(self, uid: str) -> None:
        self._rejected.discard(uid)
        self._failed.discard(uid)

    def first_rejected(self) -> str | None:
        """The pod that an idle scheduler tries early."""
        first = self._rejected.first()
        return None if first is None else first[1]

    def over(self, now_s: float) -> Iterator[str]:
        """Pods whose back-off is over; each must be discarded before the next is taken."""
        for heap in (self._rejected, self._failed):
            while (first := heap.first()) is not None and self._rule.over_s(first[0][0]) <= now_s:
                yield first[1]

    def next_deadline_s(self) -> float | None:
        firsts = [first for heap in (self._rejected, self._failed) if (first := heap.first()) is not None]
        return min((self._rule.over_s(first[0][0]) for first in firsts), default=None)
