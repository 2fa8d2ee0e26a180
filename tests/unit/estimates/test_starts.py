"""Estimates of small states: exact if run times are declared or always equal, a range if they vary, or no basis."""

from __future__ import annotations

from typing import Any

import pytest

from estimate_states import NOW_S, SETTINGS, cluster, pod, pod_group, start_of, workload, workload_start_of
from headgate.cli.wiring.estimates import EstimateEngines
from headgate.estimates.arrivals import NO_ARRIVALS
from headgate.estimates.present_state import Past, pod_state
from headgate.estimates.starts import estimate_pods
from headgate.kube.timestamps import format_time

LONG_AGO_S = NOW_S - 61 * 86_400
"""Units created then do not arrive again in a replay."""


def seconds(estimate: object) -> tuple[float, float]:
    earliest, latest = getattr(estimate, "earliest_s", None), getattr(estimate, "latest_s", None)
    assert earliest is not None, estimate
    assert latest is not None, estimate
    return earliest - NOW_S, latest - NOW_S


def test_a_pod_whose_queue_has_capacity_starts_now_on_a_node() -> None:
    estimate = start_of([pod("a", run_s=100, started_s=NOW_S - 10), pod("b")], "b")
    assert (estimate.state, estimate.place) == ("now", "node-0")


def test_declared_run_times_give_the_exact_start() -> None:
    pods = [pod("a", 2, run_s=100, started_s=NOW_S - 40), pod("b", 2, run_s=30, created_s=NOW_S - 20), pod("c", 2)]
    pods[2]["metadata"]["creationTimestamp"] = pods[1]["metadata"]["creationTimestamp"]
    assert seconds(start_of(pods, "c")) == (90.0, 90.0)


def test_equal_run_times_of_the_same_owner_are_learned() -> None:
    past = [pod(f"run-{n}", 2, started_s=NOW_S - 900 + n, ended_s=NOW_S - 700 + n) for n in range(6)]
    running = pod("run-7", 2, started_s=NOW_S - 50)
    estimate = start_of([*past, running, pod("run-8", 2)], "run-8")
    assert seconds(estimate)[0] == 150.0
    assert estimate.basis[0].endswith("learned from earlier runs of the same owner")


def test_different_run_times_give_a_range_that_contains_their_middle() -> None:
    past = [pod(f"job-{n}", 2, started_s=NOW_S - 5000, ended_s=NOW_S - 5000 + 100 * (n + 1)) for n in range(9)]
    low, high = seconds(start_of([*past, pod("job-20", 2, started_s=NOW_S), pod("job-21", 2)], "job-21"))
    assert low < 500.0 < high


def test_a_run_time_limit_is_an_upper_end() -> None:
    low, high = seconds(start_of([pod("a", 2, limit_s=600, started_s=NOW_S - 100), pod("b", 2)], "b"))
    assert 0 <= low < high <= 500


def test_without_run_times_there_is_no_basis_and_the_unit_is_named() -> None:
    estimate = start_of([pod("a", 2, started_s=NOW_S - 100), pod("b", 2)], "b")
    assert estimate.state == "no basis"
    assert "pod default/a" in estimate.reason
    assert "activeDeadlineSeconds" in estimate.reason


def test_an_unknown_run_time_that_changes_nothing_does_not_matter() -> None:
    pods = [pod("a", 1, started_s=NOW_S - 100), pod("b", 1, run_s=200, started_s=NOW_S - 100), pod("c", 2)]
    assert start_of(pods, "c").state == "no basis"
    pods = [pod("a", 1, started_s=NOW_S - 100, queue="other"), *pods[1:]]
    pods[0]["spec"]["schedulerName"] = "default-scheduler"
    pods.append(pod("d", 1, run_s=300, started_s=NOW_S))
    assert seconds(start_of(pods, "c")) == (300.0, 300.0)


