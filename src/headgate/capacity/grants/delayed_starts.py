"""Delayed starts: pods that were promised capacity and keep their gate while terminating pods still use it on nodes.

The capacity of a pod in its queue is free at its deletion timestamp, so its queue promises it to other pods at once
(``grants.py``). A scheduler of its own, ``scheduling/scheduler.py``, then waits for the node. Another scheduler does
not wait: it would report the pod as unschedulable, and an autoscaler would add a node. For such schedulers
``scheduling/gates/gate_controller.py`` delays the *start* of the pod, the removal of its gate, until the pod fits in
the limits of its queue and all ancestors beside the terminating pods.

Units start in the order of their grants. A unit that does not fit claims what it lacks, so that units after it do not
take it; they may use other resources and other queues. Units of one queue with equal requests are in one list, and
only the first of a list is checked. Every unit starts at its deadline at the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

import msgspec

from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.pod_record import PROMISED, AllocationState, Ask, PodRecord
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.waiting.heap import DeadlineHeap

_List = tuple[str, Ask]
"""A queue, and the requests of the units in it that are in one list."""
_QueueResource = tuple[str, str]
"""The name of a queue, and a resource in it."""


class _Unit(msgspec.Struct, frozen=True):
    """Pods that were granted capacity together. ``number``: its position in the order of grants, beginning with 1."""

    number: int
    uids: tuple[str, ...]
    list_key: _List


class DelayedStarts:
    """The units of one queue engine whose start is delayed."""

    def __init__(self, cache: QueueCache) -> None:
        self._cache = cache
        self._last_number = 0
        self._units: dict[int, _Unit] = {}
        self._lists: dict[_List, dict[int, None]] = {}  # the units of each list, by number, in order
        self._deadlines: DeadlineHeap[int] = DeadlineHeap()
        self._overdue: dict[int, None] = {}
        self._has_more = False

    def add(self, uids: Iterable[str], deadline_s: float) -> None:
        """The pods, which hold promises, were granted capacity together: their start is delayed."""
        records = [self._cache.records[uid] for uid in uids]
        self._last_number = number = self._last_number + 1
        for record in records:
            self._set_unit(record, number)
        ask = self._cache.sum_requests(tuple(each.task.uid for each in records))
        unit = _Unit(number, tuple(each.task.uid for each in records), (records[0].queue, ask))
        self._units[number] = unit
        self._lists.setdefault(unit.list_key, {})[number] = None
        self._deadlines.put(number, deadline_s)
        self._has_more = True

    def next_deadline_s(self) -> float | None:
        return self._deadlines.next_deadline_s()

    def take(self, now_s: float, max_pods: int) -> list[tuple[str, ...]]:
        """The units that start now, in order: up to ``max_pods`` pods; the last unit may exceed this number."""
        cache = self._cache
        cache.process_changes()
        self._overdue.update(dict.fromkeys(self._deadlines.due(now_s)))
        if not self._units or max_pods <= 0 or not (self._overdue or self._has_more or cache.limited_usage_changed):
            return []
        self._has_more = cache.limited_usage_changed = False
        started: list[tuple[str, ...]] = []
        remaining = max_pods
        for records in self._find_startable():
            for record in records:
                self._set_unit(record, 0)
            started.append(tuple(each.task.uid for each in records))
            remaining -= len(records)
            if remaining <= 0:
                self._has_more = True
                break
        self._drop_empty()
        return started

    def _find_startable(self) -> Iterator[list[PodRecord]]:
        """The pods of each unit that may start. The caller starts them before it asks for the next unit."""
        for number in list(self._overdue):
            members = self._members_to_start(self._units[number])
            if members:
                yield members
        claims: dict[_QueueResource, int] = {}
        numbers = {key: iter(units) for key, units in self._lists.items()}
        heads = [(next(each), key) for key, each in numbers.items()]
        heapify(heads)
        while heads:
            number, key = heappop(heads)
            members = self._members_to_start(self._units[number])
            lacking = self._find_lacking(members, claims)
            if lacking:
                for place, amount in lacking.items():
                    claims[place] = claims.get(place, 0) + amount
                continue  # the units after it in the list ask for as much
            if members:
                yield members
            following = next(numbers[key], None)
            if following is not None:
                heappush(heads, (following, key))

    def _members_to_start(self, unit: _Unit) -> list[PodRecord]:
        """The pods of the unit, or all delayed pods of its gang if the gang does not reach its minimum with the unit
        alone; empty if the unit may not start yet, whatever its queue uses."""
        records = self._delayed_records(unit)
        if not records or any(each.state is not AllocationState.RESERVED for each in records):
            return []  # a pod that was resized waits for the rest of its requests
        gang = records[0].gang
        if gang is None or not self._cache.order.is_atomic or _reaches_minimum(gang, records):
            return records
        delayed = [each for each in gang.members.values() if each.delayed_unit]
        whole = [each for each in delayed if each.state is AllocationState.RESERVED]
        return whole if _reaches_minimum(gang, whole) else []

    def _delayed_records(self, unit: _Unit) -> list[PodRecord]:
        found = (self._cache.records.get(uid) for uid in unit.uids)
        return [
            each for each in found if each is not None and each.delayed_unit == unit.number and each.state in PROMISED
        ]

    def _find_lacking(
        self, records: Sequence[PodRecord], claims: Mapping[_QueueResource, int]
    ) -> dict[_QueueResource, int]:
        """The requests of the pods in queues that have no capacity for them beside the pods that may be on nodes now
        and the claims of earlier units."""
        tree, ledger = self._cache.tree, self._cache.ledger
        asked: dict[_QueueResource, int] = {}
        for record in records:
            for name in tree.path(record.queue):
                for resource, amount in record.counted_amounts.items():
                    asked[name, resource] = asked.get((name, resource), 0) + amount
        lacking = {}
        for (name, resource), amount in asked.items():
            tree_queue = tree.queues.get(name)
            limit = None if tree_queue is None else tree_queue.limits.get(resource)
            used = ledger.account(name).occupied(resource) + claims.get((name, resource), 0)
            if limit is not None and used + amount > limit:
                lacking[name, resource] = amount
        return lacking

    def _set_unit(self, record: PodRecord, number: int) -> None:
        self._cache.remove_from_counts(record)
        record.delayed_unit = number
        self._cache.add_to_counts(record)

    def _drop_empty(self) -> None:
        """Forget the units that have started, and first units of lists without pods that wait: their promises were
        revoked, or they were deleted."""
        for number in list(self._overdue):
            self._drop_if_empty(self._units[number])
        for key in list(self._lists):
            while (units := self._lists.get(key)) and self._drop_if_empty(self._units[next(iter(units))]):
                pass

    def _drop_if_empty(self, unit: _Unit) -> bool:
        if self._delayed_records(unit):
            return False
        del self._units[unit.number]
        self._deadlines.discard(unit.number)
        self._overdue.pop(unit.number, None)
        units = self._lists[unit.list_key]
        del units[unit.number]
        if not units:
            del self._lists[unit.list_key]
        return True


def _reaches_minimum(gang: Gang, starting: Sequence[PodRecord]) -> bool:
    """Whether the gang has its minimum, in all and for each role, when these pods start: other members count if they
    are on nodes, have succeeded, or were promised capacity and have started."""
    if gang.spec is None or gang.spec.problem:
        return False
    started = [
        each
        for each in gang.members.values()
        if each.state in (AllocationState.ALLOCATED, AllocationState.SUCCEEDED)
        or (each.state in PROMISED and not each.delayed_unit)
    ]
    roles = [each.task.role for each in (*started, *starting)]
    return len(roles) >= gang.minimum and all(
        roles.count(role) >= minimum for role, minimum in gang.spec.min_task_member.items()
    )
