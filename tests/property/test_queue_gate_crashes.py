"""A scheduler with queues that crashes at every point of a scenario, with every subset of its requests in flight
executed.

The points: reserved and not patched, patched and not answered, answered and not bound, bound and not answered, a
condition not yet written. The successor knows only what the API server shows: the stamps. No pod is lost, no queue
exceeds its limit at any revision, no gate is removed twice, and no unused promise is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import product
from typing import Any

from headgate.capacity.names import GATE
from property.fake_api import node_of, reason_of, uid_of
from property.fake_api_with_queues import LIMITS, gate_names, is_stamped
from property.simulated_queues import QueueSimulation

# One after the other, until all of them have nothing to do.
HANDS: list[Callable[[QueueSimulation], object]] = [
    lambda world: world.show(("pods", 2)),
    lambda world: world.step(2),
    lambda world: world.answer_lift((0, "truth")),
    lambda world: world.show(("pods", 1)),
    lambda world: world.answer_bind((0, "truth")),
    lambda world: world.answer_status(0),
    lambda world: world.api.reap(),
]


def _create(name: str, cpu: int, queue: str, group: str = "", how: str = "gated", priority: int = 0) -> Any:
    return lambda world: world.api.create_gated(name, cpu, queue, group, how, priority)


def _create_again(simulation: QueueSimulation) -> None:
    """Under the name of one whose gate may be on its way off, in a queue that is full by now."""
    simulation.api.delete_pod("again")
    simulation.api.reap()
    simulation.api.create_gated("again", 2, "b", "", "gated", 0)


# By turn: two queues under one that has less than both, a group, a true shortage, and names that come back.
DOINGS: dict[int, list[Callable[[QueueSimulation], object]]] = {
    0: [_create("one", 2, "a1"), _create("two", 1, "a1"), _create("late", 1, "a1")],
    1: [_create("other", 2, "a2"), _create("full", 2, "a2")],
    3: [_create("again", 2, "b"), _create("held", 1, "default", how="foreign")],
    4: [_create_again, _create("huge", 6, "default")],
    6: [lambda world: world.api.finish_pod("one"), lambda world: world.api.lift_gate("held")],
    7: [_create("g0", 1, "a1", "g2"), _create("g1", 1, "a1", "g2"), _create("urgent", 1, "a1", priority=10)],
    9: [lambda world: world.api.delete_pod("two"), _create("bare", 1, "default", how="bare")],
    10: [lambda world: world.api.delete_pod("other"), lambda world: world.api.delete_pod("late")],
}
TURNS = 15
STEPS = 1 + TURNS * len(HANDS)
WAITS_FOR_A_NODE = {"huge"}


def a_scenario() -> Iterator[QueueSimulation]:
    """The world after every step."""
    simulation = QueueSimulation()
    for node in ("n0", "n1", "n2"):
        simulation.api.put_node(node)
    for resource in ("queues", "groups", "nodes"):
        simulation.list_again(resource)
    yield simulation
    for turn in range(TURNS):
        for doing in DOINGS.get(turn, ()):
            doing(simulation)
        for hand in HANDS:
            hand(simulation)
            yield simulation
        simulation.later(1.5)


def scenario_until(step: int) -> QueueSimulation:
    return next(simulation for number, simulation in enumerate(a_scenario()) if number == step)


def come_to_rest(simulation: QueueSimulation) -> None:
    simulation.settle()
    simulation.check_places()
    simulation.check_counts()
    simulation.check_gates()
    simulation.check_ledger()
    simulation.check_nobody_is_stranded()


def finish(simulation: QueueSimulation) -> None:
    come_to_rest(simulation)
    for queue, limit in LIMITS.items():
        assert simulation.api.used(queue) <= limit, queue
    for name, wire in simulation.api.pods.items():
        if node_of(wire):
            assert simulation.api.bound[uid_of(wire)] == node_of(wire)
        elif is_stamped(wire) or not gate_names(wire):
            assert not simulation.api.could_run(wire), f"{name} has capacity in its queue and on a node, and waits"
            assert reason_of(wire) == "Unschedulable", name


def settled(simulation: QueueSimulation) -> dict[str, Any]:
    """The message of a pod that waits for a node may differ."""
    return deepcopy(
        {uid_of(wire): (wire["spec"], wire["metadata"]["annotations"]) for wire in simulation.api.pods.values()}
    )


def check_nothing_leaked(simulation: QueueSimulation) -> None:
    """A scheduler that starts now counts the same, from the API alone, and has nothing to do."""
    before = settled(simulation)
    usage = {queue: simulation.scheduler.queues.usage(queue) for queue in LIMITS}
    simulation.die()
    finish(simulation)
    assert settled(simulation) == before
    assert {queue: simulation.scheduler.queues.usage(queue) for queue in LIMITS} == usage


def test_the_scenario_completes_without_a_crash() -> None:
    simulation = scenario_until(STEPS - 1)
    finish(simulation)
    waiting = {name for name, wire in simulation.api.pods.items() if not node_of(wire)}
    assert waiting == WAITS_FOR_A_NODE
    check_nothing_leaked(simulation)


def test_a_crash_at_any_point_loses_no_pod_and_no_capacity_is_promised_twice() -> None:
    points: Counter[str] = Counter()
    for step in range(STEPS):
        simulation = scenario_until(step)
        lifts, others = (
            len(simulation.lifts),
            len(simulation.binds) + len(simulation.statuses) + len(simulation.preempts),
        )
        points["reserved, gate not lifted yet"] += lifts
        points["to be bound"] += len(simulation.binds)
        points["before status"] += len(simulation.statuses)
        points["lifted, not shown"] += sum(
            GATE in gate_names(shown) and uid in simulation.api.lifted
            for shown in simulation.api.watches["pods"].known.values()
            if (uid := uid_of(shown))
        )
        for arrives in product((False, True), repeat=lifts + others):
            simulation = scenario_until(step)
            points["lifted, not answered"] += sum(arrives[:lifts])
            points["bound or told, not answered"] += sum(arrives[lifts:])
            simulation.die(arrives[lifts:], arrives[:lifts])
            finish(simulation)
        check_nothing_leaked(simulation)
    assert min(points.values()) > 0, points
    assert len(points) == 6


def test_repeated_crashes_lose_no_pod() -> None:
    """Each lives for a few steps, and what it had under way arrives after it died."""
    for life in range(1, 16):
        simulation = QueueSimulation()
        for step, simulation in enumerate(a_scenario()):
            if step % life == life - 1:
                simulation.die((True,) * 4, (True,) * 4 if step % 2 else (False, True))
        finish(simulation)
        check_nothing_leaked(simulation)


def test_a_late_patch_of_a_crashed_scheduler_is_counted_by_its_successor() -> None:
    """Leader election delays the successor until then; without election there is one promise too many at worst."""
    arrived = 0
    for step in range(STEPS):
        late = len(scenario_until(step).lifts)
        for hands in (0, 2, 5) if late else ():
            simulation = scenario_until(step)
            lifts = list(simulation.lifts)
            simulation.api.create_gated("rival", 2, "a1", "", "gated", 10)  # comes first, now
            simulation.die()
            for hand in HANDS[:hands]:
                hand(simulation)
            for lift in lifts:
                simulation.late_lift(lift)
            arrived += late
            come_to_rest(simulation)
    assert arrived > 20