def test_pods_of_a_deployment_are_expected_to_stay() -> None:
    owner = {"kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True, "apiVersion": "apps/v1"}
    estimate = start_of([pod("web", 2, started_s=NOW_S - 100, owner=owner), pod("b", 2)], "b")
    assert estimate.state == "no basis"
    assert "does not start within 14d" in estimate.reason


def test_a_gang_starts_when_all_its_members_fit() -> None:
    pods = [
        pod("a", 1, run_s=100, started_s=NOW_S - 40, created_s=LONG_AGO_S),
        pod("b", 1, run_s=100, started_s=NOW_S - 10, created_s=LONG_AGO_S),
        pod("g-0", 1, group="g", queue="", run_s=5, created_s=LONG_AGO_S),
        pod("g-1", 1, group="g", queue="", run_s=5, created_s=LONG_AGO_S),
    ]
    assert seconds(start_of(pods, "g-0", groups=[pod_group("g", 2)])) == (90.0, 90.0)


def test_a_workload_starts_when_quota_is_free() -> None:
    workloads = [
        workload("a", 2, run_s=100, admitted_s=NOW_S - 40),
        workload("b", 2, run_s=30, created_s=NOW_S - 90),
        workload("c", 2, created_s=NOW_S - 50),
    ]
    assert seconds(workload_start_of(workloads, "c")) == pytest.approx((90.0, 90.0), abs=0.1)
    assert workload_start_of(workloads[1:], "b").place == "cpu from any"


def test_a_workload_that_preempts_starts_when_the_victim_has_stopped() -> None:
    workloads = [workload("a", 2, admitted_s=NOW_S - 40, run_s=1000), workload("b", 2, priority=10)]
    estimate = workload_start_of(workloads, "b", preemption={"withinClusterQueue": "LowerPriority"})
    assert seconds(estimate) == pytest.approx((5.0, 5.0), abs=0.1)


def test_run_times_of_workloads_are_learned_from_the_queue() -> None:
    past = [workload(f"w{'abcdef'[n]}", 1, admitted_s=NOW_S - 600, finished_s=NOW_S - 500) for n in range(6)]
    workloads = [*past, workload("x", 2, admitted_s=NOW_S - 30), workload("y", 2)]
    estimate = workload_start_of(workloads, "y")
    assert seconds(estimate)[0] == pytest.approx(70.0, abs=0.1)
    assert "learned from the queue" in estimate.basis[0]


def test_a_workload_behind_one_of_unknown_length_has_no_basis() -> None:
    estimate = workload_start_of([workload("a", 2, admitted_s=NOW_S - 40), workload("b", 2)], "b")
    assert estimate.state == "no basis"
    assert "workload default/a" in estimate.reason


def test_one_pod_may_be_asked_about_under_several_names() -> None:
    pods = [pod("a", 2, run_s=100, started_s=NOW_S - 40), pod("b", 1, run_s=5), pod("c", 1, run_s=5)]
    state = pod_state(cluster(pods), NOW_S)
    both = frozenset(("uid-b", "uid-c"))
    found = estimate_pods(
        EstimateEngines(("headgate",)).scheduler,
        state,
        {"one": both, "other": both, "b": frozenset(("uid-b",))},
        SETTINGS,
    )
    assert {name: seconds(each) for name, each in found.items()} == dict.fromkeys(("one", "other", "b"), (60.0, 60.0))


def terminating(victim: dict[str, Any], reason: str) -> dict[str, Any]:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    victim["metadata"]["deletionTimestamp"] = format_time(NOW_S + 30)
    victim["status"]["conditions"] = [condition]
    return victim


def test_a_preempted_pod_that_terminates_is_created_again() -> None:
    def estimated(reason: str) -> tuple[float, float]:
        victim = terminating(pod("a", 2, run_s=400, started_s=NOW_S - 40, created_s=LONG_AGO_S, priority=5), reason)
        other = pod("x", 2, run_s=100, started_s=NOW_S, created_s=LONG_AGO_S, priority=9)
        return seconds(start_of([victim, other, pod("b", 2, created_s=LONG_AGO_S)], "b"))

    assert estimated("PreemptionByScheduler") == pytest.approx((500.0, 500.0), abs=1.0)
    assert estimated("DeletionByTaintManager") == pytest.approx((100.0, 100.0), abs=1.0)


def test_an_interrupted_run_is_no_complete_observation() -> None:
    past = [pod(f"run-{n}", 2, started_s=NOW_S - 900 + n, ended_s=NOW_S - 700 + n) for n in range(5)]
    stopped = [pod(f"run-{n}", 2, started_s=NOW_S - 900, ended_s=NOW_S - 890) for n in range(10, 20)]
    for each in stopped:
        each["status"]["conditions"] = [
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        ]
    running = pod("run-7", 2, started_s=NOW_S - 5)
    assert seconds(start_of([*past, *stopped, running, pod("run-8", 2)], "run-8")) == (195.0, 195.0)


def test_a_recording_says_how_long_a_unit_ran_before_it_was_interrupted() -> None:
    past = [pod(f"run-{n}", 2, started_s=NOW_S - 900, ended_s=NOW_S - (890 if n % 2 else 200)) for n in range(20)]
    objects = cluster([*past, pod("run-30", 2, started_s=NOW_S), pod("run-31", 2)])
    known = pod_state(objects, NOW_S)
    again = pod_state(objects, NOW_S, Past(known.ended, NO_ARRIVALS, {"pod default/run-30": 60.0}))
    targets = {"target": frozenset(("uid-run-31",))}
    scheduler = EstimateEngines(("headgate",)).scheduler
    assert seconds(estimate_pods(scheduler, known, targets, SETTINGS)["target"])[0] == 10.0
    assert seconds(estimate_pods(scheduler, again, targets, SETTINGS)["target"]) == (700.0, 700.0)
