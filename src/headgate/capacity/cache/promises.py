"""Decides which promises remain valid after the limit of a queue was lowered below what the queue has promised.

The oldest promises that fit in the limit remain valid. The scheduler does not try the pods of the other promises, and
the next admission step (``capacity/grants/grants.py``) revokes these promises, so that they do not block other pods.
The promises for the minimum of a gang are valid or invalid together. Promises that are being revoked are neither: they
end in any case. This costs nothing while no queue is over its limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headgate.capacity.cache.ledger import Ledger
from headgate.capacity.cache.pod_record import PROMISED, PodRecord
from headgate.capacity.cache.queue_tree import QueueTree

_AgeKey = tuple[str, str, str]
"""The time of a promise, and namespace and name of the pod."""


class PromiseTracker:
    """``exceeding_limit``: the uids of the pods whose promises are no longer valid. ``on_change`` is called with each
    uid that enters or leaves this set."""

    def __init__(self, tree: QueueTree, ledger: Ledger, on_change: Callable[[str], None]) -> None:
        self._tree = tree
        self._ledger = ledger
        self._on_change = on_change
        self._by_queue: dict[str, dict[str, PodRecord]] = {}
        self._over_limit: set[str] = set()
        self._is_stale = False
        self.exceeding_limit: frozenset[str] = frozenset()

    def add(self, record: PodRecord) -> None:
        """Track a promise that may be revoked. A promise that is not tracked counts in the ledger and stays valid."""
        self._by_queue.setdefault(record.queue, {})[record.task.uid] = record

    def remove(self, record: PodRecord) -> None:
        records = self._by_queue.get(record.queue)
        if records is not None and records.pop(record.task.uid, None) is not None and not records:
            del self._by_queue[record.queue]

    def uids(self, queue: str) -> Iterable[str]:
        """The pods with a tracked promise of this queue, without those below it."""
        return self._by_queue.get(queue, ())

    def mark_queue_changed(self, queue: str) -> None:
        """The usage or the limits of the queue changed."""
        tree_queue, account = self._tree.queues.get(queue), self._ledger.account(queue)
        is_over = tree_queue is not None and any(
            account.reserved.get(resource) and account.allocated_plus_reserved(resource) > limit
            for resource, limit in tree_queue.limits.items()
        )
        if is_over or queue in self._over_limit:
            self._is_stale = True
            (self._over_limit.add if is_over else self._over_limit.discard)(queue)

    def process_changes(self) -> None:
        """Decide again if a queue changed, and report the pods whose promises became invalid or valid."""
        if not self._is_stale:
            return
        self._is_stale = False
        exceeding = frozenset(self._find_exceeding()) if self._over_limit else frozenset()
        for uid in sorted(exceeding ^ self.exceeding_limit):
            self._on_change(uid)
        self.exceeding_limit = exceeding

    def _find_exceeding(self) -> Iterator[str]:
        """The pods whose promises do not fit, if older promises are counted first."""
        free: dict[tuple[str, str], int] = {}
        for name in self._over_limit:
            account = self._ledger.account(name)
            for resource, limit in self._tree.queues[name].limits.items():
                free[name, resource] = limit - account.allocated_plus_reserved(resource)
        affected = list(self._affected())
        for key, amount in self._amounts_on_path(affected):
            if key in free:
                free[key] += amount
        units = sorted(_units(each for each in affected if not each.is_being_revoked), key=lambda pair: pair[0])
        for _, unit in units:
            needed: dict[tuple[str, str], int] = {}
            for key, amount in self._amounts_on_path(unit):
                if key in free:
                    needed[key] = needed.get(key, 0) + amount
            if all(amount <= free[key] for key, amount in needed.items()):
                for key, amount in needed.items():
                    free[key] -= amount
            else:
                yield from (record.task.uid for record in unit)

    def _amounts_on_path(self, unit: Iterable[PodRecord]) -> Iterator[tuple[tuple[str, str], int]]:
        """The amounts of the promises, by queue and resource, in the queue of each and its ancestors."""
        for record in unit:
            for name in self._tree.path(record.queue):
                for resource, amount in record.counted_amounts.items():
                    yield (name, resource), amount

    def _affected(self) -> Iterator[PodRecord]:
        """The records of all promised pods in and below the queues that are over their limit."""
        names = sorted(self._over_limit)
        seen = set(names)
        for name in names:
            yield from self._by_queue.get(name, {}).values()
            tree_queue = self._tree.queues.get(name)
            children = sorted((tree_queue.children if tree_queue is not None else set()) - seen)
            seen.update(children)
            names += children


def _units(records: Iterable[PodRecord]) -> Iterator[tuple[_AgeKey, list[PodRecord]]]:
    """The records in units that are valid or invalid together, each unit with the age key of its oldest promise. The
    promises that a gang needs for its minimum are one unit; each further promise is a unit by itself."""
    gangs: dict[tuple[str, str], list[PodRecord]] = {}
    for record in records:
        if record.gang is None:
            yield age_key(record), [record]
        else:
            gangs.setdefault(record.gang.key, []).append(record)
    for members in gangs.values():
        members.sort(key=age_key)
        gang = members[0].gang
        placed_or_succeeded = 0 if gang is None else gang.ready - sum(gang.counts.get(each, 0) for each in PROMISED)
        unit_size = 0 if gang is None else max(gang.minimum - placed_or_succeeded, 0)
        if unit_size:
            yield age_key(members[0]), members[:unit_size]
        for record in members[unit_size:]:
            yield age_key(record), [record]


def age_key(record: PodRecord) -> _AgeKey:
    """The order in which promises were made."""
    return (record.promised_at, record.task.namespace, record.task.name)
