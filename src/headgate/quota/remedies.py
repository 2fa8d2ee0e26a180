"""What would let a workload have quota: workloads that end, or quota that grows; tried out on a copy, never guessed.

Each remedy is carried out on a fresh copy of the engine, followed by a cycle with everybody else who waits, and is told
only if the workload is admitted then. For a caller that asks once, such as ``headgate explain``: a copy costs as much
as the whole engine.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from headgate.quota import names
from headgate.quota.assignment import PodSetChoice
from headgate.quota.cohort import FlavorResource
from headgate.quota.effects import Admit
from headgate.quota.engine import Engine
from headgate.quota.holder import Holder
from headgate.quota.nominating import nominate
from headgate.quota.queueing import Waiter

_MOST_STEPS: Final = 200
_MOST_ENDERS: Final = 10
"""A longer list of workloads that would have to end is no advice."""


class Growth(msgspec.Struct, frozen=True):
    """The nominal quota of a ClusterQueue, as it is and as it would have to be."""

    queue: str
    flavor: str
    resource: str
    nominal: int
    needed: int


class Remedy(msgspec.Struct, frozen=True):
    """``growth`` and ``enders``: each is enough, with everybody who comes first; empty if none was found.
    ``uncovered``: resources that no resource group of the ClusterQueue covers, so that no quota helps. ``never_fits``:
    it asks for more than its ClusterQueue could ever have, in the flavors that suit it."""

    growth: tuple[Growth, ...] = ()
    enders: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    never_fits: bool = False


class Trial:
    """A copy of everything that changes, for one attempt. What is frozen is shared."""

    def __init__(self, engine: Engine) -> None:
        shared: dict[int, Any] = {id(each): each for each in _frozen(engine)}
        self.engine: Engine = copy.deepcopy(engine, shared)

    def helps(self, key: str, now_s: float) -> bool:
        """Whether the workload is admitted by the next cycle."""
        return any(isinstance(each, Admit) and each.key == key for each in self.engine.cycle(now_s))

    def grow(self, growth: Iterable[Growth], now_s: float) -> None:
        for each in growth:
            queue, fr = self.engine.world.queues[each.queue], (each.flavor, each.resource)
            quota = msgspec.structs.replace(queue.quotas[fr], nominal=each.needed)
            self.engine.cluster_queue_replaced(
                msgspec.structs.replace(queue, quotas={**queue.quotas, fr: quota}), now_s
            )

    def missing(self, key: str) -> dict[FlavorResource, int]:
        """What it lacks in the flavors that it would get, or the first that suit it; of whoever is first in a strict
        queue, if that is another one."""
        waiter = self.engine.queueing.get(key)
        return {} if waiter is None else dict(_missing(self.engine, _head(self.engine, waiter)))


def _frozen(engine: Engine) -> Iterator[object]:
    """Values that are replaced and never changed."""
    yield from engine.workloads.values()
    world = engine.world
    for known in (world.queues, world.flavors, world.local_queues):
        yield from known.values()


def find_remedy(engine: Engine, key: str, now_s: float) -> Remedy:
    """Of a workload that waits in a queue."""
    waiter = engine.queueing.get(key)
    if waiter is None:
        return Remedy()
    uncovered = tuple(sorted(_uncovered(engine, waiter)))
    if uncovered:
        return Remedy(uncovered=uncovered)
    never = _never_fits(engine, waiter, now_s)
    enders = () if never else _find_enders(engine, key, now_s)
    return Remedy(_find_growth(engine, key, now_s), enders, (), never)


def _head(engine: Engine, waiter: Waiter) -> Waiter:
    if not engine.world.queues[waiter.queue].is_strict:
        return waiter
    return next(iter(engine.queueing.waiters(waiter.queue)), waiter)


def _choices(engine: Engine, waiter: Waiter) -> tuple[PodSetChoice, ...]:
    queue, claim = engine.world.queues[waiter.queue], engine.book.claim_of(waiter.key)
    engine.book.claim(waiter.key, None)
    found = nominate(engine.book, queue, engine.world.flavors, waiter.workload, waiter.order_s)
    engine.book.claim(waiter.key, claim)
    return found.assignment.pod_sets


def _uncovered(engine: Engine, waiter: Waiter) -> set[str]:
    covered = engine.world.queues[waiter.queue].group_of
    asked = {
        resource
        for pod_set in waiter.workload.pod_sets
        for resource, amount in pod_set.requests.items()
        if amount and waiter.workload.count_of(pod_set)
    }
    return asked - set(covered)


def _never_fits(engine: Engine, waiter: Waiter, now_s: float) -> bool:
    """Whether it would not be admitted if it were alone, because flavors that suit it are too small."""
    alone = Trial(engine)
    for key in [each for each in alone.engine.workloads if each != waiter.key]:
        alone.engine.workload_removed(key, now_s)
    if alone.helps(waiter.key, now_s):
        return False
    attempts = (each for one in _choices(alone.engine, waiter) for group in one.groups for each in group)
    return any(each.why == names.EXCEEDS_MAX_QUOTA for each in attempts)


def _missing(engine: Engine, waiter: Waiter) -> Iterator[tuple[FlavorResource, int]]:
    asked: dict[FlavorResource, int] = {}
    group_of = engine.world.queues[waiter.queue].group_of
    for one in _choices(engine, waiter):
        firsts = [_first_that_suits(one, at) for at in range(len(one.groups))]
        for resource, amount in one.requests.items():
            chosen = one.flavors.get(resource)
            flavor = chosen.flavor if chosen is not None else ""
            if not flavor and resource in group_of:
                flavor = next((each for each in firsts if each in group_of[resource].flavors), "")
            if flavor:
                asked[flavor, resource] = asked.get((flavor, resource), 0) + amount
    now, ahead = engine.book.now.queue(waiter.queue), engine.book.ahead.queue(waiter.queue)
    for fr, amount in sorted(asked.items()):
        available = min((node.available(fr) for node in (now, ahead) if node is not None), default=0)
        if amount > available:
            yield fr, amount - available


def _first_that_suits(one: PodSetChoice, at: int) -> str:
    return next((each.flavor for each in one.groups[at] if each.why != names.NO_MATCHING_FLAVOR), "")


def _find_growth(engine: Engine, key: str, now_s: float) -> tuple[Growth, ...]:
    """Step by step, for others that come first take of what was added; then all of it at once on a fresh copy."""
    waiter = engine.queueing.get(key)
    if waiter is None:
        return ()
    trial, needed = Trial(engine), dict[FlavorResource, Growth]()
    for _ in range(_MOST_STEPS):
        missing = trial.missing(key)
        for fr, amount in missing.items():
            before = engine.world.queues[waiter.queue].quotas[fr].nominal
            so_far = needed[fr].needed if fr in needed else before
            needed[fr] = Growth(waiter.queue, *fr, before, so_far + amount)
        trial.grow(needed.values(), now_s)
        if trial.helps(key, now_s):
            break
        if not missing:
            return ()
    growth = tuple(needed[fr] for fr in sorted(needed))
    fresh = Trial(engine)
    fresh.grow(growth, now_s)
    return growth if growth and fresh.helps(key, now_s) else ()


def _find_enders(engine: Engine, key: str, now_s: float) -> tuple[str, ...]:
    """The newest first; only workloads that hold something of what is missing, in the same tree of cohorts."""
    trial, ended = Trial(engine), dict[str, None]()
    holders = sorted(_holders(engine, key), key=lambda each: (-each.reserved_s, each.key))
    for _ in range(_MOST_STEPS):
        if trial.helps(key, now_s):
            break
        missing = trial.missing(key)
        if not missing:
            return ()
        while missing:
            chosen = next((each.key for each in holders if each.key not in ended and _gives(each, missing)), None)
            if chosen is None or len(ended) == _MOST_ENDERS:
                return ()
            ended[chosen] = None
            trial.engine.workload_removed(chosen, now_s)
            missing = trial.missing(key)
    fresh = Trial(engine)
    for each in ended:
        fresh.engine.workload_removed(each, now_s)
    return tuple(ended) if ended and fresh.helps(key, now_s) else ()


def _holders(engine: Engine, key: str) -> Iterator[Holder]:
    waiter = engine.queueing.get(key)
    node = None if waiter is None else engine.book.now.queue(waiter.queue)
    if node is None:
        return
    for below in engine.book.now.below(node.root):
        yield from (each for each in engine.book.held_in(below.name) if not each.is_evicted)


def _gives(holder: Holder, missing: Iterable[FlavorResource]) -> bool:
    return any(holder.usage.get(fr) for fr in missing)
