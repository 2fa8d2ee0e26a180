"""Promised pods without a node whose group or requests change: everything about them is decided again at once.

If the gang can start it is tried, without any wait. If it cannot, its promises end, none of its pods looks like a
shortage, and no node is kept for them. A gang that is whole again is let in and tried like any other.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from headgate.capacity.names import POD_GROUPS, STAMP
from headgate.scheduling.cluster.terminating_pods import WAITING_FOR_TERMINATING_PODS
from terminating_pods import TerminatingCluster, a_group, a_queue, a_queued_pod

TWO = {"a": 8, "b": 8}
NOWHERE = {"z": "1"}


def reserved(cluster: TerminatingCluster, queue: str = "q") -> int:
    return cluster.scheduler.queues.usage(queue).reserved.get("cpu", 0) // 1000


def label(cluster: TerminatingCluster, node: str = "a") -> None:
    """A second later, since no two promises are made at the same time."""
    cluster.run(1.0)
    cluster.change_node(node, cpu="8", labels=NOWHERE)


def a_gang_without_a_node(minimum: int = 2, size: int = 2, **spec: Any) -> TerminatingCluster:
    """A gang that was let in, and that no node fits."""
    cluster = TerminatingCluster(TWO, [a_queue("q", "20"), a_queue("p", "20")], [a_group("g", minimum)])
    names = [f"g{number + 1}" for number in range(size)]
    cluster.create(*(a_queued_pod(name, 2, group="g", nodeSelector=NOWHERE, **spec) for name in names))
    assert [cluster.reason(name) for name in names] == ["Unschedulable"] * size
    return cluster


def a_gang_that_waits_for_terminating_pods(minimum: int = 2) -> TerminatingCluster:
    """Two nodes whose pods terminate, and a gang of two that was promised both."""
    cluster = TerminatingCluster(TWO, [a_queue("q", "40"), a_queue("p", "40")], [a_group("g", minimum)])
    for node in TWO:
        cluster.run_pod(f"old-{node}", 8, node, terminationGracePeriodSeconds=3600)
    cluster.delete("old-a", "old-b", stops_after_s=math.inf)
    cluster.create(a_queued_pod("g1", 8, group="g"), a_queued_pod("g2", 8, group="g"))
    assert {cluster.promise("g1"), cluster.promise("g2")} == {"a", "b"}
    return cluster


def assert_short(cluster: TerminatingCluster, *names: str, text: str) -> None:
    for name in names:
        assert (cluster.reason(name), cluster.promise(name)) == ("WaitingForQueue", ""), cluster.message(name)
        assert text in cluster.message(name)
        assert STAMP not in cluster.pods[name]["metadata"]["annotations"]


def test_a_gang_whose_minimum_was_raised_and_lowered_again_is_tried_at_once() -> None:
    cluster = a_gang_without_a_node()
    cluster.set_group(a_group("g", 3))
    assert_short(cluster, "g1", "g2", text="its PodGroup g has 2 pods and needs 3")
    assert reserved(cluster) == 0
    label(cluster)
    cluster.set_group(a_group("g", 2))
    assert (cluster.node_of("g1"), cluster.node_of("g2")) == ("a", "a")


def test_all_that_happens_between_two_steps_is_counted_together() -> None:
    """The pods are not called a shortage any more though an event of a node came first."""
    cluster = a_gang_without_a_node()
    cluster.scheduler.object_applied(POD_GROUPS, a_group("g", 3), cluster.now_s)
    cluster.change_node("a", cpu="8", labels=NOWHERE)
    assert_short(cluster, "g1", "g2", text="has 2 pods and needs 3")


def test_a_gang_that_lost_a_pod_is_tried_at_once_when_its_minimum_is_lowered() -> None:
    cluster = a_gang_without_a_node(3, 3)
    cluster.delete("g3")
    cluster.settle()
    assert_short(cluster, "g1", "g2", text="has 2 pods and needs 3")
    label(cluster)
    cluster.set_group(a_group("g", 2))
    assert (cluster.node_of("g1"), cluster.node_of("g2")) == ("a", "a")


def test_a_gang_whose_new_pod_does_not_fit_in_the_queue_waits_for_its_queue_and_keeps_no_capacity() -> None:
    cluster = a_gang_without_a_node(3, 3)
    cluster.delete("g3")
    cluster.create(a_queued_pod("g3", 19, group="g", nodeSelector=NOWHERE))
    assert_short(cluster, "g1", "g2", text="queue q has no capacity for 23 cpu")
    assert (cluster.reason("g3"), reserved(cluster)) == ("SchedulingGated", 0)
    cluster.create(a_queued_pod("next", 20, nodeSelector=NOWHERE))
    assert reserved(cluster) == 20, "the share goes to the next"
    cluster.delete("next")
    label(cluster)
    cluster.set_group(a_group("g", 2))
    assert (cluster.node_of("g1"), cluster.node_of("g2")) == ("a", "a")


def test_a_pod_that_leaves_its_group_and_joins_it_again_on_a_node_lets_the_other_start() -> None:
    cluster = a_gang_without_a_node()
    cluster.set_group(a_group("h", 1))
    cluster.move("g2", "h")
    assert_short(cluster, "g1", text="has 1 pods and needs 2")
    label(cluster)
    cluster.run(11.0)
    assert (cluster.node_of("g1"), cluster.node_of("g2")) == ("", "a")
    cluster.move("g2", "g")
    assert cluster.node_of("g1") == "a"


def test_a_gang_that_lost_its_nominations_is_tried_at_once_when_one_pod_is_enough() -> None:
    cluster = a_gang_that_waits_for_terminating_pods()
    cluster.delete("g2")
    cluster.settle()
    assert_short(cluster, "g1", text="has 1 pods and needs 2")
    assert reserved(cluster) == 0
    cluster.run(1.0)
    cluster.vanish("old-a")
    cluster.settle()
    cluster.set_group(a_group("g", 1))
    assert cluster.node_of("g1") == "a"


def test_a_group_that_is_deleted_and_created_in_another_queue_is_admitted_there_and_tried_at_once() -> None:
    cluster = a_gang_without_a_node()
    cluster.remove_group("g")
    assert_short(cluster, "g1", "g2", text="its PodGroup g does not exist")
    label(cluster)
    cluster.run(60.0)
    assert not cluster.node_of("g1"), "no pod is bound without its group"
    cluster.set_group(a_group("g", 2, queue="p"))
    assert (cluster.node_of("g1"), cluster.node_of("g2")) == ("a", "a")
    assert cluster.scheduler.queues.usage("p").allocated == {"cpu": 4000}


def test_a_condition_says_what_is_missing_as_of_now() -> None:
    cluster = a_gang_without_a_node()
    cluster.set_group(a_group("g", 3))
    cluster.remove_group("g")
    assert_short(cluster, "g1", "g2", text="its PodGroup g does not exist")
    cluster.set_group(a_group("g", 4))
    assert_short(cluster, "g1", "g2", text="its PodGroup g has 2 pods and needs 4")


def test_a_promised_pod_that_is_moved_to_a_missing_group_is_not_bound_alone() -> None:
    cluster = a_gang_without_a_node(1, 2)
    cluster.move("g2", "missing")
    label(cluster)
    cluster.run(60.0)
    assert cluster.node_of("g1") == "a"
    assert_short(cluster, "g2", text="its PodGroup missing does not exist")
    cluster.move("g2", "")
    assert cluster.node_of("g2") == "a"


def test_members_on_nodes_are_not_touched_when_the_minimum_is_raised() -> None:
    cluster = a_gang_without_a_node()
    label(cluster)
    cluster.run(11.0)
    cluster.set_group(a_group("g", 3))
    assert (cluster.node_of("g1"), cluster.node_of("g2")) == ("a", "a")
    assert cluster.scheduler.queues.usage("q").allocated == {"cpu": 4000}
    cluster.create(a_queued_pod("g3", 2, group="g"))
    assert cluster.node_of("g3")


def test_a_gang_with_a_raised_minimum_keeps_its_promises_if_the_queue_has_capacity_for_the_missing_pod() -> None:
    cluster = a_gang_without_a_node()
    stamps = [cluster.pods[name]["metadata"]["annotations"][STAMP] for name in ("g1", "g2")]
    cluster.scheduler.object_applied(POD_GROUPS, a_group("g", 3), cluster.now_s)
    cluster.create(a_queued_pod("g3", 2, group="g", nodeSelector=NOWHERE))
    assert [cluster.pods[name]["metadata"]["annotations"][STAMP] for name in ("g1", "g2")] == stamps
    assert {cluster.reason(name) for name in ("g1", "g2", "g3")} == {"Unschedulable"}


def test_a_raised_minimum_ends_the_nominations_of_its_gang_and_other_pods_get_these_nodes() -> None:
    cluster = a_gang_that_waits_for_terminating_pods()
    cluster.create(a_queued_pod("n1", 8))
    assert cluster.reason("n1") == "Unschedulable"
    cluster.set_group(a_group("g", 3))
    assert_short(cluster, "g1", "g2", text="has 2 pods and needs 3")
    cluster.run(11.0)  # the longest backoff
    assert cluster.reason("n1") == WAITING_FOR_TERMINATING_PODS
    cluster.create(a_queued_pod("n2", 8))
    assert {cluster.promise("n1"), cluster.promise("n2")} == {"a", "b"}


@pytest.mark.parametrize("how", ["gated", "bare", "plain"])
def test_a_pod_that_is_resized_while_it_waits_for_terminating_pods_is_judged_again_at_once(how: str) -> None:
    cluster = TerminatingCluster(TWO, [a_queue("q", "40")])
    for node in TWO:
        cluster.run_pod(f"old-{node}", 8, node, terminationGracePeriodSeconds=3600)
    cluster.delete("old-a", stops_after_s=math.inf)
    cluster.create(a_queued_pod("n1", 8, how))
    assert (cluster.reason("n1"), cluster.promise("n1")) == (WAITING_FOR_TERMINATING_PODS, "a")
    cluster.resize("n1", 9)
    cluster.run(0.0)
    assert (cluster.reason("n1"), cluster.promise("n1")) == ("Unschedulable", "")
    cluster.create(a_queued_pod("n2", 8))
    assert (cluster.reason("n2"), cluster.promise("n2")) == (WAITING_FOR_TERMINATING_PODS, "a")


def test_a_pod_of_a_pod_profile_that_is_resized_while_it_waits_is_judged_again_at_once() -> None:
    cluster = TerminatingCluster({"a": 8}, by_queues=False, all_profiles_wait=True)
    cluster.run_pod("old", 8, "a", terminationGracePeriodSeconds=3600)
    cluster.delete("old", stops_after_s=math.inf)
    cluster.create(a_queued_pod("n1", 8, "plain"))
    assert cluster.promise("n1") == "a"
    cluster.resize("n1", 9)
    assert (cluster.reason("n1"), cluster.promise("n1")) == ("Unschedulable", "")


def test_a_gang_is_judged_again_whole_when_one_of_its_pods_is_resized() -> None:
    cluster = a_gang_that_waits_for_terminating_pods()
    cluster.resize("g2", 9)
    for name in ("g1", "g2"):
        assert (cluster.reason(name), cluster.promise(name)) == ("Unschedulable", "")


def test_while_one_pod_of_a_gang_asks_its_queue_for_more_the_others_wait_for_it_and_keep_no_nomination() -> None:
    cluster = a_gang_that_waits_for_terminating_pods()
    cluster.resize("g2", 100)
    for name in ("g1", "g2"):
        assert (cluster.reason(name), cluster.promise(name)) == ("WaitingForQueue", ""), name
    assert "its PodGroup g needs 2 more pods on nodes, and only 1 of them may be tried now" in cluster.message("g1")
    cluster.resize("g2", 8)
    assert {cluster.promise("g1"), cluster.promise("g2")} == {"a", "b"}


def test_a_restarted_scheduler_revokes_the_promises_of_an_incomplete_gang() -> None:
    cluster = a_gang_without_a_node()
    cluster.groups["g"] = a_group("g", 3)
    cluster.start()
    cluster.settle()
    assert_short(cluster, "g1", "g2", text="has 2 pods and needs 3")
    assert reserved(cluster) == 0


def test_a_gang_of_pods_that_did_not_opt_in_is_tried_at_once_when_its_minimum_is_lowered() -> None:
    cluster = TerminatingCluster({"a": 2}, [a_queue("q", "20")], [a_group("g", 2)])
    cluster.create(a_queued_pod("g1", 2, "plain", group="g"), a_queued_pod("g2", 2, "plain", group="g"))
    assert not cluster.node_of("g1")
    cluster.set_group(a_group("g", 1))
    cluster.run(0.0)
    assert cluster.node_of("g1") == "a"


def test_the_work_for_a_group_that_shrinks_pod_by_pod_does_not_write_to_all_others_each_time() -> None:
    cluster = TerminatingCluster({"a": 8}, [a_queue("q")], [a_group("g", 30)])
    names = [f"g{number:02}" for number in range(30)]
    cluster.create(*(a_queued_pod(name, 1, group="g", nodeSelector=NOWHERE) for name in names))
    for name in names[10:]:
        cluster.delete(name)
        cluster.settle()
    assert [cluster.history[name] for name in names[:10]] == [["Unschedulable", "WaitingForQueue"]] * 10
