"""Room in a queue: who has to go so that those who wait for it fit, if anybody may be told to.

Who may, is ``victims.py``'s to say. Before any pod has to go, promises of lower priority that have no node are taken
back (:func:`retractable`). Only pods that give back something that is missing are chosen, those of the queue
itself first, the least important first, and nobody who turns out not to be needed. Room on nodes is another matter, and
``scheduling/``'s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from headgate.capacity.book import Book
from headgate.capacity.groups import Gang
from headgate.capacity.record import IN_LINE, PROMISED, Ask, Record, Standing, ask_of
from headgate.capacity.victims import Resident, Rules

_Where = tuple[str, str]
"""A queue and a resource."""


class Room(msgspec.Struct, frozen=True):
    """``for_uids`` fit if ``victims`` go and what was promised to ``promises`` is taken back. Others would do, too:
    ``rivals`` are all that may go, with the queues where each counts, and ``missing`` is what has to become free on
    nodes, by queue and resource: what is left once the promises are taken back."""

    queue: str
    for_uids: tuple[str, ...]
    victims: tuple[str, ...]
    missing: Mapping[_Where, int] = {}
    rivals: Mapping[str, tuple[str, ...]] = {}
    promises: tuple[str, ...] = ()


def make_room(
    book: Book, rules: Rules, uid: str, *, may_evict: bool = True, freed: Collection[str] = ()
) -> Room | None:
    """For the unit of which this pod is one. None if it has room, or if nobody who may go would make it.

    Promises without a node are taken back before any pod has to go: that costs nobody anything that runs. ``freed``:
    promises that are taken back already, and still counted."""
    book.settle_all()
    record = book.records.get(uid)
    branch = None if record is None else book.tree.get(record.place)
    if record is None or record.standing not in IN_LINE or branch is None or not branch.may_grant:
        return None
    uids, ask = _unit_of(record)
    missing = _less(book, _find_missing(book, record.place, ask), map(book.records.__getitem__, freed))
    if uid not in uids or not missing:
        return None
    spare = list(retractable(book, record))
    promises = _choose(book, missing, spare)
    if promises:
        return Room(record.place, uids, (), promises=tuple(each.task.uid for unit in promises for each in unit))
    left = _less(book, missing, (each for unit in spare for each in unit))
    room = _find_victims(book, rules, record, uids, ask, left) if may_evict else None
    if room is None or not spare:
        return room
    still = _less(book, missing, (book.records[each] for each in room.victims))
    needed = [each.task.uid for unit in _choose(book, still, spare) for each in unit]
    return msgspec.structs.replace(room, promises=tuple(needed))


def _find_victims(
    book: Book, rules: Rules, record: Record, uids: tuple[str, ...], ask: Ask, missing: dict[_Where, int]
) -> Room | None:
    top = record.place
    if rules.may_reclaim(book, record, dict(ask)):
        top = next(name for name in reversed(book.tree.path(record.place)) if any(name == at for at, _ in missing))
    elif not rules.may_preempt(book, record):
        return None  # as in most queues that are full: nobody has to be looked at
    there = [_resident(each) for each in sorted(_on_nodes_below(book, top), key=_least_important)]
    found = rules.find(book, record, there, dict(ask))
    chosen = _choose(book, missing, [(book.records[each],) for each in found])
    if not chosen:
        return None
    rivals = {each: book.tree.path(book.records[each].place) for each in found}
    return Room(record.place, uids, tuple(each.task.uid for (each,) in chosen), missing, rivals)


def retractable(book: Book, record: Record) -> Iterator[tuple[Record, ...]]:
    """Promises of the pod's own queue that have no node and lower priority, the least important and the newest first.
    What a gang was promised is taken back whole, or beyond a minimum that is on nodes pod by pod."""
    ranks = book.idle_ranks.get(record.place, ())
    priority = _priority(record)
    if not book.order.by_job_priority or not any(rank < priority for rank in ranks):
        return
    found: list[tuple[Record, ...]] = []
    gangs: dict[tuple[str, str], Gang] = {}
    for each in book.idle[record.place].values():
        if each.is_retracting:
            continue
        if each.gang is None or each.gang.is_placed:
            found.append((each,))
        elif each.gang is not record.gang:
            gangs[each.gang.key] = each.gang
    found += [whole for gang in gangs.values() if (whole := _whole(gang))]
    lower = [unit for unit in found if _priority(unit[0]) < priority and not _is_same_gang(unit[0], record)]
    newest = sorted(lower, key=lambda unit: (unit[0].task.namespace, unit[0].task.name))
    newest.sort(key=lambda unit: unit[0].promised_at, reverse=True)
    yield from sorted(newest, key=lambda unit: _priority(unit[0]))


def _whole(gang: Gang) -> tuple[Record, ...]:
    """All that a gang was promised, if none of it is on a node and all of it can be taken back."""
    holding = (Standing.ALLOCATED, *PROMISED)
    promised = tuple(each for each in gang.members.values() if each.standing in holding)
    return promised if all(each.is_idle and not each.is_retracting for each in promised) else ()


def _is_same_gang(record: Record, other: Record) -> bool:
    return record.gang is not None and record.gang is other.gang


def _priority(record: Record) -> int:
    return record.task.priority if record.gang is None else record.gang.priority


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


def _less(book: Book, missing: dict[_Where, int], freed: Iterable[Record]) -> dict[_Where, int]:
    """What is still missing then."""
    left = dict(missing)
    for record in freed:
        for at, amount in _gains(book, record, left).items():
            left[at] -= amount
    return {at: amount for at, amount in left.items() if amount > 0}


def _choose(
    book: Book, missing: dict[_Where, int], candidates: Iterable[tuple[Record, ...]]
) -> list[tuple[Record, ...]]:
    """As many units as are needed, in order; none if all of them together are not enough."""
    left: dict[_Where, int] = dict(missing)
    chosen: list[tuple[tuple[Record, ...], dict[_Where, int]]] = []
    for unit in candidates:
        gains = _gains_of(book, unit, left)
        if any(left[at] > 0 for at in gains):
            chosen.append((unit, gains))
            for at, amount in gains.items():
                left[at] -= amount
        if all(amount <= 0 for amount in left.values()):
            break
    else:
        return []
    for pair in reversed(list(chosen)):
        if all(left[at] + amount <= 0 for at, amount in pair[1].items()):
            chosen.remove(pair)
            for at, amount in pair[1].items():
                left[at] += amount
    return [unit for unit, _ in chosen]


def _gains_of(book: Book, unit: tuple[Record, ...], missing: dict[_Where, int]) -> dict[_Where, int]:
    total: dict[_Where, int] = {}
    for record in unit:
        for at, amount in _gains(book, record, missing).items():
            total[at] = total.get(at, 0) + amount
    return total


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
