"""The first in line of a ClusterQueue starts no later than without the workloads after it, on a virtual clock.

Workloads of several queues of a cohort tree arrive, start as soon as they get quota, and end. Those with a run-time
limit end at their limit, or before it; the others end at a time that the engine does not know. When a workload becomes
the first in line of a queue with protection, a slow reference computes when it would start if nothing else started. It
may start later only because of workloads that come before it: those of other queues that have a higher priority or are
older, or that use the quota of their own queue. If workloads end before their limits, it starts no later than if they
ran until their limits. The reference also knows which workloads may pass: exactly these get quota, so no quota is left
idle without need. In a second test, with preemption and random events, all workloads that can ever start do so in the
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.api.workload import Workload
from headgate.quota.cycle.line_protection import LineProtection
from headgate.quota.effects import Admit
from headgate.quota.flavors.assignment import AssignmentMode
from kueue_builders import START_S, a_pod_set
from property.reference_quota import SlowQuota
from property.test_quota_engine import World as EventWorld
from quota_engine import Api

_BACKFILL = {"headgate.dev/dequeue-strategy": "backfill"}
_FLAVORS = ("one", "two")
_QUEUES = ("a", "b", "c")
_UNKNOWN_S = float("inf")
_PROTECTED = "FirstInLineProtected"
Usage = dict[FlavorResource, int]


class Job(msgspec.Struct):
    """``flavors``: those that match it. ``lasts_s``: how long it runs. ``usage``: what it uses, once it has started."""

    number: int
    queue: str
    priority: int
    arrives_s: int
    requests: dict[str, int]
    flavors: tuple[str, ...]
    limit_s: int | None
    grace_s: int
    lasts_s: int
    started_s: int = 0
    usage: Usage = {}

    @property
    def name(self) -> str:
        return f"w{self.number:03}"

    @property
    def order(self) -> tuple[int, int]:
        return -self.priority, self.number

    @property
    def ends_s(self) -> int:
        return self.started_s + self.lasts_s

    @property
    def limit_ends_s(self) -> float:
        return float("-inf") if self.limit_s is None else self.started_s + self.limit_s

    @property
    def gone_s(self) -> float:
        return float("inf") if self.limit_s is None else self.limit_ends_s + self.grace_s

    def usage_in(self, flavor: str) -> Usage:
        return {
            (flavor, each): amount * (1000 if each == "cpu" else 1) for each, amount in self.requests.items() if amount
        }


class World:
    """``protecting``: the queues that protect their first in line. ``is_early``: workloads may end before their
    limits."""

    def __init__(self, chance: Random, jobs: Iterable[Job], is_early: bool, *, protects: bool = True) -> None:
        self.chance, self.coming, self.is_early = chance, sorted(jobs, key=lambda job: job.number), is_early
        self.api = Api()
        self.now_s = int(START_S)
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.bounds: dict[int, float] = {}  # by number: the first in line starts then at the latest
        for name in _FLAVORS:
            self.api.flavor(name, labels={"flavor": name})
        self.api.cohort("x", "top", {"one": {"cpu": chance.randint(0, 2), "gpu": 1}})
        self.api.cohort("y", "top")
        self.protecting = {"a", *(name for name in _QUEUES if chance.random() < 0.4)}
        for name in _QUEUES:
            self.plant(name, is_protecting=protects and name in self.protecting)

    def plant(self, name: str, *, is_protecting: bool) -> None:
        chance = self.chance
        cohort = chance.choice(("", "x", "x", "x", "y"))
        listed = {
            flavor: {each: self.quota(most, cohort) for each, most in (("cpu", 6), ("gpu", 2))}
            for flavor in _FLAVORS[: chance.randint(1, 2)]
        }
        self.api.queue(
            name,
            listed,
            local=name,
            cohortName=cohort,
            annotations=_BACKFILL if is_protecting else None,
            queueingStrategy=chance.choice(("BestEffortFIFO", "StrictFIFO")) if is_protecting else "BestEffortFIFO",
            preemption={"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
            flavorFungibility={"whenCanBorrow": chance.choice(("MayStopSearch", "TryNextFlavor"))},
        )

    def quota(self, most: int, cohort: str) -> tuple[int, int | None, int | None]:
        nominal, chance = self.chance.randint(0, most), self.chance
        if not cohort:
            return nominal, None, None
        return nominal, chance.choice((None, None, chance.randint(0, 4))), chance.choice((None, None, nominal // 2))

    # The reference.

    def slow(self, *held: tuple[str, Usage], without: Iterable[Job] = ()) -> SlowQuota:
        """The formulas for the running workloads, and for more usage."""
        gone = {job.number for job in without}
        engine = self.api.engine
        cohorts = {
            name: (parent, node.quotas if (node := engine.ledger.now.cohort(name)) is not None else {})
            for name, parent in (("x", "top"), ("y", "top"))
        }
        queues = {name: (queue.cohort, queue.quotas) for name, queue in engine.cache.queues.items()}
        running = [(job.queue, job.usage) for job in self.running if job.number not in gone]
        return SlowQuota(queues, cohorts, [*running, *held])

    def flavors(self, job: Job) -> list[str]:
        """The flavors of its queue that match it and that have enough quota if nothing else is in use."""
        quotas = self.api.engine.cache.queues[job.queue].quotas
        idle = self.slow(without=self.running)
        return [each for each in job.flavors if (each, "cpu") in quotas and idle.fits(job.queue, job.usage_in(each))]

    def fits(self, job: Job, slow: SlowQuota) -> bool:
        return any(slow.fits(job.queue, job.usage_in(each)) for each in self.flavors(job))

    def needs(self, job: Job) -> Usage:
        return {fr: amount for each in self.flavors(job) for fr, amount in job.usage_in(each).items()}

    def firsts(self) -> list[Job]:
        """The first in line of each queue with protection, in order."""
        found: dict[str, Job] = {}
        for job in sorted(self.waiting, key=lambda each: each.order):
            if job.queue in self.protecting and job.queue not in found and self.flavors(job):
                found[job.queue] = job
        return sorted(found.values(), key=lambda each: each.order)

    def contested(self, job: Job, usage: Usage, first: Job) -> list[FlavorResource]:
        """Of which resources the workload would borrow from a cohort that it shares with the first in line, or use the
        quota of their common queue."""
        before, after = self.slow(), self.slow((job.queue, usage))
        path, first_path = list(_path(before, job.queue)), list(_path(before, first.queue))
        shared = next((node for node in path if node in first_path), None)
        if shared is None:
            return []
        found = []
        for fr in usage:
            is_used = fr in self.needs(first) and after.usage(shared, fr) > before.usage(shared, fr)
            if is_used and job.queue != first.queue:
                below = path[path.index(shared) - 1]
                is_used = after.usage(below, fr) > before.subtree(below, fr)
            if is_used:
                found.append(fr)
        return found

    def not_before_s(self, first: Job) -> float:
        """When the first in line may start: workloads without a limit may end now."""
        for time_s in sorted({float(self.now_s), *(job.limit_ends_s for job in self.running)}):
            left = [job for job in self.running if job.limit_ends_s > time_s]
            gone = [job for job in self.running if job not in left]
            if time_s >= self.now_s and self.fits(first, self.slow(without=gone)):
                return time_s
        raise AssertionError("it fits when all have ended")

    def find_delay(self, job: Job, flavor: str) -> Job | None:
        """The first in line that the workload would delay."""
        usage = job.usage_in(flavor)
        before: list[tuple[str, Usage]] = []
        for first in self.firsts():
            if first.order >= job.order:
                break
            start_s = self.not_before_s(first)
            has_ended = job.limit_s is not None and self.now_s + job.limit_s + job.grace_s <= start_s
            gone = [each for each in self.running if self.now_s < each.gone_s <= start_s]
            beside = self.slow((job.queue, usage), *before, without=gone)
            with_first = self.slow((job.queue, usage), *before, (first.queue, self.needs(first)), without=gone)
            shared = next((node for node in _path(beside, first.queue) if node in _path(beside, job.queue)), "")
            for fr in () if has_ended else self.contested(job, usage, first):
                taken = with_first.usage(shared, fr) - beside.usage(shared, fr)
                if taken and beside.available(shared, fr) < taken:
                    return first
            before.append((first.queue, self.needs(first)))
        return None

    def starts_by_s(self, first: Job) -> float:
        """When the first in line would start if nothing else started: in fact, or if all ran until their limits."""

        def end_s(job: Job) -> float:
            return job.limit_ends_s if self.is_early and job.limit_s is not None else job.ends_s

        for time_s in sorted({float(self.now_s), *(max(end_s(job), self.now_s) for job in self.running)}):
            if self.fits(first, self.slow(without=[job for job in self.running if end_s(job) <= time_s])):
                return time_s
        raise AssertionError("it fits when all have ended")

    # The course of time.

    def step(self) -> None:
        for job in [each for each in self.running if each.ends_s <= self.now_s]:
            self.running.remove(job)
            self.api.finish(job.name)
        while self.coming and self.coming[0].arrives_s <= self.now_s:
            self.arrive(self.coming.pop(0))
        self.note_firsts()
        for effect in self.api.cycle():
            if isinstance(effect, Admit):
                job = next(each for each in self.waiting if f"ns/{each.name}" == effect.key)
                self.start(job, effect.admission.pod_sets[0].flavors["cpu"])
        for job in self.waiting:
            for flavor in self.flavors(job):
                if self.slow().fits(job.queue, job.usage_in(flavor)):
                    assert self.find_delay(job, flavor), f"{job} could start in {flavor}"
                    reason = self.api.engine.queue_manager.pending_reason(f"ns/{job.name}")
                    assert reason is not None, job
                    assert reason.reason == _PROTECTED, job
                    if job.number in self.bounds:  # it waits for the first in line of another queue
                        self.bounds[job.number] = _UNKNOWN_S

    def arrive(self, job: Job) -> None:
        self.waiting.append(job)
        pod: dict[str, Any] = {"nodeSelector": {"flavor": job.flavors[0]}} if len(job.flavors) == 1 else {}
        self.api.submit(
            job.name,
            a_pod_set(requests=job.requests, terminationGracePeriodSeconds=job.grace_s, **pod),
            queue=job.queue,
            priority=job.priority,
            at_s=job.number - 1000,
            **({} if job.limit_s is None else {"maximumExecutionTimeSeconds": job.limit_s}),
        )

    def start(self, job: Job, flavor: str) -> None:
        usage = job.usage_in(flavor)
        assert self.slow().fits(job.queue, usage), f"{job} gets more than there is"
        assert self.find_delay(job, flavor) is None, f"{job} delays {self.find_delay(job, flavor)}"
        if job.number in self.bounds:
            assert self.now_s <= self.bounds[job.number], f"{job} starts late"
        firsts = [first for first in self.firsts() if first is not job]
        entitled = [
            first for first in firsts if job.order < first.order or set(usage) - {*self.contested(job, usage, first)}
        ]
        self.waiting.remove(job)
        job.started_s, job.usage = self.now_s, usage
        self.running.append(job)
        for first in entitled:
            bound_s, known_s = self.starts_by_s(first), self.bounds[first.number]
            self.bounds[first.number] = bound_s if known_s == _UNKNOWN_S else max(known_s, bound_s)
        self.note_firsts()

    def note_firsts(self) -> None:
        firsts = self.firsts()
        self.bounds = {
            job.number: self.bounds[job.number] if job.number in self.bounds else self.starts_by_s(job)
            for job in firsts
        }

    def run(self, restarts_at: frozenset[int] = frozenset()) -> None:
        """``restarts_at``: the seconds from the beginning at which the engine is restarted."""
        while True:
            self.step()
            times = [job.ends_s for job in self.running] + [job.arrives_s for job in self.coming[:1]]
            if not times:
                break
            self.now_s = max(min(times), self.now_s)
            self.api.now_s = float(self.now_s)
            if self.now_s - int(START_S) in restarts_at:
                self.api.restart()
        assert not [job for job in self.waiting if self.flavors(job)], "all that can ever start have started"


def _path(slow: SlowQuota, queue: str) -> Iterator[str]:
    node: str | None = f"queue/{queue}"
    while node is not None:
        yield node
        node = slow.parent(node)


def jobs_of(chance: Random, count: int, is_early: bool) -> list[Job]:
    found: list[Job] = []
    arrives_s = int(START_S)
    for number in range(count):
        arrives_s += chance.choice((0, 0, 0, 1, 2))
        limit_s = chance.choice((None, None, 2, 5, 10, 20))
        lasts_s = chance.randint(1, 25) if limit_s is None else chance.randint(1 if is_early else limit_s, limit_s)
        found.append(
            Job(
                number=number,
                queue=chance.choice((*_QUEUES, "a")),
                priority=chance.choice((0, 0, 0, 1)),
                arrives_s=arrives_s,
                requests={"cpu": chance.choice((1, 1, 2, 3, 5, 8)), "gpu": chance.choice((0, 0, 1, 2))},
                flavors=chance.choice((_FLAVORS, _FLAVORS, ("one",), ("two",))),
                limit_s=limit_s,
                grace_s=chance.choice((0, 0, 3)),
                lasts_s=lasts_s,
            )
        )
    return found


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_the_first_in_line_starts_no_later_than_without_the_workloads_after_it(chance: Random) -> None:
    is_early = chance.random() < 0.5
    world = World(chance, jobs_of(chance, chance.randint(2, 14), is_early), is_early)
    world.run(frozenset(chance.sample(range(1, 40), chance.randint(0, 3))))


def test_the_reference_notices_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without protection some small workload delays a large one."""
    monkeypatch.setattr(LineProtection, "_find_delay", lambda *arguments: None)
    for seed in range(100):
        chance = Random(seed)
        world = World(chance, jobs_of(chance, 12, False), False)
        try:
            world.run()
        except AssertionError:
            return
    pytest.fail("the reference noticed nothing")


