"""Which waiting units are held back for the first in line of their queue, and which units have waited for their time.

``capacity/grants/head_of_line.py`` decides; this module remembers, so that a unit is looked at again only after a
change. The units of a queue are held back by the limited part of their ask (``admission_index.py``): the decision is
the same for all units with the same part. What else decides is therefore in the ask, as pseudo-resources
(:func:`names_that_decide`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from headgate.capacity.cache.pod_record import Ask
from headgate.capacity.cache.pseudo_resources import PseudoResource
from headgate.capacity.ordering.admission_index import Unit
from headgate.capacity.ordering.order_keys import Key
from headgate.waiting.heap import DeadlineHeap, Heap

_NONE: frozenset[Ask] = frozenset()
RESIZED: Final = (PseudoResource("resized"), 1)
"""In the ask of a pod that has a promise and requests more."""
_SET_ASIDE: Final = "set-aside "
"""With the name of a resource after it, in the ask of a gang: how much of the resource is set aside for the gang."""


def with_set_aside(ask: Ask, set_aside: Mapping[str, int]) -> Ask:
    """The ask of a gang for whose ``minResources`` these amounts are set aside."""
    return (*ask, *((PseudoResource(_SET_ASIDE + name), amount) for name, amount in sorted(set_aside.items())))


def set_aside_of(ask: Ask) -> dict[str, int]:
    """The amounts that are set aside for the unit with this ask, by resource."""
    return {
        name.removeprefix(_SET_ASIDE): amount
        for name, amount in ask
        if isinstance(name, PseudoResource) and name.startswith(_SET_ASIDE)
    }


def names_that_decide(limited: Iterable[str]) -> frozenset[str]:
    """The pseudo-resources that decide whether a unit is held back, in a queue that limits these resources."""
    return frozenset((RESIZED[0], *(PseudoResource(_SET_ASIDE + name) for name in limited)))


class HeldUnits:
    """``_grants`` and ``_enqueues``: by queue, the limited parts of the units that are not granted capacity, and of the
    groups that are not enqueued. ``_deadlines``: the queues with such units that are held back for a time only."""

    def __init__(self) -> None:
        self._grants: dict[str, frozenset[Ask]] = {}
        self._enqueues: dict[str, frozenset[Ask]] = {}
        self._deadlines: DeadlineHeap[str] = DeadlineHeap()

    def hold(self, queue: str, grants: frozenset[Ask], enqueues: frozenset[Ask], until_s: float) -> None:
        """Hold units of this queue back until they are released, or until this time, in seconds since 1970."""
        self.release(queue)
        for held, parts in ((self._grants, grants), (self._enqueues, enqueues)):
            if parts:
                held[queue] = parts
        if not math.isinf(until_s):
            self._deadlines.put(queue, until_s)

    def release(self, queue: str) -> bool:
        """Hold no unit of this queue back any more. Returns whether there was one."""
        self._deadlines.discard(queue)
        found = [held.pop(queue, None) for held in (self._grants, self._enqueues)]
        return any(found)

    def due(self, now_s: float) -> list[str]:
        """The queues with units that may no longer be held back at this time."""
        return list(self._deadlines.due(now_s))

    @property
    def holds_groups(self) -> bool:
        """Whether a group is held back."""
        return bool(self._enqueues)

    def is_held(self, queue: str, limited_ask: Ask) -> bool:
        return bool(self._grants) and limited_ask in self._grants.get(queue, _NONE)

    def is_enqueue_held(self, queue: str, limited_ask: Ask) -> bool:
        return bool(self._enqueues) and limited_ask in self._enqueues.get(queue, _NONE)


class OverdueUnits:
    """The waiting units with a waiting time (the plugin ``sla``): when each has waited for its time, and, for each
    queue, those that have."""

    def __init__(self) -> None:
        self._deadlines: DeadlineHeap[Unit] = DeadlineHeap()
        self._waiting: dict[Unit, tuple[str, Key]] = {}
        self._overdue: dict[str, Heap[Unit]] = {}
        self._now_s = 0.0

    def put(self, queue: str, unit: Unit, key: Key, deadline_s: float) -> None:
        """Add a unit that waits, or replace its queue and key."""
        self.discard(unit)
        if math.isinf(deadline_s):
            return
        self._waiting[unit] = queue, key
        if deadline_s <= self._now_s:
            self._overdue.setdefault(queue, Heap()).put(unit, key)
        else:
            self._deadlines.put(unit, deadline_s)

    def discard(self, unit: Unit) -> None:
        queue, _ = self._waiting.pop(unit, ("", ()))
        self._deadlines.discard(unit)
        heap = self._overdue.get(queue)
        if heap is not None:
            heap.discard(unit)
            if not heap:
                del self._overdue[queue]

    def update(self, now_s: float) -> set[str]:
        """Move the units that have waited for their time. Returns their queues."""
        self._now_s = now_s
        queues = set()
        for unit in self._deadlines.due(now_s):
            queue, key = self._waiting[unit]
            self._overdue.setdefault(queue, Heap()).put(unit, key)
            queues.add(queue)
        return queues

    def first(self, queue: str, is_possible: Callable[[Unit], bool]) -> tuple[Key, Unit] | None:
        """The first overdue unit of the queue that is possible."""
        heap = self._overdue.get(queue)
        head = None if heap is None else heap.first()
        if heap is None or head is None or is_possible(head[1]):
            return head
        return min((each for each in heap.entries() if is_possible(each[1])), default=None)
