"""A scheduler with leases that crashes at every point of a scenario, with every subset of its requests in flight
executed.

No node fits a pod and a gang that come first in their queues. Whatever happens, their capacity goes to the pods behind
them, no write lifts a queue above its limit, no pod is evicted, and a pod that has lapsed is hidden from autoscalers
until it asks again. The successor of a crashed scheduler knows only what the API server shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product

from headgate.capacity.api.lease import read_lapse
from headgate.capacity.names import LAPSED, STAMP
from property.fake_api import node_of, reason_of, uid_of
from property.simulated_queues import QueueSimulation


class LeaseSimulation(QueueSimulation):
    has_leases = True

    def switch_leases(self, on: bool) -> None:
        self.has_leases = on
        self.die()


HANDS: list[Callable[[LeaseSimulation], object]] = [
    lambda world: world.show(("pods", 2)),
    lambda world: world.step(2),
    lambda world: world.answer_lift((0, "truth")),
    lambda world: world.answer_removal((0, "truth")),
    lambda world: world.show(("pods", 2)),
    lambda world: world.answer_bind((0, "truth")),
    lambda world: world.answer_status(0),
]
TURNS = 14
STEPS = 1 + TURNS * len(HANDS)
STUCK = ("stuck", "g0", "g1")
LEASE_S = 5.0
HIDDEN = ("WaitingForQueue", "SchedulingGated")
"""Reasons that autoscalers ignore; the second is of a pod that was never promised anything."""


def a_scenario() -> Iterator[LeaseSimulation]:
    """The world after every step."""
    world = LeaseSimulation()
    world.api.put_node("n0")
    world.api.put_node("n1")
    for resource in ("queues", "groups", "nodes"):
        world.list_again(resource)
    world.api.create_gated("stuck", 2, "b", "", "gated", lease="5s", disk="fast")
    for name in ("g0", "g1"):
        world.api.create_gated(name, 1, "a1", "g2", "gated", lease="5s", disk="fast")
    world.api.create_gated("behind", 2, "b", "", "gated")
    world.api.create_gated("after", 3, "a1", "", "gated")
    yield world
    for _ in range(TURNS):
        for hand in HANDS:
            hand(world)
            check(world)
            yield world
        world.later(1.0)


def scenario_until(step: int) -> LeaseSimulation:
    return next(world for number, world in enumerate(a_scenario()) if number == step)


def check(world: LeaseSimulation) -> None:
    """A promise that is shown counts, and none is shown together with more than its queue has."""
    for queue in ("b", "a1"):
        assert world.api.used(queue) <= world.api.limits[queue], queue
    assert len(world.api.pods) == 5, "a pod was evicted"


def finish(world: LeaseSimulation) -> None:
    """Time passes until the pods behind the stuck ones are bound; a restarted scheduler begins the leases again."""
    for _ in range(20):
        world.settle_for(LEASE_S)
        check(world)
        if node_of(world.api.pods["behind"]) and node_of(world.api.pods["after"]):
            break
    assert node_of(world.api.pods["behind"])
    assert node_of(world.api.pods["after"])
    world.settle_for(1.0)
    for name in STUCK:
        assert STAMP not in world.api.pods[name]["metadata"]["annotations"]
        assert reason_of(world.api.pods[name]) in HIDDEN, name
    assert has_lapsed(world, "stuck")
    assert has_lapsed(world, "g0") or has_lapsed(world, "g1")
    assert not world.preempts


def has_lapsed(world: LeaseSimulation, name: str) -> bool:
    wire = world.api.pods[name]
    return read_lapse(wire["metadata"]["annotations"].get(LAPSED), uid_of(wire)) is not None


def test_the_pods_behind_a_stuck_one_get_its_capacity_without_a_crash() -> None:
    world = scenario_until(STEPS - 1)
    finish(world)


def test_a_crash_at_any_point_promises_nothing_twice_and_strands_no_pod() -> None:
    points: Counter[str] = Counter()
    for step in range(STEPS):
        world = scenario_until(step)
        counts = {
            "lifts": len(world.lifts),
            "removals": len(world.removals),
            "others": len(world.binds) + len(world.statuses),
        }
        points += Counter(counts)
        for lifts in product((False, True), repeat=counts["lifts"]):
            for others in product((False, True), repeat=max(counts["removals"], counts["others"])):
                world = scenario_until(step)
                world.die(others, lifts)
                check(world)
                finish(world)
    assert points["removals"] > 0
    assert points["lifts"] > 0
    assert points["others"] > 0


def test_off_and_on_again_at_any_point_keeps_every_promise_and_strands_no_pod() -> None:
    for step in range(0, STEPS, 3):
        world = scenario_until(step)
        world.switch_leases(on=False)
        stamps = {name: wire["metadata"]["annotations"].get(STAMP) for name, wire in world.api.pods.items()}
        world.settle_for(100 * LEASE_S)
        for name, stamp in stamps.items():
            wire = world.api.pods[name]
            assert stamp is None or wire["metadata"]["annotations"].get(STAMP) == stamp, "a promise was lost"
        for name, wire in world.api.pods.items():
            waits = world.scheduler.queues.peek_wait_reason(uid_of(wire))
            assert node_of(wire) or waits is None or waits.why.value == "QueueFull", f"{name}: {waits}"
        world.switch_leases(on=True)
        finish(world)
