"""The differences that shadow mode may report beside Kueue: each is recognised, and nothing else is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kueue_builders import a_cluster_queue, a_pod_set, a_workload
from real.kueue_endings import ENDINGS
from real.shadow_differences import DOCUMENTED, documented_name

Object = dict[str, Any]


def a_difference(outcome: str = "only_other", decision: str = "admission", **more: Any) -> Object:
    return {"msg": "differs", "outcome": outcome, "decision": decision, "name": "w00-01", **more}


def a_run(*workloads: Object, counts_pods: bool = False, compared: tuple[Object, ...] = ()) -> Any:
    queues = {
        "w00-strict": a_cluster_queue("w00-strict", queueingStrategy="StrictFIFO"),
        "w00-best": a_cluster_queue("w00-best", queueingStrategy="BestEffortFIFO"),
    }
    cluster = SimpleNamespace(queues=queues, counts_pods=counts_pods)
    objects = {each["metadata"]["name"]: each for each in workloads}
    return SimpleNamespace(clusters={"w00": cluster}, objects=objects, compared=list(compared))


FIRST = a_workload("w00-01", queue="w00-strict", at_s=5)
OTHER = a_workload("w00-02", queue="w00-best", at_s=9)
TIED = a_workload("w00-02", queue="w00-best", at_s=5, priority=0)
KEPT = "Workload no longer fits after processing another workload"
PREEMPTION = a_difference("same", "eviction", preemptor="default/w00-02")


@pytest.mark.parametrize(
    ("name", "difference", "run"),
    [
        ("stolen", a_difference(instead=["default/w00-02"]), a_run(FIRST, OTHER, compared=(PREEMPTION,))),
        (
            "elsewhere",
            a_difference("other_flavors"),
            a_run(a_workload("w00-01", a_pod_set("a"), a_pod_set("b"), queue="w00-best")),
        ),
        ("strict first", a_difference(instead=["default/w00-02"]), a_run(FIRST, OTHER)),
        (
            "ties",
            a_difference(name="w00-02", instead=["default/w00-01"]),
            a_run(FIRST, TIED),
        ),
        ("kept places", a_difference(message=KEPT), a_run(FIRST)),
        ("pods", a_difference("other_victims", "eviction"), a_run(FIRST, counts_pods=True)),
    ],
)
def test_a_documented_difference_is_recognised(name: str, difference: Object, run: Any) -> None:
    assert documented_name(difference, run) == name


@pytest.mark.parametrize(
    "difference",
    [
        a_difference(),
        a_difference("only_headgate"),
        a_difference("only_headgate", message=KEPT),
        a_difference("other_flavors"),
        a_difference("other_victims", "eviction"),
        a_difference("only_other", "eviction", message=KEPT),
    ],
)
def test_another_difference_has_no_name(difference: Object) -> None:
    assert documented_name(difference, a_run(FIRST)) == ""


def test_the_documented_differences_are_those_of_the_comparison_of_two_clusters() -> None:
    assert [each.name for each in DOCUMENTED] == [each.name for each in ENDINGS]
