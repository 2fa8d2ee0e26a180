"""A scheduler that crashes at every point of a scenario, with every subset of its requests in flight executed.

The points: decided and not sent, sent and not answered, answered and not shown, a condition not yet written, victims
not yet deleted. The successor knows only what the API server shows. Every pod is bound once, and none is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product

from property.fake_api import node_of
from property.simulated_scheduler import SchedulerSimulation

# One after the other, until all of them have nothing to do.
HANDS: list[Callable[[SchedulerSimulation], object]] = [
    lambda world: world.show(("nodes", 1)),
    lambda world: world.show(("pods", 1)),
    lambda world: world.step(1),
    lambda world: world.answer_bind((0, "truth")),
    lambda world: world.answer_status(0),
    lambda world: world.answer_preempt((0, True)),
    lambda world: world.api.reap(),
]
TURNS = 12


def a_scenario() -> Iterator[SchedulerSimulation]:
    """The world after every step. Two pods are gated, one waits for capacity, and one preempts others."""
    simulation = SchedulerSimulation()
    api = simulation.api
    for node in ("n0", "n1", "n2"):
        api.put_node(node)
    for name, cpu in (("a", 2), ("b", 2), ("c", 3), ("d", 2), ("e", 1)):
        api.create_pod(name, cpu, 0, 0, 0)
    api.create_pod("gated", 1, 1, 0, 0)
    yield simulation
    for turn in range(TURNS):
        for hand in HANDS:
            hand(simulation)
            yield simulation
        if turn == 2:
            api.create_pod("huge", 5, 0, 0, 0)
            api.create_pod("urgent", 4, 0, 10, 0)
        if turn == 4:
            api.lift_gate("gated")
        simulation.later(3.0)


def scenario_until(step: int) -> SchedulerSimulation:
    return next(simulation for number, simulation in enumerate(a_scenario()) if number == step)


def finish(simulation: SchedulerSimulation) -> None:
    simulation.settle()
    simulation.check_places()
    simulation.check_counts()
    simulation.check_peace()
    assert node_of(simulation.api.pods["gated"]) or simulation.api.pods["gated"]["spec"].get("schedulingGates")
    assert "huge" not in simulation.api.pods or not node_of(simulation.api.pods["huge"])
    for wire in simulation.api.pods.values():
        if node_of(wire):
            assert simulation.api.bound[wire["metadata"]["uid"]] == node_of(wire)


def test_a_crash_at_any_point_loses_no_pod_and_binds_no_pod_twice() -> None:
    points: Counter[str] = Counter()
    for step in range(1 + TURNS * len(HANDS)):
        simulation = scenario_until(step)
        under_way = len(simulation.binds) + len(simulation.statuses) + len(simulation.preempts)
        points["decided"] += len(simulation.binds)
        points["before status"] += len(simulation.statuses)
        points["before victims are told"] += len(simulation.preempts)
        points["answered, not shown"] += len(simulation.scheduler.cluster.matrix.assumed()) - len(simulation.binds)
        for arrives in product((False, True), repeat=under_way):
            simulation = scenario_until(step)
            points["sent, not answered"] += sum(arrives)
            simulation.die(arrives)
            finish(simulation)
    assert min(points.values()) > 0, points
    assert len(points) == 5


def test_repeated_crashes_lose_no_pod() -> None:
    """Each lives for a few steps, and what it had under way arrives after it died."""
    for life in range(1, 12):
        simulation = SchedulerSimulation()
        for step, simulation in enumerate(a_scenario()):
            if step % life == life - 1:
                simulation.die((True,) * 4)
        finish(simulation)
