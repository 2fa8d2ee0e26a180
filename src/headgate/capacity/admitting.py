"""The admission step: groups are let in, then pods are granted what they ask for, in order, until nothing more fits.

Whoever is granted something has it reserved at once, at its queue and every ancestor, so that the next one is measured
against it. A unit that does not fit holds nobody up.
"""

from __future__ import annotations

import msgspec

from headgate.capacity import growing, verdicts
from headgate.capacity.book import Book
from headgate.capacity.record import PROMISED
from headgate.kube.timestamps import format_micro_time


class Grant(msgspec.Struct, frozen=True):
    """Pods that may go on, and must go on together: the missing rest of a gang's minimum, or one pod."""

    queue: str
    uids: tuple[str, ...]


def admit(book: Book, now_s: float, most: int) -> list[Grant]:
    """Up to ``most`` pods; a gang that has begun is finished."""
    _call_back(book, now_s)
    book.settle_all()
    _take_back(book)
    if book.order.enqueues:
        _let_groups_in(book)
    at = format_micro_time(now_s)
    granted: list[Grant] = []
    left = most
    while left > 0:
        first = book.grants.first()
        if first is None:
            if _take_back_of_short_gangs(book) or growing.settle(book):
                continue
            break
        queue, unit = first
        gang = None if isinstance(unit, str) else book.gangs[unit]
        uids = (unit,) if isinstance(unit, str) else gang.entry[2] if gang is not None and gang.entry else ()
        _promise(book, queue, uids, at)
        book.settle_all()
        granted.append(Grant(queue, uids))
        left -= len(uids)
    return granted


def _promise(book: Book, queue: str, uids: tuple[str, ...], at: str) -> None:
    for uid in uids:
        record = book.records[uid]
        book.lift(record)
        record.promise(queue, record.task.requests, at)
        book.settle(record)


def _take_back(book: Book) -> None:
    """Promises that do not fit their limits any more beside older ones end, so that they stand in nobody's way."""
    while book.promises.lost:
        lost = [book.records[uid] for uid in sorted(book.promises.lost)]
        whys = [verdicts.why_withdrawn(book, record) for record in lost]
        for record, why in zip(lost, whys, strict=True):
            book.take_back(record, why)
        book.settle_all()


def _take_back_of_short_gangs(book: Book) -> bool:
    """Where nothing more can be granted, a gang that is not whole will not become so now: what its members without a
    node were promised ends. Whether there was such a promise."""
    short = list(book.short.values())
    for gang in short:
        why = verdicts.why_short(gang)
        for record in list(gang.members.values()):
            if record.standing in PROMISED:
                book.take_back(record, why)
    book.settle_all()
    return bool(short)


def _let_groups_in(book: Book) -> None:
    while (first := book.enqueues.first()) is not None:
        unit = first[1]
        if not isinstance(unit, str):
            gang = book.gangs[unit]
            gang.let_in = True
            book.mark(gang)
        book.settle_all()


def _call_back(book: Book, now_s: float) -> None:
    """Those whose gate could not be lifted, and who may try again."""
    while (due := book.put_off.first()) is not None and due[0] <= now_s:
        record = book.records[due[1]]
        record.put_off = None
        book.change(record)
