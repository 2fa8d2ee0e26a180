"""Which writes of queues are rejected, with field and message, and which are allowed despite existing problems."""

from __future__ import annotations

from typing import Any

import pytest

from harness.queues import a_queue
from headgate.capacity.api.queue import QueueIndex
from headgate.capacity.kinds.queue_validation import find_deletion_problems, find_queue_problems

Object = dict[str, Any]

ROOT = a_queue("root")
NO_JOBS = dict[str, int]()


def problems(new: Object, old: Object | None, *others: Object, job_counts: dict[str, int] = NO_JOBS) -> list[str]:
    index = QueueIndex([ROOT, *others, *([old] if old is not None else [])])
    return [str(each) for each in find_queue_problems(new, old, index, lambda name: job_counts.get(name, 0))]


def annotated(queue: Object, **annotations: str) -> Object:
    return {**queue, "metadata": {**queue["metadata"], "annotations": annotations}}


def test_a_valid_queue_is_allowed() -> None:
    assert not problems(a_queue("a", capability={"cpu": "4"}, deserved={"cpu": "2"}), None)


def test_all_problems_are_reported_at_once() -> None:
    wrong = a_queue("a", parent="nobody", weight=0, capability={"cpu": "1"}, deserved={"cpu": "2"})
    assert problems(wrong, None) == [
        "spec.weight: 0 is less than 1",
        "spec.parent: queue nobody does not exist",
        "spec.deserved.cpu: 2 is more than 1, its capability",
    ]


@pytest.mark.parametrize("kind", ["deserved", "guarantee"])
def test_the_sum_of_siblings_may_not_exceed_the_parent(kind: str) -> None:
    def queue(name: str, amount: str, **spec: Any) -> Object:
        return a_queue(name, **spec, **{kind: {"cpu": amount} if kind == "deserved" else {"resource": {"cpu": amount}}})

    path = "spec.deserved" if kind == "deserved" else "spec.guarantee.resource"
    others = (queue("p", "8"), queue("a", "5", parent="p"))
    assert not problems(queue("b", "3", parent="p"), None, *others)
    assert problems(queue("b", "3500m", parent="p"), None, *others) == [
        f"{path}.cpu: the queues below p have 8500m together, more than its {kind} of 8"
    ]
    assert problems(queue("p", "4"), queue("p", "8"), *others[1:]) == [
        f"{path}.cpu: the queues below p have 5 together, more than its {kind} of 4"
    ]


def test_a_sum_that_is_too_large_already_can_be_lowered_step_by_step() -> None:
    parent, other = a_queue("p", deserved={"cpu": "4"}), a_queue("b", parent="p", deserved={"cpu": "6"})
    old = a_queue("a", parent="p", deserved={"cpu": "6"})
    assert not problems(a_queue("a", parent="p", deserved={"cpu": "5"}), old, parent, other)
    assert problems(a_queue("a", parent="p", deserved={"cpu": "7"}), old, parent, other)


def test_siblings_below_the_root_have_no_sum() -> None:
    assert not problems(a_queue("b", deserved={"cpu": "100"}), None, a_queue("a", deserved={"cpu": "100"}))


def test_an_existing_problem_does_not_block_another_change() -> None:
    old = a_queue("a", parent="gone", capability={"cpu": "1"}, deserved={"cpu": "2"})
    assert not problems(annotated(old, note="x"), old)
    assert not problems(a_queue("a", parent="gone", capability={"cpu": "2"}, deserved={"cpu": "2"}), old)
    assert problems(a_queue("a", parent="gone", capability={"cpu": "1"}, deserved={"cpu": "3"}), old) == [
        "spec.deserved.cpu: 3 is more than 1, its capability"
    ]


def test_deserved_and_guarantee_may_not_exceed_the_capability_of_ancestors() -> None:
    top = a_queue("p", capability={"cpu": "4"})
    child = a_queue("a", parent="p", deserved={"cpu": "5"}, guarantee={"resource": {"cpu": "5"}})
    assert problems(child, None, top) == [
        "spec.deserved.cpu: 5 is more than 4, the capability of the queue p above it",
        "spec.guarantee.resource.cpu: 5 is more than 4, the capability of the queue p above it",
    ]


def test_a_limit_cannot_be_lowered_below_those_of_descendants() -> None:
    old = a_queue("p", capability={"cpu": "8"})
    below = (a_queue("mid", parent="p"), a_queue("leaf", parent="mid", capability={"cpu": "6"}))
    assert not problems(a_queue("p", capability={"cpu": "6"}), old, *below)
    assert problems(a_queue("p", capability={"cpu": "5"}), old, *below) == [
        "spec.capability.cpu: 5 is less than the capability of 6 of the queue leaf below it"
    ]


