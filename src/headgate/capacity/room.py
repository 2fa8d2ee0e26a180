"""Room in a queue: who has to go so that those who wait for it fit, if anybody may be told to.

Who may, is ``victims.py``'s to say. Only pods that give back something that is missing are chosen, those of the queue
itself first, the least important first, and nobody who turns out not to be needed. Room on nodes is another matter, and
``scheduling/``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from headgate.capacity.book import Book
from headgate.capacity.record import IN_LINE, Ask, Record, Standing, ask_of
from headgate.capacity.victims import Resident, Rules

_Where = tuple[str, str]
"""A queue and a resource."""


class Room(msgspec.Struct, frozen=True):
    """``for_uids`` fit if ``victims`` go. Others would do, too: ``rivals`` are all that may go, with the queues where
    each counts, and ``missing`` is what has to become free, by queue and resource."""

    queue: str
    for_uids: tuple[str, ...]
    victims: tuple[str, ...]
    missing: Mapping[_Where, int] = {}
    rivals: Mapping[str, tuple[str, ...]] = {}


def make_room(book: Book, rules: Rules, uid: str) -> Room | None:
    """For the unit of which this pod is one. None if it has room, or if nobody who may go would make it."""
    book.settle_all()
    record = book.records.get(uid)
    branch = None if record is None else book.tree.get(record.place)
    if record is None or record.standing not in IN_LINE or branch is None or not branch.may_grant:
        return None
    uids, ask = _unit_of(record)
    missing = _find_missing(book, record.place, ask)
    if uid not in uids or not missing:
        return None
    top = record.place
    if rules.may_reclaim(book, record, dict(ask)):
        top = next(name for name in reversed(book.tree.path(record.place)) if any(name == at for at, _ in missing))
    elif not rules.may_preempt(book, record):
        return None  # as in most queues that are full: nobody has to be looked at
    there = [_resident(each) for each in sorted(_on_nodes_below(book, top), key=_least_important)]
    found = rules.find(book, record, there, dict(ask))
    chosen = _choose(book, missing, (book.records[each] for each in found))
    if not chosen:
        return None
    rivals = {each: book.tree.path(book.records[each].place) for each in found}
    return Room(record.place, uids, chosen, missing, rivals)


def _unit_of(record: Record) -> tuple[tuple[str, ...], Ask]:
    gang = record.gang
    if gang is None or record.standing is Standing.GROWING:
        return (record.task.uid,), ask_of(record.wanted)
    return ((), ()) if gang.entry is None else (gang.entry[2], gang.entry[1])


def _find_missing(book: Book, queue: str, ask: Ask) -> dict[_Where, int]:
    missing = {}
    for name in book.tree.path(queue):
        limits, account = book.tree.branches[name].limits, book.ledger.account(name)
        for resource, amount in ask:
            if amount and resource in limits and account.used(resource) + amount > limits[resource]:
                missing[name, resource] = account.used(resource) + amount - limits[resource]
    return missing


def _on_nodes_below(book: Book, queue: str) -> Iterator[Record]:
    below = [queue]
    for name in below:
        yield from (each for each in book.on_nodes.get(name, {}).values() if each.is_bound)
        branch = book.tree.branches.get(name)
        below += [] if branch is None else sorted(branch.children)


def _resident(record: Record) -> Resident:
    task = record.task
    return Resident(task.uid, task.namespace, task.priority, task.preemptable)


def _least_important(record: Record) -> tuple[int, float, str, str]:
    task = record.task
    return (task.priority, -task.created_s, task.namespace, task.name)


def _choose(book: Book, missing: dict[_Where, int], candidates: Iterable[Record]) -> tuple[str, ...]:
    """As many as are needed, in order; none if all of them together are not enough."""
    left, chosen = dict(missing), []
    for each in candidates:
        gains = _gains(book, each, left)
        if any(left[at] > 0 for at in gains):
            chosen.append((each, gains))
            for at, amount in gains.items():
                left[at] -= amount
        if all(amount <= 0 for amount in left.values()):
            break
    else:
        return ()
    for pair in reversed(list(chosen)):
        if all(left[at] + amount <= 0 for at, amount in pair[1].items()):
            chosen.remove(pair)
            for at, amount in pair[1].items():
                left[at] += amount
    return tuple(each.task.uid for each, _ in chosen)


def _gains(book: Book, record: Record, missing: dict[_Where, int]) -> dict[_Where, int]:
    path, held = set(book.tree.path(record.place)), record.counted
    return {(name, resource): held[resource] for name, resource in missing if name in path and held.get(resource)}


def starving(book: Book) -> list[str]:
    """The first of each queue that grants things, where something changed since this was last asked: those who may ask
    others to go, if they have no room."""
    book.settle_all()
    names, book.restless = list(book.restless), {}
    found = []
    for name in names:
        unit, branch = book.grants.head(name), book.tree.get(name)
        if unit is None or branch is None or not branch.may_grant:
            continue
        entry = None if isinstance(unit, str) else book.gangs[unit].entry
        if isinstance(unit, str):
            found.append(unit)
        elif entry is not None:
            found.append(entry[2][0])
    return found
