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

_LATER_S: Final = 4_000_000_000.0
"""When promises of a trial are made: after all that were made before."""
_ALL: Final = 1 << 62
_MAX_PODS_TO_END: Final = 10
"""A longer list of pods that would have to end is no advice."""
_MOST_IDLE: Final = 3
"""Admission steps in which nothing is missing and nothing is granted: a group is let in by one, and granted by the
next; a promise that cannot be kept is taken back in between."""
_MOST_COPIES: Final = 6
_Where = tuple[str, str]
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

    def __init__(self, book: QueueCache, intake: QueueEventHandlers) -> None:
        shared: dict[int, Any] = {id(each): each for each in _frozen(book)}
        self.book, self.intake = copy.deepcopy((book, intake), shared)

    def helps(self, uid: str) -> bool:
        """Whether the pod may be tried after an admission step."""
        grants.admit(self.book, _LATER_S, _ALL)
        return wait_reasons.find_wait_reason(self.book, self.book.records[uid]) is None

    def missing(self, uid: str) -> tuple[MissingCapacity, ...]:
        self.book.flush()
        return tuple(find_missing(self.book, self.book.records[uid]))

    def grow(self, growth: Iterable[CapabilityGrowth]) -> None:
        for each in growth:
            spec = self.book.tree.nodes[each.queue].spec
            capability = {**spec.capability, each.resource: each.needed}
            self.intake.replace_queue(msgspec.structs.replace(spec, capability=capability))


def _frozen(book: QueueCache) -> Iterator[object]:
    """Values that are replaced and never changed."""
    yield from (NOTHING, book.settings)
    for record in book.records.values():
        yield from (record.task, record.task.requests, record.counted, record.wanted, record.promised)
    yield from (gang.spec for gang in book.gangs.values())
    yield from (branch.queue for branch in book.tree.nodes.values())


def find_remedy(book: QueueCache, intake: QueueEventHandlers, uid: str) -> QueueRemedy | None:
    """None if nothing is missing in its queue or above it, so that neither room nor limits would change anything."""
    book.flush()
    record = book.records[uid]
    missing = tuple(find_missing(book, record))
    if not missing:
        return None
    never = _find_never(book, intake, uid)
    enders = () if never else _find_pods_to_end(book, intake, uid)
    return QueueRemedy(missing, _together(record), never, _find_growth(book, intake, uid), enders)


def without_other_gates(book: QueueCache, intake: QueueEventHandlers, uid: str) -> QueueDryRun:
    """As if only the queue's own gate were left on the pod."""
    trial = QueueDryRun(book, intake)
    task = trial.book.records[uid].task
    trial.intake.apply_task(msgspec.structs.replace(task, gates=tuple(each for each in task.gates if each == GATE)))
    trial.book.flush()
    return trial


def find_missing(book: QueueCache, record: PodRecord) -> Iterator[MissingCapacity]:
    """Everywhere from its queue upwards: for the unit that the pod goes on with, or waits behind in its group; if that
    has room, for the pod itself."""
    if record.task.uid in book.promises.exceeding_limit:
        yield from _lost(book, record)
        return
    place, ask, is_enqueue = _unit_of(book, record)
    found = list(_measure(book, place, ask, is_enqueue))
    gang = record.gang
    if not found and gang is not None and gang.units_before(record.task.uid):
        found = list(_measure(book, place, ask_of(record.task.requests), is_enqueue=False))
    yield from found


def _measure(book: QueueCache, place: str, ask: Ask, is_enqueue: bool) -> Iterator[MissingCapacity]:
    for name in book.tree.path(place):
        branch, account = book.tree.nodes.get(name), book.ledger.account(name)
        limits = {} if branch is None else branch.limits
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


def _unit_of(book: QueueCache, record: PodRecord) -> tuple[str, Ask, bool]:
    """Queue, ask, and whether it asks to be let in."""
    gang = record.gang
    if gang is None or record.state is AllocationState.GROWING:
        return record.counted_queue, record.ask or book.ask_alone(record), False
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


def _lost(book: QueueCache, record: PodRecord) -> Iterator[MissingCapacity]:
    """A promise beyond a limit that was lowered: what is over it."""
    for name in book.tree.path(record.counted_queue):
        branch, account = book.tree.nodes.get(name), book.ledger.account(name)
        for resource, limit in sorted(branch.limits.items()) if branch is not None else ():
            asked, used = record.promised.get(resource, 0), account.used(resource)
            if asked and used > limit:
                yield MissingCapacity(name, resource, asked, used - asked, limit)


