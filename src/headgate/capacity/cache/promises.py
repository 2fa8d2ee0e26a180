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
    """``lost``: the pods whose promises are no longer valid."""

    def __init__(self, tree: QueueTree, ledger: Ledger, moved: Callable[[str], None]) -> None:
        self._tree = tree
        self._ledger = ledger
        self._moved = moved
        self._open: dict[str, dict[str, PodRecord]] = {}
        self._over: set[str] = set()
        self._is_stale = False
        self.exceeding_limit: frozenset[str] = frozenset()

    def add(self, record: PodRecord) -> None:
        self._open.setdefault(record.counted_queue, {})[record.task.uid] = record

    def remove(self, record: PodRecord) -> None:
        held = self._open.get(record.counted_queue)
        if held is not None and held.pop(record.task.uid, None) is not None and not held:
            del self._open[record.counted_queue]

    def mark_queue_changed(self, queue: str) -> None:
        """Its use or its limits changed."""
        branch, account = self._tree.nodes.get(queue), self._ledger.account(queue)
        is_over = branch is not None and any(
            account.reserved.get(resource) and account.used(resource) > limit
            for resource, limit in branch.limits.items()
        )
        if is_over or queue in self._over:
            self._is_stale = True
            (self._over.add if is_over else self._over.discard)(queue)

    def flush(self) -> None:
        """Decide again, if anything changed, and tell whose turn is lost or back."""
        if not self._is_stale:
            return
        self._is_stale = False
        lost = frozenset(self._find_lost()) if self._over else frozenset()
        for uid in sorted(lost ^ self.exceeding_limit):
            self._moved(uid)
        self.exceeding_limit = lost

    def _find_lost(self) -> Iterator[str]:
        room: dict[tuple[str, str], int] = {}
        for name in self._over:
            account = self._ledger.account(name)
            for resource, limit in self._tree.nodes[name].limits.items():
                room[name, resource] = limit - account.allocated.get(resource, 0)
        for _, unit in sorted(_units(self._concerned()), key=lambda pair: pair[0]):
            need: dict[tuple[str, str], int] = {}
            for record in unit:
                for name in self._tree.path(record.counted_queue):
                    for resource, amount in record.counted.items():
                        if (name, resource) in room:
                            need[name, resource] = need.get((name, resource), 0) + amount
            if all(amount <= room[where] for where, amount in need.items()):
                for where, amount in need.items():
                    room[where] -= amount
            else:
                yield from (record.task.uid for record in unit)

    def _concerned(self) -> Iterator[PodRecord]:
        """All promises in and below queues that are over their limit."""
        below = sorted(self._over)
        seen = set(below)
        for name in below:
            yield from self._open.get(name, {}).values()
            branch = self._tree.nodes.get(name)
            children = sorted((branch.children if branch is not None else set()) - seen)
            seen.update(children)
            below += children


def _units(records: Iterable[PodRecord]) -> Iterator[tuple[_Key, list[PodRecord]]]:
    """Promises that go on together, with the key of the oldest."""
    gangs: dict[tuple[str, str], list[PodRecord]] = {}
    for record in records:
        if record.gang is None:
            yield age_key(record), [record]
        else:
            gangs.setdefault(record.gang.key, []).append(record)
    for members in gangs.values():
        members.sort(key=age_key)
        gang = members[0].gang
        settled = 0 if gang is None else gang.ready - gang.counts.get(AllocationState.RESERVED, 0)
        together = 0 if gang is None else max(gang.minimum - settled, 0)
        if together:
            yield age_key(members[0]), members[:together]
        for record in members[together:]:
            yield age_key(record), [record]


def age_key(record: PodRecord) -> _Key:
    """The order in which promises were made."""
    return (record.promised_at, record.task.namespace, record.task.name)
