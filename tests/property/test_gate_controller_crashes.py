"""A gate controller that crashes at every point of a scenario, with every subset of its requests in flight executed.

The points: promised and not patched, patched and not answered, answered and not bound, promised and waiting for
terminating pods, a condition not yet written. The successor knows only what the API server shows: the stamps. No pod is
lost, no queue exceeds its limit, no gate is removed twice, and no unused promise is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from headgate.capacity.names import GATE
from property.fake_api import node_of
from property.fake_api_with_queues import LIMITS, gate_names
from property.simulated_gates import GateSimulation

# One after the other, until all of them have nothing to do.
ACTIONS: list[Callable[[GateSimulation], object]] = [
    lambda world: world.show(("pods", 2)),
    lambda world: world.step(),
    lambda world: world.answer_lift((0, "truth")),
    lambda world: world.show(("pods", 1)),
    lambda world: world.schedule(),
    lambda world: world.answer_status(0),
]


def _create(name: str, cpu: int, queue: str, group: str = "", how: str = "gated") -> Any:
    return lambda world: world.api.create_gated(name, cpu, queue, group, how, 0)


def _delete(name: str, grace_s: int = 30) -> Any:
    return lambda world: world.delete_slowly(name, grace_s)


def _create_again(simulation: GateSimulation) -> None:
    """A pod with the name of one whose gate removal is in flight, in a queue that is full now."""
    simulation.delete_slowly("again", 0)
    simulation.api.reap()
    simulation.api.create_gated("again", 2, "b", "", "gated", 0)


# In turn: two queues below one that has less than both, a gang, a real shortage, and pods that terminate slowly.
CHANGES: dict[int, list[Callable[[GateSimulation], object]]] = {
    0: [_create("one", 2, "a1"), _create("two", 1, "a1"), _create("late", 1, "a1")],
    1: [_create("other", 2, "a2"), _create("full", 2, "a2")],
    3: [_create("again", 2, "b"), _create("held", 1, "default", how="foreign")],
    4: [_create_again, _create("huge", 6, "default")],
    6: [_delete("one"), lambda world: world.api.lift_gate("held")],
    7: [_create("g0", 1, "a1", "g2"), _create("g1", 1, "a1", "g2")],
    8: [_delete("two")],
    10: [lambda world: world.api.reap(), _delete("other")],
    12: [lambda world: world.api.reap(), _delete("late")],
}
TURNS = 15
STEPS = 1 + TURNS * len(ACTIONS)
WAITS_FOR_A_NODE = {"huge"}


def a_scenario() -> Iterator[GateSimulation]:
    """The cluster after every step."""
    simulation = GateSimulation()
    for node in ("n0", "n1", "n2"):
        simulation.api.put_node(node)
    yield simulation
    for turn in range(TURNS):
        for change in CHANGES.get(turn, ()):
            change(simulation)
        for act in ACTIONS:
            act(simulation)
            simulation.check_gates()
            yield simulation
        simulation.later(1.5)


def scenario_until(step: int) -> GateSimulation:
    return next(simulation for number, simulation in enumerate(a_scenario()) if number == step)


def finish(simulation: GateSimulation) -> None:
    simulation.settle()
    simulation.check_gates()
    simulation.check_ledger()
    simulation.check_no_pod_is_stranded()
    for queue, limit in LIMITS.items():
        assert simulation.api.used(queue) <= limit, queue
    waiting = {name for name, wire in simulation.api.pods.items() if not node_of(wire) and not gate_names(wire)}
    assert waiting <= WAITS_FOR_A_NODE


def test_the_scenario_completes_without_a_crash() -> None:
    simulation = scenario_until(STEPS - 1)
    finish(simulation)
    assert {name for name, wire in simulation.api.pods.items() if not node_of(wire)} == WAITS_FOR_A_NODE


def test_a_crash_at_any_point_loses_no_pod_and_no_capacity_is_promised_twice() -> None:
    points: Counter[str] = Counter()
    for step in range(STEPS):
        simulation = scenario_until(step)
        queues, uids = simulation.controller.queues, [each["metadata"]["uid"] for each in simulation.api.pods.values()]
        points["promised, gate not removed yet"] += len(simulation.lifts)
        points["promised, waits for terminating pods"] += sum(map(queues.is_start_delayed, uids))
        points["condition not written"] += len(simulation.statuses)
        points["removed, not shown"] += sum(
            GATE in gate_names(shown) and shown["metadata"]["uid"] in simulation.api.lifted
            for shown in simulation.api.watches["pods"].known.values()
        )
        for arrives in product((False, True), repeat=len(simulation.lifts)):
            simulation = scenario_until(step)
            points["removed, not answered"] += sum(arrives)
            simulation.die(arrives)
            finish(simulation)
        before = simulation.placed_or_stamped()
        simulation.die()
        finish(simulation)
        assert simulation.placed_or_stamped() == before
    assert min(points.values()) > 0, points
