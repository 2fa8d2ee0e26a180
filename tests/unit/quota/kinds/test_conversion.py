"""Conversion between v1beta1 and v1beta2 of kueue.x-k8s.io: renamed, merged and kept fields."""

from __future__ import annotations

from typing import Any

from headgate.quota.kinds.conversion import FROM_OLDER, FROM_STORED, convert
from headgate.quota.kinds.names import API_VERSION, OLDER_API_VERSION

Object = dict[str, Any]


def made(kind: str, version: str, spec: Object, status: Object | None = None) -> Object:
    obj = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    return obj if status is None else {**obj, "status": status}


def newer(kind: str, spec: Object, status: Object | None = None) -> Object:
    return convert(made(kind, OLDER_API_VERSION, spec, status), API_VERSION)


def older(kind: str, spec: Object, status: Object | None = None) -> Object:
    return convert(made(kind, API_VERSION, spec, status), OLDER_API_VERSION)


def kept_on(obj: Object) -> Object:
    found: Object = obj["metadata"].get("annotations", {})
    return found


def test_a_cohort_becomes_a_cohort_name_without_an_annotation() -> None:
    there = newer("ClusterQueue", {"cohort": "all"})
    assert there == made("ClusterQueue", API_VERSION, {"cohortName": "all"})
    assert older("ClusterQueue", {"cohortName": "all"})["spec"] == {"cohort": "all"}


def test_borrow_and_preempt_become_may_stop_search_and_are_restored_in_v1beta1() -> None:
    spec = {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}
    there = newer("ClusterQueue", spec)
    assert there["spec"]["flavorFungibility"] == {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}
    assert list(kept_on(there)) == [FROM_OLDER]
    assert convert(there, OLDER_API_VERSION) == made("ClusterQueue", OLDER_API_VERSION, spec)


