"""Promises that do not fit their limits any more: which of them are kept after a limit was lowered.

The oldest are kept, in order, as far as they fit. The others have lost their turn: their pods are not tried, and the
next admission step takes these promises back (``admitting.py``), so that no promise that cannot be kept stands in
another pod's way. A gang's minimum keeps or loses its turn as one. Costs nothing while all limits hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headgate.capacity.ledger import Ledger
from headgate.capacity.record import Record, Standing
from headgate.capacity.tree import Tree

_Key = tuple[str, str, str]


class Promises:
    """``lost``: the pods that have lost their turn."""

    def __init__(self, tree: Tree, ledger: Ledger, moved: Callable[[str], None]) -> None:
        self._tree = tree
        self._ledger = ledger
        self._moved = moved
        self._open: dict[str, dict[str, Record]] = {}
        self._over: set[str] = set()
        self._is_stale = False
        self.lost: frozenset[str] = frozenset()

    def add(self, record: Record) -> None:
        self._open.setdefault(record.place, {})[record.task.uid] = record

    def remove(self, record: Record) -> None:
        held = self._open.get(record.place)
        if held is not None and held.pop(record.task.uid, None) is not None and not held:
            del self._open[record.place]

    def check(self, queue: str) -> None:
        """Its use or its limits changed."""
        branch, account = self._tree.branches.get(queue), self._ledger.account(queue)
        is_over = branch is not None and any(
            account.reserved.get(resource) and account.used(resource) > limit
            for resource, limit in branch.limits.items()
        )
        if is_over or queue in self._over:
            self._is_stale = True
            (self._over.add if is_over else self._over.discard)(queue)

    def settle(self) -> None:
        """Decide again, if anything changed, and tell whose turn is lost or back."""
        if not self._is_stale:
            return
        self._is_stale = False
        lost = frozenset(self._find_lost()) if self._over else frozenset()
        for uid in sorted(lost ^ self.lost):
            self._moved(uid)
        self.lost = lost

    def _find_lost(self) -> Iterator[str]:
        room: dict[tuple[str, str], int] = {}
        for name in self._over:
            account = self._ledger.account(name)
            for resource, limit in self._tree.branches[name].limits.items():
                room[name, resource] = limit - account.allocated.get(resource, 0)
        for _, unit in sorted(_units(self._concerned()), key=lambda pair: pair[0]):
            need: dict[tuple[str, str], int] = {}
            for record in unit:
                for name in self._tree.path(record.place):
                    for resource, amount in record.counted.items():
                        if (name, resource) in room:
                            need[name, resource] = need.get((name, resource), 0) + amount
            if all(amount <= room[where] for where, amount in need.items()):
                for where, amount in need.items():
                    room[where] -= amount
            else:
                yield from (record.task.uid for record in unit)

    def _concerned(self) -> Iterator[Record]:
        """All promises in and below queues that are over their limit."""
        below = sorted(self._over)
        seen = set(below)
        for name in below:
            yield from self._open.get(name, {}).values()
            branch = self._tree.branches.get(name)
            children = sorted((branch.children if branch is not None else set()) - seen)
            seen.update(children)
            below += children


def _units(records: Iterable[Record]) -> Iterator[tuple[_Key, list[Record]]]:
    """Promises that go on together, with the key of the oldest."""
    gangs: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.gang is None:
            yield age_key(record), [record]
        else:
            gangs.setdefault(record.gang.key, []).append(record)
    for members in gangs.values():
        members.sort(key=age_key)
        gang = members[0].gang
        settled = 0 if gang is None else gang.ready - gang.counts.get(Standing.RESERVED, 0)
        together = 0 if gang is None else max(gang.minimum - settled, 0)
        if together:
            yield age_key(members[0]), members[:together]
        for record in members[together:]:
            yield age_key(record), [record]


def age_key(record: Record) -> _Key:
    """The order in which promises were made."""
    return (record.promised_at, record.task.namespace, record.task.name)
