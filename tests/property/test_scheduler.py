"""The scheduler beside a fake API server with all possible faults: late watches, lost responses, crashes.

At every revision no node has more pods than fit and no pod is bound twice. At every step each pod is in one state and
the counters equal a recount. The same events have the same effects. When all is quiet, no pod was forgotten.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from property.fake_api import RULES, SIZES
from property.named_steps import named_steps
from property.simulated_scheduler import SchedulerSimulation

PODS = ["a", "b", "c", "d", "e", "f"]
names, nodes, few = st.sampled_from(PODS), st.sampled_from(list(SIZES)), st.integers(0, 3)
ANSWERS = ["truth", "truth", "truth", "later", "refused", "lost", "unheard", "unread"]
created = st.tuples(
    names,
    st.integers(1, 4),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.sampled_from([0, 0, 10]),
    st.sampled_from([0, 0, 80]),
    st.sampled_from(["", "", *RULES]),
)
OF_THE_API: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "create_pod": created,
    "delete_pod": st.tuples(names),
    "lift_gate": st.tuples(names),
    "touch_pod": st.tuples(names),
    "put_node": st.tuples(nodes),
    "remove_node": st.tuples(nodes),
    "change_node": st.tuples(nodes, st.sampled_from(["cordoned", "tainted", "zone", "disk"])),
    "bind_by_another": st.tuples(names, nodes),
    "reap": st.just(()),
}
OF_THE_WORLD: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "show": st.tuples(st.tuples(st.sampled_from(["pods", "nodes"]), st.integers(1, 4))),
    "list_again": st.tuples(st.sampled_from(["pods", "nodes"])),
    "step": st.tuples(st.integers(1, 3)),
    "answer_bind": st.tuples(st.tuples(few, st.sampled_from(ANSWERS))),
    "answer_prepare": st.tuples(st.tuples(few, st.sampled_from(["", "", "no"]))),
    "decide": st.tuples(st.tuples(few, st.booleans())),
    "answer_status": st.tuples(few),
    "answer_preempt": st.tuples(st.tuples(few, st.booleans())),
    "ghost": st.tuples(few),
    "later": st.tuples(st.sampled_from([0.5, 2.0, 11.0, 301.0])),
    "die": st.tuples(st.lists(st.booleans(), max_size=6).map(tuple)),
}
STEPS = {**OF_THE_API, **OF_THE_WORLD}
OFTEN = ["create_pod"] * 6 + ["show"] * 8 + ["step"] * 5 + ["answer_bind"] * 5 + ["put_node"] * 3 + ["later"] * 2
steps = named_steps(OFTEN + list(STEPS), STEPS)
lives = st.lists(steps, min_size=30, max_size=80)


def take(simulation: SchedulerSimulation, name: str, args: tuple[Any, ...]) -> None:
    getattr(simulation.api if name in OF_THE_API else simulation, name)(*args)


@settings(max_examples=120, deadline=None)
@given(lives, st.booleans())
def test_no_pod_is_bound_twice_forgotten_or_bound_to_a_full_node(
    taken: list[tuple[str, tuple[Any, ...]]], minds_gates: bool
) -> None:
    simulation = SchedulerSimulation(minds_gates=minds_gates)
    for name, args in taken:
        take(simulation, name, args)
        simulation.check_places()
        simulation.check_counts()
    simulation.settle()
    simulation.check_places()
    simulation.check_counts()
    simulation.check_peace()


# One place, two pods that want it, and answers that lie: round by round all bindings are asked for again and answered.
LIES = st.sampled_from(["truth", "later", "refused", "lost", "unheard", "unread"])
DISTURBED: list[tuple[str, tuple[Any, ...]]] = [
    *[("reap", ())] * 4,
    ("show", (("pods", 1),)),
    ("ghost", (0,)),
    ("remove_node", ("n2",)),
    ("put_node", ("n2",)),
    ("delete_pod", ("a",)),
    ("create_pod", ("a", 2, 0, 0, 0)),
]
rounds = st.lists(st.tuples(LIES, LIES, st.sampled_from(DISTURBED)), min_size=6, max_size=12)


@settings(max_examples=100, deadline=None)
@given(rounds)
def test_capacity_that_may_be_in_use_is_never_given_away(
    taken: list[tuple[str, str, tuple[str, tuple[Any, ...]]]],
) -> None:
    simulation = SchedulerSimulation()
    simulation.api.put_node("n2")
    for name in "ab":
        simulation.api.create_pod(name, 2, 0, 0, 0)
    simulation.list_again("nodes")
    simulation.list_again("pods")
    for first, second, (name, args) in taken:
        simulation.later(11.0)
        for how in (first, second):
            simulation.step(2)
            simulation.answer_bind((0, how))
        take(simulation, name, args)
        simulation.show(("nodes", 1))
        simulation.check_places()
    simulation.settle()
    simulation.check_peace()


@settings(max_examples=40, deadline=None)  # each example runs a whole life twice
@given(lives)
def test_equal_events_have_equal_effects(taken: list[tuple[str, tuple[Any, ...]]]) -> None:
    simulation = SchedulerSimulation()
    for name, args in taken:
        take(simulation, name, args)
    simulation.check_repeats()


A_LIFE = """
import random
from property.simulated_scheduler import SchedulerSimulation

chance = random.Random(7)
world = SchedulerSimulation()
for node in ("n0", "n1", "n2"):
    world.api.put_node(node)
for turn in range(60):
    world.api.create_pod(f"p{turn}", chance.randint(1, 3), turn % 5 == 4, chance.choice((0, 10)), 0)
    world.api.lift_gate(f"p{turn - 3}")
    world.api.delete_pod(f"p{chance.randrange(60)}")
    world.show(("nodes", 3))
    world.show(("pods", chance.randint(1, 6)))
    world.step(3)
    world.answer_bind((0, chance.choice(("truth", "later", "lost"))))
    world.later(chance.choice((0.5, 4.0)))
    print(repr(world.outputs))
world.settle()
print(repr(world.outputs))
"""


def test_the_order_of_hashes_changes_nothing() -> None:
    """The order of effects must not depend on the hashes of strings, which differ between processes."""
    told = [
        subprocess.run(
            [sys.executable, "-c", A_LIFE],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "tests"},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(told[0]) > 100_000
