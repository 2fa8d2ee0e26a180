"""Plans preemption for pods that wait for their queue: which promises and which pods must go so that the queue has
capacity.

A plan prefers to revoke promises of lower priority for which no node was found (:func:`find_revocable_promises`),
because that stops no running pod. If all of them together are not enough, victims are chosen as if all of them were
revoked; then the plan keeps only the promises that are still needed beside these victims. ``victim_rules.py`` decides
which pods may be victims. A victim uses a resource that is missing in its queue or an ancestor; pods of the preemptor's
queue and pods of low priority are chosen first, and victims that turn out not to be needed are dropped.
``scheduling/preemption/queue_preemption.py`` finds a node for the preemptor.

A *unit* of records here is what is revoked or preempted together: one pod, or all promised pods of a gang.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from headgate.capacity.cache.gang import Gang
from headgate.capacity.cache.pod_record import PROMISED, AllocationState, Ask, PodRecord, ask_of
from headgate.capacity.cache.pseudo_resources import requests_in
from headgate.capacity.grants.head_of_line import may_preempt
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.preemption.victim_rules import PreemptionRules, VictimCandidate

_QueueResource = tuple[str, str]
"""The name of a queue, and a resource in it."""
_MissingAmounts = dict[_QueueResource, int]
"""What the preemptor requests beyond the limits of its queue and the queue's ancestors."""


class PreemptionPlan(msgspec.Struct, frozen=True):
    """``queue`` has capacity for the pods ``preemptor_uids``, which are granted together, when the pods ``victims`` are
    gone and the promises to the pods ``promises`` are revoked; all are uids. A caller may choose other victims, for
    example to free one node: ``alternatives`` has all eligible pods, each with its queue and that queue's ancestors,
    and ``missing`` is what the victims must free, by queue and resource, after the promises are revoked."""

    queue: str
    preemptor_uids: tuple[str, ...]
    victims: tuple[str, ...]
    missing: Mapping[_QueueResource, int] = {}
    alternatives: Mapping[str, tuple[str, ...]] = {}
    promises: tuple[str, ...] = ()


def plan_preemption(
    cache: QueueCache,
    rules: PreemptionRules,
    uid: str,
    *,
    may_evict: bool = True,
    already_revoked: Collection[str] = (),
) -> PreemptionPlan | None:
    """A plan for the unit that this pod is granted with. None if the unit fits, if all revocable promises and all
    eligible pods together are not enough, or if the unit would be held back for the first in line.

    ``may_evict``: whether the plan may have victims. ``already_revoked``: pods whose stamps were already removed for
    this unit; the ledger counts their promises until :meth:`QueueEngine.revocation_confirmed`."""
    cache.process_changes()
    record = cache.records.get(uid)
    tree_queue = None if record is None else cache.tree.get(record.queue)
    if record is None or not record.waits_for_grant or tree_queue is None or not tree_queue.may_grant:
        return None
    uids, ask = _next_unit_of(record)
    # Promises that end for another reason are free soon: nothing is revoked or preempted for their capacity.
    ending = [each for each in cache.being_revoked.values() if each.pending_revocation or each.pending_lapse]
    revoked = (*map(cache.records.__getitem__, already_revoked), *ending)
    missing = _subtract_freed(cache, _find_missing(cache, record.queue, ask), revoked)
    waiting = (cache.records[each] for each in uids)
    if uid not in uids or not missing or cache.windows.find_full(record.queue, cache.count_in_window(waiting)):
        return None
    if not may_preempt(cache, record):
        return None
    revocable = list(find_revocable_promises(cache, record))
    enough_promises = _choose_needed(cache, missing, revocable)
    if enough_promises:
        return PreemptionPlan(record.queue, uids, (), promises=_uids_of(enough_promises))
    missing_without_promises = _subtract_freed(cache, missing, (each for unit in revocable for each in unit))
    plan = _plan_victims(cache, rules, record, uids, ask, missing_without_promises) if may_evict else None
    if plan is None or not revocable:
        return plan
    missing_without_victims = _subtract_freed(cache, missing, (cache.records[each] for each in plan.victims))
    needed_promises = _choose_needed(cache, missing_without_victims, revocable)
    return msgspec.structs.replace(plan, promises=_uids_of(needed_promises))


