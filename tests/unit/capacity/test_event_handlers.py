"""Every change of the fields that decide the group and the queue of a pod takes effect at any time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from capacity_builders import Queues, a_group, a_queue, a_task, stamped
from headgate.capacity.api.task import TaskInfo, read_annotations
from headgate.capacity.engine import WaitReason
from headgate.capacity.names import GROUP_NAMES, OPT_IN, QUEUE_NAME, TASK_SPEC
from status_reporting import Cluster

OPEN = (a_queue("full", cpu=0), a_queue("free", cpu=9))


def a_namespace(queue: str) -> dict[str, Any]:
    return {"metadata": {"name": "ns", "annotations": {QUEUE_NAME: queue} if queue else {}}}


def test_a_corrected_group_name_takes_effect() -> None:
    queues = Queues(*OPEN, a_group("right", "free", minimum=1), a_task("p", group="rihgt"))
    assert (queues.admit(), queues.wait_reason("p")) == ([], WaitReason.NO_GROUP)
    queues.apply(a_task("p", group="right"))
    assert queues.admit() == ["p"]
    assert queues.engine.queue_of("u-p") == "free"


def test_a_bare_pod_that_joins_a_group_is_granted_with_it() -> None:
    queues = Queues(*OPEN, a_group("g", "free", minimum=2), a_task("p", queue="full"), a_task("q", group="g"))
    assert queues.admit() == []
    queues.apply(a_task("p", queue="full", group="g"))
    assert sorted(queues.admit()) == ["p", "q"]
    assert queues.engine.queue_of("u-p") == "free"


def test_a_pod_that_leaves_its_group_is_granted_alone() -> None:
    queues = Queues(*OPEN, a_group("g", "full", minimum=2), a_task("p", group="g", queue="free"))
    assert queues.admit() == []
    queues.apply(a_task("p", queue="free"))
    assert queues.admit() == ["p"]
    assert queues.engine.gang_attempt("u-p").uids == ("u-p",)


def test_a_group_counts_its_current_members() -> None:
    queues = Queues(*OPEN, a_group("g", "free", minimum=2), a_group("h", "free", minimum=2))
    queues.apply(a_task("p", group="g"), a_task("q", group="h"))
    assert queues.admit() == []
    queues.apply(a_task("q", group="g"))
    assert sorted(queues.admit()) == ["p", "q"]


def test_a_promised_pod_that_joins_a_group_of_another_queue_is_tried_in_the_order_of_its_own_queue() -> None:
    queues = Queues(a_queue("late", cpu=9), a_queue("early", cpu=9, priority=1), a_group("g", "early", minimum=1))
    granted_pods = queues.engine.new_granted_pod_queue()
    old, young = a_task("old", queue="late", created_s=1.0), a_task("young", group="g", created_s=2.0)
    queues.apply(old, young)
    for name in queues.admit():
        granted_pods.put(f"u-{name}")
    queues.apply(msgspec.structs.replace(old, group="g"))
    assert queues.engine.queue_of("u-old") == "late"
    assert [granted_pods.pop(), granted_pods.pop(), granted_pods.pop()] == ["u-young", "u-old", None]


def test_a_promised_pod_changes_its_group_and_keeps_the_queue_of_its_promise() -> None:
    queues = Queues(*OPEN, a_queue("other", cpu=9), a_group("g", "free"), a_group("h", "other", minimum=2))
    promised = stamped(a_task("p", group="g"), "free")
    queues.apply(promised, msgspec.structs.replace(promised, group="h"), a_task("q", group="h"))
    assert queues.engine.queue_of("u-p") == "free"
    assert queues.admit() == ["q"], "with the other one it is whole"
    assert (queues.usage("free"), queues.usage("other")) == ((0, 1000), (0, 1000))


@pytest.mark.parametrize("min_resources", [{}, {"minResources": {"cpu": 1}}], ids=["none", "minResources"])
def test_a_new_queue_of_a_group_takes_effect_for_its_waiting_pods(min_resources: dict[str, Any]) -> None:
    queues = Queues(*OPEN, a_group("g", "full", minimum=2, **min_resources))
    queues.apply(a_task("p", group="g"), a_task("q", group="g"))
    assert queues.admit() == []
    queues.apply(a_group("g", "free", minimum=2, **min_resources))
    assert (queues.admit(), queues.engine.queue_of("u-p")) == (["p", "q"], "free")
    assert queues.engine.usage("full").waiting == 0


def test_waiting_members_move_with_the_group_and_promised_members_stay() -> None:
    queues = Queues(a_queue("a", cpu=1), a_queue("b", cpu=5), a_group("g", "a", minimum=1, phase="Running"))
    queues.apply(stamped(a_task("in", group="g"), "a"), a_task("waits", group="g"))
    assert queues.admit() == []
    queues.apply(a_group("g", "b", minimum=1, phase="Running"))
    assert queues.admit() == ["waits"]
    assert [queues.engine.queue_of(f"u-{name}") for name in ("in", "waits")] == ["a", "b"]


def test_a_group_without_a_queue_is_in_the_queue_that_most_members_name() -> None:
    queues = Queues(a_queue("a"), a_queue("b"), a_group("g", minimum=3))
    queues.apply(
        a_task("1", group="g", queue="b"), a_task("2", group="g", queue="a"), a_task("3", group="g", queue="b")
    )
    assert queues.engine.queue_of("u-2") == "b"
    queues.apply(a_task("3", group="g", queue="a"))
    assert queues.engine.queue_of("u-1") == "a"
    queues.apply(a_task("3", group="g"))
    assert queues.engine.queue_of("u-1") == "a", "of equals the first by name"


def test_groups_and_pods_without_a_queue_inherit_the_queue_of_their_namespace() -> None:
    queues = Queues(*OPEN, a_group("g", minimum=1), a_task("member", group="g"), a_task("bare"))
    for queue in ("full", "", "free"):
        queues.engine.namespace_applied(a_namespace(queue))
        assert [queues.engine.queue_of(f"u-{name}") for name in ("member", "bare")] == [queue or "default"] * 2
    queues.engine.namespace_removed("ns")
    assert queues.engine.queue_of("u-bare") == "default"


def test_a_change_of_a_namespace_touches_only_its_pods_without_a_queue() -> None:
    queues = Queues(*OPEN, *(a_task(f"p{number}", namespace="elsewhere") for number in range(50)))
    queues.apply(*(a_task(f"q{number}", queue="free") for number in range(50)), a_task("bare"))
    queues.engine.pods_with_new_queue()
    queues.engine.namespace_applied(a_namespace("full"))
    assert queues.engine.pods_with_new_queue() == ["u-bare"]


def test_a_pod_that_loses_its_queue_annotation_moves_to_the_default_queue() -> None:
    queues = Queues(*OPEN, a_task("p", queue="full"))
    queues.apply(a_task("p"))
    assert queues.engine.queue_of("u-p") == "default"


def test_a_later_opt_in_takes_effect() -> None:
    queues = Queues(*OPEN, a_task("p", queue="free", opted_in=False, gates=a_task("x").gates))
    assert (queues.admit(), queues.wait_reason("p")) == ([], WaitReason.NOT_OPTED_IN)
    queues.apply(a_task("p", queue="free"))
    assert queues.admit() == ["p"]


def test_a_new_role_and_a_new_minimum_take_effect() -> None:
    queues = Queues(*OPEN, a_group("g", "free", minimum=2, minTaskMember={"worker": 2}))
    queues.apply(a_task("p", group="g", role="worker"), a_task("q", group="g", role="boss"))
    assert queues.admit() == []
    queues.apply(a_task("q", group="g", role="worker"))
    assert sorted(queues.admit()) == ["p", "q"]
    queues = Queues(*OPEN, a_group("g", "free", minimum=2), a_task("p", group="g"))
    assert queues.admit() == []
    queues.apply(a_group("g", "free", minimum=1))
    assert queues.admit() == ["p"]


def test_a_pod_on_a_node_without_a_stamp_counts_in_the_queue_of_its_annotation() -> None:
    """A restarted engine knows nothing else about it."""
    running = a_task("p", queue="full", opted_in=False, node_name="n1")
    queues = Queues(*OPEN, running, msgspec.structs.replace(running, queue="free"))
    assert (queues.usage("full"), queues.usage("free")) == ((0, 0), (1000, 0))


@pytest.mark.parametrize("name", GROUP_NAMES)
def test_both_group_name_annotations_are_read(name: str) -> None:
    annotations = read_annotations({name: "g", QUEUE_NAME: "q", TASK_SPEC: "worker", OPT_IN: "true"}, "u")
    assert (annotations.group, annotations.queue, annotations.role, annotations.opted_in) == ("g", "q", "worker", True)


def test_the_order_of_events_does_not_matter() -> None:
    final: list[Any] = [a_queue("a", cpu=2), a_queue("b", cpu=2), a_group("g", "b", minimum=1), a_task("p", group="g")]
    earlier: list[TaskInfo] = [a_task("p", queue="a"), a_task("p", group="misspelt"), a_task("p", group="g", queue="a")]
    for first in earlier:
        queues = Queues(final[0], final[1], first, a_group("g", "a"), *final)
        assert (queues.admit(), queues.engine.queue_of("u-p"), queues.usage("b")) == (["p"], "b", (0, 1000))


def test_the_counts_of_queues_follow_a_pod_that_names_another_queue() -> None:
    cluster = Cluster()
    for name in ("root", "default", "left", "right"):
        cluster.queue(name)
    cluster.synced()
    cluster.pod("p", queue="left")
    cluster.run(5)
    cluster.pod("p", queue="right")
    cluster.run(5)
    assert [cluster.queues[name]["status"]["pending"] for name in ("left", "right")] == [0, 1]


def test_the_counts_of_queues_follow_a_namespace() -> None:
    cluster = Cluster()
    for name in ("root", "default", "left"):
        cluster.queue(name)
    cluster.synced()
    cluster.pod("p", queue="")
    cluster.run(5)
    assert cluster.queues["default"]["status"]["pending"] == 1
    cluster.engine.namespace_applied(a_namespace("left"))
    cluster.run(5)
    assert [cluster.queues[name]["status"]["pending"] for name in ("default", "left")] == [0, 1]