def test_a_value_that_was_changed_in_v1beta2_is_kept_and_the_other_one_is_restored() -> None:
    there = newer("ClusterQueue", {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}})
    there["spec"]["flavorFungibility"]["whenCanPreempt"] = "TryNextFlavor"
    back = convert(there, OLDER_API_VERSION)
    assert back["spec"]["flavorFungibility"] == {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"}
    assert kept_on(back) == {}


def test_a_list_of_checks_becomes_a_strategy_without_flavors_and_back() -> None:
    there = newer("ClusterQueue", {"admissionChecks": ["one", "two"]})
    assert there["spec"] == {"admissionChecksStrategy": {"admissionChecks": [{"name": "one"}, {"name": "two"}]}}
    assert convert(there, OLDER_API_VERSION)["spec"] == {"admissionChecks": ["one", "two"]}


def test_checks_that_got_flavors_in_v1beta2_are_not_also_listed_without_them() -> None:
    there = newer("ClusterQueue", {"admissionChecks": ["one"]})
    strategy = {"admissionChecks": [{"name": "one", "onFlavors": ["spot"]}]}
    there["spec"]["admissionChecksStrategy"] = strategy
    assert convert(there, OLDER_API_VERSION)["spec"] == {"admissionChecksStrategy": strategy}


def test_checks_that_were_removed_in_v1beta2_are_not_restored() -> None:
    strategy = {"admissionChecks": [{"name": "one"}]}
    for said in (
        {"admissionChecks": ["one"]},
        {"admissionChecks": ["one"], "admissionChecksStrategy": {}},
        {"admissionChecks": ["one"], "admissionChecksStrategy": strategy},  # both fields say the same
    ):
        there = newer("ClusterQueue", said)
        assert convert(there, OLDER_API_VERSION)["spec"] == said
        del there["spec"]["admissionChecksStrategy"]
        assert convert(there, OLDER_API_VERSION)["spec"] == {}


def test_a_priority_class_becomes_a_reference() -> None:
    for source, group, kind in (
        ("kueue.x-k8s.io/workloadpriorityclass", "kueue.x-k8s.io", "WorkloadPriorityClass"),
        ("scheduling.k8s.io/priorityclass", "scheduling.k8s.io", "PriorityClass"),
    ):
        spec = {"priorityClassName": "high", "priorityClassSource": source, "priority": 7}
        there = newer("Workload", spec)
        assert there["spec"] == {"priorityClassRef": {"group": group, "kind": kind, "name": "high"}, "priority": 7}
        assert kept_on(there) == {}
        assert convert(there, OLDER_API_VERSION)["spec"] == spec


def test_a_priority_class_without_a_source_is_kept_in_the_annotation() -> None:
    spec = {"priorityClassName": "high", "priorityClassSource": "", "priority": 7}
    there = newer("Workload", spec)
    assert there["spec"] == {"priority": 7}
    assert convert(there, OLDER_API_VERSION)["spec"] == spec


def test_a_source_without_a_name_is_kept_in_the_annotation() -> None:
    spec = {"priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}
    there = newer("Workload", spec)
    assert there["spec"] == {}
    assert convert(there, OLDER_API_VERSION)["spec"] == spec


def test_a_workload_that_names_no_class_is_not_annotated() -> None:
    assert kept_on(newer("Workload", {"priorityClassSource": "", "active": True})) == {}


def test_the_class_of_v1beta2_wins_over_the_one_that_was_kept() -> None:
    there = newer("Workload", {"priorityClassName": "old", "priorityClassSource": "", "priority": 7})
    there["spec"]["priorityClassRef"] = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "new"}
    back = convert(there, OLDER_API_VERSION)["spec"]
    assert (back["priorityClassName"], back["priorityClassSource"]) == ("new", "kueue.x-k8s.io/workloadpriorityclass")


def test_renamed_status_fields_are_converted() -> None:
    used = [{"name": "f", "resources": [{"name": "cpu", "total": "1"}]}]
    assert newer("LocalQueue", {}, {"flavorUsage": used})["status"] == {"flavorsUsage": used}
    past = {"accumulatedPastExexcutionTimeSeconds": 5}
    assert newer("Workload", {}, past)["status"] == {"accumulatedPastExecutionTimeSeconds": 5}


def test_fields_of_v1beta2_only_survive_a_change_in_v1beta1() -> None:
    there = older("Workload", {"preemptionGates": [{"name": "g"}], "queueName": "a"})
    assert list(kept_on(there)) == [FROM_STORED]
    there["spec"]["queueName"] = "b"
    back = convert(there, API_VERSION)
    assert back["spec"] == {"preemptionGates": [{"name": "g"}], "queueName": "b"}
    assert kept_on(back) == {}


def test_the_retry_delay_is_kept_only_if_it_is_not_the_default() -> None:
    assert kept_on(newer("AdmissionCheck", {"controllerName": "c", "retryDelayMinutes": 15})) == {}
    there = newer("AdmissionCheck", {"controllerName": "c", "retryDelayMinutes": 30})
    assert there["spec"] == {"controllerName": "c"}
    assert convert(there, OLDER_API_VERSION)["spec"]["retryDelayMinutes"] == 30


def test_kept_fields_of_a_pod_set_follow_its_name_and_not_its_index() -> None:
    constraint = [{"size": 2, "topology": "rack"}]
    sets: list[Object] = [{"name": name, "topologyRequest": {"required": "rack"}} for name in ("a", "b")]
    sets[1]["topologyRequest"]["podsetSliceRequiredTopologyConstraints"] = constraint
    there = older("Workload", {"podSets": sets})
    there["spec"]["podSets"].reverse()
    back = convert(there, API_VERSION)["spec"]["podSets"]
    assert [each["topologyRequest"].get("podsetSliceRequiredTopologyConstraints") for each in back] == [
        constraint,
        None,
    ]


def test_a_forged_annotation_changes_nothing() -> None:
    obj = made("ClusterQueue", API_VERSION, {})
    obj["metadata"]["annotations"] = {FROM_OLDER: '[{"at":["metadata","name"],"now":"a","was":"b"}]'}
    assert convert(obj, OLDER_API_VERSION)["metadata"] == obj["metadata"]


def test_other_annotations_are_kept() -> None:
    obj = made("ClusterQueue", OLDER_API_VERSION, {"flavorFungibility": {"whenCanBorrow": "Borrow"}})
    obj["metadata"]["annotations"] = {"mine": "1"}
    there = convert(obj, API_VERSION)
    assert kept_on(there).keys() == {"mine", FROM_OLDER}
    assert convert(there, OLDER_API_VERSION) == obj