def _uids_of(units: Iterable[tuple[PodRecord, ...]]) -> tuple[str, ...]:
    return tuple(each.task.uid for unit in units for each in unit)


def _plan_victims(
    cache: QueueCache,
    rules: PreemptionRules,
    record: PodRecord,
    uids: tuple[str, ...],
    ask: Ask,
    missing: _MissingAmounts,
) -> PreemptionPlan | None:
    """A plan with victims that free the missing amounts for the unit ``uids``; None if there are not enough.

    If the pod may reclaim from other queues, the candidates are the pods in and below the highest ancestor that lacks
    capacity; otherwise they are the pods of the pod's own queue."""
    searched_queue, requests = record.queue, requests_in(ask)
    if rules.may_reclaim(cache, record, requests):
        searched_queue = next(
            name for name in reversed(cache.tree.path(record.queue)) if any(name == queue for queue, _ in missing)
        )
    elif not rules.may_preempt(cache, record):
        return None  # the usual case in a full queue: no pod has to be checked
    candidates = [_candidate(each) for each in sorted(_pods_on_nodes(cache, searched_queue), key=_least_important)]
    eligible = rules.find_victims(cache, record, candidates, requests)
    chosen = _choose_needed(cache, missing, [(cache.records[each],) for each in eligible])
    if not chosen:
        return None
    alternatives = {each: cache.tree.path(cache.records[each].queue) for each in eligible}
    return PreemptionPlan(record.queue, uids, _uids_of(chosen), missing, alternatives)


def find_revocable_promises(cache: QueueCache, record: PodRecord) -> Iterator[tuple[PodRecord, ...]]:
    """The promised pods whose promises may be revoked for this pod: pods in its queue that have a lower priority and
    fit no node. The lowest priority is first, and among equals the newest promise. The pods of a gang are one unit; if
    the minimum of the gang is on nodes, each further pod is a unit."""
    priority = _priority(record)
    other_priorities = cache.revocable_priorities.get(record.queue, ())
    if not cache.order.by_job_priority or not any(other < priority for other in other_priorities):
        return
    found: list[tuple[PodRecord, ...]] = []
    gangs: dict[tuple[str, str], Gang] = {}
    for each in cache.revocable_promises[record.queue].values():
        if each.is_being_revoked:
            continue
        if each.gang is None or each.gang.is_placed:
            found.append((each,))
        elif each.gang is not record.gang:
            gangs[each.gang.key] = each.gang
    found += [promised for gang in gangs.values() if (promised := _revocable_members(gang))]
    lower = [unit for unit in found if _priority(unit[0]) < priority and not _is_same_gang(unit[0], record)]
    newest_first = sorted(lower, key=lambda unit: (unit[0].task.namespace, unit[0].task.name))
    newest_first.sort(key=lambda unit: unit[0].promised_at, reverse=True)
    yield from sorted(newest_first, key=lambda unit: _priority(unit[0]))


def _revocable_members(gang: Gang) -> tuple[PodRecord, ...]:
    """All promised members of a gang, if no member has a node and all promises can be revoked; otherwise empty."""
    states = (AllocationState.ALLOCATED, *PROMISED)
    holders = tuple(each for each in gang.members.values() if each.state in states)
    return holders if all(each.has_revocable_promise and not each.is_being_revoked for each in holders) else ()


def _is_same_gang(record: PodRecord, other: PodRecord) -> bool:
    return record.gang is not None and record.gang is other.gang


def _priority(record: PodRecord) -> int:
    """The priority of the pod's gang; of the pod itself if it has no gang."""
    return record.task.priority if record.gang is None else record.gang.priority


def _next_unit_of(record: PodRecord) -> tuple[tuple[str, ...], Ask]:
    """The uids and the ask of the pod as a unit by itself, or of the next unit of its gang; both are empty if the gang
    has no unit that can be granted."""
    gang = record.gang
    if gang is None or record.state is AllocationState.RESIZED:
        return (record.task.uid,), ask_of(record.waiting_amounts)
    return ((), ()) if gang.grant_request is None else (gang.grant_request.uids, gang.grant_request.ask)