def _find_never(book: QueueCache, intake: QueueEventHandlers, uid: str) -> tuple[MissingCapacity, ...]:
    """What is missing if the pod is alone with its group. Beyond the group's minimum, where others of it may end before
    it goes on, only what one unit alone would use counts; else what the group would use in all."""
    alone, record = QueueDryRun(book, intake), book.records[uid]
    for each in list(book.records.values()):
        if not _is_own(each, record):
            alone.intake.remove_task(each.task.uid)
    if alone.helps(uid):
        return ()
    missing, gang = alone.missing(uid), alone.book.records[uid].gang
    if gang is not None and (not gang.missing_count or gang.units_before(uid)):
        return tuple(msgspec.structs.replace(each, used=0) for each in missing if each.asked > each.limit)
    return tuple(msgspec.structs.replace(each, asked=each.asked + each.used, used=0) for each in missing)


def _is_own(each: PodRecord, record: PodRecord) -> bool:
    return each is record or (each.gang is not None and each.gang is record.gang)


def _find_growth(book: QueueCache, intake: QueueEventHandlers, uid: str) -> tuple[CapabilityGrowth, ...]:
    """Step by step, for others that come first take of what was added; then all of it at once on a fresh copy."""
    trial, needed, idle = QueueDryRun(book, intake), dict[_Where, CapabilityGrowth](), 0
    for _ in range(2 * len(book.records) + 2):
        missing = trial.missing(uid)
        for each in missing:
            needed |= _raised(trial.book, each, needed)
        trial.grow(needed.values())
        if trial.helps(uid):
            break
        idle = 0 if missing else idle + 1
        if idle == _MOST_IDLE:
            return ()
    for _ in range(_MOST_COPIES):
        growth = tuple(needed[where] for where in sorted(needed))
        fresh = QueueDryRun(book, intake)
        fresh.grow(growth)
        if fresh.helps(uid):
            return growth
        for each in fresh.missing(uid):  # at once it went another way than step by step, say by a promise that is kept
            needed |= _raised(fresh.book, each, needed)
    return ()


def _raised(
    book: QueueCache, missing: MissingCapacity, before: Mapping[_Where, CapabilityGrowth]
) -> dict[_Where, CapabilityGrowth]:
    """The capability of the queue, and of each above it, that keeps it from using so much. A queue has what its parent
    may use, less what is guaranteed to its siblings."""
    found = {}
    resource, needed = missing.resource, missing.used + missing.asked
    path = book.tree.path(missing.queue)
    for name, above in zip(path, (*path[1:], ""), strict=True):
        branch, parent = book.tree.nodes[name], book.tree.nodes.get(above)
        stated = branch.spec.capability.get(resource)
        if stated is not None and stated < needed:
            first = before[name, resource].stated if (name, resource) in before else stated
            found[name, resource] = CapabilityGrowth(name, resource, first, needed)
        if parent is None or resource not in parent.limits:
            break
        needed += parent.guaranteed.get(resource, 0) - branch.spec.guarantee.get(resource, 0)
        if parent.limits[resource] >= needed:
            break
    return found


def _find_pods_to_end(book: QueueCache, intake: QueueEventHandlers, uid: str) -> tuple[str, ...]:
    """The newest first; only pods that hold something of what is missing where it is missing."""
    trial, ended, idle = QueueDryRun(book, intake), dict[str, None](), 0
    holders = sorted(_holders(book, book.records[uid]), key=lambda each: (-each.created_s, each.namespace, each.name))
    while not trial.helps(uid):
        missing = trial.missing(uid)
        idle = 0 if missing else idle + 1
        if idle == _MOST_IDLE:
            return ()
        while missing:
            chosen = next((each.uid for each in holders if _gives(trial.book, each.uid, missing)), None)
            if chosen is None or len(ended) == _MAX_PODS_TO_END:
                return ()
            ended[chosen] = None
            trial.intake.remove_task(chosen)
            missing = trial.missing(uid)
    fresh = QueueDryRun(book, intake)
    for each in ended:
        fresh.intake.remove_task(each)
    if not fresh.helps(uid):
        return ()
    return tuple(f"{task.namespace}/{task.name}" for task in (book.records[each].task for each in ended))


def _holders(book: QueueCache, record: PodRecord) -> Iterator[TaskInfo]:
    """Pods that hold something of some queue, but for the pod's own group."""
    for each in book.records.values():
        if not _is_own(each, record) and (each.state is AllocationState.ALLOCATED or each.state in PROMISED):
            yield each.task


def _gives(book: QueueCache, uid: str, missing: Iterable[MissingCapacity]) -> bool:
    record = book.records.get(uid)
    if record is None:
        return False
    path = book.tree.path(record.counted_queue)
    return any(each.queue in path and record.counted.get(each.resource) for each in missing)
