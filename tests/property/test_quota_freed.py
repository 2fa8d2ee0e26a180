"""Quota that is freed for a preemptor stays reserved for it (kueue#13797), whatever else arrives, in any order of
evictions.

Three queues of one cohort are full of workloads that may be evicted. In the same cycle some workloads of higher
priority arrive, and others that would fit into free quota.
"""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.quota.effects import Effect, Evict
from property.reference_quota import SlowQuota
from quota_engine import Api

_NAMES = ("a", "b", "c")
_PREEMPTION = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}


class World:
    def __init__(self, chance: Random) -> None:
        self.chance, self.api, self.number = chance, Api(), 0
        for name in _NAMES:
            quota = {"default": {"cpu": chance.randint(2, 5)}}
            self.api.queue(name, quota, local=name, cohortName="x", preemption=_PREEMPTION)
        self.owed: set[str] = set()

    def submit(self, priority: int, most: int = 3) -> str:
        self.number += 1
        name, queue = f"w{self.number}", self.chance.choice(_NAMES)
        cpu = self.chance.randint(1, most)
        self.api.submit(name, cpu=cpu, queue=queue, priority=priority, at_s=self.number)
        return name

    def cycle(self) -> None:
        effects: list[Effect] = self.api.cycle()
        for each in effects:
            if isinstance(each, Evict):
                self.owed.add(each.preemptor)
        self.keeps_what_was_freed()

    def keeps_what_was_freed(self) -> None:
        """When all evicted workloads have released their quota, each of their preemptors fits."""
        book, world = self.api.engine.ledger, self.api.engine.cache
        queues = {name: (queue.cohort, queue.quotas) for name, queue in world.queues.items()}
        staying = [(each.queue, dict(each.usage)) for each in book.holders() if not each.is_evicted]
        claims = {key: (claim.queue, dict(claim.usage)) for key, claim in book.claims().items()}
        for key, (queue, usage) in claims.items():
            others = [claim for name, claim in claims.items() if name != key]
            assert SlowQuota(queues, {}, [*staying, *others]).fits(queue, usage), f"what was freed for {key} is gone"

    def let_all_go(self) -> None:
        while going := self.going():
            self.api.gone(going[0].removeprefix("ns/"))
            self.cycle()

    def going(self) -> list[str]:
        return sorted(each.key for each in self.api.engine.ledger.holders() if each.is_evicted)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_a_preemptor_is_admitted_when_its_last_victim_is_gone(chance: Random) -> None:
    world = World(chance)
    for _ in range(chance.randint(4, 10)):
        world.submit(chance.randint(0, 1))
        world.cycle()
        world.let_all_go()
    world.owed.clear()
    strong = {f"ns/{world.submit(5, most=5)}" for _ in range(chance.randint(1, 3))}
    for _ in range(chance.randint(0, 4)):
        world.submit(chance.randint(0, 1))
    world.cycle()
    while going := world.going():
        world.api.gone(chance.choice(going).removeprefix("ns/"))
        if world.number < 20 and chance.random() < 0.5:
            world.submit(0)
        world.cycle()
        strong -= {f"ns/{name}" for name in world.api.admitted()}  # later it may be evicted itself
    assert not strong & world.owed, "they wait though all have gone"


def test_quota_reserved_for_a_preemptor_does_not_prevent_a_reclaim() -> None:
    """One CPU is free, but claimed by a preemptor. The next workload reclaims the nominal quota of its own queue."""
    api = Api()
    for name, cpu in (("a", 3), ("b", 0), ("c", 3)):
        api.queue(name, {"default": {"cpu": cpu}}, local=name, cohortName="x", preemption=_PREEMPTION)
    for at, cpu in enumerate((1, 2, 2)):
        api.submit(f"borrower{at}", cpu=cpu, queue="b", at_s=at)
        api.pass_s(1)
    api.submit("first", cpu=3, queue="a", at_s=10)
    assert [each.key for each in api.cycle() if isinstance(each, Evict)] == ["ns/borrower2"]
    api.submit("second", cpu=1, queue="c", at_s=11)
    evicted = [(each.key, each.preemptor) for each in api.cycle() if isinstance(each, Evict)]
    assert evicted == [("ns/borrower1", "ns/second")]
