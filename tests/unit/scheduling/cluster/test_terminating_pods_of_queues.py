"""Pods of profiles with queues wait for terminating pods: a pod that fits after termination is not unschedulable.

The first cluster has three nodes of 8 CPU and a queue of 24, and runs three pods of 8 CPU with a grace period.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from headgate.kube.pods.termination import OVERDUE_AFTER_S
from headgate.scheduling.cluster.terminating_pods import WAITING_FOR_TERMINATING_PODS
from headgate.scheduling.framework.dry_run import NodeDryRun
from terminating_pods import HOW, TerminatingCluster, a_group, a_queue, a_queued_pod

THREE = {"a": 8, "b": 8, "c": 8}


def a_full_cluster(grace_s: int = 15, **more: Any) -> TerminatingCluster:
    cluster = TerminatingCluster(THREE, [a_queue("q", "24")], **more)
    for node in THREE:
        cluster.run_pod(f"old-{node}", 8, node, terminationGracePeriodSeconds=grace_s)
    return cluster


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("grace_s", [0, 15, 3600])
def test_the_successor_of_a_slowly_terminating_pod_is_never_unschedulable(how: str, grace_s: int) -> None:
    cluster = a_full_cluster(grace_s)
    cluster.delete("old-b")
    cluster.create(a_queued_pod("next", 8, how))
    if grace_s:
        assert (cluster.reason("next"), cluster.promise("next")) == (WAITING_FOR_TERMINATING_PODS, "b")
    cluster.run(grace_s + 1)
    assert cluster.node_of("next") == "b"
    assert "Unschedulable" not in cluster.history["next"]


def test_a_gated_pod_is_never_unschedulable_while_its_predecessor_terminates() -> None:
    cluster = a_full_cluster()
    cluster.create(a_queued_pod("fourth", 8))
    assert cluster.reason("fourth") == "SchedulingGated"
    cluster.delete("old-b")
    assert (cluster.reason("fourth"), cluster.promise("fourth")) == (WAITING_FOR_TERMINATING_PODS, "b")
    assert "Node b will have capacity when pods that terminate there are gone by " in cluster.message("fourth")
    cluster.run(16.0)
    assert cluster.node_of("fourth") == "b"
    assert set(cluster.history["fourth"]) == {WAITING_FOR_TERMINATING_PODS}


def test_no_condition_is_written_before_the_gate_removal_is_confirmed() -> None:
    cluster = a_full_cluster()
    cluster.delete("old-b")
    pod = a_queued_pod("next", 8)
    cluster.pods["next"], cluster.history["next"] = pod, []
    cluster.scheduler.pod_applied(pod, cluster.now_s)
    effect_names = [type(each).__name__ for each in cluster.scheduler.step(cluster.now_s, 100)]
    assert effect_names == ["RemoveSchedulingGate", "SetStatus", "EmitPodEvent"], (
        "the status says which node it was promised, and nothing else"
    )
    assert not cluster.history["next"]


@pytest.mark.parametrize("how", HOW)
def test_when_the_terminating_pod_is_overdue_its_successor_is_unschedulable(how: str) -> None:
    """A finalizer, or a kubelet that does not respond, may keep a pod without end."""
    cluster = a_full_cluster()
    cluster.delete("old-b", stops_after_s=math.inf)
    cluster.create(a_queued_pod("next", 8, how))
    cluster.run(15.0 + OVERDUE_AFTER_S - 0.5)
    assert cluster.reason("next") == WAITING_FOR_TERMINATING_PODS
    cluster.run(1.0)
    assert (cluster.reason("next"), cluster.promise("next")) == ("Unschedulable", "")


@pytest.mark.parametrize("how", HOW)
def test_a_restarted_scheduler_keeps_waiting(how: str) -> None:
    cluster = a_full_cluster()
    cluster.delete("old-b", stops_after_s=math.inf)
    cluster.create(a_queued_pod("next", 8, how))
    cluster.run(5.0)
    cluster.start()
    cluster.run(5.0)
    assert (cluster.reason("next"), cluster.promise("next")) == (WAITING_FOR_TERMINATING_PODS, "b")
    assert set(cluster.history["next"]) == {WAITING_FOR_TERMINATING_PODS}
    cluster.run(6.0 + OVERDUE_AFTER_S)
    assert (cluster.reason("next"), cluster.promise("next")) == ("Unschedulable", "")


def test_a_pod_is_evaluated_again_at_once_when_its_node_is_cordoned_or_deleted() -> None:
    for spoil in ("cordon", "remove", "shrink"):
        cluster = a_full_cluster(3600)
        cluster.delete("old-b")
        cluster.create(a_queued_pod("next", 8))
        assert cluster.promise("next") == "b"
        if spoil == "remove":
            cluster.remove_node("b")
        else:
            cluster.change_node("b", **({"cpu": "8", "cordoned": True} if spoil == "cordon" else {"cpu": "4"}))
        assert (cluster.reason("next"), cluster.promise("next")) == ("Unschedulable", ""), spoil


def test_a_pod_of_another_scheduler_that_uses_the_capacity_is_noticed_at_once() -> None:
    cluster = a_full_cluster(3600)
    cluster.delete("old-b")
    cluster.create(a_queued_pod("next", 8))
    cluster.change_node("b", cpu="9")
    assert cluster.promise("next") == "b"
    cluster.run_pod("foreign", 2, "b", schedulerName="another")
    assert (cluster.reason("next"), cluster.promise("next")) == ("Unschedulable", "")


def test_a_deletion_that_is_shortened_is_overdue_earlier() -> None:
    cluster = a_full_cluster(3600)
    cluster.delete("old-b", stops_after_s=math.inf)
    cluster.create(a_queued_pod("next", 8))
    cluster.run(10.0)
    cluster.delete("old-b", grace_s=1, stops_after_s=math.inf)
    cluster.run(1.0 + OVERDUE_AFTER_S)
    assert (cluster.reason("next"), cluster.promise("next")) == ("Unschedulable", "")


def test_an_unschedulable_pod_waits_as_soon_as_a_pod_that_it_can_replace_terminates() -> None:
    cluster = TerminatingCluster(THREE, [a_queue("q", "32")])
    for node in THREE:
        cluster.run_pod(f"old-{node}", 8, node, terminationGracePeriodSeconds=60)
    cluster.create(a_queued_pod("next", 8))
    assert cluster.reason("next") == "Unschedulable"
    cluster.run(30.0)
    cluster.delete("old-c")
    cluster.run(11.0)  # the longest backoff
    assert (cluster.reason("next"), cluster.promise("next")) == (WAITING_FOR_TERMINATING_PODS, "c")


def test_a_node_that_the_pod_may_not_use_is_not_waited_for() -> None:
    cluster = a_full_cluster()
    cluster.delete("old-b")
    cluster.create(a_queued_pod("elsewhere", 8, nodeSelector={"zone": "east"}))
    assert cluster.reason("elsewhere") == "Unschedulable"
    cluster.change_node("c", cpu="8", taints=[{"key": "only", "effect": "NoSchedule"}])
    cluster.delete("old-c")
    cluster.delete("elsewhere")
    cluster.create(a_queued_pod("first", 8), a_queued_pod("second", 8))
    assert [cluster.reason(name) for name in ("first", "second")] == [WAITING_FOR_TERMINATING_PODS, "Unschedulable"]


def pinned(node: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_a_pod_of_a_daemon_set_waits_for_its_own_node_only() -> None:
    cluster = a_full_cluster()
    cluster.delete("old-b")
    cluster.create(a_queued_pod("on-a", 8, affinity=pinned("a")))
    assert cluster.reason("on-a") == "Unschedulable"
    cluster.delete("on-a")
    cluster.create(a_queued_pod("on-b", 8, affinity=pinned("b")))
    assert (cluster.reason("on-b"), cluster.promise("on-b")) == (WAITING_FOR_TERMINATING_PODS, "b")


def test_the_capacity_of_a_daemon_set_pod_is_not_waited_for() -> None:
    cluster = a_full_cluster()
    cluster.pods["old-b"]["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
    ]
    cluster.delete("old-b")
    cluster.create(a_queued_pod("next", 8))
    assert cluster.reason("next") == "Unschedulable"


def test_several_pods_do_not_wait_for_the_same_capacity() -> None:
    cluster = TerminatingCluster(THREE, [a_queue("q", "48")])
    for node in THREE:
        cluster.run_pod(f"old-{node}", 8, node)
    cluster.delete("old-a", "old-c")
    cluster.create(*(a_queued_pod(f"p{number}", 8) for number in range(3)))
    assert [cluster.reason(f"p{number}") for number in range(3)] == [
        WAITING_FOR_TERMINATING_PODS,
        WAITING_FOR_TERMINATING_PODS,
        "Unschedulable",
    ]
    assert {cluster.promise("p0"), cluster.promise("p1"), cluster.promise("p2")} == {"a", "c", ""}


def test_a_later_pod_of_higher_priority_takes_the_capacity_and_the_other_is_unschedulable_at_once() -> None:
    cluster = TerminatingCluster(THREE, [a_queue("q", "48")])
    for node in THREE:
        cluster.run_pod(f"old-{node}", 8, node, priority=100)
    cluster.delete("old-b")
    cluster.create(a_queued_pod("first", 8))
    cluster.create(a_queued_pod("urgent", 8, priority=10))
    assert (cluster.reason("urgent"), cluster.promise("urgent")) == (WAITING_FOR_TERMINATING_PODS, "b")
    assert (cluster.reason("first"), cluster.promise("first")) == ("Unschedulable", "")


def test_a_preemptor_that_was_unschedulable_waits_for_its_victims_with_that_reason() -> None:
    cluster = TerminatingCluster({"a": 8}, [a_queue("q", "24")])
    cluster.run_pod("low", 8, "a")
    cluster.create(a_queued_pod("urgent", 8, priority=10))
    assert cluster.evicted == ["low"]
    cluster.run(11.0)
    assert (cluster.reason("urgent"), cluster.promise("urgent")) == (WAITING_FOR_TERMINATING_PODS, "a")
    cluster.run(20.0)
    assert cluster.node_of("urgent") == "a"
    assert "Unschedulable" not in cluster.history["urgent"]


def test_a_pod_that_loses_its_turn_releases_its_nomination() -> None:
    cluster = TerminatingCluster(THREE, [a_queue("q", "24"), a_queue("other", "24")])
    for node in THREE:
        cluster.run_pod(f"old-{node}", 8, node)
    cluster.delete("old-b")
    cluster.create(a_queued_pod("next", 8))
    assert cluster.promise("next") == "b"
    cluster.set_limit("q", 16)
    assert (cluster.reason("next"), cluster.promise("next")) == ("WaitingForQueue", "")
    cluster.create(a_queued_pod("other", 8, queue="other"))
    assert cluster.promise("other") == "b"


@pytest.mark.parametrize("how", HOW)
def test_a_gang_that_fits_free_and_terminating_capacity_waits_as_one(how: str) -> None:
    cluster = TerminatingCluster(THREE, [a_queue("q", "24")], [a_group("g", 3)])
    cluster.run_pod("old-a", 8, "a", terminationGracePeriodSeconds=15)
    cluster.run_pod("old-b", 8, "b", terminationGracePeriodSeconds=60)
    cluster.delete("old-a", "old-b")
    names = ["g-0", "g-1", "g-2"]
    cluster.create(*(a_queued_pod(name, 8, how, group="g") for name in names))
    assert {cluster.reason(name) for name in names} == {WAITING_FOR_TERMINATING_PODS}
    assert {cluster.promise(name) for name in names} == {"a", "b", "c"}
    cluster.run(30.0)
    assert not any(map(cluster.node_of, names)), "all or none"
    cluster.run(31.0)
    assert {cluster.node_of(name) for name in names} == {"a", "b", "c"}
    assert all("Unschedulable" not in cluster.history[name] for name in names)


@pytest.mark.parametrize("how", HOW)
def test_a_gang_that_does_not_fit_even_after_termination_is_unschedulable_as_one(how: str) -> None:
    cluster = TerminatingCluster(THREE, [a_queue("q", "32")], [a_group("g", 3)])
    for node in THREE:
        cluster.run_pod(f"old-{node}", 8, node)
    cluster.delete("old-a", "old-b")
    names = ["g-0", "g-1", "g-2"]
    cluster.create(*(a_queued_pod(name, 8, how, group="g") for name in names))
    assert {(cluster.reason(name), cluster.promise(name)) for name in names} <= {("Unschedulable", "")}


def test_when_one_terminating_pod_is_overdue_the_whole_gang_is_unschedulable_without_nominations() -> None:
    cluster = TerminatingCluster({"a": 8, "b": 8}, [a_queue("q", "16")], [a_group("g", 2)])
    cluster.run_pod("old-a", 8, "a", terminationGracePeriodSeconds=15)
    cluster.run_pod("old-b", 8, "b", terminationGracePeriodSeconds=3600)
    cluster.delete("old-a", "old-b", stops_after_s=math.inf)
    cluster.create(a_queued_pod("g-0", 8, group="g"), a_queued_pod("g-1", 8, group="g"))
    assert {cluster.reason(name) for name in ("g-0", "g-1")} == {WAITING_FOR_TERMINATING_PODS}
    cluster.run(15.0 + OVERDUE_AFTER_S)
    for name in ("g-0", "g-1"):
        assert (cluster.reason(name), cluster.promise(name)) == ("Unschedulable", "")


def test_a_restarted_scheduler_keeps_the_nominations_of_a_gang() -> None:
    cluster = TerminatingCluster(THREE, [a_queue("q", "24")], [a_group("g", 2)])
    for node in THREE:
        cluster.run_pod(f"old-{node}", 8, node, terminationGracePeriodSeconds=60)
    cluster.delete("old-b", "old-c")
    cluster.create(a_queued_pod("g-0", 8, group="g"), a_queued_pod("g-1", 8, group="g"))
    before = {name: cluster.promise(name) for name in ("g-0", "g-1")}
    assert set(before.values()) == {"b", "c"}
    cluster.start()
    cluster.run(20.0)
    assert {name: cluster.promise(name) for name in before} == before
    cluster.run(41.0)
    assert {name: cluster.node_of(name) for name in before} == before


def test_a_pod_beyond_the_minimum_is_unschedulable_if_it_does_not_fit_after_termination() -> None:
    cluster = TerminatingCluster({"a": 8, "b": 8}, [a_queue("q", "24")], [a_group("g", 2)])
    for node in ("a", "b"):
        cluster.run_pod(f"old-{node}", 8, node)
    cluster.delete("old-a", "old-b")
    cluster.create(*(a_queued_pod(f"g-{number}", 8, group="g") for number in range(3)))
    assert [cluster.reason(f"g-{number}") for number in range(3)] == [
        WAITING_FOR_TERMINATING_PODS,
        WAITING_FOR_TERMINATING_PODS,
        "Unschedulable",
    ]


def test_a_gang_that_lost_a_pod_releases_its_nominations() -> None:
    cluster = TerminatingCluster({"a": 8, "b": 8}, [a_queue("q", "32")], [a_group("g", 2)])
    for node in ("a", "b"):
        cluster.run_pod(f"old-{node}", 8, node, terminationGracePeriodSeconds=3600)
    cluster.delete("old-a", "old-b")
    cluster.create(a_queued_pod("g-0", 8, group="g"), a_queued_pod("g-1", 8, group="g"))
    cluster.delete("g-1")
    cluster.create(a_queued_pod("single", 8), a_queued_pod("another", 8))
    assert (cluster.reason("g-0"), cluster.promise("g-0")) == ("WaitingForQueue", "")
    assert {cluster.promise("single"), cluster.promise("another")} == {"a", "b"}


def test_pods_of_profiles_without_queues_are_unschedulable_unless_configured_to_wait() -> None:
    for all_profiles_wait, reason in ((False, "Unschedulable"), (True, WAITING_FOR_TERMINATING_PODS)):
        cluster = TerminatingCluster({"a": 8}, by_queues=False, all_profiles_wait=all_profiles_wait)
        cluster.run_pod("old", 8, "a")
        cluster.delete("old")
        cluster.create(a_queued_pod("next", 8, "plain"))
        assert cluster.reason("next") == reason
        cluster.run(31.0)
        cluster.run(11.0)
        assert cluster.node_of("next") == "a"


def test_the_work_for_many_pods_that_wait_grows_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in dry runs, for the first attempt and again after one pod has ended."""

    def count(number: int) -> tuple[int, int]:
        nodes = {f"n{each:03}": 8 for each in range(number)}
        cluster = TerminatingCluster(nodes, [a_queue("q")])
        for each, node in enumerate(nodes):
            cluster.run_pod(f"old-{each:03}", 8, node)
        cluster.delete(*(f"old-{each:03}" for each in range(number)))
        dry_runs = 0

        def counted(self: Any, *args: Any) -> None:
            nonlocal dry_runs
            dry_runs += 1
            original(self, *args)

        with monkeypatch.context() as patched:
            original = NodeDryRun.__init__
            patched.setattr(NodeDryRun, "__init__", counted)
            cluster.create(*(a_queued_pod(f"p-{each:03}", 8) for each in range(number)))
            first, dry_runs = dry_runs, 0
            cluster.vanish("old-000")
            cluster.run(1.0)
        assert sum(bool(cluster.node_of(f"p-{each:03}")) for each in range(number)) == 1
        return first, dry_runs

    small, large = count(40), count(80)
    assert large[0] <= 2.5 * small[0]
    assert large[1] <= 2.5 * small[1]
