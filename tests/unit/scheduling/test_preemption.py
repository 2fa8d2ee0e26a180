"""DefaultPreemption: who may preempt, whom, on which node, and what is said when it does not help."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import Cluster, a_node, a_pod
from headgate.kube.resource import POD_DISRUPTION_BUDGETS
from headgate.scheduling.contract import Unplaced
from headgate.scheduling.pod import Pod

Object = dict[str, Any]

NO_CLAIMS = "no new claims to deallocate, preemption:"


def a_cluster(*nodes: Object, **profile: Any) -> Cluster:
    return Cluster(*nodes, preempts=True, **profile)


def runs(cluster: Cluster, name: str, node: str, cpu: str = "1", priority: int = 0, **more: Any) -> Pod:
    """A pod on a node; ``started`` is the second of a minute, ``labels``, ``deleting`` and ``conditions`` as wanted."""
    started, deleting = more.pop("started", None), more.pop("deleting", False)
    status: Object = {"conditions": more.pop("conditions", [])}
    if started is not None:
        status["startTime"] = f"2026-01-01T00:00:{started:02}Z"
    wire = a_pod(name, {"cpu": cpu}, priority=priority, status=status, labels=more.pop("labels", {}), **more)
    if deleting:
        wire["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    return cluster.bind(wire, node)


def tried(cluster: Cluster, wire: Object) -> Unplaced:
    found = cluster.cycle.place(cluster.pod(wire))
    assert isinstance(found, Unplaced), found
    return found


def preempts(cluster: Cluster, cpu: str = "1", priority: int = 10, **spec: Any) -> tuple[str, list[str]]:
    """The node that is promised, and who has to go."""
    found = tried(cluster, a_pod("p", {"cpu": cpu}, priority=priority, **spec))
    assert found.nominated is not None, found.message
    assert found.promise == found.nominated.node_name
    return found.nominated.node_name, [each.name for each in found.nominated.victims]


def budget(cluster: Cluster, allowed: int, selector: Object | None, **status: Any) -> None:
    wire = {
        "metadata": {"name": f"pdb{cluster.around.budgets.version}", "namespace": "default"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, **status},
    }
    assert list(cluster.around.applied(POD_DISRUPTION_BUDGETS, wire)) == []


LEAVING = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
ON_A = {"nominatedNodeName": "a"}
WEB = {"matchLabels": {"app": "web"}}


# -- who may preempt


def test_a_pod_of_higher_priority_makes_one_of_lower_priority_go() -> None:
    cluster = a_cluster(a_node("a", cpu="1"))
    runs(cluster, "v", "a")
    before = cluster.matrix.columns.free.copy()
    assert preempts(cluster) == ("a", ["v"])
    assert (cluster.matrix.columns.free == before).all()
    assert [each.name for each in cluster.matrix.pods_on(0).values()] == ["v"]


def test_equal_priority_is_not_enough() -> None:
    cluster = a_cluster(a_node("a", cpu="1"))
    runs(cluster, "v", "a", priority=10)
    found = tried(cluster, a_pod("p", {"cpu": "1"}, priority=10))
    assert found.nominated is None
    assert found.message == (
        f"0/1 nodes are available: 1 Insufficient cpu. {NO_CLAIMS} 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )
    assert found.promise == ""


def test_the_policy_never_forbids_it_and_leaves_promises_alone() -> None:
    cluster = a_cluster(a_node("a", cpu="1"))
    runs(cluster, "v", "a")
    found = tried(cluster, a_pod("p", {"cpu": "1"}, priority=10, preemptionPolicy="Never"))
    text = "not eligible due to preemptionPolicy=Never."
    assert found.message == f"0/1 nodes are available: 1 Insufficient cpu. {NO_CLAIMS} {text}"
    assert found.promise is None


def test_while_victims_on_the_promised_node_are_leaving_nobody_else_has_to() -> None:
    cluster = a_cluster(a_node("a", cpu="1"), a_node("b", cpu="1"))
    runs(cluster, "v", "a", deleting=True, conditions=LEAVING)
    runs(cluster, "w", "b")
    found = tried(cluster, a_pod("p", {"cpu": "1"}, priority=10, status=ON_A))
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
def test_only_lower_pods_that_leave_for_a_preemption_are_waited_for(leaving: Object) -> None:
    cluster = a_cluster(a_node("a", cpu="1"), a_node("b", cpu="1"))
    runs(cluster, "v", "a", **leaving)
    runs(cluster, "w", "b", priority=-1)
    assert preempts(cluster, status=ON_A) == ("b", ["w"])


def test_a_promised_node_that_room_would_not_help_is_not_waited_for() -> None:
    cordoned = a_node("a", cpu="1", cordoned=True)
    cluster = a_cluster(cordoned, a_node("b", cpu="1"))
    runs(cluster, "v", "a", deleting=True, conditions=LEAVING)
    runs(cluster, "w", "b")
    assert preempts(cluster, status=ON_A) == ("b", ["w"])


def test_a_promise_that_the_api_does_not_show_yet_counts_too() -> None:
    cluster = a_cluster(a_node("a", cpu="1"), a_node("b", cpu="1"))
    runs(cluster, "v", "a", deleting=True, conditions=LEAVING)
    runs(cluster, "w", "b")
    wire = a_pod("p", {"cpu": "1"}, priority=10)
    cluster.promises.promise(cluster.pod(wire), "a")
    assert tried(cluster, wire).message.endswith("not eligible due to a terminating pod on the nominated node.")


# -- where it does not help


def test_nodes_where_room_does_not_help_are_counted_as_such() -> None:
    taint = [{"key": "k", "effect": "NoSchedule"}]
    cluster = a_cluster(
        a_node("a", taints=taint), a_node("b", cordoned=True), a_node("c", cpu="2"), a_node("d", cpu="0")
    )
    runs(cluster, "high", "c", cpu="1500m", priority=20)
    runs(cluster, "low", "c", cpu="500m")
    found = tried(cluster, a_pod("p", {"cpu": "1"}, priority=10))
    assert found.message == (
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, "
        f"2 Insufficient cpu. {NO_CLAIMS} 0/4 nodes are available: 1 Insufficient cpu, "
        "3 Preemption is not helpful for scheduling."
    )
    assert found.promise == ""


def test_where_the_pod_names_its_nodes_the_others_do_not_help() -> None:
    cluster = a_cluster(a_node("a", cpu="1"), a_node("b", cpu="1"), a_node("c", cpu="4"))
    runs(cluster, "v", "a")
    runs(cluster, "w", "b", priority=10)
    fields = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in "ab"]
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}
    affinity = {"nodeAffinity": rules}
    assert preempts(cluster, affinity=affinity) == ("a", ["v"])
    found = tried(cluster, a_pod("q", {"cpu": "1"}, affinity=affinity))
    assert found.message.endswith(
        f"{NO_CLAIMS} 0/3 nodes are available: 1 Preemption is not helpful for scheduling, "
        "2 No preemption victims found for incoming pod."
    )


def test_a_pod_that_no_node_is_asked_about_cannot_be_helped() -> None:
    cluster = a_cluster(a_node("a", cpu="1"))
    runs(cluster, "v", "a")
    found = tried(cluster, a_pod("p", {"cpu": "1"}, priority=10, resourceClaims=[{"name": "gpu"}]))
    assert found.message == (
        "0/1 nodes are available: spec.resourceClaims: this scheduler does not allocate resource claims. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


# -- who has to go


def test_no_more_pods_go_than_have_to_and_the_least_important_first() -> None:
    cluster = a_cluster(a_node("a", cpu="4"))
    for i, priority in enumerate((3, 1, 2, 20)):
        runs(cluster, f"v{i}", "a", priority=priority)
    assert preempts(cluster, "2") == ("a", ["v2", "v1"])


def test_among_equals_the_one_that_started_last_goes_and_before_it_those_that_did_not_start() -> None:
    cluster = a_cluster(a_node("a", cpu="3"))
    runs(cluster, "old", "a", started=1)
    runs(cluster, "young", "a", started=5)
    runs(cluster, "waiting", "a")
    assert preempts(cluster) == ("a", ["waiting"])
    assert preempts(cluster, "2") == ("a", ["young", "waiting"])


def test_large_pods_are_taken_back_if_small_ones_make_room_enough() -> None:
    cluster = a_cluster(a_node("a", cpu="4"))
    runs(cluster, "large", "a", cpu="3", priority=2)
    runs(cluster, "small", "a", cpu="1", priority=1)
    assert preempts(cluster, "1") == ("a", ["small"])
    assert preempts(cluster, "2") == ("a", ["large"])


def test_host_ports_are_freed_as_well() -> None:
    cluster = a_cluster(a_node("a"))
    ports = [{"containerPort": 1, "hostPort": 80}]
    runs(cluster, "v", "a", ports=ports)
    runs(cluster, "w", "a")
    assert preempts(cluster, ports=ports) == ("a", ["v"])


def test_room_that_was_promised_to_others_is_made_in_addition() -> None:
    cluster = a_cluster(a_node("a", cpu="3"))
    for i in range(3):
        runs(cluster, f"v{i}", "a", started=i)
    cluster.promises.promise(cluster.pod(a_pod("first", {"cpu": "1"}, priority=10)), "a")
    assert preempts(cluster) == ("a", ["v1", "v2"])
    assert preempts(cluster, priority=11) == ("a", ["v2"])


# -- disruption budgets


def test_pods_whose_budget_is_used_up_are_taken_back_first() -> None:
    cluster = a_cluster(a_node("a", cpu="2"))
    runs(cluster, "plain", "a", priority=5)
    runs(cluster, "guarded", "a", priority=1, labels={"app": "web"})
    assert preempts(cluster) == ("a", ["guarded"])
    budget(cluster, 0, WEB)
    assert preempts(cluster) == ("a", ["plain"])


def test_a_budget_that_allows_one_disruption_is_hurt_by_the_second() -> None:
    cluster = a_cluster(a_node("a", cpu="2"), a_node("b", cpu="2"))
    for node in "ab":
        for i in range(2):
            runs(cluster, f"{node}{i}", node, labels={"app": "web"} if node == "a" else {}, priority=i, started=i)
    runs(cluster, "b2", "b", cpu="0")
    assert preempts(cluster, "2") == ("a", ["a1", "a0"])
    budget(cluster, 1, WEB)
    assert preempts(cluster, "2") == ("b", ["b1", "b0"])


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
    runs(cluster, "other", "a", priority=5)
    runs(cluster, "v", "a", labels=labels)
    budget(cluster, 0, selector, **status)
    assert preempts(cluster) == ("a", ["v"])


# -- which node


def test_the_fewest_hurt_budgets_count_before_everything_else() -> None:
    cluster = a_cluster(a_node("a", cpu="1"), a_node("b", cpu="1"))
    runs(cluster, "v", "a", labels={"app": "web"})
    runs(cluster, "w", "b", priority=9)
    budget(cluster, 0, WEB)
    assert preempts(cluster) == ("b", ["w"])


def test_then_the_least_of_the_highest_priorities() -> None:
    cluster = a_cluster(a_node("a", cpu="2"), a_node("b", cpu="2"))
    runs(cluster, "v", "a", cpu="2", priority=3)
    runs(cluster, "w", "b", priority=2)
    runs(cluster, "x", "b", priority=2)
    assert preempts(cluster, "2") == ("b", ["w", "x"])


def test_then_the_least_sum_of_priorities_and_a_victim_of_negative_priority_is_no_gain() -> None:
    cluster = a_cluster(a_node("a", cpu="2"), a_node("b", cpu="2"))
    runs(cluster, "v", "a", priority=2)
    runs(cluster, "w", "a", priority=-5)
    runs(cluster, "x", "b", cpu="2", priority=2)
    assert preempts(cluster, "2") == ("b", ["x"])


def test_then_the_node_whose_most_important_victims_started_last() -> None:
    cluster = a_cluster(a_node("a", cpu="2"), a_node("b", cpu="2"), a_node("c", cpu="2"))
    for node, started in (("a", (1, 9)), ("b", (4, 5)), ("c", (3, 8))):
        for i, each in enumerate(started):
            runs(cluster, f"{node}{i}", node, started=each)
    assert preempts(cluster, "2") == ("b", ["b0", "b1"])
    runs(cluster, "d0", "d", cpu="2")
    cluster.apply(a_node("d", cpu="2"))
    assert preempts(cluster, "2") == ("d", ["d0"])


def test_then_the_first_name() -> None:
    cluster = a_cluster(a_node("b", cpu="1"), a_node("a", cpu="1"))
    runs(cluster, "v", "a")
    runs(cluster, "w", "b")
    assert preempts(cluster) == ("a", ["v"])


@pytest.mark.parametrize(("percentage", "absolute", "chosen"), [(100, 0, "d"), (0, 2, "b"), (50, 1, "b"), (0, 1, "a")])
def test_no_more_nodes_are_compared_than_the_configuration_asks_for(
    percentage: int, absolute: int, chosen: str
) -> None:
    args = {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute}
    nodes = [a_node(name, cpu="1") for name in "abcd"]
    cluster = a_cluster(*nodes, pluginConfig=[{"name": "DefaultPreemption", "args": args}])
    for priority, name in enumerate("dcba"):
        runs(cluster, f"v-{name}", name, priority=priority)
    assert preempts(cluster)[0] == chosen


def test_the_search_goes_on_until_a_node_is_found_that_hurts_no_budget() -> None:
    args = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}
    nodes = [a_node(name, cpu="1") for name in "abc"]
    cluster = a_cluster(*nodes, pluginConfig=[{"name": "DefaultPreemption", "args": args}])
    for name in "abc":
        runs(cluster, f"v-{name}", name, labels={"app": "web"} if name != "c" else {})
    budget(cluster, 0, WEB)
    assert preempts(cluster) == ("c", ["v-c"])


# -- once, not for every pod


class CountedTrials:
    """Stands before a cycle's trials and counts them."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        trial = cluster.cycle.trial

        def counted(pod: Pod, row: int, /) -> Any:
            self.count += 1
            return trial(pod, row)

        monkeypatch.setattr(cluster.cycle, "trial", counted)


