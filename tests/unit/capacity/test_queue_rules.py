"""Rules for existing queues; an invalid branch of the tree does not affect the others."""

from __future__ import annotations

from typing import Any

import pytest

from harness.queues import a_queue
from headgate.capacity.api.queue import QueueIndex
from headgate.capacity.kinds.queue_rules import QueueProblem, find_problems, path_to_root, tree_problems


def problems(*queues: dict[str, Any]) -> dict[str, str]:
    index = QueueIndex(queues)
    return find_problems(index, index.names())


def problems_of(name: str, *queues: dict[str, Any]) -> list[QueueProblem]:
    index = QueueIndex(queues)
    queue = index.get(name)
    assert queue is not None
    return tree_problems(queue, index)


def test_a_tree_without_faults_has_no_problems() -> None:
    assert not problems(
        a_queue("root"),
        a_queue("default", parent="root"),
        a_queue(
            "a", capability={"cpu": "8", "memory": "8Gi"}, deserved={"cpu": "4"}, guarantee={"resource": {"cpu": 4}}
        ),
        a_queue("b", parent="a", capability={"cpu": "8", "nvidia.com/gpu": 4}),
        a_queue("c", parent="b", deserved={"memory": "1Ti"}),
    )


@pytest.mark.parametrize(
    ("spec", "path", "text"),
    [
        (
            {"capability": {"cpu": "2"}, "deserved": {"cpu": "2500m"}},
            "spec.deserved.cpu",
            "2500m is more than 2, its capability",
        ),
        (
            {"deserved": {"memory": "1Gi"}, "guarantee": {"resource": {"memory": "2Gi"}}},
            "spec.guarantee.resource.memory",
            "2Gi is more than 1Gi, its deserved",
        ),
        (
            {"capability": {"nvidia.com/gpu": 1}, "guarantee": {"resource": {"nvidia.com/gpu": 2}}},
            "spec.guarantee.resource.nvidia.com/gpu",
            "2 is more than 1, its capability",
        ),
        ({"parent": "nobody"}, "spec.parent", "queue nobody does not exist"),
        ({"parent": "q"}, "spec.parent", "parents lead in a circle: q -> q"),
    ],
)
def test_a_problem_within_one_queue_names_its_field(spec: dict[str, Any], path: str, text: str) -> None:
    assert problems_of("q", a_queue("q", **spec)) == [QueueProblem(path, text)]


@pytest.mark.parametrize("value", ["-1", "NaN", "1x", "", True, [], {}, None, "1" * 5000])
def test_an_invalid_amount_is_a_problem_and_raises_nothing(value: Any) -> None:
    found = problems(a_queue("good"), a_queue("bad", capability={"cpu": value}))
    assert list(found) == ["bad"]
    assert found["bad"].startswith("spec.capability.cpu: ")


@pytest.mark.parametrize("spec", [{"capability": "all"}, {"capability": [1]}, {"guarantee": {"resource": 3}}])
def test_amounts_that_are_not_a_map_are_a_problem(spec: dict[str, Any]) -> None:
    assert list(problems(a_queue("bad", **spec))) == ["bad"]


def test_a_spec_of_the_wrong_type_is_a_queue_without_limits() -> None:
    index = QueueIndex([{"metadata": {"name": "odd"}, "spec": [], "status": "x"}])
    assert find_problems(index, index.names()) == {}


def test_a_capability_over_that_of_any_ancestor_is_a_problem_and_unset_dimensions_are_inherited() -> None:
    top, middle = a_queue("a", capability={"cpu": "4"}), a_queue("b", parent="a", capability={"memory": "1Gi"})
    assert problems(top, middle, a_queue("c", parent="b", capability={"cpu": "5"})) == {
        "c": "spec.capability.cpu: 5 is more than 4, the capability of the queue a above it"
    }


def test_the_capability_of_the_root_binds_all() -> None:
    found = problems(a_queue("root", capability={"cpu": "4"}), a_queue("a", capability={"cpu": "5"}))
    assert found == {"a": "spec.capability.cpu: 5 is more than 4, the capability of the queue root above it"}


def test_an_invalid_queue_makes_only_the_queues_below_it_invalid() -> None:
    found = problems(
        a_queue("bad", capability={"cpu": "1"}, deserved={"cpu": "2"}),
        a_queue("below", parent="bad"),
        a_queue("deeper", parent="below"),
        a_queue("beside"),
    )
    cause = "spec.deserved.cpu: 2 is more than 1, its capability"
    assert found == {"bad": cause, "below": f"queue bad: {cause}", "deeper": f"queue bad: {cause}"}


def test_five_levels_below_the_root_are_allowed_and_six_are_not() -> None:
    chain = [a_queue("q1"), *(a_queue(f"q{level}", parent=f"q{level - 1}") for level in range(2, 8))]
    found = problems(*chain)
    assert found == {
        "q6": "spec.parent: 6 levels below root, 5 are allowed",
        "q7": "spec.parent: 7 levels below root, 5 are allowed",
    }


def test_a_cycle_of_parents_is_a_problem_of_its_members_and_the_queues_below() -> None:
    cycle = [a_queue("a", parent="b"), a_queue("b", parent="c"), a_queue("c", parent="a"), a_queue("d", parent="a")]
    found = problems(*cycle, a_queue("e"))
    assert sorted(found) == ["a", "b", "c", "d"]
    assert found["a"] == "spec.parent: parents lead in a circle: a -> b -> c -> a"
    assert found["d"] == "spec.parent: parents lead in a circle: a -> b -> c -> a"


def test_a_queue_without_its_parent_names_the_missing_parent() -> None:
    found = problems(a_queue("child", parent="gone"), a_queue("grandchild", parent="child"))
    assert found["child"] == "spec.parent: queue gone does not exist"
    assert found["grandchild"] == "spec.parent: queue gone does not exist"


def test_an_endless_chain_of_parents_is_followed_for_32_steps() -> None:
    path, path_problem = path_to_root("0", lambda name: str(int(name) + 1))
    assert len(path) == 32
    assert path_problem == "more than 5 levels below root"


def test_ten_thousand_queues_are_checked_at_once() -> None:
    queues = [a_queue("top", capability={"cpu": "8"})]
    queues += [
        a_queue(f"q{number}", parent="top", capability={"cpu": "9" if number == 7 else "1"}) for number in range(10_000)
    ]
    assert list(problems(*queues)) == ["q7"]


def test_the_index_follows_moves_and_removals() -> None:
    index = QueueIndex([a_queue("a"), a_queue("b"), a_queue("c", parent="a")])
    assert index.children("a") == ["c"]
    index.apply(a_queue("c", parent="b"))
    assert (index.children("a"), index.children("b")) == ([], ["c"])
    index.remove("c")
    index.remove("c")
    assert index.children("b") == []
    assert index.get("c") is None
