"""Finds what would give a pod, or its gang, capacity in its queue, by dry runs on copies of the queue cache.

There are two remedies: larger capabilities, and pods that end. Each is applied to a fresh copy, followed by an
admission step with all other waiting units, and is reported only if the pod is granted its share. The search is for
single calls such as ``headgate explain``: a copy costs as much as the whole cache.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.api.task import NOTHING, TaskInfo
from headgate.capacity.cache.pod_record import PROMISED, AllocationState, Ask, PodRecord, ask_of
from headgate.capacity.grants import grants, wait_reasons
from headgate.capacity.grants.event_handlers import QueueEventHandlers
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.names import GATE
from headgate.capacity.ordering.queue_views import ENQUEUED_MARK

_DRY_RUN_TIME_S: Final = 4_000_000_000.0
"""The time of promises in a dry run: later than all real ones."""
_ALL: Final = 1 << 62
_MAX_PODS_TO_END: Final = 10
"""A longer list of pods that would have to end does not help users."""
_MAX_IDLE_STEPS: Final = 3
"""The maximum number of admission steps in a row in which nothing is missing and the pod is not granted: one step
enqueues a group, another takes back a promise, and the next grants."""
_MAX_COPIES: Final = 6
_QueueResource = tuple[str, str]
"""A queue and a resource."""


class MissingCapacity(msgspec.Struct, frozen=True):
    """In ``queue``, ``asked`` of the ``resource`` is more than ``used`` leaves of ``limit``."""

    queue: str
    resource: str
    asked: int
    used: int
    limit: int

    @property
    def lacking(self) -> int:
        return self.used + self.asked - self.limit


class CapabilityGrowth(msgspec.Struct, frozen=True):
    """The capability of a queue, as it is stated and as it would have to be."""

    queue: str
    resource: str
    stated: int
    needed: int


class QueueRemedy(msgspec.Struct, frozen=True):
    """``together``: how many pods are granted at once, the pod included. ``never``: the limits that are below what the
    pod, or its whole group, would use alone, so that freed capacity does not help. ``growth``: together it is enough,
    with all units that come first; empty if none was found. ``pods_to_end``: pods whose end is enough; empty if none
    were found."""

    missing: tuple[MissingCapacity, ...]
    together: int = 1
    never: tuple[MissingCapacity, ...] = ()
    growth: tuple[CapabilityGrowth, ...] = ()
    pods_to_end: tuple[str, ...] = ()


class QueueDryRun:
    """A copy of all mutable state for one attempt. Frozen values are shared."""

    def __init__(self, cache: QueueCache, handlers: QueueEventHandlers) -> None:
        shared: dict[int, Any] = {id(each): each for each in _frozen(cache)}
        self.cache, self.handlers = copy.deepcopy((cache, handlers), shared)

    def helps(self, uid: str) -> bool:
        """Whether the pod may be tried after an admission step."""
        grants.admit(self.cache, _DRY_RUN_TIME_S, _ALL)
        return wait_reasons.find_wait_reason(self.cache, self.cache.records[uid]) is None

    def missing(self, uid: str) -> tuple[MissingCapacity, ...]:
        self.cache.flush()
        return tuple(find_missing(self.cache, self.cache.records[uid]))

    def grow(self, growth: Iterable[CapabilityGrowth]) -> None:
        for each in growth:
            spec = self.cache.tree.nodes[each.queue].spec
            capability = {**spec.capability, each.resource: each.needed}
            self.handlers.replace_queue(msgspec.structs.replace(spec, capability=capability))


def _frozen(cache: QueueCache) -> Iterator[object]:
    """Values that are replaced and never changed."""
    yield from (NOTHING, cache.conf)
    for record in cache.records.values():
        yield from (record.task, record.task.requests, record.counted, record.wanted, record.promised)
    yield from (gang.spec for gang in cache.gangs.values())
    yield from (queue_node.queue for queue_node in cache.tree.nodes.values())


def find_remedy(cache: QueueCache, handlers: QueueEventHandlers, uid: str) -> QueueRemedy | None:
    """None if nothing is missing in its queue and its ancestors, so that neither limits nor freed capacity matter."""
    cache.flush()
    record = cache.records[uid]
    missing = tuple(find_missing(cache, record))
    if not missing:
        return None
    never = _find_never(cache, handlers, uid)
    pods_to_end = () if never else _find_pods_to_end(cache, handlers, uid)
    return QueueRemedy(missing, _together(record), never, _find_growth(cache, handlers, uid), pods_to_end)


def without_other_gates(cache: QueueCache, handlers: QueueEventHandlers, uid: str) -> QueueDryRun:
    """A dry run in which the pod has no gates except the queue gate."""
    dry_run = QueueDryRun(cache, handlers)
    task = dry_run.cache.records[uid].task
    dry_run.handlers.apply_task(msgspec.structs.replace(task, gates=tuple(each for each in task.gates if each == GATE)))
    dry_run.cache.flush()
    return dry_run


def find_missing(cache: QueueCache, record: PodRecord) -> Iterator[MissingCapacity]:
    """The shortages in its queue and its ancestors: for the unit that the pod is in or waits behind in its group; if
    that unit fits, for the pod itself."""
    if record.task.uid in cache.promises.exceeding_limit:
        yield from _find_promise_excess(cache, record)
        return
    queue, ask, is_enqueue = _unit_of(cache, record)
    found = list(_find_shortages(cache, queue, ask, is_enqueue))
    gang = record.gang
    if not found and gang is not None and gang.units_before(record.task.uid):
        found = list(_find_shortages(cache, queue, ask_of(record.task.requests), is_enqueue=False))
    yield from found


def _find_shortages(cache: QueueCache, queue: str, ask: Ask, is_enqueue: bool) -> Iterator[MissingCapacity]:
    for name in cache.tree.path(queue):
        queue_node, account = cache.tree.nodes.get(name), cache.ledger.account(name)
        limits = {} if queue_node is None else queue_node.limits
        for resource, amount in ask:
            if resource not in limits or not amount:
                continue
            used = account.used(resource)
            if is_enqueue:
                used = account.committed(resource)
            elif ENQUEUED_MARK in ask:
                used = max(used, account.committed(resource))
            if used + amount > limits[resource]:
                yield MissingCapacity(name, resource, amount, used, limits[resource])


def _unit_of(cache: QueueCache, record: PodRecord) -> tuple[str, Ask, bool]:
    """Queue, ask, and whether the unit is a group that waits to be enqueued."""
    gang = record.gang
    if gang is None or record.state is AllocationState.GROWING:
        return record.counted_queue, record.ask or cache.ask_of_pod(record), False
    if gang.enqueue_request is not None:
        return *gang.enqueue_request, True
    if gang.entry is not None:
        return gang.entry[0], gang.entry[1], False
    return record.counted_queue, (), False


def _together(record: PodRecord) -> int:
    gang = record.gang
    if gang is None or gang.entry is None or record.task.uid not in gang.entry[2]:
        return 1
    return len(gang.entry[2])


def _find_promise_excess(cache: QueueCache, record: PodRecord) -> Iterator[MissingCapacity]:
    """The excess over lowered limits that invalidates the pod's promise."""
    for name in cache.tree.path(record.counted_queue):
        queue_node, account = cache.tree.nodes.get(name), cache.ledger.account(name)
        for resource, limit in sorted(queue_node.limits.items()) if queue_node is not None else ():
            asked, used = record.promised.get(resource, 0), account.used(resource)
            if asked and used > limit:
                yield MissingCapacity(name, resource, asked, used - asked, limit)


