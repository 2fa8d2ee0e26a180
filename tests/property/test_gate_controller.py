"""The gate controller beside another scheduler, with all possible faults.

No removal of a gate exceeds a queue's limit, also with the terminating pods that still are on their nodes. A gate is
removed once per uid, and a gang as a whole. When all is quiet, the ledger equals a recount, and no gated pod waits that
would fit: after late, lost and refused requests, re-created pods and crashes.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from property.fake_api import SIZES
from property.fake_api_with_queues import GROUPS, LEAVES, LIMITS
from property.named_steps import named_steps
from property.simulated_gates import GateSimulation

PODS = ["s", "t", "u", "v", "w", "x", "y", "z"]
names, nodes, few = st.sampled_from(PODS), st.sampled_from(list(SIZES)), st.integers(0, 3)
ANSWERS = ["truth", "truth", "truth", "later", "refused", "lost", "unheard"]


def created(*kinds: str) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(
        names,
        st.integers(1, 3),
        st.sampled_from(LEAVES),
        st.sampled_from(["", "", *GROUPS]),
        st.sampled_from(kinds),
        st.sampled_from([0, 0, 10]),
    )


OF_THE_API: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "create_gated": created("gated", "gated", "gated", "foreign"),
    "finish_pod": st.tuples(names),
    "lift_gate": st.tuples(names),
    "put_node": st.tuples(nodes),
    "reap": st.just(()),
}
KINDS = ["pods", "queues", "groups"]
OF_THE_WORLD: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "show": st.tuples(st.tuples(st.sampled_from(["pods", *KINDS]), st.integers(1, 6))),
    "list_again": st.tuples(st.sampled_from(KINDS)),
    "step": st.just(()),
    "schedule": st.just(()),
    "work": st.just(()),
    "answer_lift": st.tuples(st.tuples(few, st.sampled_from(ANSWERS))),
    "answer_status": st.tuples(few),
    "delete_slowly": st.tuples(names, st.sampled_from([0, 5, 30])),
    "lift_ghost": st.tuples(few),
    "later": st.tuples(st.sampled_from([0.5, 2.0, 11.0, 31.0])),
    "die": st.tuples(st.lists(st.booleans(), max_size=8).map(tuple)),
}
STRICT = {**OF_THE_API, **OF_THE_WORLD}
WILD = {
    **STRICT,
    "create_gated": created("gated", "gated", "foreign", "bare", "plain"),
    "tear_gate": st.tuples(names),
    "opt_out": st.tuples(names),
    "regroup": st.tuples(names, st.sampled_from(["", *GROUPS])),
    "set_minimum": st.tuples(st.sampled_from(list(GROUPS)), st.integers(1, 3)),
    "delete_pod": st.tuples(names),
    "remove_node": st.tuples(nodes),
    "set_limit": st.tuples(st.sampled_from(list(LIMITS)), st.integers(0, 6)),
    "switch": st.tuples(st.booleans()),
    "later": st.tuples(st.sampled_from([0.5, 2.0, 31.0, 301.0])),
}
OFTEN = ["create_gated"] * 10 + ["show", "work", "delete_slowly"] * 5 + ["step", "schedule", "answer_lift"] * 4


def lives(steps: dict[str, st.SearchStrategy[tuple[Any, ...]]]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    taken = named_steps(OFTEN + list(steps), steps)
    return st.lists(taken, min_size=30, max_size=90)


def take(simulation: GateSimulation, name: str, args: tuple[Any, ...]) -> None:
    getattr(simulation if hasattr(simulation, name) else simulation.api, name)(*args)


def with_nodes(*, strict: bool) -> GateSimulation:
    simulation = GateSimulation(strict=strict)
    for name in SIZES:
        simulation.api.put_node(name)
    return simulation


def check_rest(simulation: GateSimulation) -> None:
    simulation.settle()
    simulation.check_gates()
    simulation.check_ledger()
    simulation.check_no_pod_is_stranded()


@settings(max_examples=200, deadline=None)
@given(lives(STRICT))
@example(
    [
        ("create_gated", ("s", 1, "a1", "", "gated", 0)),
        ("create_gated", ("t", 2, "a1", "", "gated", 0)),
        ("create_gated", ("u", 1, "a1", "", "gated", 0)),
        ("delete_slowly", ("s", 0)),  # the controller learns it from the response to the removal of the gate
        ("work", ()),
    ]
)
def test_no_limit_is_exceeded_also_not_beside_terminating_pods(taken: list[tuple[str, Any]]) -> None:
    simulation = with_nodes(strict=True)
    for name, args in taken:
        take(simulation, name, args)
        simulation.check_gates()
    check_rest(simulation)


@settings(max_examples=200, deadline=None)
@given(lives(WILD))
def test_no_pod_is_stranded_beside_pods_that_did_not_opt_in_and_after_lowered_limits(
    taken: list[tuple[str, Any]],
) -> None:
    simulation = with_nodes(strict=False)
    for name, args in taken:
        take(simulation, name, args)
        simulation.check_gates()
    check_rest(simulation)


@settings(max_examples=60, deadline=None)
@given(lives(STRICT))
def test_a_restart_when_all_is_done_changes_nothing(taken: list[tuple[str, Any]]) -> None:
    simulation = with_nodes(strict=True)
    for name, args in taken:
        take(simulation, name, args)
    simulation.settle()
    before = simulation.placed_or_stamped()
    usage = {queue: simulation.controller.queues.usage(queue) for queue in LIMITS}
    simulation.die()
    check_rest(simulation)
    assert simulation.placed_or_stamped() == before
    assert {queue: simulation.controller.queues.usage(queue) for queue in LIMITS} == usage


@settings(max_examples=60, deadline=None)
@given(lives(WILD))
def test_equal_events_have_equal_effects(taken: list[tuple[str, Any]]) -> None:
    outputs = []
    for _ in range(2):
        simulation = with_nodes(strict=False)
        for name, args in taken:
            take(simulation, name, args)
        outputs.append(simulation.outputs)
    assert outputs[0] == outputs[1]
