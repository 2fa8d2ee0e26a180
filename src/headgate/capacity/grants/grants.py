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


def admit(book: QueueCache, now_s: float, most: int) -> list[Grant]:
    """Up to ``most`` pods; a gang that has begun is finished."""
    _retry_refused(book, now_s)
    book.flush()
    _take_back(book)
    if book.order.enqueues:
        _enqueue_groups(book)
    at = format_micro_time(now_s)
    granted: list[Grant] = []
    left = most
    while left > 0:
        first = book.grant_index.first()
        if first is None:
            if _take_back_of_short_gangs(book) or resize_conflicts.resolve_resize_conflict(book):
                continue
            break
        queue, unit = first
        gang = None if isinstance(unit, str) else book.gangs[unit]
        uids = (unit,) if isinstance(unit, str) else gang.entry[2] if gang is not None and gang.entry else ()
        _promise(book, queue, uids, at)
        book.flush()
        granted.append(Grant(queue, uids))
        left -= len(uids)
    return granted


def _promise(book: QueueCache, queue: str, uids: tuple[str, ...], at: str) -> None:
    for uid in uids:
        record = book.records[uid]
        book.remove_from_counts(record)
        record.promise(queue, record.task.requests, at)
        book.add_to_counts(record)


def _take_back(book: QueueCache) -> None:
    """Promises that do not fit their limits any more beside older ones end, so that they stand in nobody's way."""
    while book.promises.exceeding_limit:
        lost = [book.records[uid] for uid in sorted(book.promises.exceeding_limit)]
        whys = [wait_reasons.why_withdrawn(book, record) for record in lost]
        for record, why in zip(lost, whys, strict=True):
            book.take_back(record, why)
        book.flush()


def _take_back_of_short_gangs(book: QueueCache) -> bool:
    """Where nothing more can be granted, a gang that is not whole will not become so now: what its members without a
    node were promised ends. Whether there was such a promise."""
    short = list(book.incomplete_gangs.values())
    for gang in short:
        why = wait_reasons.why_short(gang)
        for record in list(gang.members.values()):
            if record.state in PROMISED:
                book.take_back(record, why)
    book.flush()
    return bool(short)


def _enqueue_groups(book: QueueCache) -> None:
    while (first := book.enqueue_index.first()) is not None:
        unit = first[1]
        if not isinstance(unit, str):
            gang = book.gangs[unit]
            gang.enqueued_by_us = True
            book.mark_gang_changed(gang)
        book.flush()


def _retry_refused(book: QueueCache, now_s: float) -> None:
    """Those whose gate could not be lifted, and who may try again."""
    while (due := book.put_off.first()) is not None and due[0] <= now_s:
        record = book.records[due[1]]
        record.put_off = None
        book.recount(record)
