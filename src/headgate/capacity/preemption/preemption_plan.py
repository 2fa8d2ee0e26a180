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

_QueueResource = tuple[str, str]
"""A queue and a resource."""


class PreemptionPlan(msgspec.Struct, frozen=True):
    """``preemptor_uids`` fit if ``victims`` end and the promises of ``promises`` are revoked. Other victims are
    possible: ``alternatives`` are all eligible pods with the queues in which each counts, and ``missing`` is what must
    become free on nodes, by queue and resource, after the promises are revoked."""

    queue: str
    preemptor_uids: tuple[str, ...]
    victims: tuple[str, ...]
    missing: Mapping[_QueueResource, int] = {}
    alternatives: Mapping[str, tuple[str, ...]] = {}
    promises: tuple[str, ...] = ()


def plan_preemption(
    cache: QueueCache, rules: PreemptionRules, uid: str, *, may_evict: bool = True, freed: Collection[str] = ()
) -> PreemptionPlan | None:
    """A plan for the unit of this pod. None if the unit fits, or if all eligible pods together are not enough.

    Promises without a node are revoked before any pod is preempted, because that stops no running pod. ``freed``:
    promises that are being revoked and still count as used."""
    cache.flush()
    record = cache.records.get(uid)
    queue_node = None if record is None else cache.tree.get(record.counted_queue)
    if record is None or record.state not in WAITING_FOR_GRANT or queue_node is None or not queue_node.may_grant:
        return None
    uids, ask = _unit_of(record)
    missing = _subtract(cache, _find_missing(cache, record.counted_queue, ask), map(cache.records.__getitem__, freed))
    if uid not in uids or not missing:
        return None
    retractable = list(retractable_promises(cache, record))
    promises = _choose(cache, missing, retractable)
    if promises:
        return PreemptionPlan(
            record.counted_queue, uids, (), promises=tuple(each.task.uid for unit in promises for each in unit)
        )
    remaining = _subtract(cache, missing, (each for unit in retractable for each in unit))
    plan = _find_victims(cache, rules, record, uids, ask, remaining) if may_evict else None
    if plan is None or not retractable:
        return plan
    still_missing = _subtract(cache, missing, (cache.records[each] for each in plan.victims))
    needed = [each.task.uid for unit in _choose(cache, still_missing, retractable) for each in unit]
    return msgspec.structs.replace(plan, promises=tuple(needed))


def _find_victims(
    cache: QueueCache,
    rules: PreemptionRules,
    record: PodRecord,
    uids: tuple[str, ...],
    ask: Ask,
    missing: dict[_QueueResource, int],
) -> PreemptionPlan | None:
    top = record.counted_queue
    if rules.may_reclaim(cache, record, dict(ask)):
        top = next(
            name for name in reversed(cache.tree.path(record.counted_queue)) if any(name == key for key, _ in missing)
        )
    elif not rules.may_preempt(cache, record):
        return None  # as in most full queues: no pod has to be checked
    candidates = [_candidate(each) for each in sorted(_on_nodes_below(cache, top), key=_least_important)]
    found = rules.find_victims(cache, record, candidates, dict(ask))
    chosen = _choose(cache, missing, [(cache.records[each],) for each in found])
    if not chosen:
        return None
    alternatives = {each: cache.tree.path(cache.records[each].counted_queue) for each in found}
    return PreemptionPlan(record.counted_queue, uids, tuple(each.task.uid for (each,) in chosen), missing, alternatives)


def retractable_promises(cache: QueueCache, record: PodRecord) -> Iterator[tuple[PodRecord, ...]]:
    """Promises in the pod's queue without a node and with lower priority, the lowest priority and the newest first.
    The promises of a gang are one unit; if its minimum is on nodes, each further promise is a unit."""
    priorities = cache.priorities_without_node.get(record.counted_queue, ())
    priority = _priority(record)
    if not cache.order.by_job_priority or not any(other_priority < priority for other_priority in priorities):
        return
    found: list[tuple[PodRecord, ...]] = []
    gangs: dict[tuple[str, str], Gang] = {}
    for each in cache.promises_without_node[record.counted_queue].values():
        if each.is_retracting:
            continue
        if each.gang is None or each.gang.is_placed:
            found.append((each,))
        elif each.gang is not record.gang:
            gangs[each.gang.key] = each.gang
    found += [promised for gang in gangs.values() if (promised := _retractable_gang(gang))]
    lower = [unit for unit in found if _priority(unit[0]) < priority and not _is_same_gang(unit[0], record)]
    newest = sorted(lower, key=lambda unit: (unit[0].task.namespace, unit[0].task.name))
    newest.sort(key=lambda unit: unit[0].promised_at, reverse=True)
    yield from sorted(newest, key=lambda unit: _priority(unit[0]))


