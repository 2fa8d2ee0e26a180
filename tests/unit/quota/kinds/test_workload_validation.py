"""Validation of Workloads and their updates: each rule, with Kueue's messages."""

from __future__ import annotations

from typing import Any

import pytest

from unit.quota.kinds.manifests import a_condition, a_pod_set, a_workload, problems, reserved

Object = dict[str, Any]
WPC = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
POD_CLASS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}
CHECK = {"name": "c", "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_a_valid_workload_with_quota_is_accepted() -> None:
    status = reserved(
        "Admitted",
        usage="3",
        count=3,
        reclaimablePods=[{"name": "main", "count": 1}],
        admissionChecks=[{**CHECK, "podSetUpdates": [{"name": "main", "labels": {"a": "b"}}]}],
    )
    workload = a_workload(a_pod_set(count=3, minCount=2), status=status, priorityClassRef=WPC, priority=5)
    assert problems(workload) == []


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (a_workload(a_pod_set(count=2, minCount=3)), "spec.podSets[0]: Invalid value: minCount should be positive"),
        (
            a_workload(a_pod_set("a", 2, minCount=1), a_pod_set("b", 2, minCount=1)),
            "spec.podSets: Invalid value: 2: at most one podSet can use minCount",
        ),
        (
            a_workload(a_pod_set(cpu="-1")),
            'spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: Invalid value: "-1":'
            " must be greater than or equal to 0",
        ),
        (
            a_workload(a_pod_set(cpu="many")),
            'spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: Invalid value: "many": quantities',
        ),
        (
            a_workload({"name": "main", "template": {"spec": {"resources": {"limits": {"pods": 1}}}}}),
            'spec.podSets[0].template.spec.resources.limits[pods]: Invalid value: "pods":'
            " the key is reserved for internal kueue use",
        ),
        (
            a_workload({"name": "main", "template": {"metadata": {"labels": {"@": "b"}}}}),
            'spec.podSets[0].template.metadata.labels: Invalid value: "@"',
        ),
        (
            a_workload(priorityClassRef=WPC),
            "spec: Invalid value: priority should not be nil when priorityClassRef is set",
        ),
        (
            a_workload(priorityClassRef={**POD_CLASS, "kind": "WorkloadPriorityClass"}, priority=1),
            "spec.priorityClassRef: Invalid value: only the PriorityClass kind is allowed for the scheduling.k8s.io",
        ),
        (
            a_workload(status={"conditions": [a_condition("QuotaReserved")]}),
            "status.admission: Required value: must be set while the QuotaReserved condition is true",
        ),
        (
            a_workload(a_pod_set("other"), status=reserved()),
            'status.admission.podSetAssignments[0].name: Not found: "main"',
        ),
        (
            a_workload(a_pod_set("main"), a_pod_set("b"), status=reserved()),
            "<nil>: Invalid value: podSetAssignments must have the same number of podSets as the spec",
        ),
        (
            a_workload(a_pod_set(count=3), status=reserved(usage="1", count=3)),
            'status.admission.podSetAssignments[0].resourceUsage[cpu]: Invalid value: "1": is not a multiple of 3',
        ),
        (
            a_workload(status={"reclaimablePods": [{"name": "x", "count": 1}]}),
            'status.reclaimablePods[x].name: Unsupported value: "x": supported values: "main"',
        ),
        (
            a_workload(status={"reclaimablePods": [{"name": "main", "count": 2}]}),
            "status.reclaimablePods[main].count: Invalid value: 2: should be less or equal to 1",
        ),
        (
            a_workload(status={"admissionChecks": [{**CHECK, "podSetUpdates": [{"name": "x"}]}]}),
            'status.admissionChecks[0].podSetUpdates[0].name: Unsupported value: "x": supported values: "main"',
        ),
    ],
)
def test_each_rule_for_workloads_is_reported(workload: Object, said: str) -> None:
    found = problems(workload)
    assert [each[: len(said)] for each in found] == [said]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (a_workload(status=reserved()), a_workload(a_pod_set(cpu="2"), status=reserved()), "spec.podSets[0]: Invalid"),
        (
            a_workload(status=reserved(), queueName="a"),
            a_workload(status=reserved(), queueName="b"),
            "spec.queueName: Invalid value: queueName is immutable while workload quota reserved",
        ),
        (
            a_workload(status=reserved(), priorityClassRef=WPC, priority=1),
            a_workload(status=reserved(), priority=1),
            "spec.priorityClassRef: Invalid value: priorityClassRef is immutable while workload quota reserved",
        ),
        (
            a_workload(status=reserved(), priorityClassRef=POD_CLASS, priority=1),
            a_workload(status=reserved(), priorityClassRef={**POD_CLASS, "name": "low"}, priority=1),
            "spec.priorityClassRef.name: Invalid value: priorityClassRef.name is immutable for scheduling.k8s.io",
        ),
        (
            a_workload(status=reserved("Admitted"), maximumExecutionTimeSeconds=5),
            a_workload(status=reserved("Admitted"), maximumExecutionTimeSeconds=6),
            "spec.maximumExecutionTimeSeconds: Invalid value: maximumExecutionTimeSeconds is immutable while workload",
        ),
        (
            a_workload(a_pod_set(count=2), status=reserved(count=2, usage="2")),
            a_workload(a_pod_set(count=2), status=reserved(count=2, usage="4")),
            "status.admission: Invalid value: field is immutable",
        ),
        (
            a_workload(a_pod_set(count=3), status=reserved(reclaimablePods=[{"name": "main", "count": 2}])),
            a_workload(a_pod_set(count=3), status=reserved(reclaimablePods=[{"name": "main", "count": 1}])),
            "status.reclaimablePods[main].count: Invalid value: 1: cannot be less than 2",
        ),
        (
            a_workload(a_pod_set(count=3), status=reserved(reclaimablePods=[{"name": "main", "count": 2}])),
            a_workload(a_pod_set(count=3), status=reserved()),
            "status.reclaimablePods[main]: Required value: cannot be removed",
        ),
        (
            a_workload(status={"admissionChecks": [CHECK]}),
            a_workload(status={"admissionChecks": [{**CHECK, "podSetUpdates": [{"name": "main"}]}]}),
            "status.admissionChecks[0].podSetUpdates: Invalid value: field is immutable",
        ),
    ],
)
def test_admitted_fields_are_immutable(old: Object, new: Object, said: str) -> None:
    assert [each[: len(said)] for each in problems(new, old)] == [said]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (a_workload(status=reserved(), queueName="a"), a_workload(queueName="b")),
        (
            a_workload(maximumExecutionTimeSeconds=5),
            a_workload(status=reserved("Admitted"), maximumExecutionTimeSeconds=6),
        ),
        (a_workload(queueName="a"), a_workload(a_pod_set(cpu="2"), queueName="b")),
        (a_workload(status=reserved()), a_workload(status={"conditions": [a_condition("QuotaReserved", "False")]})),
        (a_workload(), a_workload(status=reserved())),
        (
            a_workload(status=reserved(), priorityClassRef=WPC, priority=1),
            a_workload(status=reserved(), priorityClassRef={**WPC, "name": "low"}, priority=0),
        ),
        (a_workload(status=reserved(), active=True), a_workload(status=reserved(), active=False)),
        (
            a_workload(a_pod_set(count=3), status=reserved(reclaimablePods=[{"name": "main", "count": 1}])),
            a_workload(a_pod_set(count=3), status=reserved(reclaimablePods=[{"name": "main", "count": 2}])),
        ),
    ],
    ids=[
        "released-and-moved",
        "first-admitted",
        "pending",
        "released",
        "admitted",
        "another-class",
        "deactivated",
        "more-reclaimed",
    ],
)
def test_allowed_updates_are_accepted(old: Object, new: Object) -> None:
    assert problems(new, old) == []


@pytest.mark.parametrize("amount", ["0", 0, "1n", "1"])
def test_a_pod_may_request_zero_but_not_a_negative_amount(amount: Any) -> None:
    assert problems(a_workload(a_pod_set(cpu=amount))) == []
    assert problems(a_workload(a_pod_set(cpu="-1n"))) != []
