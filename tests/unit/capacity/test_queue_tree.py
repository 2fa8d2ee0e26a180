"""The tree of queues: limits from ancestors, guarantees of siblings, and invalid branches."""

from __future__ import annotations

from typing import Any

import pytest

from capacity_builders import a_queue, amounts
from headgate.capacity.api.queue import Queue, read_queue
from headgate.capacity.cache.queue_tree import QueueTree


def a_tree(*queues: Queue) -> QueueTree:
    tree = QueueTree()
    for queue in queues:
        tree.apply(queue)
    return tree


def may_grant(tree: QueueTree, name: str) -> bool:
    return tree.queues[name].may_grant


def cpu(milli: int) -> dict[str, int]:
    return {"cpu": milli}


def test_a_queue_inherits_what_it_does_not_limit_itself() -> None:
    tree = a_tree(Queue("top", capability={"cpu": 4000, "memory": 8}), Queue("leaf", "top", capability=cpu(2000)))
    assert tree.queues["leaf"].limits == {"cpu": 2000, "memory": 8}


def test_a_resource_without_a_limit_is_unlimited() -> None:
    tree = a_tree(Queue("top"), Queue("leaf", "top"))
    assert tree.queues["leaf"].limits == {}


def test_guarantees_of_siblings_reduce_the_limits() -> None:
    tree = a_tree(
        Queue("root", "", capability=cpu(10_000)),
        Queue("a", guarantee=cpu(3000)),
        Queue("b", guarantee=cpu(2000), capability=cpu(9000)),
        Queue("c"),
    )
    assert [tree.queues[name].limits["cpu"] for name in "abc"] == [8000, 7000, 5000]
    tree.apply(Queue("a"))
    assert [tree.queues[name].limits["cpu"] for name in "abc"] == [8000, 9000, 8000]
    tree.remove("b")
    assert tree.queues["c"].limits == cpu(10_000)


def test_guarantees_above_the_parents_limit_leave_each_queue_its_own() -> None:
    tree = a_tree(Queue("top", capability=cpu(2000)), *(Queue(name, "top", guarantee=cpu(2000)) for name in "ab"))
    assert tree.queues["a"].limits == cpu(2000)


def test_deserved_is_at_most_the_limit_and_at_least_the_guarantee() -> None:
    tree = a_tree(Queue("top", capability=cpu(2000)), Queue("a", "top", deserved={"cpu": 5000, "gpu": 1}))
    assert tree.queues["a"].deserved == {"cpu": 2000, "gpu": 1}
    tree = a_tree(Queue("a", guarantee=cpu(1000)))
    assert tree.queues["a"].deserved == cpu(1000)


def test_siblings_do_not_share_their_ancestors_u24() -> None:
    chain = [Queue("a"), Queue("b", "a"), Queue("c", "b"), Queue("d", "c")]
    tree = a_tree(*chain, *(Queue(f"leaf-{number}", "d") for number in range(4)))
    for number in range(4):
        assert tree.path(f"leaf-{number}") == (f"leaf-{number}", "d", "c", "b", "a", "root")


@pytest.mark.parametrize(
    ("queues", "problems"),
    [
        ([Queue("a", "b"), Queue("b", "a"), Queue("c", "a")], {"a": "circle", "b": "circle", "c": "circle"}),
        ([Queue("a", "a"), Queue("b", "a")], {"a": "a -> a", "b": "circle"}),
        ([Queue("a", "lost"), Queue("b", "a")], {"a": "queue lost does not exist", "b": "lost does not exist"}),
        ([Queue("a", guarantee=cpu(2), deserved=cpu(1)), Queue("b", "a")], {"a": "its deserved", "b": "queue a: "}),
        ([Queue("a", deserved=cpu(2), capability=cpu(1))], {"a": "its capability"}),
        ([Queue("a", capability=cpu(1)), Queue("b", "a", capability=cpu(2))], {"b": "the capability of the queue a"}),
        (
            [Queue("a"), *(Queue(name, above) for above, name in zip("abcdef", "bcdefg", strict=True))],
            {"f": "6 levels below root, 5 are allowed", "g": "7 levels below root"},
        ),
    ],
)
def test_only_the_invalid_branch_of_the_tree_has_problems(queues: list[Queue], problems: dict[str, str]) -> None:
    for order in (queues, queues[::-1]):
        tree = a_tree(*order, Queue("sound"))
        found = {name: node.problem for name, node in tree.queues.items() if node.problem}
        found.pop("lost", None)
        assert {name: found[name] for name in found if name in problems} == found
        for name, text in problems.items():
            assert text in found[name]
        assert may_grant(tree, "sound")


def test_a_branch_is_valid_when_its_missing_parent_is_created() -> None:
    tree = a_tree(Queue("leaf", "middle"), Queue("middle", "top"))
    assert tree.queues["leaf"].problem
    touched = tree.apply(Queue("top", capability=cpu(5)))
    assert {"leaf", "middle", "top"} <= set(touched)
    assert not tree.queues["leaf"].problem
    assert tree.queues["leaf"].limits == cpu(5)


def test_a_queue_is_a_leaf_again_when_its_last_child_is_removed() -> None:
    tree = a_tree(Queue("top"), Queue("leaf", "top"))
    assert not may_grant(tree, "top")
    tree.remove("leaf")
    assert may_grant(tree, "top")
    assert "leaf" not in tree.queues


def test_the_root_needs_no_object_and_admits_no_pods() -> None:
    tree = a_tree()
    assert tree.get("root") is not None
    assert not may_grant(tree, "root")
    tree.apply(Queue("root", "", capability=cpu(3)))
    tree.apply(Queue("leaf"))
    assert tree.queues["leaf"].limits == cpu(3)
    tree.remove("root")
    assert tree.queues["leaf"].limits == {}


def test_a_change_returns_exactly_the_affected_queues() -> None:
    tree = a_tree(*(Queue(f"q{number}") for number in range(100)), Queue("below", "q7"))
    assert tree.apply(Queue("q7", capability=cpu(1))) == ["q7", "below", "root"]
    assert tree.apply(Queue("q7", capability=cpu(1))) == []


@pytest.mark.parametrize("spec", [None, [], "x", {"capability": []}, {"capability": {"cpu": {}}}, {"parent": 3}])
def test_no_queue_object_raises(spec: Any) -> None:
    tree = a_tree(read_queue({"metadata": {"name": "a"}, "spec": spec}), read_queue({"metadata": {"name": "b"}}))
    assert may_grant(tree, "b")


def test_all_fields_of_a_queue_are_read() -> None:
    wire = a_queue("a", cpu="1500m", parent="top", deserved=amounts(gpu=2), guarantee=amounts(memory="1Gi"), priority=7)
    queue = read_queue(wire | {"status": {"state": "Closing"}})
    assert queue.capability == cpu(1500)
    assert queue.deserved == {"nvidia.com/gpu": 2}
    assert queue.guarantee == {"memory": 1 << 30}
    assert (queue.parent, queue.priority, queue.state, queue.is_reclaimable) == ("top", 7, "Closing", True)


def test_resources_that_no_container_can_request_are_no_limits() -> None:
    spec = {"capability": {"pods": 1, "cpu": "2"}, "guarantee": {"resource": {"requests.cpu": "1"}}}
    queue = read_queue({"metadata": {"name": "a"}, "spec": spec})
    assert queue.uncounted == (("capability", "pods"), ("guarantee", "requests.cpu"))
    assert a_tree(queue).queues["a"].limits == cpu(2000)
