"""The quota engine under all possible events, against formulas that are computed anew at every step.

No grant lifts usage above a nominal, borrowing or lending limit at the time it is made. Admission follows the order of
each queue, and no workload passes the first one of a strict queue. A preemption evicts no workload that is not needed,
none twice, and frees enough. Many rounds in one cycle equal one round at a time, each written before the next, except
that a cycle does not admit a workload that it would have to evict again. No workload stays parked that would fit, and a
restarted engine has the same state.
"""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.api.workload import Workload, read_workload, usage_of
from headgate.quota.cycle.admission_cycle import NO_LONGER_FITS
from headgate.quota.cycle.nomination import nominate
from headgate.quota.effects import Admit, Effect, Evict
from headgate.quota.flavors.assignment import AssignmentMode
from property.reference_quota import Held, SlowQuota
from quota_engine import Api

_QUEUES = ("a", "b", "c")
_FLAVORS = ("spot", "fixed")
_PARENTS = ("", "x", "x", "x", "y")
_WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
_RECLAIM = ("Never", "LowerPriority", "Any")
_NEXT = ("MayStopSearch", "TryNextFlavor")


class World:
    """The API with its engine, and what the formulas say about the same objects."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.api = Api()
        self.number = 0
        self.known: dict[str, Workload] = {}
        self.first: set[str] = set()
        for name in _FLAVORS:
            self.api.flavor(name)
        self.api.cohort("y", "top")
        self.api.cohort("x", "top", {"spot": {"cpu": chance.randint(0, 3)}})
        for name in _QUEUES:
            self.plant(name)

    def plant(self, name: str) -> None:
        chance = self.chance
        cohort = chance.choice(_PARENTS)
        nominal = {flavor: chance.randint(0, 6) for flavor in _FLAVORS}
        borrowing = {flavor: self.maybe(4) if cohort else None for flavor in _FLAVORS}
        lending = {flavor: self.maybe(nominal[flavor]) if cohort else None for flavor in _FLAVORS}
        flavors = _FLAVORS[: chance.randint(1, 2)]
        threshold = self.maybe(2)
        self.api.queue(
            name,
            {each: {"cpu": (nominal[each], borrowing[each], lending[each])} for each in flavors},
            local=name,
            cohortName=cohort,
            annotations=self.annotations(),
            queueingStrategy=chance.choice(("BestEffortFIFO", "StrictFIFO")),
            preemption={
                "withinClusterQueue": chance.choice(_WITHIN),
                "reclaimWithinCohort": chance.choice(_RECLAIM),
                "borrowWithinCohort": {
                    "policy": chance.choice(("Never", "LowerPriority")),
                    **({} if threshold is None else {"maxPriorityThreshold": threshold}),
                },
            },
            flavorFungibility={"whenCanBorrow": chance.choice(_NEXT), "whenCanPreempt": chance.choice(_NEXT)},
        )

    def annotations(self) -> dict[str, str]:
        """Of a queue."""
        return {}

    def limits(self) -> dict[str, int]:
        """Of a workload."""
        return {}

    def maybe(self, most: int) -> int | None:
        return self.chance.choice((None, self.chance.randint(0, most)))

    # What happens.

    def step(self) -> None:
        names = sorted(name for kind, name in self.api.objects if kind == "workload")
        kinds = ["submit", "submit", "submit", "finish", "gone", "gone", "delete", "plant", "late", "catch up"]
        match self.chance.choice(kinds):
            case "submit":
                self.submit()
            case "plant":
                self.plant(self.chance.choice(_QUEUES))
            case "finish" if held := [name for name in names if self.read(name).holds_quota]:
                self.api.finish(self.chance.choice(held).removeprefix("ns/"))
            case "gone" if going := [
                name for name in names if self.read(name).is_evicted and self.read(name).holds_quota
            ]:
                self.api.gone(self.chance.choice(going).removeprefix("ns/"))
            case "late":
                self.api.lag = True
            case "catch up":
                self.api.catch_up()
            case "delete" if names:
                self.api.remove("workload", self.chance.choice(names))
        self.api.now_s += 1

    def submit(self) -> None:
        self.number += 1
        at_s = self.chance.randint(0, 20)
        queue, cpu = self.chance.choice(_QUEUES), self.chance.randint(1, 5)
        priority = self.chance.randint(0, 3)
        self.api.submit(f"w{self.number}", cpu=cpu, queue=queue, priority=priority, at_s=at_s, **self.limits())

    def cycle(self) -> list[Effect]:
        """One, watched: every decision is held against the formulas before it is written."""
        before = self.waiting()
        heads = [self.api.engine.queue_manager.head(name) for name in _QUEUES]
        self.first = {head.key for head in heads if head is not None}
        slow, going = self.slow(), {key for key in self.holders() if self.read(key).is_evicted}
        effects = self.api.engine.run_cycle(self.api.now_s)
        for effect in effects:
            match effect:
                case Admit():
                    usage = usage_of(self.read(effect.key), effect.admission)
                    queue = effect.admission.cluster_queue
                    assert slow.fits(queue, usage), f"{effect.key} gets more than there is"
                    slow.held.append((queue, usage))
                    self.follows_order(effect.key, before)
                    before.pop(effect.key)
                case Evict():
                    assert effect.key not in going, f"{effect.key} is evicted twice"
                    going.add(effect.key)
        self.spares_the_unneeded(effects)
        self.keeps_what_was_freed()
        return self.api.perform(effects)

    # What must hold.

    def follows_order(self, key: str, waiting: dict[str, Workload]) -> None:
        """In a StrictFIFO queue no earlier workload waits. In any queue no earlier workload with the same requirements
        waits, unless workloads were evicted for this one."""
        workload = waiting[key]
        queue = self.api.engine.cache.queues[workload.queue]
        before = [each for each in waiting.values() if each.queue == workload.queue and _order(each) < _order(workload)]
        if queue.is_strict:
            assert not before, f"{key} passes {[each.key for each in before]}"
        elif key not in self.first:
            assert not [each.key for each in before if each.shape == workload.shape], f"{key} passes its like"

    def spares_the_unneeded(self, effects: list[Effect]) -> None:
        """Once its victims have gone a preemptor fits; without any one of them it would not."""
        by_preemptor: dict[str, list[str]] = {}
        for effect in effects:
            if isinstance(effect, Evict):
                by_preemptor.setdefault(effect.preemptor, []).append(effect.key)
        book = self.api.engine.ledger
        evicted = {holder.key: holder for holder in book.holders() if holder.is_evicted}
        claims = {key: (claim.queue, dict(claim.usage)) for key, claim in book.claims().items()}
        for preemptor, victims in by_preemptor.items():
            if preemptor not in claims:
                continue  # it was admitted at once
            queue, usage = claims[preemptor]
            others = [claim for key, claim in claims.items() if key != preemptor]
            ahead = [(each.queue, dict(each.usage)) for each in book.holders() if not each.is_evicted]
            assert self.slow([*ahead, *others]).fits(queue, usage), f"{preemptor} would not fit"
            if len(by_preemptor) > 1:
                continue  # what others took away meanwhile may have made one of them unneeded
            for victim in victims:
                stays = evicted[victim]
                kept: list[Held] = [*ahead, *others, (stays.queue, dict(stays.usage))]
                assert self.needs(stays, kept, queue, usage), f"{victim} goes for nothing"

    def keeps_what_was_freed(self) -> None:
        """When all evicted workloads have released their quota, each of their preemptors fits."""
        book = self.api.engine.ledger
        ahead = [(each.queue, dict(each.usage)) for each in book.holders() if not each.is_evicted]
        for key, claim in book.claims().items():
            others = [(each.queue, dict(each.usage)) for name, each in book.claims().items() if name != key]
            assert self.slow([*ahead, *others]).fits(claim.queue, claim.usage), f"what was freed for {key} is gone"

    def needs(self, victim: QuotaHolder, kept: list[Held], queue: str, usage: Any) -> bool:
        """Whether the preemptor would not fit were the victim to stay; or only by borrowing what it may not borrow."""
        slow = self.slow(kept)
        if not slow.fits(queue, usage):
            return True
        return any(
            slow.usage(f"queue/{queue}", fr) + more > slow.subtree(f"queue/{queue}", fr) for fr, more in usage.items()
        )

    # Reading.

    def read(self, key: str) -> Workload:
        wire = self.api.objects["workload", key]
        known = self.known.get(key)
        if known is not None and str(known.revision) == wire["metadata"]["resourceVersion"]:
            return known
        found = read_workload(wire)
        assert isinstance(found, Workload)
        self.known[key] = found
        return found

    def waiting(self) -> dict[str, Workload]:
        keys = [key for kind, key in self.api.objects if kind == "workload"]
        return {key: each for key in keys if not (each := self.read(key)).holds_quota and not each.is_finished}

    def holders(self) -> list[str]:
        return [key for kind, key in self.api.objects if kind == "workload" and self.read(key).holds_quota]

    def slow(self, held: list[Held] | None = None) -> SlowQuota:
        world, book = self.api.engine.cache, self.api.engine.ledger
        if held is None:
            held = []
            for key in self.holders():
                admission = self.read(key).admission
                assert admission is not None
                held.append((admission.cluster_queue, usage_of(self.read(key), admission)))
        cohorts = {
            name: (parent, node.quotas if (node := book.now.cohort(name)) is not None else {})
            for name, parent in (("x", "top"), ("y", "top"))
        }
        return SlowQuota({name: (queue.cohort, queue.quotas) for name, queue in world.queues.items()}, cohorts, held)


def _order(workload: Workload) -> tuple[int, float, str]:
    return -workload.priority, workload.created_s, workload.uid


_steps = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@_steps
@given(st.randoms(use_true_random=False))
def test_every_decision_holds_against_the_formulas(chance: Random) -> None:
    world = World(chance)
    for _ in range(chance.randint(1, 25)):
        world.step()
        if chance.choice((True, False)):
            world.cycle()
    world.cycle()
    slow = world.slow()
    for name in _QUEUES:
        node = world.api.engine.ledger.now.queue(name)
        assert node is not None
        for fr in node.quotas:
            assert node.usage.get(fr, 0) == slow.usage(f"queue/{name}", fr)


@_steps
@given(st.randoms(use_true_random=False))
def test_no_workload_stays_parked_that_a_fresh_engine_would_admit(chance: Random) -> None:
    """If only workloads that an event may help are retried, no workload waits that could be admitted."""
    world = World(chance)
    for _ in range(chance.randint(1, 20)):
        world.step()
        world.cycle()
    world.api.catch_up()
    world.cycle()
    engine = world.api.engine
    for name in _QUEUES:
        for waiter in engine.queue_manager.pending(name):
            why = engine.queue_manager.pending_reason(waiter.key)
            if engine.queue_manager.reserving_queues() and why is not None and why.message == NO_LONGER_FITS:
                continue  # a strict queue keeps its place
            if waiter.shape in engine.queue_manager._pending_queues[name].parked_shapes:
                found = nominate(
                    engine.ledger, engine.cache.queues[name], engine.cache.flavors, waiter.workload, waiter.order_s
                )
                assert found.assignment.mode != AssignmentMode.FIT, f"{waiter.key} was forgotten"


def both_ways(chance: Random, steps: int) -> tuple[list[Effect], list[Effect]]:
    """What one cycle decides, and what rounds decide that are written one by one."""
    world = World(chance)
    for _ in range(steps):
        world.step()
    world.api.catch_up()
    together, apart = world.api, copy.deepcopy(world.api)
    first: list[Effect] = [each for each in together.cycle() if isinstance(each, Admit | Evict)]
    second: list[Effect] = []
    while effects := [each for each in apart.cycle(rounds=1) if isinstance(each, Admit | Evict)]:
        second += effects
    while apart.engine.queue_manager.ready():
        second += [each for each in apart.cycle(rounds=1) if isinstance(each, Admit | Evict)]
    return first, second


def _evicted(effects: list[Effect]) -> list[str]:
    return [each.key for each in effects if isinstance(each, Evict)]


@_steps
@given(st.randoms(use_true_random=False))
def test_one_cycle_equals_one_round_at_a_time(chance: Random) -> None:
    first, second = both_ways(chance, chance.randint(1, 12))
    admitted = {each.key for each in second if isinstance(each, Admit)}
    if admitted.isdisjoint(_evicted(second)):
        assert first == second
    else:  # one round evicts what another one admitted: a cycle withdraws it instead
        assert len(_evicted(first)) <= len(_evicted(second))


@_steps
@given(st.randoms(use_true_random=False))
def test_one_cycle_evicts_no_more_than_one_round_at_a_time(chance: Random) -> None:
    first, second = both_ways(chance, chance.randint(8, 40))
    assert len(_evicted(first)) <= len(_evicted(second))


@_steps
@given(st.randoms(use_true_random=False))
def test_a_restarted_engine_admits_no_further_workload_and_has_the_same_usage(chance: Random) -> None:
    world = World(chance)
    for _ in range(chance.randint(1, 15)):
        world.step()
        world.cycle()
    world.api.catch_up()
    world.cycle()
    claims = dict(world.api.engine.ledger.claims())
    world.api.restart()
    # It may evict for a workload that was parked because it had no candidates: it considers all workloads once.
    assert [each for each in world.api.cycle() if isinstance(each, Admit)] == []
    assert claims.items() <= world.api.engine.ledger.claims().items()


@_steps
@given(st.randoms(use_true_random=False))
def test_the_same_events_give_the_same_effects(chance: Random) -> None:
    world = World(chance)
    for _ in range(chance.randint(1, 8)):
        world.step()
    twin = copy.deepcopy(world.api)
    assert world.api.cycle() == twin.cycle()


@pytest.mark.parametrize("size", [3])
@_steps
@given(st.randoms(use_true_random=False))
def test_the_first_of_a_strict_queue_gets_its_turn(size: int, chance: Random) -> None:
    """Whatever smaller ones come after it, they all end some day, and then it is admitted."""
    api = Api()
    api.queue("strict", {"default": {"cpu": 5}}, local="strict", queueingStrategy="StrictFIFO")
    for number in range(size):
        api.submit(f"early{number}", cpu=chance.randint(1, 3), queue="strict", at_s=number)
    api.cycle()
    api.submit("large", cpu=5, queue="strict", at_s=10)
    for number in range(20):
        api.submit(f"small{number}", cpu=chance.randint(1, 2), queue="strict", at_s=20 + number)
        api.cycle()
        running = [name for name in api.admitted() if name != "large"]
        assert not [name for name in running if name.startswith("small")], "passed by"
        if not running:
            break
        api.finish(chance.choice(running))
    api.cycle()
    assert "large" in api.admitted()
