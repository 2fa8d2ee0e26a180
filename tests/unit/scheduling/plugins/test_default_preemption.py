"""DefaultPreemption: eligible preemptors and victims, the choice of the node, and the messages."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import a_node, a_pod
from unit.scheduling.full_clusters import WEB, a_cluster, add_budget, preempt, run_pod, try_to_place

Object = dict[str, Any]

NO_CLAIMS = "no new claims to deallocate, preemption:"
LEAVING = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
ON_A = {"nominatedNodeName": "a"}


# -- preemptors


def test_a_pod_of_higher_priority_preempts_one_of_lower_priority() -> None:
    cluster = a_cluster(a_node("a", cpu="1"))
    run_pod(cluster, "v", "a")
    before = cluster.matrix.columns.free.copy()
    assert preempt(cluster) == ("a", ["v"])
    assert (cluster.matrix.columns.free == before).all()
    assert [each.name for each in cluster.matrix.pods_on(0).values()] == ["v"]


def test_equal_priority_is_not_enough() -> None:
    cluster = a_cluster(a_node("a", cpu="1"))
    run_pod(cluster, "v", "a", priority=10)
    found = try_to_place(cluster, a_pod("p", {"cpu": "1"}, priority=10))
    assert found.nominated is None
    assert found.message == (
        f"0/1 nodes are available: 1 Insufficient cpu. {NO_CLAIMS} 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )
    assert found.promise == ""


def test_the_policy_never_forbids_preemption_and_keeps_nominations() -> None:
    cluster = a_cluster(a_node("a", cpu="1"))
    run_pod(cluster, "v", "a")
    found = try_to_place(cluster, a_pod("p", {"cpu": "1"}, priority=10, preemptionPolicy="Never"))
    text = "not eligible due to preemptionPolicy=Never."
    assert found.message == f"0/1 nodes are available: 1 Insufficient cpu. {NO_CLAIMS} {text}"
    assert found.promise is None


def test_while_victims_terminate_on_the_nominated_node_no_other_pod_is_preempted() -> None:
    cluster = a_cluster(a_node("a", cpu="1"), a_node("b", cpu="1"))
    run_pod(cluster, "v", "a", deleting=True, conditions=LEAVING)
    run_pod(cluster, "w", "b")
    found = try_to_place(cluster, a_pod("p", {"cpu": "1"}, priority=10, status=ON_A))
    assert found.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")
    assert found.promise is None


@pytest.mark.parametrize(
    "leaving",
    [
        {"conditions": LEAVING},
        {"deleting": True},
        {"deleting": True, "conditions": [{**LEAVING[0], "reason": "EvictionByEvictionAPI"}]},
        {"deleting": True, "conditions": [{**LEAVING[0], "status": "False"}]},
        {"deleting": True, "conditions": LEAVING, "priority": 10},
    ],
)
def test_only_terminating_victims_of_lower_priority_are_waited_for(leaving: Object) -> None:
    cluster = a_cluster(a_node("a", cpu="1"), a_node("b", cpu="1"))
    run_pod(cluster, "v", "a", **leaving)
    run_pod(cluster, "w", "b", priority=-1)
    assert preempt(cluster, status=ON_A) == ("b", ["w"])


def test_a_nominated_node_where_preemption_does_not_help_is_not_waited_for() -> None:
    cordoned = a_node("a", cpu="1", cordoned=True)
    cluster = a_cluster(cordoned, a_node("b", cpu="1"))
    run_pod(cluster, "v", "a", deleting=True, conditions=LEAVING)
    run_pod(cluster, "w", "b")
    assert preempt(cluster, status=ON_A) == ("b", ["w"])


def test_a_promise_that_the_api_does_not_show_yet_counts_too() -> None:
    cluster = a_cluster(a_node("a", cpu="1"), a_node("b", cpu="1"))
    run_pod(cluster, "v", "a", deleting=True, conditions=LEAVING)
    run_pod(cluster, "w", "b")
    wire = a_pod("p", {"cpu": "1"}, priority=10)
    cluster.nominator.nominate(cluster.pod(wire), "a")
    assert try_to_place(cluster, wire).message.endswith("not eligible due to a terminating pod on the nominated node.")


# -- where it does not help


def test_nodes_where_preemption_does_not_help_are_counted() -> None:
    taint = [{"key": "k", "effect": "NoSchedule"}]
    cluster = a_cluster(
        a_node("a", taints=taint), a_node("b", cordoned=True), a_node("c", cpu="2"), a_node("d", cpu="0")
    )
    run_pod(cluster, "high", "c", cpu="1500m", priority=20)
    run_pod(cluster, "low", "c", cpu="500m")
    found = try_to_place(cluster, a_pod("p", {"cpu": "1"}, priority=10))
    assert found.message == (
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, "
        f"2 Insufficient cpu. {NO_CLAIMS} 0/4 nodes are available: 1 Insufficient cpu, "
        "3 Preemption is not helpful for scheduling."
    )
    assert found.promise == ""


def test_where_the_pod_names_its_nodes_the_others_do_not_help() -> None:
    cluster = a_cluster(a_node("a", cpu="1"), a_node("b", cpu="1"), a_node("c", cpu="4"))
    run_pod(cluster, "v", "a")
    run_pod(cluster, "w", "b", priority=10)
    fields = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in "ab"]
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}
    affinity = {"nodeAffinity": rules}
    assert preempt(cluster, affinity=affinity) == ("a", ["v"])
    found = try_to_place(cluster, a_pod("q", {"cpu": "1"}, affinity=affinity))
    assert found.message.endswith(
        f"{NO_CLAIMS} 0/3 nodes are available: 1 Preemption is not helpful for scheduling, "
        "2 No preemption victims found for incoming pod."
    )


def test_preemption_does_not_help_a_pod_that_pre_filter_rejected() -> None:
    cluster = a_cluster(a_node("a", cpu="1"))
    run_pod(cluster, "v", "a")
    found = try_to_place(cluster, a_pod("p", {"cpu": "1"}, priority=10, resourceClaims=[{"name": "gpu"}]))
    assert found.message == (
        "0/1 nodes are available: spec.resourceClaims: this scheduler does not allocate resource claims. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


# -- victims


def test_only_needed_pods_are_victims_and_the_least_important_first() -> None:
    cluster = a_cluster(a_node("a", cpu="4"))
    for i, priority in enumerate((3, 1, 2, 20)):
        run_pod(cluster, f"v{i}", "a", priority=priority)
    assert preempt(cluster, "2") == ("a", ["v2", "v1"])


def test_of_equal_priority_pods_without_start_time_then_the_newest_are_victims() -> None:
    cluster = a_cluster(a_node("a", cpu="3"))
    run_pod(cluster, "old", "a", started=1)
    run_pod(cluster, "young", "a", started=5)
    run_pod(cluster, "waiting", "a")
    assert preempt(cluster) == ("a", ["waiting"])
    assert preempt(cluster, "2") == ("a", ["young", "waiting"])


def test_large_pods_are_reprieved_if_small_ones_are_enough() -> None:
    cluster = a_cluster(a_node("a", cpu="4"))
    run_pod(cluster, "large", "a", cpu="3", priority=2)
    run_pod(cluster, "small", "a", cpu="1", priority=1)
    assert preempt(cluster, "1") == ("a", ["small"])
    assert preempt(cluster, "2") == ("a", ["large"])


def test_host_ports_are_freed_as_well() -> None:
    cluster = a_cluster(a_node("a"))
    ports = [{"containerPort": 1, "hostPort": 80}]
    run_pod(cluster, "v", "a", ports=ports)
    run_pod(cluster, "w", "a")
    assert preempt(cluster, ports=ports) == ("a", ["v"])


def test_victims_must_also_free_capacity_for_nominated_pods() -> None:
    cluster = a_cluster(a_node("a", cpu="3"))
    for i in range(3):
        run_pod(cluster, f"v{i}", "a", started=i)
    cluster.nominator.nominate(cluster.pod(a_pod("first", {"cpu": "1"}, priority=10)), "a")
    assert preempt(cluster) == ("a", ["v1", "v2"])
    assert preempt(cluster, priority=11) == ("a", ["v2"])


# -- disruption budgets


def test_pods_that_violate_a_budget_are_reprieved_first() -> None:
    cluster = a_cluster(a_node("a", cpu="2"))
    run_pod(cluster, "plain", "a", priority=5)
    run_pod(cluster, "guarded", "a", priority=1, labels={"app": "web"})
    assert preempt(cluster) == ("a", ["guarded"])
    add_budget(cluster, 0, WEB)
    assert preempt(cluster) == ("a", ["plain"])


def test_a_budget_that_allows_one_disruption_is_hurt_by_the_second() -> None:
    cluster = a_cluster(a_node("a", cpu="2"), a_node("b", cpu="2"))
    for node in "ab":
        for i in range(2):
            run_pod(cluster, f"{node}{i}", node, labels={"app": "web"} if node == "a" else {}, priority=i, started=i)
    run_pod(cluster, "b2", "b", cpu="0")
    assert preempt(cluster, "2") == ("a", ["a1", "a0"])
    add_budget(cluster, 1, WEB)
    assert preempt(cluster, "2") == ("b", ["b1", "b0"])


@pytest.mark.parametrize(
    ("selector", "status", "labels"),
    [
        ({}, {}, {"app": "web"}),
        (None, {}, {"app": "web"}),
        (WEB, {"disruptedPods": {"v": "2026-01-01T00:00:00Z"}}, {"app": "web"}),
        (WEB, {}, {"app": "db"}),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, {}, {}),
        ({"matchExpressions": [{"key": "app", "operator": "Sounds"}]}, {}, {"app": "web"}),
    ],
)
def test_budgets_that_do_not_count_for_a_pod(selector: Object | None, status: Object, labels: dict[str, str]) -> None:
    cluster = a_cluster(a_node("a", cpu="2"))
    run_pod(cluster, "other", "a", priority=5)
    run_pod(cluster, "v", "a", labels=labels)
    add_budget(cluster, 0, selector, **status)
    assert preempt(cluster) == ("a", ["v"])


# -- which node


def test_the_fewest_hurt_budgets_count_before_everything_else() -> None:
    cluster = a_cluster(a_node("a", cpu="1"), a_node("b", cpu="1"))
    run_pod(cluster, "v", "a", labels={"app": "web"})
    run_pod(cluster, "w", "b", priority=9)
    add_budget(cluster, 0, WEB)
    assert preempt(cluster) == ("b", ["w"])


def test_then_the_least_of_the_highest_priorities() -> None:
    cluster = a_cluster(a_node("a", cpu="2"), a_node("b", cpu="2"))
    run_pod(cluster, "v", "a", cpu="2", priority=3)
    run_pod(cluster, "w", "b", priority=2)
    run_pod(cluster, "x", "b", priority=2)
    assert preempt(cluster, "2") == ("b", ["w", "x"])


def test_then_the_least_sum_of_priorities_and_a_victim_of_negative_priority_is_no_gain() -> None:
    cluster = a_cluster(a_node("a", cpu="2"), a_node("b", cpu="2"))
    run_pod(cluster, "v", "a", priority=2)
    run_pod(cluster, "w", "a", priority=-5)
    run_pod(cluster, "x", "b", cpu="2", priority=2)
    assert preempt(cluster, "2") == ("b", ["x"])


def test_then_the_node_whose_most_important_victims_started_last() -> None:
    cluster = a_cluster(a_node("a", cpu="2"), a_node("b", cpu="2"), a_node("c", cpu="2"))
    for node, started in (("a", (1, 9)), ("b", (4, 5)), ("c", (3, 8))):
        for i, each in enumerate(started):
            run_pod(cluster, f"{node}{i}", node, started=each)
    assert preempt(cluster, "2") == ("b", ["b0", "b1"])
    run_pod(cluster, "d0", "d", cpu="2")
    cluster.apply(a_node("d", cpu="2"))
    assert preempt(cluster, "2") == ("d", ["d0"])


def test_then_the_first_name() -> None:
    cluster = a_cluster(a_node("b", cpu="1"), a_node("a", cpu="1"))
    run_pod(cluster, "v", "a")
    run_pod(cluster, "w", "b")
    assert preempt(cluster) == ("a", ["v"])


@pytest.mark.parametrize(("percentage", "absolute", "chosen"), [(100, 0, "d"), (0, 2, "b"), (50, 1, "b"), (0, 1, "a")])
def test_the_number_of_candidate_nodes_is_limited_by_the_configuration(
    percentage: int, absolute: int, chosen: str
) -> None:
    args = {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute}
    nodes = [a_node(name, cpu="1") for name in "abcd"]
    cluster = a_cluster(*nodes, pluginConfig=[{"name": "DefaultPreemption", "args": args}])
    for priority, name in enumerate("dcba"):
        run_pod(cluster, f"v-{name}", name, priority=priority)
    assert preempt(cluster)[0] == chosen


def test_the_search_continues_until_a_node_without_violations_is_found() -> None:
    args = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}
    nodes = [a_node(name, cpu="1") for name in "abc"]
    cluster = a_cluster(*nodes, pluginConfig=[{"name": "DefaultPreemption", "args": args}])
    for name in "abc":
        run_pod(cluster, f"v-{name}", name, labels={"app": "web"} if name != "c" else {})
    add_budget(cluster, 0, WEB)
    assert preempt(cluster) == ("c", ["v-c"])
