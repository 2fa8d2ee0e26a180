"""Queue plugins beside the scheduler and the gate controller, with all possible faults of the API server and crashes.

A plugin has a reservation for exactly the pods that hold capacity of a queue, as a look at each pod finds them: each is
released once, on every path, and a new process restores them. That holds also if a later plugin refuses the unit.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings

from property.fake_api import SIZES, uid_of
from property.fake_api_with_queues import holds
from property.recording_queue_plugins import PluginGateSimulation, PluginQueueSimulation
from property.test_gate_controller import STRICT, WILD
from property.test_gate_controller import lives as gate_lives
from property.test_gate_controller import take as take_gate_step
from property.test_queue_gate import lives, take


class RefusingQueueSimulation(PluginQueueSimulation):
    refuses = True


class LeasedQueueSimulation(PluginQueueSimulation):
    has_leases = True


class RefusingGateSimulation(PluginGateSimulation):
    refuses = True


def run(simulation: PluginQueueSimulation, taken: list[tuple[str, tuple[Any, ...]]]) -> None:
    for resource in ("queues", "groups", "nodes"):
        simulation.list_again(resource)
    for name, args in taken:
        take(simulation, name, args)
        simulation.check_places()
        simulation.check_gates()


def check_end(simulation: PluginQueueSimulation) -> None:
    """The reservations equal the API when all is quiet, and are empty when all pods are deleted."""
    alive = {uid_of(wire) for wire in simulation.api.pods.values() if holds(wire)}
    assert set(simulation.plugins[0].open) == alive
    for name in list(simulation.api.pods):
        simulation.api.delete_pod(name)
    simulation.settle()
    assert all(not each.open and not each.problems for each in simulation.plugins)


BOUND_MEMBER_IS_DELETED: list[tuple[str, tuple[Any, ...]]] = [
    ("create_gated", ("u", 1, "a1", "g2", "gated", 0)),
    ("put_node", ("n0",)),
    ("create_gated", ("s", 1, "a1", "g2", "gated", 0)),
    ("die", ((),)),
    ("step", (1,)),
    ("answer_lift", ((0, "truth"),)),
    ("answer_bind", ((0, "truth"),)),
    ("delete_slowly", ("u", 0)),
    ("answer_lift", ((0, "truth"),)),
    ("answer_bind", ((0, "later"),)),
]
"""The gang is incomplete when the binding of its second member is refused, so the promise of that member is revoked."""


MEMBER_OPTED_OUT: list[tuple[str, tuple[Any, ...]]] = [
    ("create_gated", ("s", 1, "a1", "g2", "bare", 0)),
    ("opt_out", ("s",)),
    ("create_gated", ("t", 1, "a1", "g2", "gated", 0)),
]
"""The gang has capacity as a whole. There is no node, so the member without the opt-in gives its capacity back."""


@settings(max_examples=150, deadline=None)
@given(lives)
@example(BOUND_MEMBER_IS_DELETED)
@example(MEMBER_OPTED_OUT)
def test_every_reservation_is_released_once_when_its_pod_holds_capacity_no_more(
    taken: list[tuple[str, tuple[Any, ...]]],
) -> None:
    simulation = PluginQueueSimulation()
    run(simulation, taken)
    simulation.settle()
    simulation.check_ledger()
    simulation.check_nobody_is_stranded()
    check_end(simulation)


@settings(max_examples=100, deadline=None)
@given(lives)
def test_a_lapse_of_a_lease_releases_the_reservation(taken: list[tuple[str, tuple[Any, ...]]]) -> None:
    simulation = LeasedQueueSimulation()
    run(simulation, taken)
    simulation.settle()
    check_end(simulation)


THREE_FAILURES_ONE_AFTER_THE_OTHER: list[tuple[str, tuple[Any, ...]]] = [
    ("set_minimum", ("g2", 1)),
    ("create_gated", ("t", 1, "a1", "g2", "gated", 0)),
    ("create_gated", ("w", 1, "a1", "g2", "gated", 0)),
]
"""Each member is a unit: the plugin fails for t once, and then for w twice. Each failure holds the group for 300 s."""


@example(THREE_FAILURES_ONE_AFTER_THE_OTHER)
@settings(max_examples=150, deadline=None)
@given(lives)
def test_a_plugin_that_refuses_undoes_the_reservations_before_it_and_strands_no_pod(
    taken: list[tuple[str, tuple[Any, ...]]],
) -> None:
    simulation = RefusingQueueSimulation()
    run(simulation, taken)
    simulation.outlast_refusals()
    simulation.check_ledger()
    simulation.check_nobody_is_stranded()
    check_end(simulation)


def gate_simulation_at_rest(simulation: PluginGateSimulation, taken: list[tuple[str, Any]]) -> PluginGateSimulation:
    for name in SIZES:
        simulation.api.put_node(name)
    for name, args in taken:
        take_gate_step(simulation, name, args)
        simulation.check_gates()
    simulation.outlast_refusals()
    return simulation


@settings(max_examples=150, deadline=None)
@given(gate_lives(STRICT))
def test_the_gate_controller_keeps_the_reservations_of_plugins_that_refuse(taken: list[tuple[str, Any]]) -> None:
    simulation = gate_simulation_at_rest(RefusingGateSimulation(), taken)
    simulation.check_gates()
    simulation.check_ledger()
    simulation.check_no_pod_is_stranded()


@settings(max_examples=150, deadline=None)
@given(gate_lives(WILD))
def test_the_gate_controller_keeps_the_reservations_beside_pods_that_did_not_opt_in(
    taken: list[tuple[str, Any]],
) -> None:
    simulation = gate_simulation_at_rest(PluginGateSimulation(strict=False), taken)
    simulation.check_gates()
    if simulation.enabled:
        simulation.check_ledger()
        alive = {uid_of(wire) for wire in simulation.api.pods.values() if holds(wire)}
        assert set(simulation.plugins[0].open) == alive
