"""Plans preemption for pods that wait for their queue: which victims free enough capacity in it.

``victim_rules.py`` decides which pods are eligible. Promises of lower priority without a node are revoked before any
pod is preempted (:func:`retractable_promises`). Only pods that return something missing are chosen, those of the same
queue first, the least important first, and pods that turn out not to be needed are dropped.
``scheduling/preemption/queue_preemption.py`` finds a node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.pod_record import PROMISED, WAITING_FOR_GRANT, AllocationState, Ask, PodRecord, ask_of
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.preemption.victim_rules import PreemptionRules, VictimCandidate

_Where = tuple[str, str]
"""A queue and a resource."""


class PreemptionPlan(msgspec.Struct, frozen=True):
    """``preemptor_uids`` fit if ``victims`` end and the promises of ``promises`` are revoked. Other victims are
    possible: ``rivals`` are all eligible pods with the queues in which each counts, and ``missing`` is what must become
    free on nodes, by queue and resource, after the promises are revoked."""

    queue: str
    preemptor_uids: tuple[str, ...]
    victims: tuple[str, ...]
    missing: Mapping[_Where, int] = {}
    alternatives: Mapping[str, tuple[str, ...]] = {}
    promises: tuple[str, ...] = ()


def plan_preemption(
    book: QueueCache, rules: PreemptionRules, uid: str, *, may_evict: bool = True, freed: Collection[str] = ()
) -> PreemptionPlan | None:
    """For the unit of which this pod is one. None if it has room, or if nobody who may go would make it.

    Promises without a node are taken back before any pod has to go: that costs nobody anything that runs. ``freed``:
    promises that are taken back already, and still counted."""
    book.flush()
    record = book.records.get(uid)
    branch = None if record is None else book.tree.get(record.counted_queue)
    if record is None or record.state not in WAITING_FOR_GRANT or branch is None or not branch.may_grant:
        return None
    uids, ask = _unit_of(record)
    missing = _less(book, _find_missing(book, record.counted_queue, ask), map(book.records.__getitem__, freed))
    if uid not in uids or not missing:
        return None
    spare = list(retractable_promises(book, record))
    promises = _choose(book, missing, spare)
    if promises:
        return PreemptionPlan(
            record.counted_queue, uids, (), promises=tuple(each.task.uid for unit in promises for each in unit)
        )
    left = _less(book, missing, (each for unit in spare for each in unit))
    room = _find_victims(book, rules, record, uids, ask, left) if may_evict else None
    if room is None or not spare:
        return room
    still = _less(book, missing, (book.records[each] for each in room.victims))
    needed = [each.task.uid for unit in _choose(book, still, spare) for each in unit]
    return msgspec.structs.replace(room, promises=tuple(needed))


def _find_victims(
    book: QueueCache,
    rules: PreemptionRules,
    record: PodRecord,
    uids: tuple[str, ...],
    ask: Ask,
    missing: dict[_Where, int],
) -> PreemptionPlan | None:
    top = record.counted_queue
    if rules.may_reclaim(book, record, dict(ask)):
        top = next(
            name for name in reversed(book.tree.path(record.counted_queue)) if any(name == at for at, _ in missing)
        )
    elif not rules.may_preempt(book, record):
        return None  # as in most full queues: no pod has to be checked
    there = [_resident(each) for each in sorted(_on_nodes_below(book, top), key=_least_important)]
    found = rules.find_victims(book, record, there, dict(ask))
    chosen = _choose(book, missing, [(book.records[each],) for each in found])
    if not chosen:
        return None
    rivals = {each: book.tree.path(book.records[each].counted_queue) for each in found}
    return PreemptionPlan(record.counted_queue, uids, tuple(each.task.uid for (each,) in chosen), missing, rivals)


def retractable_promises(book: QueueCache, record: PodRecord) -> Iterator[tuple[PodRecord, ...]]:
    """Promises of the pod's own queue that have no node and lower priority, the least important and the newest first.
    What a gang was promised is taken back whole, or beyond a minimum that is on nodes pod by pod."""
    ranks = book.priorities_without_node.get(record.counted_queue, ())
    priority = _priority(record)
    if not book.order.by_job_priority or not any(rank < priority for rank in ranks):
        return
    found: list[tuple[PodRecord, ...]] = []
    gangs: dict[tuple[str, str], Gang] = {}
    for each in book.promises_without_node[record.counted_queue].values():
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


def _whole(gang: Gang) -> tuple[PodRecord, ...]:
    """All that a gang was promised, if none of it is on a node and all of it can be taken back."""
    holding = (AllocationState.ALLOCATED, *PROMISED)
    promised = tuple(each for each in gang.members.values() if each.state in holding)
    return promised if all(each.is_idle and not each.is_retracting for each in promised) else ()


def _is_same_gang(record: PodRecord, other: PodRecord) -> bool:
    return record.gang is not None and record.gang is other.gang


def _priority(record: PodRecord) -> int:
    return record.task.priority if record.gang is None else record.gang.priority


def _unit_of(record: PodRecord) -> tuple[tuple[str, ...], Ask]:
    gang = record.gang
    if gang is None or record.state is AllocationState.GROWING:
        return (record.task.uid,), ask_of(record.wanted)
    return ((), ()) if gang.entry is None else (gang.entry[2], gang.entry[1])


def _find_missing(book: QueueCache, queue: str, ask: Ask) -> dict[_Where, int]:
    missing = {}
    for name in book.tree.path(queue):
        limits, account = book.tree.nodes[name].limits, book.ledger.account(name)
        for resource, amount in ask:
            if amount and resource in limits and account.used(resource) + amount > limits[resource]:
                missing[name, resource] = account.used(resource) + amount - limits[resource]
    return missing


def _on_nodes_below(book: QueueCache, queue: str) -> Iterator[PodRecord]:
    below = [queue]
    for name in below:
        yield from (each for each in book.on_nodes.get(name, {}).values() if each.is_bound)
        branch = book.tree.nodes.get(name)
        below += [] if branch is None else sorted(branch.children)


def _resident(record: PodRecord) -> VictimCandidate:
    task = record.task
    return VictimCandidate(task.uid, task.namespace, task.priority, task.preemptable)


def _least_important(record: PodRecord) -> tuple[int, float, str, str]:
    task = record.task
    return (task.priority, -task.created_s, task.namespace, task.name)


def _less(book: QueueCache, missing: dict[_Where, int], freed: Iterable[PodRecord]) -> dict[_Where, int]:
    """What is still missing then."""
    left = dict(missing)
    for record in freed:
        for at, amount in _gains(book, record, left).items():
            left[at] -= amount
    return {at: amount for at, amount in left.items() if amount > 0}


def _choose(
    book: QueueCache, missing: dict[_Where, int], candidates: Iterable[tuple[PodRecord, ...]]
) -> list[tuple[PodRecord, ...]]:
    """As many units as are needed, in order; none if all of them together are not enough."""
    left: dict[_Where, int] = dict(missing)
    chosen: list[tuple[tuple[PodRecord, ...], dict[_Where, int]]] = []
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


def _gains_of(book: QueueCache, unit: tuple[PodRecord, ...], missing: dict[_Where, int]) -> dict[_Where, int]:
    total: dict[_Where, int] = {}
    for record in unit:
        for at, amount in _gains(book, record, missing).items():
            total[at] = total.get(at, 0) + amount
    return total


def _gains(book: QueueCache, record: PodRecord, missing: dict[_Where, int]) -> dict[_Where, int]:
    path, held = set(book.tree.path(record.counted_queue)), record.counted
    return {(name, resource): held[resource] for name, resource in missing if name in path and held.get(resource)}


def starving(book: QueueCache) -> list[str]:
    """The first of each queue that grants things, where something changed since this was last asked: those who may ask
    others to go, if they have no room."""
    book.flush()
    names, book.queues_to_check = list(book.queues_to_check), {}
    found = []
    for name in names:
        unit, branch = book.grant_index.head(name), book.tree.get(name)
        if unit is None or branch is None or not branch.may_grant:
            continue
        entry = None if isinstance(unit, str) else book.gangs[unit].entry
        if isinstance(unit, str):
            found.append(unit)
        elif entry is not None:
            found.append(entry[2][0])
    return found