def _find_never(cache: QueueCache, handlers: QueueEventHandlers, uid: str) -> tuple[MissingCapacity, ...]:
    """What is missing if only the pod and its group exist. Beyond the group's minimum only the amounts of one unit
    count, because other members may end first; otherwise the amounts of the whole group."""
    alone, record = QueueDryRun(cache, handlers), cache.records[uid]
    for each in list(cache.records.values()):
        if not _is_same_unit(each, record):
            alone.handlers.remove_task(each.task.uid)
    if alone.helps(uid):
        return ()
    missing, gang = alone.missing(uid), alone.cache.records[uid].gang
    if gang is not None and (not gang.missing_count or gang.units_before(uid)):
        return tuple(msgspec.structs.replace(each, used=0) for each in missing if each.asked > each.limit)
    return tuple(msgspec.structs.replace(each, asked=each.asked + each.used, used=0) for each in missing)


def _is_same_unit(each: PodRecord, record: PodRecord) -> bool:
    return each is record or (each.gang is not None and each.gang is record.gang)


def _find_growth(cache: QueueCache, handlers: QueueEventHandlers, uid: str) -> tuple[CapabilityGrowth, ...]:
    """Raise capabilities step by step, because units that come first use the added capacity; then check the sum of all
    steps on a fresh copy."""
    dry_run, needed, idle = QueueDryRun(cache, handlers), dict[_QueueResource, CapabilityGrowth](), 0
    for _ in range(2 * len(cache.records) + 2):
        missing = dry_run.missing(uid)
        for each in missing:
            needed |= _required_growth(dry_run.cache, each, needed)
        dry_run.grow(needed.values())
        if dry_run.helps(uid):
            break
        idle = 0 if missing else idle + 1
        if idle == _MAX_IDLE_STEPS:
            return ()
    for _ in range(_MAX_COPIES):
        growth = tuple(needed[key] for key in sorted(needed))
        fresh = QueueDryRun(cache, handlers)
        fresh.grow(growth)
        if fresh.helps(uid):
            return growth
        for each in fresh.missing(uid):  # with the whole growth at once other units may be granted than step by step
            needed |= _required_growth(fresh.cache, each, needed)
    return ()