def test_a_thousand_hopeless_pods_are_one_search_and_one_node_more_per_change(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [a_node(f"n{i:02}", cpu="2") for i in range(50)]
    cluster = a_cluster(*nodes)
    for i in range(50):
        runs(cluster, f"low{i:02}", f"n{i:02}", cpu="500m")
        runs(cluster, f"high{i:02}", f"n{i:02}", cpu="1500m", priority=20)
    trials = CountedTrials(cluster, monkeypatch)
    for i in range(1000):
        assert tried(cluster, a_pod(f"p{i}", {"cpu": "1"}, priority=10)).nominated is None
    assert trials.count == 50
    cluster.matrix.pod_removed("uid-low07")
    assert tried(cluster, a_pod("p", {"cpu": "1"}, priority=10)).nominated is None
    assert trials.count == 51
    cluster.matrix.pod_removed("uid-high07")
    runs(cluster, "new07", "n07", cpu="1500m")
    assert preempts(cluster) == ("n07", ["new07"])
    assert trials.count == 52
    assert preempts(cluster, priority=11) == ("n07", ["new07"])
    assert trials.count == 102


def test_what_is_known_of_a_node_follows_starts_and_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_cluster(a_node("a", cpu="2"), a_node("b", cpu="1"))
    runs(cluster, "v", "a", started=1, labels={"app": "web"})
    runs(cluster, "w", "a", started=2)
    runs(cluster, "x", "b", priority=5)
    trials = CountedTrials(cluster, monkeypatch)
    assert preempts(cluster) == ("a", ["w"])
    assert preempts(cluster) == ("a", ["w"])
    assert trials.count == 2
    runs(cluster, "v", "a", started=3, labels={"app": "web"})
    assert preempts(cluster) == ("a", ["v"])
    assert trials.count == 3
    budget(cluster, 0, WEB)
    assert preempts(cluster) == ("a", ["w"])
    assert trials.count == 4
    budget(cluster, 0, {"matchLabels": {"app": "elsewhere"}})
    assert preempts(cluster) == ("a", ["w"])
    assert trials.count == 4