def _retractable_gang(gang: Gang) -> tuple[PodRecord, ...]:
    """All promises of a gang, if none of its members has a node and all promises can be revoked."""
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


def _find_missing(cache: QueueCache, queue: str, ask: Ask) -> dict[_QueueResource, int]:
    missing = {}
    for name in cache.tree.path(queue):
        limits, account = cache.tree.nodes[name].limits, cache.ledger.account(name)
        for resource, amount in ask:
            if amount and resource in limits and account.used(resource) + amount > limits[resource]:
                missing[name, resource] = account.used(resource) + amount - limits[resource]
    return missing


def _on_nodes_below(cache: QueueCache, queue: str) -> Iterator[PodRecord]:
    below = [queue]
    for name in below:
        yield from (each for each in cache.on_nodes.get(name, {}).values() if each.is_bound)
        queue_node = cache.tree.nodes.get(name)
        below += [] if queue_node is None else sorted(queue_node.children)


def _candidate(record: PodRecord) -> VictimCandidate:
    task = record.task
    return VictimCandidate(task.uid, task.namespace, task.priority, task.preemptable)


def _least_important(record: PodRecord) -> tuple[int, float, str, str]:
    task = record.task
    return (task.priority, -task.created_s, task.namespace, task.name)


def _subtract(
    cache: QueueCache, missing: dict[_QueueResource, int], freed: Iterable[PodRecord]
) -> dict[_QueueResource, int]:
    """What is still missing when ``freed`` pods have returned their share."""
    remaining = dict(missing)
    for record in freed:
        for key, amount in _gains(cache, record, remaining).items():
            remaining[key] -= amount
    return {key: amount for key, amount in remaining.items() if amount > 0}


def _choose(
    cache: QueueCache, missing: dict[_QueueResource, int], candidates: Iterable[tuple[PodRecord, ...]]
) -> list[tuple[PodRecord, ...]]:
    """The first units that are enough together, without superfluous ones; none if all of them are not enough."""
    remaining: dict[_QueueResource, int] = dict(missing)
    chosen: list[tuple[tuple[PodRecord, ...], dict[_QueueResource, int]]] = []
    for unit in candidates:
        gains = _gains_of(cache, unit, remaining)
        if any(remaining[key] > 0 for key in gains):
            chosen.append((unit, gains))
            for key, amount in gains.items():
                remaining[key] -= amount
        if all(amount <= 0 for amount in remaining.values()):
            break
    else:
        return []
    for pair in reversed(list(chosen)):
        if all(remaining[key] + amount <= 0 for key, amount in pair[1].items()):
            chosen.remove(pair)
            for key, amount in pair[1].items():
                remaining[key] += amount
    return [unit for unit, _ in chosen]


def _gains_of(
    cache: QueueCache, unit: tuple[PodRecord, ...], missing: dict[_QueueResource, int]
) -> dict[_QueueResource, int]:
    total: dict[_QueueResource, int] = {}
    for record in unit:
        for key, amount in _gains(cache, record, missing).items():
            total[key] = total.get(key, 0) + amount
    return total


def _gains(cache: QueueCache, record: PodRecord, missing: dict[_QueueResource, int]) -> dict[_QueueResource, int]:
    path, held = set(cache.tree.path(record.counted_queue)), record.counted
    return {(name, resource): held[resource] for name, resource in missing if name in path and held.get(resource)}


def starving_pods(cache: QueueCache) -> list[str]:
    """The head of each queue that may grant and that changed since the last call. If it does not fit, it may
    preempt."""
    cache.flush()
    names, cache.queues_to_check = list(cache.queues_to_check), {}
    found = []
    for name in names:
        unit, queue_node = cache.grant_index.head(name), cache.tree.get(name)
        if unit is None or queue_node is None or not queue_node.may_grant:
            continue
        entry = None if isinstance(unit, str) else cache.gangs[unit].entry
        if isinstance(unit, str):
            found.append(unit)
        elif entry is not None:
            found.append(entry[2][0])
    return found
