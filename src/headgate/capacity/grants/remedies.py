"""Finds what would give a pod, or its gang, capacity in its queue, by dry runs on copies of the queue cache.

There are two remedies: larger capabilities of queues, and pods that end. Each remedy is applied to a fresh copy of the
cache, an admission step with all other waiting units runs there, and the remedy is reported only if that step grants
the pod its capacity. The search is for single calls such as ``headgate explain``: a copy costs as much as the whole
cache.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.api.task import NOTHING, TaskInfo
from headgate.capacity.cache.pod_record import (
    NO_ORDER_KEYS,
    PROMISED,
    AllocationState,
    Ask,
    PodRecord,
    ask_of,
)
from headgate.capacity.grants import grants, wait_reasons
from headgate.capacity.grants.event_handlers import QueueEventHandlers
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.names import GATE
from headgate.capacity.ordering.queue_views import ENQUEUE_CHECK

_DRY_RUN_TIME_S: Final = 4_000_000_000.0
"""The time of promises in a dry run: later than all real ones."""
_NO_POD_LIMIT: Final = 1 << 62
_MAX_PODS_TO_END: Final = 10
"""A longer list of pods that would have to end does not help users."""
_MAX_STEPS_WITHOUT_SHORTAGE: Final = 3
"""The maximum number of admission steps in a row in which no capacity is missing and the pod gets no grant: one step
enqueues a group, another revokes a promise, and the next grants."""
_MAX_GROWTH_CHECKS: Final = 20
"""How often a growth of capabilities is checked on a fresh copy and increased again."""
_EXACT_GROWTH_CHECKS: Final = 6
"""After so many checks the increase doubles each time: many small units come first, and each takes what was added."""
_QueueResource = tuple[str, str]
"""The name of a queue, and a resource in it."""


class MissingCapacity(msgspec.Struct, frozen=True):
    """A shortage in ``queue``: ``asked`` and ``used`` of the ``resource`` are together more than ``limit``."""

    queue: str
    resource: str
    asked: int
    used: int
    limit: int

    @property
    def lacking(self) -> int:
        return self.used + self.asked - self.limit


class CapabilityGrowth(msgspec.Struct, frozen=True):
    """A capability of a queue: ``stated`` in its spec, and the amount ``needed``."""

    queue: str
    resource: str
    stated: int
    needed: int


class QueueRemedy(msgspec.Struct, frozen=True):
    """``missing``: the shortages now. ``together``: how many pods are granted in one step, the pod included.
    ``too_small_limits``: the limits that are below what the pod, or its whole group, would use alone, so that freed
    capacity does not help. ``growth``: the larger capabilities that are enough, also for all units that come first;
    empty if none were found. ``growth_alone``: the larger capabilities that are enough if only the pod and its group
    exist; only with ``too_small_limits``. ``pods_to_end``: pods whose completion or deletion is enough; empty if none
    were found."""

    missing: tuple[MissingCapacity, ...]
    together: int = 1
    too_small_limits: tuple[MissingCapacity, ...] = ()
    growth: tuple[CapabilityGrowth, ...] = ()
    growth_alone: tuple[CapabilityGrowth, ...] = ()
    pods_to_end: tuple[str, ...] = ()


class QueueDryRun:
    """A copy of the queue cache and its event handlers, to which one remedy is applied. Frozen values are shared."""

    def __init__(self, cache: QueueCache, handlers: QueueEventHandlers) -> None:
        shared: dict[int, Any] = {id(each): each for each in _frozen(cache)}
        self.cache, self.handlers = copy.deepcopy((cache, handlers), shared)

    def gets_capacity(self, uid: str) -> bool:
        """Run admission steps until all promises that end have ended. Returns whether the pod may be tried then."""
        self._admit()
        while ending := [each for each in self.cache.being_revoked.values() if each.pending_revocation]:
            for record in ending:
                self.cache.revoke(record, record.pending_revocation)
            self._admit()
        return wait_reasons.find_wait_reason(self.cache, self.cache.records[uid]) is None

    def _admit(self) -> None:
        grants.admit(self.cache, _DRY_RUN_TIME_S, _NO_POD_LIMIT, self.cache.time_of_day_s)

    def missing(self, uid: str) -> tuple[MissingCapacity, ...]:
        self.cache.process_changes()
        return tuple(find_missing(self.cache, self.cache.records[uid]))

    def raise_capabilities(self, growth: Iterable[CapabilityGrowth]) -> None:
        for each in growth:
            spec = self.cache.tree.queues[each.queue].spec
            capability = {**spec.capability, each.resource: each.needed}
            self.handlers.replace_queue(msgspec.structs.replace(spec, capability=capability))


def _frozen(cache: QueueCache) -> Iterator[object]:
    """Values that are replaced and never changed."""
    yield from (NOTHING, NO_ORDER_KEYS, cache.conf)
    for record in cache.records.values():
        yield from (
            record.task,
            record.task.requests,
            record.counted_amounts,
            record.waiting_amounts,
            record.promised_amounts,
        )
    yield from (gang.spec for gang in cache.gangs.values())
    yield from (tree_queue.queue for tree_queue in cache.tree.queues.values())


def find_remedy(cache: QueueCache, handlers: QueueEventHandlers, uid: str) -> QueueRemedy | None:
    """The remedy for the pod; None if no capacity is missing in its queue and its ancestors."""
    cache.process_changes()
    record = cache.records[uid]
    missing = tuple(find_missing(cache, record))
    if not missing:
        return None
    too_small_limits = _find_too_small_limits(cache, handlers, uid)
    alone = _alone(cache, handlers, uid)
    return QueueRemedy(
        missing,
        _unit_size(record),
        too_small_limits,
        _find_growth(cache, handlers, uid),
        _find_growth(alone.cache, alone.handlers, uid) if too_small_limits else (),
        () if too_small_limits else _find_pods_to_end(cache, handlers, uid),
    )


def find_remedy_behind_gates(cache: QueueCache, handlers: QueueEventHandlers, uid: str) -> QueueRemedy | None:
    """As :func:`find_remedy`, as if the pod had no gates of other components."""
    cache.process_changes()
    if uid not in cache.records:
        return None
    dry_run = without_other_gates(cache, handlers, uid)
    return find_remedy(dry_run.cache, dry_run.handlers, uid)


def without_other_gates(cache: QueueCache, handlers: QueueEventHandlers, uid: str) -> QueueDryRun:
    """A dry run in which the pod has no gates except the queue gate."""
    return with_gates(cache, handlers, uid, tuple(each for each in cache.records[uid].task.gates if each == GATE))


def with_gates(cache: QueueCache, handlers: QueueEventHandlers, uid: str, gates: tuple[str, ...]) -> QueueDryRun:
    """A dry run in which the pod has these gates."""
    dry_run = QueueDryRun(cache, handlers)
    task = dry_run.cache.records[uid].task
    dry_run.handlers.apply_task(msgspec.structs.replace(task, gates=gates))
    dry_run.cache.process_changes()
    return dry_run


def find_missing(cache: QueueCache, record: PodRecord) -> Iterator[MissingCapacity]:
    """The shortages in the pod's queue and its ancestors. For a member of a group these are the shortages of the next
    unit of the group, which contains the pod or comes before it; if that unit fits, those of the pod itself."""
    if record.task.uid in cache.promises.exceeding_limit:
        yield from _find_promise_excess(cache, record)
        return
    queue, ask, is_enqueue = _next_unit_of(cache, record)
    found = list(_find_shortages(cache, queue, ask, is_enqueue))
    gang = record.gang
    if not found and gang is not None and gang.units_before(record.task.uid):
        found = list(_find_shortages(cache, queue, ask_of(record.task.requests), is_enqueue=False))
    yield from found


def _find_shortages(cache: QueueCache, queue: str, ask: Ask, is_enqueue: bool) -> Iterator[MissingCapacity]:
    for name in cache.tree.path(queue):
        tree_queue, account = cache.tree.queues.get(name), cache.ledger.account(name)
        limits = {} if tree_queue is None else tree_queue.limits
        for resource, amount in ask:
            if resource not in limits or not amount:
                continue
            used = account.allocated_plus_reserved(resource)
            if is_enqueue:
                used = account.committed(resource)
            elif ENQUEUE_CHECK in ask:  # the unit must also fit beside the amounts that are set aside for groups
                used = max(used, account.committed(resource))
            if used + amount > limits[resource]:
                yield MissingCapacity(name, resource, amount, used, limits[resource])


def _next_unit_of(cache: QueueCache, record: PodRecord) -> tuple[str, Ask, bool]:
    """The queue and the ask of the unit that is granted or enqueued next for this pod, and whether that is the
    enqueueing of its group."""
    gang = record.gang
    if gang is None or record.state is AllocationState.RESIZED:
        return record.queue, record.ask or cache.ask_of_pod(record), False
    if gang.enqueue_request is not None:
        return *gang.enqueue_request, True
    if gang.grant_request is not None:
        return gang.grant_request.queue, gang.grant_request.ask, False
    return record.queue, (), False


def _unit_size(record: PodRecord) -> int:
    """How many pods are granted capacity together with this pod, itself included."""
    gang = record.gang
    if gang is None or gang.grant_request is None or record.task.uid not in gang.grant_request.uids:
        return 1
    return len(gang.grant_request.uids)


def _find_promise_excess(cache: QueueCache, record: PodRecord) -> Iterator[MissingCapacity]:
    """The shortages because of which the pod's promise exceeds a lowered limit."""
    for name in cache.tree.path(record.queue):
        tree_queue, account = cache.tree.queues.get(name), cache.ledger.account(name)
        for resource, limit in sorted(tree_queue.limits.items()) if tree_queue is not None else ():
            asked, used = record.promised_amounts.get(resource, 0), account.allocated_plus_reserved(resource)
            if asked and used > limit:
                yield MissingCapacity(name, resource, asked, used - asked, limit)


