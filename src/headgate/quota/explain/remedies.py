"""Finds what would give a workload quota: other workloads that end, or larger quotas.

The search uses dry runs on copies of the quota engine (``quota/engine.py``). Each remedy is applied to a fresh copy, an
admission cycle with all other pending workloads runs there, and the remedy is reported only if this cycle admits the
workload. The search is for single calls such as ``headgate explain``: a copy costs as much as the whole engine.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from headgate.quota import names
from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.cycle.nomination import nominate
from headgate.quota.effects import Admit
from headgate.quota.engine import QuotaEngine
from headgate.quota.flavors.assignment import PodSetAssignment
from headgate.quota.queues.queue_manager import PendingWorkload

_MAX_STEPS: Final = 200
_MAX_WORKLOADS_TO_END: Final = 10
"""A longer list of workloads that would have to end does not help users."""


class QuotaGrowth(msgspec.Struct, frozen=True):
    """The nominal quota of a ClusterQueue, now and as needed."""

    queue: str
    flavor: str
    resource: str
    nominal: int
    needed: int


class QuotaRemedy(msgspec.Struct, frozen=True):
    """``growth`` and ``workloads_to_end``: each is enough, including all workloads that come first; empty if none was
    found. ``uncovered``: resources that no resource group of the ClusterQueue covers, so that no quota helps.
    ``never_fits``: it requests more than its ClusterQueue could ever have, in the flavors that match it.
    ``growth_alone``: the quotas that are then enough if it were the only workload."""

    growth: tuple[QuotaGrowth, ...] = ()
    workloads_to_end: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    never_fits: bool = False
    growth_alone: tuple[QuotaGrowth, ...] = ()


class QuotaDryRun:
    """A copy of the quota engine, to which one remedy is applied. Frozen values are shared."""

    def __init__(self, engine: QuotaEngine) -> None:
        shared: dict[int, Any] = {id(each): each for each in _frozen(engine)}
        self.engine: QuotaEngine = copy.deepcopy(engine, shared)

    def is_admitted(self, key: str, now_s: float) -> bool:
        """Whether the workload is admitted by the next cycle."""
        return any(isinstance(each, Admit) and each.key == key for each in self.engine.run_cycle(now_s))

    def raise_quotas(self, growth: Iterable[QuotaGrowth], now_s: float) -> None:
        for each in growth:
            queue, fr = self.engine.cache.queues[each.queue], (each.flavor, each.resource)
            quota = msgspec.structs.replace(queue.quotas[fr], nominal=each.needed)
            self.engine.cluster_queue_replaced(
                msgspec.structs.replace(queue, quotas={**queue.quotas, fr: quota}), now_s
            )

    def missing(self, key: str) -> dict[FlavorResource, int]:
        """The missing quota in the flavors that the workload would get, or in the first that match it. In a StrictFIFO
        queue: the missing quota of the head."""
        pending = self.engine.queue_manager.get(key)
        return {} if pending is None else dict(_missing(self.engine, _head(self.engine, pending)))


def _frozen(engine: QuotaEngine) -> Iterator[object]:
    """Values that are replaced and never changed."""
    yield from engine.workloads.values()
    cache = engine.cache
    for known in (cache.queues, cache.flavors, cache.local_queues):
        yield from known.values()


def find_remedy(engine: QuotaEngine, key: str, now_s: float) -> QuotaRemedy:
    """The remedy for a workload that is pending in a queue."""
    pending = engine.queue_manager.get(key)
    if pending is None:
        return QuotaRemedy()
    uncovered = tuple(sorted(_uncovered(engine, pending)))
    if uncovered:
        return QuotaRemedy(uncovered=uncovered)
    never_fits = _never_fits(engine, pending, now_s)
    workloads_to_end = () if never_fits else _find_workloads_to_end(engine, key, now_s)
    growth_alone = _find_growth(_alone(engine, key, now_s).engine, key, now_s) if never_fits else ()
    return QuotaRemedy(_find_growth(engine, key, now_s), workloads_to_end, (), never_fits, growth_alone)


def _head(engine: QuotaEngine, pending: PendingWorkload) -> PendingWorkload:
    if not engine.cache.queues[pending.queue].is_strict:
        return pending
    return next(iter(engine.queue_manager.pending(pending.queue)), pending)


def _nominated_pod_sets(engine: QuotaEngine, pending: PendingWorkload) -> tuple[PodSetAssignment, ...]:
    queue, claim = engine.cache.queues[pending.queue], engine.ledger.claim_of(pending.key)
    engine.ledger.claim(pending.key, None)
    found = nominate(engine.ledger, queue, engine.cache.flavors, pending.workload, pending.order_s)
    engine.ledger.claim(pending.key, claim)
    return found.assignment.pod_sets


def _uncovered(engine: QuotaEngine, pending: PendingWorkload) -> set[str]:
    covered = engine.cache.queues[pending.queue].group_of
    asked = {
        resource
        for pod_set in pending.workload.pod_sets
        for resource, amount in pod_set.requests.items()
        if amount and pending.workload.count_of(pod_set)
    }
    return asked - set(covered)


def _never_fits(engine: QuotaEngine, pending: PendingWorkload, now_s: float) -> bool:
    """Whether the workload would not be admitted even if it were the only one, because matching flavors are too
    small."""
    alone = _alone(engine, pending.key, now_s)
    if alone.is_admitted(pending.key, now_s):
        return False
    attempts = (
        each for pod_set in _nominated_pod_sets(alone.engine, pending) for group in pod_set.groups for each in group
    )
    return any(each.pending_reason == names.EXCEEDS_MAX_QUOTA for each in attempts)


def _alone(engine: QuotaEngine, key: str, now_s: float) -> QuotaDryRun:
    """A dry run in which no other workload exists."""
    alone = QuotaDryRun(engine)
    for other in [each for each in alone.engine.workloads if each != key]:
        alone.engine.workload_removed(other, now_s)
    return alone


def _missing(engine: QuotaEngine, pending: PendingWorkload) -> Iterator[tuple[FlavorResource, int]]:
    """The amounts that exceed the available quota, by flavor and resource. For a resource without an assigned flavor
    the first matching flavor counts."""
    asked: dict[FlavorResource, int] = {}
    group_of = engine.cache.queues[pending.queue].group_of
    for pod_set in _nominated_pod_sets(engine, pending):
        firsts = [_first_matching_flavor(pod_set, index) for index in range(len(pod_set.groups))]
        for resource, amount in pod_set.requests.items():
            chosen = pod_set.flavors.get(resource)
            flavor = chosen.flavor if chosen is not None else ""
            if not flavor and resource in group_of:
                flavor = next((each for each in firsts if each in group_of[resource].flavors), "")
            if flavor:
                asked[flavor, resource] = asked.get((flavor, resource), 0) + amount
    now, after = engine.ledger.now.queue(pending.queue), engine.ledger.after_evictions.queue(pending.queue)
    for fr, amount in sorted(asked.items()):
        available = min((node.available(fr) for node in (now, after) if node is not None), default=0)
        if amount > available:
            yield fr, amount - available


def _first_matching_flavor(pod_set: PodSetAssignment, group_index: int) -> str:
    return next(
        (each.flavor for each in pod_set.groups[group_index] if each.pending_reason != names.NO_MATCHING_FLAVOR), ""
    )


def _find_growth(engine: QuotaEngine, key: str, now_s: float) -> tuple[QuotaGrowth, ...]:
    """Adds quota step by step, because workloads that come first take some of it; then checks the sum on a fresh
    copy."""
    pending = engine.queue_manager.get(key)
    if pending is None:
        return ()
    dry_run, needed = QuotaDryRun(engine), dict[FlavorResource, QuotaGrowth]()
    for _ in range(_MAX_STEPS):
        missing = dry_run.missing(key)
        for fr, amount in missing.items():
            before = engine.cache.queues[pending.queue].quotas[fr].nominal
            so_far = needed[fr].needed if fr in needed else before
            needed[fr] = QuotaGrowth(pending.queue, *fr, before, so_far + amount)
        dry_run.raise_quotas(needed.values(), now_s)
        if dry_run.is_admitted(key, now_s):
            break
        if not missing:
            return ()
    growth = tuple(needed[fr] for fr in sorted(needed))
    fresh_run = QuotaDryRun(engine)
    fresh_run.raise_quotas(growth, now_s)
    return growth if growth and fresh_run.is_admitted(key, now_s) else ()


def _find_workloads_to_end(engine: QuotaEngine, key: str, now_s: float) -> tuple[str, ...]:
    """Workloads whose end is enough, the newest first; only workloads that hold a missing resource in the same tree."""
    dry_run, ended = QuotaDryRun(engine), dict[str, None]()
    holders = sorted(_holders(engine, key), key=lambda each: (-each.reserved_s, each.key))
    for _ in range(_MAX_STEPS):
        if dry_run.is_admitted(key, now_s):
            break
        missing = dry_run.missing(key)
        if not missing:
            return ()
        while missing:
            chosen = next((each.key for each in holders if each.key not in ended and _holds_any(each, missing)), None)
            if chosen is None or len(ended) == _MAX_WORKLOADS_TO_END:
                return ()
            ended[chosen] = None
            dry_run.engine.workload_removed(chosen, now_s)
            missing = dry_run.missing(key)
    fresh_run = QuotaDryRun(engine)
    for each in ended:
        fresh_run.engine.workload_removed(each, now_s)
    return tuple(ended) if ended and fresh_run.is_admitted(key, now_s) else ()


def _holders(engine: QuotaEngine, key: str) -> Iterator[QuotaHolder]:
    """The workloads that hold quota in the tree of the workload and are not being evicted."""
    pending = engine.queue_manager.get(key)
    node = None if pending is None else engine.ledger.now.queue(pending.queue)
    if node is None:
        return
    for below in engine.ledger.now.queues_below(node.root):
        yield from (each for each in engine.ledger.held_in(below.name) if not each.is_evicted)


def _holds_any(holder: QuotaHolder, missing: Iterable[FlavorResource]) -> bool:
    return any(holder.usage.get(fr) for fr in missing)
