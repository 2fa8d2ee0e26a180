"""Many workloads of each queue in one cycle: the same workloads, in the same order, as one of each queue at a time."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.quota.effects import Admit
from property.reference_admission import Asking, Queue, SlowAdmission
from property.reference_quota import Held, SlowQuota
from quota_engine import Api

_FLAVORS = ("spot", "fixed")
_COHORTS = ("x", "x", "x", "y", "top")
_NAMES = ("a", "b", "c", "d")


class World:
    """Queues of one tree, without preemption, and workloads that are created between two cycles."""

    def __init__(self, chance: Random) -> None:
        self.chance, self.api, self.number = chance, Api(), 0
        self.asking: dict[str, Asking] = {}
        self.queues: dict[str, Queue] = {}
        for name in _FLAVORS:
            self.api.flavor(name)
        self.api.cohort("y", "top")
        self.api.cohort("x", "top", {"spot": {"cpu": chance.randint(0, 2)}})
        for name in _NAMES[: chance.randint(1, 4)]:
            self.plant(name)

    def plant(self, name: str) -> None:
        chance = self.chance
        flavors, is_strict = _FLAVORS[: chance.randint(1, 2)], chance.random() < 0.5
        nominal = {flavor: chance.randint(0, 6) for flavor in flavors}
        self.api.queue(
            name,
            {each: {"cpu": (nominal[each], self.maybe(4), self.maybe(nominal[each]))} for each in flavors},
            local=name,
            cohortName=chance.choice(_COHORTS),
            queueingStrategy="StrictFIFO" if is_strict else "BestEffortFIFO",
            preemption={"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
        )
        self.queues[name] = Queue(flavors, is_strict)

    def maybe(self, most: int) -> int | None:
        return self.chance.choice((None, self.chance.randint(0, most)))

    def submit(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            name, came = f"w{self.number}", self.chance.randint(0, 1000) * 1000 + self.number
            queue, cpu, priority = (
                self.chance.choice(sorted(self.queues)),
                self.chance.randint(1, 4),
                self.chance.randint(0, 2),
            )
            self.asking[name] = Asking(name, queue, cpu * 1000, priority, came)
            self.api.submit(name, cpu=cpu, queue=queue, priority=priority, at_s=came)

    def slow(self) -> SlowAdmission:
        """What the reference says of things as they stand."""
        world, book = self.api.engine.cache, self.api.engine.ledger
        held: list[Held] = [(each.queue, dict(each.usage)) for each in book.holders()]
        known = {name: (queue.cohort, queue.quotas) for name, queue in world.queues.items()}
        above = {
            name: (parent, node.quotas if (node := book.now.cohort(name)) is not None else {})
            for name, parent in (("x", "top"), ("y", "top"))
        }
        holders = {each.key.removeprefix("ns/") for each in book.holders()}
        waiting = [each for name, each in self.asking.items() if name not in holders]
        return SlowAdmission(SlowQuota(known, above, held), self.queues, waiting)

    def admit(self) -> list[tuple[str, str]]:
        """An engine that considers all workloads: otherwise those that did not fit before are not considered."""
        self.api.restart()
        done = self.api.cycle()
        return [
            (each.key.removeprefix("ns/"), each.admission.pod_sets[0].flavors["cpu"])
            for each in done
            if isinstance(each, Admit)
        ]

    def finish(self) -> None:
        names = self.api.admitted()
        for name in self.chance.sample(names, self.chance.randint(0, len(names))):
            self.api.finish(name)
            del self.asking[name]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_a_cycle_admits_the_same_workloads_in_the_same_order_as_one_of_each_queue_at_a_time(chance: Random) -> None:
    world = World(chance)
    for _ in range(chance.randint(1, 4)):
        world.submit(chance.randint(1, 8))
        expected = world.slow().run()
        assert world.admit() == expected
        world.finish()