def _find_missing(cache: QueueCache, queue: str, ask: Ask) -> _MissingAmounts:
    missing = {}
    for name in cache.tree.path(queue):
        limits, account = cache.tree.queues[name].limits, cache.ledger.account(name)
        for resource, amount in ask:
            if amount and resource in limits and account.allocated_plus_reserved(resource) + amount > limits[resource]:
                missing[name, resource] = account.allocated_plus_reserved(resource) + amount - limits[resource]
    return missing


def _pods_on_nodes(cache: QueueCache, queue: str) -> Iterator[PodRecord]:
    """The pods of this queue and of all queues below it that the API shows on a node."""
    names = [queue]
    for name in names:
        yield from (each for each in cache.on_nodes.get(name, {}).values() if each.is_bound)
        tree_queue = cache.tree.queues.get(name)
        names += [] if tree_queue is None else sorted(tree_queue.children)


def _candidate(record: PodRecord) -> VictimCandidate:
    task = record.task
    return VictimCandidate(task.uid, task.namespace, task.priority, task.preemptable)


def _least_important(record: PodRecord) -> tuple[int, float, str, str]:
    """A sort key: the lowest priority first, and among equals the newest pod."""
    task = record.task
    return (task.priority, -task.created_s, task.namespace, task.name)


def _subtract_freed(cache: QueueCache, missing: _MissingAmounts, removed: Iterable[PodRecord]) -> _MissingAmounts:
    """What is still missing when the ``removed`` pods hold nothing any more."""
    remaining = dict(missing)
    for record in removed:
        for key, amount in _amounts_freed(cache, record, remaining).items():
            remaining[key] -= amount
    return {key: amount for key, amount in remaining.items() if amount > 0}


def _choose_needed(
    cache: QueueCache, missing: _MissingAmounts, candidates: Iterable[tuple[PodRecord, ...]]
) -> list[tuple[PodRecord, ...]]:
    """The first candidate units that together free all that is missing, without units that are not needed; empty if
    all candidates together are not enough."""
    remaining = dict(missing)
    chosen: list[tuple[tuple[PodRecord, ...], _MissingAmounts]] = []
    for unit in candidates:
        freed_amounts = _amounts_freed_by_unit(cache, unit, remaining)
        if any(remaining[key] > 0 for key in freed_amounts):
            chosen.append((unit, freed_amounts))
            for key, amount in freed_amounts.items():
                remaining[key] -= amount
        if all(amount <= 0 for amount in remaining.values()):
            break
    else:
        return []
    for unit, freed_amounts in reversed(list(chosen)):
        if all(remaining[key] + amount <= 0 for key, amount in freed_amounts.items()):
            chosen.remove((unit, freed_amounts))
            for key, amount in freed_amounts.items():
                remaining[key] += amount
    return [unit for unit, _ in chosen]


def _amounts_freed_by_unit(cache: QueueCache, unit: tuple[PodRecord, ...], missing: _MissingAmounts) -> _MissingAmounts:
    total: _MissingAmounts = {}
    for record in unit:
        for key, amount in _amounts_freed(cache, record, missing).items():
            total[key] = total.get(key, 0) + amount
    return total


def _amounts_freed(cache: QueueCache, record: PodRecord, missing: _MissingAmounts) -> _MissingAmounts:
    """What this pod holds of the missing resources, in its queue and that queue's ancestors."""
    path, held = set(cache.tree.path(record.queue)), record.counted_amounts
    return {(name, resource): held[resource] for name, resource in missing if name in path and held.get(resource)}


def starving_pods(cache: QueueCache) -> list[str]:
    """The first waiting pod of each queue that changed since the last call and that may grant capacity. These are the
    pods for which a preemption plan may be useful."""
    cache.process_changes()
    changed_queues, cache.queues_to_check = list(cache.queues_to_check), {}
    found = []
    for name in changed_queues:
        unit, tree_queue = cache.grant_index.head(name), cache.tree.get(name)
        if unit is None or tree_queue is None or not tree_queue.may_grant:
            continue
        request = None if isinstance(unit, str) else cache.gangs[unit].grant_request
        if isinstance(unit, str):
            found.append(unit)
        elif request is not None:
            found.append(request.uids[0])
    return found
