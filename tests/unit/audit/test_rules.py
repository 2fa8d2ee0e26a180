"""Single rules, each with a history that breaks it and one that does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headgate.audit.auditor import audit
from headgate.audit.findings import RULES
from headgate.capacity.names import GATE, LAPSED
from headgate.kube.timestamps import format_time
from unit.audit.builders import (
    CLUSTER_QUEUES,
    FLAVORS,
    HOUR_S,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    START_S,
    WORKLOADS,
    Told,
    a_cluster_queue,
    a_job,
    a_kueue_pod,
    a_node,
    a_pod,
    a_queue,
    a_workload,
    promise,
    scheduled,
)

IN_USE = "kueue.x-k8s.io/resource-in-use"
ROOT = Path(__file__).parents[3]


def test_every_rule_is_described_in_the_docs_with_its_sentence() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.+?) \|", (ROOT / "docs" / "audit.md").read_text(), re.M))
    assert {rule: rows.get(rule) for rule in RULES} == RULES


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "expected"), [("2", []), ("1", ["over-admission"])])
def test_a_grant_above_the_limit_of_an_ancestor_is_found(limit: str, expected: list[str]) -> None:
    told = Told()
    told.put(QUEUES, a_queue("above", limit))
    told.put(QUEUES, a_queue("team", "5", "above"))
    for name in ("a", "b"):
        told.put(PODS, a_pod(name, "1", GATE))
        told.put(PODS, promise(a_pod(name, "1", GATE)))
    assert told.rules() == expected


def test_a_grant_that_was_decided_before_the_limit_was_lowered_is_no_error() -> None:
    told = Told()
    told.put(QUEUES, a_queue("team", "2"))
    told.put(PODS, a_pod("a", "2", GATE))
    told.wait(60)
    told.put(QUEUES, a_queue("team", "1"))
    told.wait(1)
    told.put(PODS, promise(a_pod("a", "2", GATE), START_S + 59))
    assert told.rules() == []


def test_a_grant_after_the_limit_was_lowered_is_an_error() -> None:
    told = Told()
    told.put(QUEUES, a_queue("team", "2"))
    told.put(PODS, a_pod("a", "2", GATE))
    told.put(QUEUES, a_queue("team", "1"))
    told.wait(60)
    told.put(PODS, promise(a_pod("a", "2", GATE), told.now_s))
    assert told.rules() == ["over-admission"]


def test_a_pod_that_a_scheduler_binds_above_the_limit_without_a_promise_is_found() -> None:
    told = Told()
    told.put(QUEUES, a_queue("team", "1"))
    told.put(PODS, a_pod("a", "2"))
    told.put(PODS, a_pod("a", "2", node="n"))
    assert told.rules() == ["over-admission"]


def test_a_queue_that_moves_takes_its_use_along() -> None:
    told = Told()
    for name, limit in (("one", "1"), ("other", "9")):
        told.put(QUEUES, a_queue(name, limit))
    told.put(QUEUES, a_queue("team", "", "one"))
    told.put(PODS, a_pod("a", "1", GATE))
    told.put(PODS, promise(a_pod("a", "1", GATE)))
    told.put(QUEUES, a_queue("team", "", "other"))
    told.wait(60)
    told.put(PODS, a_pod("b", "1", GATE))
    told.put(PODS, promise(a_pod("b", "1", GATE), told.now_s))
    assert told.rules() == []


def test_a_list_shows_a_queue_above_its_limit_as_possible_only() -> None:
    told = Told()
    told.put(QUEUES, a_queue("team", "1"), observed=False)
    told.put(PODS, promise(a_pod("a", "2", GATE)), observed=False)
    told.put(CLUSTER_QUEUES, a_cluster_queue(cpu="1"), observed=False)
    told.put(WORKLOADS, a_workload("w", a_job(), "Job", holds=True, count=3), observed=False)
    result = told.audit()
    assert [(each.rule, each.subject, each.certain) for each in result.findings] == [
        ("over-admission", "Queue team", False),
        ("over-admission", "ClusterQueue cq", False),
    ]


# -- promises ----------------------------------------------------------------------------------------------------------


def test_a_promise_that_ends_without_a_reason_is_lost() -> None:
    told = Told()
    told.put(QUEUES, a_queue("team", "2"))
    told.put(PODS, a_pod("a", "1", GATE))
    told.put(PODS, promise(a_pod("a", "1", GATE)))
    told.put(PODS, a_pod("a", "1"))
    assert told.rules() == ["promise-lost"]


def test_a_promise_may_end_for_a_preemptor_a_lapse_or_a_lowered_limit() -> None:
    for reason in ("preemptor", "lapse", "limit"):
        told = Told()
        told.put(QUEUES, a_queue("team", "2"))
        told.put(PODS, a_pod("a", "1", GATE))
        told.put(PODS, promise(a_pod("a", "1", GATE)))
        pod = a_pod("a", "1")
        if reason == "preemptor":
            other = a_pod("b", "2", GATE)
            other["spec"]["priority"] = 100
            told.put(PODS, other)
        elif reason == "lapse":
            pod["metadata"]["annotations"][LAPSED] = '{"uid": "uid-a", "count": 1}'
        else:
            told.put(QUEUES, a_queue("team", "0"))
        told.put(PODS, pod)
        assert told.rules() == [], reason


def test_a_gate_removed_without_a_promise_is_only_possible_where_headgate_makes_none() -> None:
    told = Told()
    told.put(PODS, a_pod("a", "1", GATE))
    told.put(PODS, a_pod("a", "1"))
    assert [(each.rule, each.certain) for each in told.audit().findings] == [("gate-lifted-without-promise", False)]
    told.put(PODS, promise(a_pod("b", "1", GATE)))
    assert told.rules() == ["gate-lifted-without-promise"]


def test_nothing_is_concluded_from_states_that_are_not_observed() -> None:
    told = Told()
    told.put(QUEUES, a_queue("team", "1"))
    told.put(PODS, promise(a_pod("b", "1", GATE)), observed=False)
    told.put(PODS, a_pod("a", "3", GATE))
    told.put(PODS, a_pod("a", "3", node="n"), observed=False)
    told.put(PODS, a_pod("a", "3", node="m"), observed=False)
    assert told.rules() == []


def test_what_one_state_shows_is_certain_also_in_a_list() -> None:
    told = Told()
    told.put(PODS, a_pod("a", "1", GATE, conditions=scheduled("Unschedulable")), observed=False)
    told.put(PODS, a_pod("b", "1", GATE, node="n"), observed=False)
    other = promise(a_pod("c", "1", GATE))
    other["metadata"]["uid"] = "another"
    told.put(PODS, other, observed=False)
    assert sorted(told.rules()) == ["bound-with-gate", "stamp-of-another-pod", "unschedulable-behind-gate"]


# -- the condition -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ungated", "expected"), [(1, ["unschedulable-before-gang"]), (2, [])])
def test_a_member_of_a_gang_is_not_unschedulable_before_the_minimum_is_ungated(
    ungated: int, expected: list[str]
) -> None:
    told = Told()
    group = {"metadata": {"name": "gang", "namespace": "ns", "uid": "g"}, "spec": {"minMember": 2, "queue": "team"}}
    told.put(POD_GROUPS, group)
    pods = [a_pod(f"m{number}", "1", GATE) for number in range(3)]
    for pod in pods:
        pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "gang"
        told.put(PODS, pod)
    for pod in pods[:ungated]:
        told.put(PODS, promise(pod))
    pods[0]["status"]["conditions"] = scheduled("Unschedulable")
    told.put(PODS, pods[0])
    assert told.rules() == expected


@pytest.mark.parametrize(
    ("waited_s", "change", "expected"),
    [
        (20, {}, ["unschedulable-while-terminating"]),
        (1, {}, []),  # the scheduler may not have known
        (90, {}, []),  # the terminating pod is overdue
        (20, {"nodeSelector": {"pool": "other"}}, []),
        (20, {"affinity": {"podAntiAffinity": {"x": []}}}, []),  # not checked
        (20, {"containers": [{"resources": {"requests": {"cpu": "9"}}}]}, []),
    ],
)
def test_a_pod_that_will_fit_is_not_unschedulable(
    waited_s: float, change: dict[str, object], expected: list[str]
) -> None:
    told = Told()
    told.put(NODES, a_node("n", "2"))
    old = a_pod("old", "2", queue="", node="n")
    told.put(PODS, old)
    old["metadata"]["deletionTimestamp"] = format_time(START_S + 60)
    told.put(PODS, old)
    told.wait(waited_s)
    pod = a_pod("a", "2", GATE)
    pod["spec"] |= change
    told.put(PODS, pod)
    told.put(PODS, promise(pod, told.now_s))
    pod["status"]["conditions"] = scheduled("Unschedulable")
    told.put(PODS, pod)
    assert told.rules() == expected


# -- what is left behind -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hours", "expected"), [(0.1, []), (1.0, ["quota-leaked"])])
def test_quota_of_a_job_that_is_gone_is_leaked_after_some_time(hours: float, expected: list[str]) -> None:
    told = Told()
    told.put(CLUSTER_QUEUES, a_cluster_queue())
    job = told.put(JOBS, a_job())
    told.put(WORKLOADS, a_workload("w", job, "Job"))
    told.wait(10)
    told.put(WORKLOADS, a_workload("w", job, "Job", holds=True))
    told.put(JOBS, a_job(suspend=False))
    told.delete(JOBS, job)
    told.wait(hours * HOUR_S)
    assert told.rules() == expected


def test_quota_of_an_unknown_kind_of_owner_is_not_judged() -> None:
    told = Told()
    told.put(CLUSTER_QUEUES, a_cluster_queue())
    told.put(WORKLOADS, a_workload("w", a_job(), "RayCluster", holds=True))
    told.wait(HOUR_S)
    assert told.rules() == []


def test_leaked_quota_in_a_list_is_only_possible() -> None:
    told = Told()
    told.wait(2 * HOUR_S)
    told.put(WORKLOADS, a_workload("w", a_job(), "Job", holds=True), observed=False)
    assert [(each.rule, each.certain) for each in told.audit().findings if each.rule == "quota-leaked"] == [
        ("quota-leaked", False)
    ]


@pytest.mark.parametrize("in_use", [True, False])
def test_a_finalizer_of_a_deleted_queue_is_orphaned_when_nothing_uses_the_queue(in_use: bool) -> None:
    told = Told()
    leaving: dict[str, Any] = {"deletionTimestamp": format_time(START_S), "finalizers": [IN_USE]}
    job = told.put(JOBS, a_job())
    if in_use:
        told.put(WORKLOADS, a_workload("w", job, "Job", holds=True))
    told.put(FLAVORS, {"metadata": {"name": "any", "uid": "f", **leaving}, "spec": {}})
    told.put(CLUSTER_QUEUES, a_cluster_queue(**leaving))
    told.wait(HOUR_S)
    assert told.rules() == ([] if in_use else ["orphaned-finalizer"])


def test_a_flavor_that_no_queue_names_keeps_an_orphaned_finalizer() -> None:
    told = Told()
    metadata = {"name": "old", "uid": "f", "deletionTimestamp": format_time(START_S), "finalizers": [IN_USE]}
    told.put(FLAVORS, {"metadata": metadata, "spec": {}})
    told.wait(HOUR_S)
    assert [each.subject for each in told.audit().certain] == ["ResourceFlavor old"]


def test_a_gate_that_no_component_removes_is_orphaned_also_in_a_list() -> None:
    told = Told()
    pod = a_kueue_pod()
    del pod["metadata"]["labels"]
    told.wait(HOUR_S)
    told.put(PODS, pod, observed=False)
    (found,) = told.audit().certain
    assert (found.rule, found.at_s, found.until_s) == ("orphaned-gate", START_S, START_S + HOUR_S)


def test_a_state_that_ended_in_time_is_no_finding() -> None:
    told = Told()
    pod = told.put(PODS, a_kueue_pod())
    told.put(WORKLOADS, a_workload("w", pod, holds=True))
    told.wait(60)
    lifted = a_kueue_pod()
    lifted["spec"]["schedulingGates"] = []
    told.put(PODS, lifted)
    told.wait(HOUR_S)
    assert told.rules() == []


# -- order -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "priority", "expected"), [("1", 0, ["starved"]), ("2", 0, ["starved"]), ("1", 5, []), ("500m", 0, [])]
)
def test_a_pod_that_a_later_and_not_smaller_one_passes_is_starved(cpu: str, priority: int, expected: list[str]) -> None:
    told = Told()
    told.put(QUEUES, a_queue("team", "9"))
    told.put(PODS, a_pod("first", "1", GATE))
    told.wait(60)
    later = a_pod("later", cpu, GATE)
    later["spec"]["priority"] = priority
    later["metadata"]["creationTimestamp"] = format_time(told.now_s)
    told.put(PODS, later)
    told.put(PODS, promise(later, told.now_s))
    told.wait(2 * HOUR_S)
    assert told.rules() == expected


def test_one_object_of_another_form_is_named_and_does_not_end_the_audit() -> None:
    told = Told()
    told.put(PODS, {"metadata": {"name": "odd", "namespace": "ns", "uid": "o"}, "spec": {"priority": "high"}})
    told.put(PODS, a_pod("a", "1", GATE, conditions=scheduled("Unschedulable")))
    result = audit(told.changes)
    assert len(result.unreadable) == 1
    assert result.unreadable[0].startswith("pods ns/odd: ValueError")
    assert [each.rule for each in result.findings] == ["unschedulable-behind-gate"]
