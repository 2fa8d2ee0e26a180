"""Every word that decides to which group and queue a pod belongs is heard at any time, as if the pod were new."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.capacity.api.task import TaskInfo, read_annotations
from headgate.capacity.engine import WaitReason
from headgate.capacity.names import GROUP_NAMES, OPT_IN, QUEUE_NAME, TASK_SPEC
from queueing import House, a_group, a_queue, a_task, stamped
from reported import Cluster

OPEN = (a_queue("full", cpu=0), a_queue("free", cpu=9))


def in_namespace(queue: str) -> dict[str, Any]:
    return {"metadata": {"name": "ns", "annotations": {QUEUE_NAME: queue} if queue else {}}}


def test_a_corrected_group_name_is_heard() -> None:
    house = House(*OPEN, a_group("right", "free", minimum=1), a_task("p", group="rihgt"))
    assert (house.admit(), house.why("p")) == ([], WaitReason.NO_GROUP)
    house.show(a_task("p", group="right"))
    assert house.admit() == ["p"]
    assert house.queues.queue_of("u-p") == "free"


def test_a_bare_pod_that_joins_a_group_waits_with_it() -> None:
    house = House(*OPEN, a_group("g", "free", minimum=2), a_task("p", queue="full"), a_task("q", group="g"))
    assert house.admit() == []
    house.show(a_task("p", queue="full", group="g"))
    assert sorted(house.admit()) == ["p", "q"]
    assert house.queues.queue_of("u-p") == "free"


def test_a_pod_that_leaves_its_group_waits_alone() -> None:
    house = House(*OPEN, a_group("g", "full", minimum=2), a_task("p", group="g", queue="free"))
    assert house.admit() == []
    house.show(a_task("p", queue="free"))
    assert house.admit() == ["p"]
    assert house.queues.gang_attempt("u-p").uids == ("u-p",)


def test_a_group_counts_members_that_come_and_go() -> None:
    house = House(*OPEN, a_group("g", "free", minimum=2), a_group("h", "free", minimum=2))
    house.show(a_task("p", group="g"), a_task("q", group="h"))
    assert house.admit() == []
    house.show(a_task("q", group="g"))
    assert sorted(house.admit()) == ["p", "q"]


def test_a_promised_pod_that_joins_a_group_of_another_queue_is_tried_in_the_order_of_its_own_queue() -> None:
    house = House(a_queue("late", cpu=9), a_queue("early", cpu=9, priority=1), a_group("g", "early", minimum=1))
    line = house.queues.new_granted_pod_queue()
    old, young = a_task("old", queue="late", created_s=1.0), a_task("young", group="g", created_s=2.0)
    house.show(old, young)
    for name in house.admit():
        line.put(f"u-{name}")
    house.show(msgspec.structs.replace(old, group="g"))
    assert house.queues.queue_of("u-old") == "late"
    assert [line.pop(), line.pop(), line.pop()] == ["u-young", "u-old", None]


def test_a_promised_pod_changes_its_group_and_keeps_the_queue_of_its_promise() -> None:
    house = House(*OPEN, a_queue("other", cpu=9), a_group("g", "free"), a_group("h", "other", minimum=2))
    promised = stamped(a_task("p", group="g"), "free")
    house.show(promised, msgspec.structs.replace(promised, group="h"), a_task("q", group="h"))
    assert house.queues.queue_of("u-p") == "free"
    assert house.admit() == ["q"], "with the other one it is whole"
    assert (house.use("free"), house.use("other")) == ((0, 1000), (0, 1000))


@pytest.mark.parametrize("min_resources", [{}, {"minResources": {"cpu": 1}}], ids=["none", "minResources"])
def test_the_queue_of_a_group_is_heard_and_its_waiting_pods_go_along(min_resources: dict[str, Any]) -> None:
    house = House(*OPEN, a_group("g", "full", minimum=2, **min_resources))
    house.show(a_task("p", group="g"), a_task("q", group="g"))
    assert house.admit() == []
    house.show(a_group("g", "free", minimum=2, **min_resources))
    assert (house.admit(), house.queues.queue_of("u-p")) == (["p", "q"], "free")
    assert house.queues.usage("full").waiting == 0


def test_members_that_wait_follow_the_group_and_those_with_a_promise_stay() -> None:
    house = House(a_queue("a", cpu=1), a_queue("b", cpu=5), a_group("g", "a", minimum=1, phase="Running"))
    house.show(stamped(a_task("in", group="g"), "a"), a_task("waits", group="g"))
    assert house.admit() == []
    house.show(a_group("g", "b", minimum=1, phase="Running"))
    assert house.admit() == ["waits"]
    assert [house.queues.queue_of(f"u-{name}") for name in ("in", "waits")] == ["a", "b"]


def test_a_group_without_a_queue_is_where_most_of_its_members_are() -> None:
    house = House(a_queue("a"), a_queue("b"), a_group("g", minimum=3))
    house.show(a_task("1", group="g", queue="b"), a_task("2", group="g", queue="a"), a_task("3", group="g", queue="b"))
    assert house.queues.queue_of("u-2") == "b"
    house.show(a_task("3", group="g", queue="a"))
    assert house.queues.queue_of("u-1") == "a"
    house.show(a_task("3", group="g"))
    assert house.queues.queue_of("u-1") == "a", "of equals the first by name"


def test_groups_and_pods_that_name_no_queue_follow_their_namespace() -> None:
    house = House(*OPEN, a_group("g", minimum=1), a_task("member", group="g"), a_task("bare"))
    for queue in ("full", "", "free"):
        house.queues.namespace_applied(in_namespace(queue))
        assert [house.queues.queue_of(f"u-{name}") for name in ("member", "bare")] == [queue or "default"] * 2
    house.queues.namespace_removed("ns")
    assert house.queues.queue_of("u-bare") == "default"


def test_a_change_of_a_namespace_costs_those_in_it_that_name_no_queue() -> None:
    house = House(*OPEN, *(a_task(f"p{number}", namespace="elsewhere") for number in range(50)))
    house.show(*(a_task(f"q{number}", queue="free") for number in range(50)), a_task("bare"))
    house.queues.pods_with_new_queue()
    house.queues.namespace_applied(in_namespace("full"))
    assert house.queues.pods_with_new_queue() == ["u-bare"]


def test_a_pod_that_loses_its_words_is_where_it_would_be_without_them() -> None:
    house = House(*OPEN, a_task("p", queue="full"))
    house.show(a_task("p"))
    assert house.queues.queue_of("u-p") == "default"


def test_opting_in_and_out_is_heard() -> None:
    house = House(*OPEN, a_task("p", queue="free", opted_in=False, gates=a_task("x").gates))
    assert (house.admit(), house.why("p")) == ([], WaitReason.NOT_ASKED)
    house.show(a_task("p", queue="free"))
    assert house.admit() == ["p"]


def test_a_role_and_a_minimum_are_heard() -> None:
    house = House(*OPEN, a_group("g", "free", minimum=2, minTaskMember={"worker": 2}))
    house.show(a_task("p", group="g", role="worker"), a_task("q", group="g", role="boss"))
    assert house.admit() == []
    house.show(a_task("q", group="g", role="worker"))
    assert sorted(house.admit()) == ["p", "q"]
    house = House(*OPEN, a_group("g", "free", minimum=2), a_task("p", group="g"))
    assert house.admit() == []
    house.show(a_group("g", "free", minimum=1))
    assert house.admit() == ["p"]


def test_a_pod_on_a_node_without_a_stamp_counts_where_its_words_say() -> None:
    """A restarted engine has nothing else to go by."""
    running = a_task("p", queue="full", opted_in=False, node_name="n1")
    house = House(*OPEN, running, msgspec.structs.replace(running, queue="free"))
    assert (house.use("full"), house.use("free")) == ((0, 0), (1000, 0))


@pytest.mark.parametrize("name", GROUP_NAMES)
def test_either_word_for_a_group_is_read(name: str) -> None:
    said = read_annotations({name: "g", QUEUE_NAME: "q", TASK_SPEC: "worker", OPT_IN: "true"}, "u")
    assert (said.group, said.queue, said.role, said.opted_in) == ("g", "q", "worker", True)


def test_the_order_of_events_makes_no_difference() -> None:
    final: list[Any] = [a_queue("a", cpu=2), a_queue("b", cpu=2), a_group("g", "b", minimum=1), a_task("p", group="g")]
    detours: list[TaskInfo] = [a_task("p", queue="a"), a_task("p", group="misspelt"), a_task("p", group="g", queue="a")]
    for first in detours:
        house = House(final[0], final[1], first, a_group("g", "a"), *final)
        assert (house.admit(), house.queues.queue_of("u-p"), house.use("b")) == (["p"], "b", (0, 1000))


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
    cluster.engine.namespace_applied(in_namespace("left"))
    cluster.run(5)
    assert [cluster.queues[name]["status"]["pending"] for name in ("default", "left")] == [0, 1]
