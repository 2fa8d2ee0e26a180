"""Admissions of the present cycle: no write was asked for yet, so they can be withdrawn.

A round looks at one workload of each queue. A queue that has quota for several waiting workloads therefore lends some
of it to others in one round and reclaims it in the next. To admit and to evict that borrower would be two writes, a job
that starts for a moment, and a preemptor that waits for its end. The admission is withdrawn instead (``cycle.py``): the
workload goes on waiting.

A workload is withdrawn at most once in a cycle, so rounds come to an end. It is withdrawn only together with every
workload that its queue admitted after it, so what is left follows the order of the queue.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.quota.holder import Holder
from headgate.quota.queueing import Waiter


class Unwritten:
    def __init__(self) -> None:
        self._by_queue: dict[str, dict[str, Waiter]] = {}  # in the order of admission
        self._effect_of: dict[str, int] = {}
        self._withdrawn: set[str] = set()

    def add(self, waiter: Waiter, effect: int) -> None:
        """It was admitted. ``effect``: at which place of the cycle's effects that is said."""
        self._effect_of[waiter.key] = effect
        self._by_queue.setdefault(waiter.queue, {})[waiter.key] = waiter

    def withdrawable(self, victims: Iterable[Holder]) -> frozenset[str]:
        """The keys of those of them whose admission can be withdrawn. Costs the victims."""
        wanted: dict[str, set[str]] = {}
        for holder in victims:
            if holder.key in self._effect_of:
                wanted.setdefault(holder.queue, set()).add(holder.key)
        found: set[str] = set()
        for queue, keys in wanted.items():
            for key in reversed(self._by_queue[queue]):
                if key not in keys or key in self._withdrawn:
                    break
                found.add(key)
        return frozenset(found)

    def withdraw(self, key: str, queue: str) -> tuple[Waiter, int]:
        """Whom to put back, and where its admission is said."""
        self._withdrawn.add(key)
        return self._by_queue[queue].pop(key), self._effect_of.pop(key)