def test_an_intermediate_limit_shields_the_queues_below_it() -> None:
    old = a_queue("p", capability={"cpu": "8"})
    below = (
        a_queue("mid", parent="p", capability={"cpu": "3"}),
        a_queue("leaf", parent="mid", capability={"cpu": "6"}),
    )
    assert not problems(a_queue("p", capability={"cpu": "5"}), old, *below)


def test_a_move_may_not_make_descendants_too_deep_or_close_a_cycle() -> None:
    chain = [a_queue("q1"), *(a_queue(f"q{level}", parent=f"q{level - 1}") for level in range(2, 5))]
    old = a_queue("a")
    below = (a_queue("b", parent="a"), a_queue("c", parent="b"))
    assert problems(a_queue("a", parent="q3"), old, *chain, *below) == [
        "spec.parent: queue c is more than 5 levels deep"
    ]
    assert not problems(a_queue("a", parent="q2"), old, *chain, *below)
    assert problems(a_queue("a", parent="c"), old, *below) == [
        "spec.parent: parents lead in a circle: a -> c -> b -> a"
    ]


def test_a_queue_with_jobs_cannot_get_queues_below_it() -> None:
    parent = a_queue("p")
    assert problems(a_queue("a", parent="p"), None, parent, job_counts={"p": 2}) == [
        "spec.parent: there are 2 PodGroups or pods in the queue p, so no queue can be below it"
    ]
    unmoved = a_queue("a", parent="p")
    assert not problems(a_queue("a", parent="p", weight=2), unmoved, parent, job_counts={"p": 2})


@pytest.mark.parametrize(
    ("root", "path"),
    [
        (a_queue("root", parent="a"), "spec.parent"),
        (a_queue("root", deserved={"cpu": "1"}), "spec.deserved.cpu"),
        (a_queue("root", guarantee={"resource": {"cpu": "1"}}), "spec.guarantee.resource.cpu"),
        (annotated(a_queue("root"), **{"headgate.dev/state": "Closed"}), "metadata.annotations[headgate.dev/state]"),
    ],
)
def test_the_root_is_protected(root: Object, path: str) -> None:
    assert [each.split(": ")[0] for each in problems(root, ROOT, a_queue("a"))] == [path]


def test_the_root_may_be_limited_unless_a_queue_has_more_already() -> None:
    assert not problems(a_queue("root", capability={"cpu": "4"}), ROOT, a_queue("a", capability={"cpu": "4"}))
    assert problems(a_queue("root", capability={"cpu": "3"}), ROOT, a_queue("a", capability={"cpu": "4"}))


def test_an_invalid_state_annotation_is_rejected() -> None:
    wrong = annotated(a_queue("a"), **{"headgate.dev/state": "closed"})
    assert problems(wrong, None) == ["metadata.annotations[headgate.dev/state]: 'closed' is neither Open nor Closed"]


def test_an_invalid_dequeue_strategy_is_rejected() -> None:
    wrong = annotated(a_queue("a"), **{"headgate.dev/dequeue-strategy": "lifo"})
    text = "metadata.annotations[headgate.dev/dequeue-strategy]: must be one of fifo, backfill, traverse"
    assert problems(wrong, None) == [text]
    assert not problems(annotated(a_queue("a"), **{"headgate.dev/dequeue-strategy": "backfill"}), None)


def test_a_malformed_queue_raises_nothing() -> None:
    hostile: tuple[Any, ...] = (
        [],
        "x",
        {"capability": {"cpu": -1}},
        {"parent": 7},
        {"weight": "many"},
        {"guarantee": []},
    )
    for spec in hostile:
        new = {"metadata": {"name": "a", "annotations": []}, "spec": spec}
        assert isinstance(problems(new, None), list)


def deletion_problems(name: str, *others: Object, job_counts: dict[str, int] = NO_JOBS) -> list[str]:
    index = QueueIndex([ROOT, *others])
    return [str(each) for each in find_deletion_problems(name, index, lambda queue: job_counts.get(queue, 0))]


def test_an_empty_leaf_may_be_deleted() -> None:
    assert not deletion_problems("a", a_queue("a"))
    assert not deletion_problems("unheard-of")


@pytest.mark.parametrize("name", ["root", "default"])
def test_the_root_and_default_queues_may_not_be_deleted(name: str) -> None:
    assert deletion_problems(name) == [f"metadata.name: the queue {name} is always there, and cannot be deleted"]


def test_a_queue_with_queues_or_jobs_may_not_be_deleted() -> None:
    many = [a_queue(name, parent="a") for name in ("b", "c", "d", "e")]
    assert deletion_problems("a", a_queue("a"), *many, job_counts={"a": 1}) == [
        "metadata.name: queues b, c, d and 1 more are below it: delete or move them first",
        "metadata.name: there is 1 PodGroup or pod in it: close it, and wait until it is empty",
    ]
