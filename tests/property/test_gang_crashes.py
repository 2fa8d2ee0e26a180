"""A scheduler that crashes at every point of a scenario in which a gang loses a pod while its gates are being removed.

The gang holds all of its queue, and another pod waits for that capacity. The promises of the other members end, and the
order of responses and watch events varies. At every revision the API shows no more promises than the queue has capacity
for, also if the scheduler dies and some of its requests arrive. The waiting pod gets its node in the end, unless the
gang is complete again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product

import pytest

from property.fake_api import node_of, reason_of
from property.fake_api_with_queues import is_stamped
from property.simulated_queues import QueueSimulation

Hand = Callable[[QueueSimulation], object]


def show(world: QueueSimulation) -> None:
    world.show(("pods", 1))


def step(world: QueueSimulation) -> None:
    world.step(2)


def lift(world: QueueSimulation) -> None:
    world.answer_lift((0, "truth"))


def lose_a_response(world: QueueSimulation) -> None:
    world.answer_lift((0, "lost"))


def remove_a_stamp(world: QueueSimulation) -> None:
    world.answer_removal((0, "truth"))


def bind(world: QueueSimulation) -> None:
    world.answer_bind((0, "truth"))
    world.answer_status(0)


ORDERS: dict[str, list[Hand]] = {
    "responses first": [step, lift, remove_a_stamp, show, bind],
    "watch first": [show, show, step, lift, show, remove_a_stamp, bind],
    "a response is lost": [step, lose_a_response, show, step, lift, remove_a_stamp, bind],
}
TURNS = 5


def delete_a_member(world: QueueSimulation) -> None:
    world.api.delete_pod("s")


def raise_the_minimum(world: QueueSimulation) -> None:
    world.set_minimum("g2", 3)


def move_a_member(world: QueueSimulation) -> None:
    world.regroup("s", "g3")


def delete_and_create_again(world: QueueSimulation) -> None:
    world.api.delete_pod("s")
    world.api.create_gated("s", 2, "a1", "g2", "gated", disk="fast")


CHANGES = [delete_a_member, raise_the_minimum, move_a_member, delete_and_create_again]


def a_scenario(change: Hand, order: str) -> Iterator[QueueSimulation]:
    """The world after every step."""
    world = QueueSimulation()
    for node in ("n0", "n1", "n2"):
        world.api.put_node(node)
    for resource in ("queues", "groups", "nodes"):
        world.list_again(resource)
    world.api.create_gated("s", 2, "a1", "g2", "gated", disk="fast")
    world.api.create_gated("y", 1, "a1", "g2", "gated", disk="fast")
    world.show(("pods", 2))
    world.step(2)
    assert len(world.lifts) == 2
    world.api.create_gated("x", 3, "a1", "", "gated")
    change(world)
    for resource in ("pods", "groups"):
        world.show((resource, 3))
    yield world
    for _ in range(TURNS):
        for hand in ORDERS[order]:
            hand(world)
            check(world)
            yield world
        world.later(1.5)


def scenario_until(change: Hand, order: str, last: int) -> QueueSimulation:
    return next(world for number, world in enumerate(a_scenario(change, order)) if number == last)


def check(world: QueueSimulation) -> None:
    assert world.api.used("a1") <= world.api.limits["a1"]
    assert world.api.used("a") <= world.api.limits["a"]


def finish(world: QueueSimulation) -> None:
    world.settle()
    check(world)
    world.check_places()
    world.check_counts()
    world.check_gates()
    world.check_ledger()
    if is_stamped(world.api.pods["y"]):
        # After the crash the gang is granted as a whole again, before the other pod.
        assert not is_stamped(world.api.pods["x"])
        return
    assert node_of(world.api.pods["x"])
    assert reason_of(world.api.pods["y"]) in ("WaitingForQueue", "SchedulingGated")


CRASHES = [(change, "responses first") for change in CHANGES] + [(delete_a_member, order) for order in list(ORDERS)[1:]]


@pytest.mark.parametrize(("change", "order"), CRASHES)
def test_a_crash_at_any_point_shows_no_capacity_promised_twice(change: Hand, order: str) -> None:
    points: Counter[str] = Counter()
    for number, _ in enumerate(a_scenario(change, order)):
        world = scenario_until(change, order, number)
        counts = {"lifts": len(world.lifts), "removals": len(world.removals)}
        if number and not any(counts.values()):
            continue  # the successor finds the same as after the next request
        points += Counter(counts)
        for lifts in product((False, True), repeat=counts["lifts"]):
            for removals in product((False, True), repeat=counts["removals"]):
                world = scenario_until(change, order, number)
                world.die(removals, lifts)
                check(world)
                finish(world)
    assert points["lifts"] > 0
    # If the pod is created again at once, its queue admits it, and no promise ends.
    assert bool(points["removals"]) is (change is not delete_and_create_again)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("change", CHANGES)
def test_the_waiting_pod_gets_the_capacity_without_a_crash(change: Hand, order: str) -> None:
    *_, world = a_scenario(change, order)
    finish(world)