def _find_too_small_limits(cache: QueueCache, handlers: QueueEventHandlers, uid: str) -> tuple[MissingCapacity, ...]:
    """The shortages that would remain if only the pod and its group existed. Until the group has its minimum, its
    members are counted together; beyond the minimum only one unit counts, because other members may end first."""
    alone = _alone(cache, handlers, uid)
    if alone.gets_capacity(uid):
        return ()
    missing, gang = alone.missing(uid), alone.cache.records[uid].gang
    if gang is not None and (not gang.missing_count or gang.units_before(uid)):
        return tuple(msgspec.structs.replace(each, used=0) for each in missing if each.asked > each.limit)
    return tuple(msgspec.structs.replace(each, asked=each.asked + each.used, used=0) for each in missing)


def _alone(cache: QueueCache, handlers: QueueEventHandlers, uid: str) -> QueueDryRun:
    """A dry run in which only the pod and its group exist."""
    alone, record = QueueDryRun(cache, handlers), cache.records[uid]
    for each in list(cache.records.values()):
        if not _is_same_unit(each, record):
            alone.handlers.remove_task(each.task.uid)
    return alone


def _is_same_unit(each: PodRecord, record: PodRecord) -> bool:
    return each is record or (each.gang is not None and each.gang is record.gang)


def _find_growth(cache: QueueCache, handlers: QueueEventHandlers, uid: str) -> tuple[CapabilityGrowth, ...]:
    """Raise capabilities step by step, because units that come first use the added capacity; then check the sum of all
    steps on a fresh copy."""
    dry_run, needed, steps_without_shortage = QueueDryRun(cache, handlers), dict[_QueueResource, CapabilityGrowth](), 0
    for _ in range(2 * len(cache.records) + 2):
        missing = dry_run.missing(uid)
        for each in missing:
            needed |= _required_growth(dry_run.cache, each, needed)
        dry_run.raise_capabilities(needed.values())
        if dry_run.gets_capacity(uid):
            break
        steps_without_shortage = 0 if missing else steps_without_shortage + 1
        if steps_without_shortage == _MAX_STEPS_WITHOUT_SHORTAGE:
            return ()
    for number in range(_MAX_GROWTH_CHECKS):
        growth = tuple(needed[key] for key in sorted(needed))
        fresh = QueueDryRun(cache, handlers)
        fresh.raise_capabilities(growth)
        if fresh.gets_capacity(uid):
            return growth
        for each in fresh.missing(uid):  # with the whole growth at once other units may be granted than step by step
            asked = each.asked << max(number - _EXACT_GROWTH_CHECKS, 0)
            needed |= _required_growth(fresh.cache, msgspec.structs.replace(each, asked=asked), needed)
    return ()


