"""Conflicts between promised pods that were resized and request more than they were promised.

None of them can use its share before it gets the rest. When nothing else can be granted, the oldest pod that would fit
without younger ones is served: promises of younger ones are taken back, the youngest first, until it fits. The cost is
linear in the number of such pods, and zero while fewer than two of them wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.capacity.cache.pod_record import Ask, PodRecord
from headgate.capacity.cache.promises import age_key
from headgate.capacity.grants.queue_cache import QueueCache

_QueueResource = tuple[str, str]
"""A queue and a resource."""


def resolve_resize_conflict(cache: QueueCache) -> bool:
    """Take promises back so that a resized pod fits. Returns whether any was taken back."""
    if len(cache.growing) < 2:
        return False
    by_age = sorted(cache.growing.values(), key=age_key)
    index = _oldest_that_would_fit(cache, by_age)
    if index is None:
        return False
    first, before = by_age[index], len(cache.withdrawn)
    why = f"its promise was revoked: it asks for more, and so does {first.task.name}, promised before it"
    for record in reversed(by_age[index + 1 :]):
        missing = _find_missing(cache, first.counted_queue, first.ask or (), {})
        if not missing:
            break
        if any(
            name in cache.tree.path(record.counted_queue) and record.promised.get(resource)
            for name, resource in missing
        ):
            cache.take_back(record, why)
            cache.flush()
    return len(cache.withdrawn) > before


def _oldest_that_would_fit(cache: QueueCache, by_age: Sequence[PodRecord]) -> int | None:
    found, freed = None, dict[_QueueResource, int]()
    for index in range(len(by_age) - 1, -1, -1):
        record = by_age[index]
        queue_node = cache.tree.get(record.counted_queue)
        if (
            queue_node is not None
            and queue_node.may_grant
            and not _find_missing(cache, record.counted_queue, record.ask or (), freed)
        ):
            found = index
        for name in cache.tree.path(record.counted_queue):
            for resource, amount in record.promised.items():
                freed[name, resource] = freed.get((name, resource), 0) + amount
    return found


def _find_missing(cache: QueueCache, queue: str, ask: Ask, freed: Mapping[_QueueResource, int]) -> list[_QueueResource]:
    """The queues and resources without capacity for the ask, even if ``freed`` were free."""
    return [
        (name, resource)
        for name in cache.tree.path(queue)
        for resource, amount in ask
        if resource in (limits := cache.tree.nodes[name].limits)
        and cache.ledger.account(name).used(resource) - freed.get((name, resource), 0) + amount > limits[resource]
    ]
