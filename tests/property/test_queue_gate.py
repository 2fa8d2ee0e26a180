"""Queues, gates and a scheduler beside a fake API server with all possible faults.

No grant exceeds a queue's limit at its revision. A gate is removed once per uid, and a group is granted as a whole. No
gated pod is unschedulable. When all is quiet, the ledger equals a recount, and no pod waits that would fit: after late,
lost and refused requests, re-created pods and crashes.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from property.fake_api import SIZES
from property.fake_api_with_queues import GROUPS, LEAVES, LIMITS
from property.named_steps import named_steps
from property.simulated_queues import QueueSimulation

PODS = ["s", "t", "u", "v", "w", "x", "y", "z"]
names, nodes, few = st.sampled_from(PODS), st.sampled_from(list(SIZES)), st.integers(0, 3)
ANSWERS = ["truth", "truth", "truth", "later", "refused", "lost", "unheard"]
created = st.tuples(
    names,
    st.integers(1, 3),
    st.sampled_from(LEAVES),
    st.sampled_from(["", "", *GROUPS]),
    st.sampled_from(["gated", "gated", "gated", "foreign", "bare", "plain"]),
    st.sampled_from([0, 0, 10]),
)
OF_THE_API: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "create_gated": created,
    "delete_pod": st.tuples(names),
    "finish_pod": st.tuples(names),
    "lift_gate": st.tuples(names),
    "tear_gate": st.tuples(names),
    "opt_out": st.tuples(names),
    "put_node": st.tuples(nodes),
    "remove_node": st.tuples(nodes),
    "reap": st.just(()),
}
KINDS = ["pods", "nodes", "queues", "groups"]
OF_THE_WORLD: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "show": st.tuples(st.tuples(st.sampled_from(["pods", *KINDS]), st.integers(1, 6))),
    "list_again": st.tuples(st.sampled_from(KINDS)),
    "step": st.tuples(st.integers(1, 3)),
    "answer_lift": st.tuples(st.tuples(few, st.sampled_from(ANSWERS))),
    "answer_bind": st.tuples(st.tuples(few, st.sampled_from(ANSWERS))),
    "answer_status": st.tuples(few),
    "answer_removal": st.tuples(st.tuples(few, st.sampled_from(["truth", "truth", "lost", "later"]))),
    "delete_slowly": st.tuples(names, st.sampled_from([0, 5, 30, 3600])),
    "lift_ghost": st.tuples(few),
    "ghost": st.tuples(few),
    "set_limit": st.tuples(st.sampled_from(list(LIMITS)), st.integers(0, 6)),
    "regroup": st.tuples(names, st.sampled_from(["", *GROUPS])),
    "set_minimum": st.tuples(st.sampled_from(list(GROUPS)), st.integers(1, 3)),
    "later": st.tuples(st.sampled_from([0.5, 2.0, 11.0, 301.0])),
    "die": st.tuples(st.lists(st.booleans(), max_size=8).map(tuple)),
    "switch": st.tuples(st.booleans()),
}
STEPS = {**OF_THE_API, **OF_THE_WORLD}
RARELY = ["set_limit", "switch", "die", "remove_node", "tear_gate", "opt_out", "regroup", "set_minimum"]
OFTEN = (
    ["create_gated"] * 8 + ["show"] * 8 + ["step"] * 6 + ["answer_lift"] * 6 + ["answer_bind"] * 5 + ["put_node"] * 3
)
usual = [name for name in STEPS if name not in RARELY]
steps = named_steps(OFTEN * 2 + usual * 2 + RARELY, STEPS)
lives = st.lists(steps, min_size=30, max_size=90)


def take(simulation: QueueSimulation, name: str, args: tuple[Any, ...]) -> None:
    getattr(simulation.api if name in OF_THE_API else simulation, name)(*args)


def begun() -> QueueSimulation:
    simulation = QueueSimulation()
    for resource in ("queues", "groups", "nodes"):
        simulation.list_again(resource)
    return simulation


A_LARGER_MEMBER_IS_BEFORE_A_SMALLER_ONE: list[tuple[str, tuple[Any, ...]]] = [
    ("create_gated", (name, cpu, "a1", "g2", "gated", 0)) for name, cpu in (("t", 1), ("v", 1), ("w", 2), ("u", 1))
]
"""The minimum of g2, t and v, leaves 1 cpu in a1: w does not fit, and u waits for its turn behind w."""


@example(A_LARGER_MEMBER_IS_BEFORE_A_SMALLER_ONE)
@settings(max_examples=150, deadline=None)
@given(lives)
def test_no_limit_is_broken_no_gate_is_removed_twice_and_no_pod_is_lost(
    taken: list[tuple[str, tuple[Any, ...]]],
) -> None:
    simulation = begun()
    for name, args in taken:
        take(simulation, name, args)
        simulation.check_places()
        simulation.check_gates()
    simulation.settle()
    simulation.check_places()
    simulation.check_counts()
    simulation.check_gates()
    simulation.check_ledger()
    simulation.check_nobody_is_stranded()
    simulation.check_nobody_waits_behind_a_promise_of_lower_priority()


def _gated(name: str, cpu: int, queue: str) -> tuple[str, tuple[Any, ...]]:
    return ("create_gated", (name, cpu, queue, "", "gated", 0))


CONFIRMED_BEFORE_THE_ATTEMPT: list[tuple[str, tuple[Any, ...]]] = [
    _gated("u", 1, "a1"),
    ("show", (("pods", 1),)),
    ("step", (1,)),
    ("put_node", ("n0",)),
    _gated("s", 1, "a1"),
    _gated("t", 3, "a2"),
    ("show", (("pods", 1),)),
    ("answer_lift", ((0, "truth"),)),
    ("show", (("pods", 1),)),
    ("step", (1,)),
    ("answer_lift", ((0, "truth"),)),
    ("show", (("nodes", 1),)),
    ("answer_lift", ((0, "truth"),)),
    ("later", (2.0,)),
]
"""The responses confirm the removals before the pods are tried, and the watch shows them later."""


@example(CONFIRMED_BEFORE_THE_ATTEMPT)
@settings(max_examples=150, deadline=None)
@given(lives)
def test_a_pod_is_unschedulable_only_if_it_does_not_fit_when_terminating_pods_are_gone(
    taken: list[tuple[str, tuple[Any, ...]]],
) -> None:
    simulation = begun()
    for name, args in taken:
        take(simulation, name, args)
    simulation.calm()
    simulation.check_places()
    simulation.check_gates()
    simulation.check_terminating()


@settings(max_examples=40, deadline=None)  # each example runs a whole life twice
@given(lives)
def test_equal_events_have_equal_effects(taken: list[tuple[str, tuple[Any, ...]]]) -> None:
    simulation = begun()
    for name, args in taken:
        take(simulation, name, args)
    simulation.check_repeats()