def _required_growth(
    cache: QueueCache, missing: MissingCapacity, found_before: Mapping[_QueueResource, CapabilityGrowth]
) -> dict[_QueueResource, CapabilityGrowth]:
    """The larger values of the capabilities, in the queue and its ancestors, that are too small for the missing amount.
    A queue may use the limit of its parent minus the guarantees of its siblings."""
    found = {}
    resource, needed = missing.resource, missing.used + missing.asked
    path = cache.tree.path(missing.queue)
    for name, above in zip(path, (*path[1:], ""), strict=True):
        tree_queue, parent = cache.tree.queues[name], cache.tree.queues.get(above)
        stated = tree_queue.spec.capability.get(resource)
        if stated is not None and stated < needed:
            original = found_before[name, resource].stated if (name, resource) in found_before else stated
            found[name, resource] = CapabilityGrowth(name, resource, original, needed)
        if parent is None or resource not in parent.limits:
            break
        needed += parent.guaranteed.get(resource, 0) - tree_queue.spec.guarantee.get(resource, 0)
        if parent.limits[resource] >= needed:
            break
    return found


def _find_pods_to_end(cache: QueueCache, handlers: QueueEventHandlers, uid: str) -> tuple[str, ...]:
    """The pods whose end frees enough capacity, as ``namespace/name``, the newest first. Only pods that use a missing
    resource in a queue where it is missing are considered."""
    dry_run, ended, steps_without_shortage = QueueDryRun(cache, handlers), dict[str, None](), 0
    holders = sorted(
        _other_holders(cache, cache.records[uid]), key=lambda each: (-each.created_s, each.namespace, each.name)
    )
    while not dry_run.gets_capacity(uid):
        missing = dry_run.missing(uid)
        steps_without_shortage = 0 if missing else steps_without_shortage + 1
        if steps_without_shortage == _MAX_STEPS_WITHOUT_SHORTAGE:
            return ()
        while missing:
            chosen = next((each.uid for each in holders if _holds_missing(dry_run.cache, each.uid, missing)), None)
            if chosen is None or len(ended) == _MAX_PODS_TO_END:
                return ()
            ended[chosen] = None
            dry_run.handlers.remove_task(chosen)
            missing = dry_run.missing(uid)
    fresh = QueueDryRun(cache, handlers)
    for each in ended:
        fresh.handlers.remove_task(each)
    if not fresh.gets_capacity(uid):
        return ()
    return tuple(f"{task.namespace}/{task.name}" for task in (cache.records[each].task for each in ended))


def _other_holders(cache: QueueCache, record: PodRecord) -> Iterator[TaskInfo]:
    """Pods with a node or a promise, without those of the pod's own group."""
    for each in cache.records.values():
        if not _is_same_unit(each, record) and (each.state is AllocationState.ALLOCATED or each.state in PROMISED):
            yield each.task


def _holds_missing(cache: QueueCache, uid: str, missing: Iterable[MissingCapacity]) -> bool:
    record = cache.records.get(uid)
    if record is None:
        return False
    path = cache.tree.path(record.queue)
    return any(each.queue in path and record.counted_amounts.get(each.resource) for each in missing)
