"""Kueue's objects as values: what is read, and what is rejected with which reason."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.node_affinity import required_node_affinity
from headgate.quota.api.cluster_queue import ClusterQueue, read_cluster_queue
from headgate.quota.api.local_queue import LocalQueue, read_local_queue
from headgate.quota.api.resource_flavor import ResourceFlavor, find_flavor_mismatch, read_flavor
from headgate.quota.api.resource_groups import Cohort, FlavorQuota, ResourceGroup, read_cohort
from headgate.quota.api.workload import Workload, read_workload, usage_of
from kueue_builders import (
    START_S,
    a_cluster_queue,
    a_cohort,
    a_condition,
    a_flavor,
    a_local_queue,
    a_pod_set,
    a_workload,
    groups,
    reserved,
)


def a_queue(*listed: Any, **spec: Any) -> ClusterQueue:
    queue = read_cluster_queue(a_cluster_queue("cq", *listed, **spec))
    assert isinstance(queue, ClusterQueue), queue
    return queue


def a_read_workload(*arguments: Any, **more: Any) -> Workload:
    workload = read_workload(a_workload(*arguments, **more))
    assert isinstance(workload, Workload), workload
    return workload


def test_cpu_is_counted_in_thousandths_and_memory_in_bytes() -> None:
    wire = a_cluster_queue()
    wire["spec"]["resourceGroups"] = groups({"spot": {"cpu": 2, "memory": 1}})
    wire["spec"]["resourceGroups"][0]["flavors"][0]["resources"][1]["nominalQuota"] = "1Ki"
    queue = read_cluster_queue(wire)
    assert isinstance(queue, ClusterQueue)
    assert queue.quotas == {("spot", "cpu"): FlavorQuota(2000), ("spot", "memory"): FlavorQuota(1024)}
    assert queue.groups == (ResourceGroup(("cpu", "memory"), ("spot",)),)


def test_policies_have_kueues_defaults() -> None:
    queue = a_queue()
    assert not queue.is_strict
    assert (queue.fungibility.when_can_borrow, queue.fungibility.when_can_preempt) == ("MayStopSearch", "TryNextFlavor")
    assert (queue.preemption.within_cluster_queue, queue.preemption.reclaim_within_cohort) == ("Never", "Never")
    assert not queue.preemption.borrow_within_cohort
    assert queue.stop_policy == "None"


def test_no_namespace_selector_selects_no_namespace_and_an_empty_one_all() -> None:
    assert not a_queue(namespaceSelector=None).namespaces.matches({"a": "b"})
    assert a_queue(namespaceSelector={}).namespaces.matches({})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"resourceGroups": groups({"f": {"cpu": (5, 1, None)}})}, "no cohort"),
        ({"resourceGroups": groups({"f": {"cpu": (5, None, 6)}}), "cohortName": "c"}, "lends more cpu than it has"),
        ({"resourceGroups": groups({"f": {"cpu": 5}}, {"g": {"cpu": 5}})}, "one group only"),
        ({"resourceGroups": groups({"f": {"cpu": 5}, "g": {"memory": 5}})}, "as coveredResources says"),
        ({"resourceGroups": groups({"f": {"cpu": -5}})}, "is negative"),
        ({"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [7]}]}, "flavors[0]: must be an object"),
        ({"resourceGroups": "x"}, "spec.resourceGroups: must be a list"),
        ({"queueingStrategy": "Lifo"}, "'Lifo' is none of BestEffortFIFO, StrictFIFO"),
        ({"stopPolicy": "Halt"}, "'Halt' is none of"),
        ({"preemption": {"reclaimWithinCohort": "Maybe"}}, "'Maybe' is none of Never, LowerPriority, Any"),
        ({"preemption": {"borrowWithinCohort": {"maxPriorityThreshold": "x"}}}, "must be a whole number"),
        ({"namespaceSelector": {"matchLabels": 3}}, "spec.namespaceSelector: cannot be read"),
    ],
)
def test_an_invalid_queue_is_rejected_with_the_reason(spec: dict[str, Any], words: str) -> None:
    problem = read_cluster_queue(a_cluster_queue("cq", **spec))
    assert isinstance(problem, str)
    assert words in problem


def test_a_cohort_may_have_quota_of_its_own() -> None:
    cohort = read_cohort(a_cohort("team", "top", {"spot": {"cpu": (3, None, 1)}}))
    assert cohort == Cohort("team", "top", {("spot", "cpu"): FlavorQuota(3000, None, 1000)})


def test_a_local_queue_points_to_a_cluster_queue() -> None:
    assert read_local_queue(a_local_queue(stopPolicy="Hold")) == LocalQueue("ns", "lq", "cq", "Hold")


def test_a_workload_requests_what_its_pods_request_and_limits_are_the_default() -> None:
    pod_set = a_pod_set(count=3, requests={"cpu": "500m"})
    pod_set["template"]["spec"]["containers"][0]["resources"]["limits"] = {"memory": "2Ki", "cpu": "1"}
    workload = a_read_workload("w", pod_set, priority=7)
    assert workload.pod_sets[0].requests == {"cpu": 500, "memory": 2048}
    assert (workload.pod_sets[0].count, workload.priority, workload.created_s) == (3, 7, START_S)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda wire: wire["spec"]["podSets"][0].update(count=-1), "is negative"),
        (lambda wire: wire["spec"]["podSets"].append(wire["spec"]["podSets"][0]), "the same name"),
        (lambda wire: wire["spec"]["podSets"][0].update(topologyRequest={"required": "x"}), "not supported"),
        (lambda wire: _resources(wire).update(requests={"cpu": "plenty"}), "requests.cpu"),
        (lambda wire: _resources(wire).update(requests={"cpu": {}}), "must be a map of resources to quantities"),
        (lambda wire: _resources(wire).update(limits={"cpu": "99999999999E"}), "larger than any node can have"),
        (lambda wire: wire.update(spec=[]), "spec: must be an object"),
        (lambda wire: wire["spec"].update(priority="high"), "spec.priority: must be a whole number"),
    ],
)
def test_an_invalid_workload_is_rejected_with_the_reason(change: Any, words: str) -> None:
    wire = a_workload()
    change(wire)
    problem = read_workload(wire)
    assert isinstance(problem, str)
    assert words in problem


def _resources(wire: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = wire["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]
    return found


def test_the_usage_of_a_workload_decreases_with_reclaimable_pods() -> None:
    status = {**reserved(cpu=8, count=4), "reclaimablePods": [{"name": "main", "count": 3}]}
    workload = a_read_workload("w", a_pod_set(count=4, requests={"cpu": 2}), status=status)
    assert workload.holds_quota
    assert workload.admission is not None
    assert usage_of(workload, workload.admission) == {("default", "cpu"): 2000}


def test_a_partially_admitted_workload_keeps_its_count_until_fewer_are_left() -> None:
    status = {**reserved(cpu=4, count=2), "reclaimablePods": [{"name": "main", "count": 1}]}
    workload = a_read_workload("w", a_pod_set(count=4, requests={"cpu": 2}), status=status)
    assert workload.admission is not None
    assert usage_of(workload, workload.admission) == {("default", "cpu"): 4000}


def test_workloads_with_equal_requests_have_one_shape() -> None:
    shapes = [
        a_read_workload("a", cpu=1).shape,
        a_read_workload("b", cpu=1, at_s=5.0).shape,
        a_read_workload("c", cpu=2).shape,
        a_read_workload("d", cpu=1, priority=1).shape,
        a_read_workload("e", a_pod_set(nodeSelector={"zone": "a"})).shape,
    ]
    assert shapes[0] == shapes[1]
    assert len(set(shapes)) == 4


def test_conditions_are_read_with_their_times() -> None:
    workload = a_read_workload("w", status={"conditions": [a_condition("Evicted", reason="Preempted", at_s=9)]})
    assert workload.is_evicted
    assert workload.conditions["Evicted"].since_s == START_S + 9


def the_flavor(**more: Any) -> ResourceFlavor:
    flavor = read_flavor(a_flavor("spot", **more))
    assert isinstance(flavor, ResourceFlavor)
    return flavor


def test_a_flavor_with_a_topology_is_rejected_by_name() -> None:
    assert "spec.topologyName" in str(read_flavor(a_flavor(topologyName="t")))


def test_a_taint_has_to_be_tolerated_by_the_pod_or_by_the_flavor() -> None:
    taint = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    tolerated = {"key": "spot", "operator": "Exists"}
    nowhere = required_node_affinity({})
    said = "untolerated taint spot=yes:NoSchedule in flavor spot"
    assert find_flavor_mismatch(the_flavor(nodeTaints=[taint]), (), nowhere) == said
    assert not find_flavor_mismatch(the_flavor(nodeTaints=[taint]), (tolerated,), nowhere)
    assert not find_flavor_mismatch(the_flavor(nodeTaints=[taint], tolerations=[tolerated]), (), nowhere)
    assert not find_flavor_mismatch(the_flavor(nodeTaints=[{**taint, "effect": "PreferNoSchedule"}]), (), nowhere)


def test_only_node_affinity_for_the_flavors_labels_counts() -> None:
    flavor = the_flavor(labels={"zone": "a"})

    def matches(spec: dict[str, Any]) -> bool:
        return not find_flavor_mismatch(flavor, (), required_node_affinity({"spec": spec}))

    def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
        required = {"nodeSelectorTerms": [{"matchExpressions": [term]} for term in terms]}
        return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}

    assert matches({"nodeSelector": {"zone": "a", "disk": "fast"}})
    assert not matches({"nodeSelector": {"zone": "b"}})
    assert not matches(affinity({"key": "zone", "operator": "In", "values": ["b"]}))
    assert matches(affinity({"key": "zone", "operator": "In", "values": ["a", "b"]}))
    assert matches(
        affinity(
            {"key": "zone", "operator": "In", "values": ["b"]},
            {"key": "disk", "operator": "In", "values": ["fast"]},
        )
    )