class ProtectingWorld(EventWorld):
    """Random events, with preemption: some queues protect their first in line, and some workloads have run-time
    limits. What holds without protection holds with it, see ``test_quota_engine.py``."""

    def step(self) -> None:
        """More workloads wait than without this."""
        for _ in range(self.chance.randint(0, 1)):
            self.submit()
        super().step()

    def annotations(self) -> dict[str, str]:
        return _BACKFILL if self.chance.random() < 0.7 else {}

    def limits(self) -> dict[str, int]:
        """None of them ends during the test."""
        limit_s = self.maybe(60)
        return {} if limit_s is None else {"maximumExecutionTimeSeconds": 300 + limit_s}

    def follows_order(self, key: str, waiting: dict[str, Workload]) -> None:
        """A workload may pass one with the same requirements only if it may run for a shorter time."""
        workload = waiting[key]
        like = {
            name: each
            for name, each in waiting.items()
            if each.max_execution_s == workload.max_execution_s or each.queue != workload.queue
        }
        super().follows_order(key, like)

    def pending_that_fit(self) -> list[str]:
        """Parked workloads for which there is quota, and which delay no protected workload."""
        engine = self.api.engine
        found = []
        for name in engine.cache.queues:
            parked = engine.queue_manager._pending_queues[name].parked_shapes
            for pending in [each for each in engine.queue_manager.pending(name) if each.shape in parked]:
                nomination, delay = engine.nominate_pending(pending, self.api.now_s)
                if nomination.assignment.mode == AssignmentMode.FIT and delay is None:
                    found.append(pending.key)
        return found

    def finish_all(self) -> None:
        """Workloads that hold quota end, one after the other, until none does."""
        self.api.catch_up()
        for _ in range(1000):
            self.cycle()
            holding = self.holders()
            if not holding:
                return
            key = self.chance.choice(holding).removeprefix("ns/")
            (self.api.gone if self.read(f"ns/{key}").is_evicted else self.api.finish)(key)
        pytest.fail("workloads are evicted and admitted for ever")

    def forgotten(self) -> list[str]:
        """Workloads that wait though they could start if they were alone, and no StrictFIFO queue is in the way."""
        engine = self.api.engine
        idle = self.slow([])
        return [
            pending.key
            for name, queue in engine.cache.queues.items()
            if not queue.is_strict
            for pending in engine.queue_manager.pending(name)
            if any(
                idle.fits(name, {(flavor, "cpu"): pending.workload.pod_sets[0].requests["cpu"]})
                for flavor in queue.flavors
            )
        ]


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_with_protection_every_decision_holds_and_all_workloads_start_in_the_end(chance: Random) -> None:
    world = ProtectingWorld(chance)
    for _ in range(chance.randint(10, 50)):
        world.step()
        if chance.choice((True, False)):
            world.cycle()
    world.api.catch_up()
    world.cycle()
    if not world.api.engine.queue_manager.reserving_queues():
        assert world.pending_that_fit() == []
    world.finish_all()
    assert world.forgotten() == []
