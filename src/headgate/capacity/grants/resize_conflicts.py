"""Resolves conflicts between resized pods: pods that have a promise and now request more than they were promised.

A resized pod keeps its promise, and it cannot start before the rest of its requests is granted. Several of them can
therefore block each other. When no further unit can be granted, the admission step takes the resized pod with the
oldest promise that would fit without the promises of younger resized pods. It revokes these promises, the youngest
first, until that pod fits. A promise whose stamp is still to be removed counts as revoked here: that pod fits when it
is. The cost is linear in the number of resized pods, and zero while fewer than two of them wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.capacity.cache.pod_record import Ask, PodRecord
from headgate.capacity.cache.promises import age_key
from headgate.capacity.grants.queue_cache import QueueCache

_QueueResource = tuple[str, str]
"""The name of a queue, and a resource in it."""


def resolve_resize_conflict(cache: QueueCache) -> bool:
    """Revoke promises so that a resized pod fits. Returns whether any promise has ended at once."""
    if len(cache.resized) < 2:
        return False
    by_age = sorted(filter(_may_be_revoked, cache.resized.values()), key=age_key)
    freed: dict[_QueueResource, int] = {}
    for record in cache.being_revoked.values():
        _add_amounts(cache, record, freed)
    index = _oldest_that_would_fit(cache, by_age, freed)
    if index is None:
        return False
    served, is_changed = by_age[index], False
    why = f"its promise was revoked: it asks for more, and so does {served.task.name}, promised before it"
    for record in reversed(by_age[index + 1 :]):
        missing = _find_missing(cache, served.queue, served.ask or (), freed)
        if not missing:
            break
        if any(
            name in cache.tree.path(record.queue) and record.promised_amounts.get(resource)
            for name, resource in missing
        ):
            if cache.end_promise(record, why):
                is_changed = True
            else:
                _add_amounts(cache, record, freed)
            cache.process_changes()
    return is_changed


def _may_be_revoked(record: PodRecord) -> bool:
    return not record.is_committed and not record.is_being_revoked


def _add_amounts(cache: QueueCache, record: PodRecord, freed: dict[_QueueResource, int]) -> None:
    """Add the promised amounts in the queue of the pod and its ancestors."""
    for name in cache.tree.path(record.queue):
        for resource, amount in record.promised_amounts.items():
            freed[name, resource] = freed.get((name, resource), 0) + amount


def _oldest_that_would_fit(
    cache: QueueCache, by_age: Sequence[PodRecord], being_freed: Mapping[_QueueResource, int]
) -> int | None:
    """The index of the oldest pod that fits if the promises of all younger ones are revoked. ``being_freed``: the
    amounts of promises that are being revoked."""
    found, freed = None, dict(being_freed)
    for index in range(len(by_age) - 1, -1, -1):
        record = by_age[index]
        tree_queue = cache.tree.get(record.queue)
        if (
            tree_queue is not None
            and tree_queue.may_grant
            and not _find_missing(cache, record.queue, record.ask or (), freed)
        ):
            found = index
        _add_amounts(cache, record, freed)
    return found


def _find_missing(cache: QueueCache, queue: str, ask: Ask, freed: Mapping[_QueueResource, int]) -> list[_QueueResource]:
    """The queues and resources without capacity for the ask, if the ``freed`` amounts were free, too."""
    return [
        (name, resource)
        for name in cache.tree.path(queue)
        for resource, amount in ask
        if resource in (limits := cache.tree.queues[name].limits)
        and cache.ledger.account(name).allocated_plus_reserved(resource) - freed.get((name, resource), 0) + amount
        > limits[resource]
    ]
