"""Promises that exceed a lowered limit: decides which of them remain valid.

The oldest promises that fit remain valid, in order. The pods of the others are not tried, and the next admission step
takes these promises back (``capacity/grants/grants.py``), so that they do not block other pods. The minimum of a gang
is valid or invalid as one unit. This costs nothing while all limits hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headgate.capacity.cache.ledger import Ledger
from headgate.capacity.cache.pod_record import AllocationState, PodRecord
from headgate.capacity.cache.queue_tree import QueueTree

_Key = tuple[str, str, str]


class PromiseTracker:
    """``exceeding_limit``: the pods whose promises are no longer valid. ``on_change`` is called with each pod that
    enters or leaves this set."""

    def __init__(self, tree: QueueTree, ledger: Ledger, on_change: Callable[[str], None]) -> None:
        self._tree = tree
        self._ledger = ledger
        self._on_change = on_change
        self._by_queue: dict[str, dict[str, PodRecord]] = {}
        self._over_limit: set[str] = set()
        self._is_stale = False
        self.exceeding_limit: frozenset[str] = frozenset()

    def add(self, record: PodRecord) -> None:
        self._by_queue.setdefault(record.counted_queue, {})[record.task.uid] = record

    def remove(self, record: PodRecord) -> None:
        records = self._by_queue.get(record.counted_queue)
        if records is not None and records.pop(record.task.uid, None) is not None and not records:
            del self._by_queue[record.counted_queue]

    def mark_queue_changed(self, queue: str) -> None:
        """The usage or the limits of the queue changed."""
        queue_node, account = self._tree.nodes.get(queue), self._ledger.account(queue)
        is_over = queue_node is not None and any(
            account.reserved.get(resource) and account.used(resource) > limit
            for resource, limit in queue_node.limits.items()
        )
        if is_over or queue in self._over_limit:
            self._is_stale = True
            (self._over_limit.add if is_over else self._over_limit.discard)(queue)

    def flush(self) -> None:
        """Decide again if a queue changed, and report the pods whose promises became invalid or valid."""
        if not self._is_stale:
            return
        self._is_stale = False
        exceeding = frozenset(self._find_exceeding()) if self._over_limit else frozenset()
        for uid in sorted(exceeding ^ self.exceeding_limit):
            self._on_change(uid)
        self.exceeding_limit = exceeding

    def _find_exceeding(self) -> Iterator[str]:
        free: dict[tuple[str, str], int] = {}
        for name in self._over_limit:
            account = self._ledger.account(name)
            for resource, limit in self._tree.nodes[name].limits.items():
                free[name, resource] = limit - account.allocated.get(resource, 0)
        for _, unit in sorted(_units(self._affected()), key=lambda pair: pair[0]):
            needed: dict[tuple[str, str], int] = {}
            for record in unit:
                for name in self._tree.path(record.counted_queue):
                    for resource, amount in record.counted.items():
                        if (name, resource) in free:
                            needed[name, resource] = needed.get((name, resource), 0) + amount
            if all(amount <= free[key] for key, amount in needed.items()):
                for key, amount in needed.items():
                    free[key] -= amount
            else:
                yield from (record.task.uid for record in unit)

    def _affected(self) -> Iterator[PodRecord]:
        """All promises in and below queues that are over their limit."""
        below = sorted(self._over_limit)
        seen = set(below)
        for name in below:
            yield from self._by_queue.get(name, {}).values()
            queue_node = self._tree.nodes.get(name)
            children = sorted((queue_node.children if queue_node is not None else set()) - seen)
            seen.update(children)
            below += children


def _units(records: Iterable[PodRecord]) -> Iterator[tuple[_Key, list[PodRecord]]]:
    """Promises that are valid or invalid as one unit, with the key of the oldest."""
    gangs: dict[tuple[str, str], list[PodRecord]] = {}
    for record in records:
        if record.gang is None:
            yield age_key(record), [record]
        else:
            gangs.setdefault(record.gang.key, []).append(record)
    for members in gangs.values():
        members.sort(key=age_key)
        gang = members[0].gang
        held_otherwise = 0 if gang is None else gang.ready - gang.counts.get(AllocationState.RESERVED, 0)
        unit_size = 0 if gang is None else max(gang.minimum - held_otherwise, 0)
        if unit_size:
            yield age_key(members[0]), members[:unit_size]
        for record in members[unit_size:]:
            yield age_key(record), [record]


def age_key(record: PodRecord) -> _Key:
    """The order in which promises were made."""
    return (record.promised_at, record.task.namespace, record.task.name)
