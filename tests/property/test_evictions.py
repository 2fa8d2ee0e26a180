"""Evictions in any order among steps of the budget controller: never fewer pods than required, and a correct final
status.

Pods are created and evicted; the controller gets events late and crashes; the server writes the status as well. As long
as pods end only by evictions, the required number of pods is ready at all times.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.kube.api_resources import PODS
from headgate.kube.conditions import is_true
from unit.controllers.disruption.fixtures import Stage
from unit.controllers.workload_fixtures import delete_terminating, pods

ACTS = st.sampled_from(("evict", "evict", "pod", "bury"))
REACTIONS = st.sampled_from(("none", "work", "deaf", "look", "die"))
STEPS = st.lists(st.tuples(ACTS, REACTIONS), max_size=15).map(lambda pairs: [each for pair in pairs for each in pair])
"""A client does something, and the controller performs this number of steps."""


def healthy(stage: Stage) -> int:
    return sum(
        "deletionTimestamp" not in pod["metadata"] and is_true(pod["status"].get("conditions"), "Ready")
        for pod in pods(stage.world)
    )


@settings(max_examples=40, deadline=None)  # an example is a whole drain on an embedded server
@given(STEPS, st.integers(0, 2), st.integers(1, 3), st.randoms(use_true_random=False))
def test_a_budget_is_never_overdrawn(steps: list[str], spare: int, kept: int, random: Random) -> None:
    stage = Stage()
    stage.budget(minAvailable=kept)
    number = 0
    promised = False  # from the time when there were enough
    for step in ["pod"] * (kept + spare) + ["look", *steps]:
        if step == "pod":
            stage.pod(f"p{number}")
            number += 1
        elif step == "evict":
            staying = [pod for pod in pods(stage.world) if "deletionTimestamp" not in pod["metadata"]]
            stage.evict(random.choice(staying)["metadata"]["name"])
        elif step == "bury":
            delete_terminating(stage.world)
        elif step == "work":
            stage.world.settle(random.choice, steps=random.randrange(4))
        elif step == "deaf":
            stage.world.settle(delayed=(PODS,))
        elif step == "look":
            stage.look()
        elif step == "die":
            stage.world.crash()
        promised = promised or healthy(stage) >= kept
        assert not promised or healthy(stage) >= kept, f"after {step}"
    stage.look()
    there = len(pods(stage.world))
    assert stage.numbers() == (there, kept, healthy(stage), max(0, healthy(stage) - kept) if there else 0)
