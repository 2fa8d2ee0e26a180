"""The admission step: enqueues groups, then grants pods what they request, in order, until nothing more fits.

A grant is reserved at once, at its queue and every ancestor, so that the next unit is checked against it. A unit that
does not fit does not block the units behind it.
"""

from __future__ import annotations

import msgspec

from headgate.capacity.cache.pod_record import PROMISED
from headgate.capacity.grants import resize_conflicts, wait_reasons
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.kube.timestamps import format_micro_time


class Grant(msgspec.Struct, frozen=True):
    """Pods that were granted capacity together: the pods that a gang's minimum still lacks, or one pod."""

    queue: str
    uids: tuple[str, ...]


def admit(cache: QueueCache, now_s: float, max_pods: int) -> list[Grant]:
    """Grants up to ``max_pods`` pods; the last gang may exceed this number."""
    _retry_refused(cache, now_s)
    cache.flush()
    _take_back(cache)
    if cache.order.enqueues:
        _enqueue_groups(cache)
    at = format_micro_time(now_s)
    granted: list[Grant] = []
    remaining = max_pods
    while remaining > 0:
        first = cache.grant_index.first()
        if first is None:
            if _take_back_from_incomplete_gangs(cache) or resize_conflicts.resolve_resize_conflict(cache):
                continue
            break
        queue, unit = first
        gang = None if isinstance(unit, str) else cache.gangs[unit]
        uids = (unit,) if isinstance(unit, str) else gang.entry[2] if gang is not None and gang.entry else ()
        _promise(cache, queue, uids, at)
        cache.flush()
        granted.append(Grant(queue, uids))
        remaining -= len(uids)
    return granted


def _promise(cache: QueueCache, queue: str, uids: tuple[str, ...], at: str) -> None:
    for uid in uids:
        record = cache.records[uid]
        cache.remove_from_counts(record)
        record.promise(queue, record.task.requests, at)
        cache.add_to_counts(record)


def _take_back(cache: QueueCache) -> None:
    """Take back the promises that exceed a lowered limit, so that they do not block other pods."""
    while cache.promises.exceeding_limit:
        exceeding = [cache.records[uid] for uid in sorted(cache.promises.exceeding_limit)]
        reasons = [wait_reasons.withdrawn_text(cache, record) for record in exceeding]
        for record, why in zip(exceeding, reasons, strict=True):
            cache.take_back(record, why)
        cache.flush()


def _take_back_from_incomplete_gangs(cache: QueueCache) -> bool:
    """Take back the promises of gangs below their minimum: nothing more can be granted, so they cannot become
    complete now. Returns whether there was such a gang."""
    incomplete = list(cache.incomplete_gangs.values())
    for gang in incomplete:
        why = wait_reasons.incomplete_gang_text(gang)
        for record in list(gang.members.values()):
            if record.state in PROMISED:
                cache.take_back(record, why)
    cache.flush()
    return bool(incomplete)


def _enqueue_groups(cache: QueueCache) -> None:
    while (first := cache.enqueue_index.first()) is not None:
        unit = first[1]
        if not isinstance(unit, str):
            gang = cache.gangs[unit]
            gang.enqueued_by_us = True
            cache.mark_gang_changed(gang)
        cache.flush()


def _retry_refused(cache: QueueCache, now_s: float) -> None:
    """Make pods whose gate removal was refused wait for a grant again after their retry time."""
    for uid in cache.put_off.due(now_s):
        record = cache.records[uid]
        record.put_off = None
        cache.recount(record)