def _required_growth(
    cache: QueueCache, missing: MissingCapacity, before: Mapping[_QueueResource, CapabilityGrowth]
) -> dict[_QueueResource, CapabilityGrowth]:
    """The growth of the capabilities, in the queue and its ancestors, that are too small for the missing amount. A
    queue may use the limit of its parent minus what is guaranteed to its siblings."""
    found = {}
    resource, needed = missing.resource, missing.used + missing.asked
    path = cache.tree.path(missing.queue)
    for name, above in zip(path, (*path[1:], ""), strict=True):
        queue_node, parent = cache.tree.nodes[name], cache.tree.nodes.get(above)
        stated = queue_node.spec.capability.get(resource)
        if stated is not None and stated < needed:
            first = before[name, resource].stated if (name, resource) in before else stated
            found[name, resource] = CapabilityGrowth(name, resource, first, needed)
        if parent is None or resource not in parent.limits:
            break
        needed += parent.guaranteed.get(resource, 0) - queue_node.spec.guarantee.get(resource, 0)
        if parent.limits[resource] >= needed:
            break
    return found


def _find_pods_to_end(cache: QueueCache, handlers: QueueEventHandlers, uid: str) -> tuple[str, ...]:
    """Pods whose end is enough, the newest first; only pods that hold a missing resource in a queue that lacks it."""
    dry_run, ended, idle = QueueDryRun(cache, handlers), dict[str, None](), 0
    holders = sorted(_holders(cache, cache.records[uid]), key=lambda each: (-each.created_s, each.namespace, each.name))
    while not dry_run.helps(uid):
        missing = dry_run.missing(uid)
        idle = 0 if missing else idle + 1
        if idle == _MAX_IDLE_STEPS:
            return ()
        while missing:
            chosen = next((each.uid for each in holders if _frees(dry_run.cache, each.uid, missing)), None)
            if chosen is None or len(ended) == _MAX_PODS_TO_END:
                return ()
            ended[chosen] = None
            dry_run.handlers.remove_task(chosen)
            missing = dry_run.missing(uid)
    fresh = QueueDryRun(cache, handlers)
    for each in ended:
        fresh.handlers.remove_task(each)
    if not fresh.helps(uid):
        return ()
    return tuple(f"{task.namespace}/{task.name}" for task in (cache.records[each].task for each in ended))


def _holders(cache: QueueCache, record: PodRecord) -> Iterator[TaskInfo]:
    """Pods with a node or a promise, without those of the pod's own group."""
    for each in cache.records.values():
        if not _is_same_unit(each, record) and (each.state is AllocationState.ALLOCATED or each.state in PROMISED):
            yield each.task


def _frees(cache: QueueCache, uid: str, missing: Iterable[MissingCapacity]) -> bool:
    record = cache.records.get(uid)
    if record is None:
        return False
    path = cache.tree.path(record.counted_queue)
    return any(each.queue in path and record.counted.get(each.resource) for each in missing)
