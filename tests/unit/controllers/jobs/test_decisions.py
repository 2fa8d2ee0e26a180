"""The decisions of a Job as tables: failure policy, back-off, pods to create and delete, completion."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.jobs import backoff, policies
from headgate.controllers.jobs.backoff import BackoffRecord
from headgate.controllers.jobs.completion import decide, is_complete
from headgate.controllers.jobs.counting import TerminatedPodCounts
from headgate.controllers.jobs.job_pods import INDEX, INDEX_FAILURES, TRACKING, JobPod, job_pod_of
from headgate.controllers.jobs.pod_plan import JobPodPlan, deletion_rank, plan_pods
from headgate.controllers.jobs.pod_summary import summarize_pods
from headgate.controllers.jobs.spec import JobSpec
from unit.controllers.world import Object

NOW_S = 1_700_000_000.0
T0, T1, T2 = "2023-11-14T22:13:00Z", "2023-11-14T22:13:10Z", "2023-11-14T22:13:20Z"


def a_member(
    name: str = "p", phase: str = "Running", index: int | None = None, tracked: bool = True, **more: Any
) -> JobPod:
    """`more`: what else its metadata or its status say; `node` is where it is."""
    annotations = {} if index is None else {INDEX: str(index)}
    annotations |= {INDEX_FAILURES: str(more.pop("failures"))} if "failures" in more else {}
    metadata = {"namespace": "a", "name": name, "uid": name, "creationTimestamp": more.pop("created", T0)}
    metadata |= {"annotations": annotations, "finalizers": [TRACKING] if tracked else []}
    metadata |= {"deletionTimestamp": T2} if more.pop("going", False) else {}
    spec = {"nodeName": more.pop("node", "n")}
    return job_pod_of({"metadata": metadata, "spec": spec, "status": {"phase": phase, **more}}, is_being_deleted=False)


def ended(code: int, name: str = "c", at: str = T1) -> Object:
    return {"name": name, "state": {"terminated": {"exitCode": code, "finishedAt": at}}}


def ready(since: str = T0, status: str = "True") -> list[Object]:
    return [{"type": "Ready", "status": status, "lastTransitionTime": since}]


CODES = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3, 4]}}
OTHER_CODES = {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [3, 4], "containerName": "d"}}
DISRUPTED = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.parametrize(
    ("status", "action"),
    [
        ({}, ""),
        ({"containerStatuses": [ended(3)]}, "Ignore"),
        ({"containerStatuses": [ended(0), ended(4, "d")]}, "Ignore"),
        ({"initContainerStatuses": [ended(3)]}, "Ignore"),
        ({"containerStatuses": [ended(5)]}, ""),
        ({"containerStatuses": [ended(5, "d")]}, "Count"),
        ({"containerStatuses": [{"name": "c", "state": {"running": {}}}]}, ""),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, "FailJob"),
        ({"conditions": [{"type": "DisruptionTarget", "status": "False"}]}, ""),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True"}], "containerStatuses": [ended(3)]}, "Ignore"),
    ],
)
def test_the_first_rule_that_matches_decides(status: Object, action: str) -> None:
    match = policies.match_failure_policy((CODES, OTHER_CODES, DISRUPTED), a_member(phase="Failed", **status))
    assert match.action == action
    assert match.counts == (action != "Ignore")
    assert match.message == (
        "Pod a/p has condition DisruptionTarget matching FailJob rule at index 2" * (action == "FailJob")
    )


@pytest.mark.parametrize(
    ("failures", "pause_s"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (8, 600), (10_000, 600)]
)
def test_the_back_off_doubles(failures: int, pause_s: float) -> None:
    assert backoff.wait_s(BackoffRecord(failures, NOW_S), NOW_S) == pause_s
    assert backoff.wait_s(BackoffRecord(failures, NOW_S - 5), NOW_S) == max(0, pause_s - 5)
    assert backoff.wait_s(BackoffRecord(failures, NOW_S - 700), NOW_S) == 0


def test_only_failures_after_the_last_success_count() -> None:
    early, late = (a_member(phase="Failed", containerStatuses=[ended(1, at=at)]) for at in (T0, T2))
    success = a_member(phase="Succeeded", containerStatuses=[ended(0, at=T1)])
    before = BackoffRecord(5, 17.0)
    assert backoff.record_after(before, [], []) is before
    assert backoff.record_after(before, [], [late, early]) == BackoffRecord(7, NOW_S)
    assert backoff.record_after(before, [success], [early, late]) == BackoffRecord(1, NOW_S)
    assert backoff.record_after(before, [success], []) == BackoffRecord()


@pytest.mark.parametrize(
    ("told", "finished"),
    [
        ({"containerStatuses": [ended(0, at=T0), ended(1, at=T1)], "conditions": ready(T2, "False")}, T1),
        ({"containerStatuses": [ended(0), {"name": "d", "state": {}}], "conditions": ready(T2, "False")}, T2),
        ({"conditions": ready(T2), "going": True}, T2),
        ({"conditions": ready(T2), "created": T1}, T1),
    ],
)
def test_the_end_of_a_pod_is_read_from_the_best_source(told: Object, finished: str) -> None:
    at_s = {T0: NOW_S - 20, T1: NOW_S - 10, T2: NOW_S}
    assert a_member(**told).finished_s == at_s[finished]


def test_the_least_advanced_pod_is_deleted_first() -> None:
    far: Object = {"conditions": ready(T0)}
    restarted: Object = {"containerStatuses": [{"name": "c", "restartCount": 2}]}
    in_order = [
        a_member("nowhere", "Pending", node=""),
        a_member("pending", "Pending"),
        a_member("unready"),
        a_member("ready a short time", conditions=ready(T1)),
        a_member("restarted", **far, **restarted),
        a_member("young", created=T1, **far),
        a_member("a", **far),
        a_member("b", **far),
    ]
    shuffled = in_order[::-1]
    assert sorted(shuffled, key=deletion_rank) == in_order


def planned(spec: JobSpec, *members: JobPod, record: BackoffRecord | None = None, **status: Any) -> JobPodPlan:
    sums = summarize_pods(
        spec, status, TerminatedPodCounts(status.get("succeeded", 0), status.get("failed", 0)), members
    )
    return plan_pods(spec, sums, members, record or BackoffRecord(), NOW_S)


def names(found: JobPodPlan) -> list[str]:
    return [each.name for each in found.deletes]


def test_the_number_of_created_pods_follows_the_spec() -> None:
    running, done, failed = a_member("r"), a_member("s", "Succeeded"), a_member("f", "Failed")
    assert len(planned(JobSpec(parallelism=3, completions=9)).creates) == 3
    assert len(planned(JobSpec(parallelism=3, completions=2)).creates) == 2
    assert len(planned(JobSpec(parallelism=3, completions=4), running, done, failed).creates) == 2
    assert len(planned(JobSpec(parallelism=3, completions=4), running, succeeded=2).creates) == 1
    assert len(planned(JobSpec(parallelism=3), running).creates) == 2
    assert planned(JobSpec(parallelism=3), running, done) == JobPodPlan()
    assert planned(JobSpec(parallelism=3, is_suspended=True)) == JobPodPlan()


def test_a_back_off_delays_all_pods_of_the_job() -> None:
    assert planned(JobSpec(parallelism=3, completions=9), record=BackoffRecord(1, NOW_S - 4)) == JobPodPlan(wait_s=6.0)


def test_terminating_pods_count_only_with_the_replacement_policy_failed() -> None:
    going = a_member("g", going=True)
    assert len(planned(JobSpec(parallelism=1, completions=1), going).creates) == 1
    assert planned(JobSpec(parallelism=1, completions=1, replaces_only_failed=True), going) == JobPodPlan()


def test_surplus_pods_are_deleted_before_any_is_created() -> None:
    members = [a_member("b"), a_member("a", "Pending"), a_member("c", conditions=ready())]
    assert names(planned(JobSpec(parallelism=1, completions=9), *members)) == ["a", "b"]
    assert names(planned(JobSpec(parallelism=1, completions=9, is_suspended=True), *members)) == ["a", "b", "c"]


def test_indexes_without_a_pod_get_one_and_duplicates_are_deleted() -> None:
    spec = JobSpec(parallelism=3, completions=5, is_indexed=True)
    assert planned(spec, a_member("a", index=1), completedIndexes="0").creates == (2, 3)
    doubles = [a_member("a", index=1), a_member("b", "Pending", index=1), a_member("c"), a_member("d", index=7)]
    assert names(planned(spec, *doubles)) == ["c", "d", "b"]


def test_each_index_has_its_own_back_off() -> None:
    spec = JobSpec(parallelism=3, completions=3, is_indexed=True, backoff_limit_per_index=3)
    long_ago, now = (
        a_member(f"p{i}", "Failed", i, containerStatuses=[ended(1, at=at)]) for i, at in ((0, T0), (1, T2))
    )
    assert planned(spec, long_ago, now) == JobPodPlan(creates=(0, 2), wait_s=10.0)


@pytest.mark.parametrize(
    ("spec", "members", "left_s", "reason"),
    [
        (JobSpec(backoff_limit=1), [a_member("a", "Failed")], None, None),
        (JobSpec(backoff_limit=0), [a_member("a", "Failed")], None, "BackoffLimitExceeded"),
        (JobSpec(backoff_limit=0), [a_member("a", "Failed", tracked=False)], None, None),
        (JobSpec(backoff_limit=0), [a_member("a", going=True)], None, "BackoffLimitExceeded"),
        (JobSpec(backoff_limit=0, replaces_only_failed=True), [a_member("a", going=True)], None, None),
        (JobSpec(), [a_member()], 0.5, None),
        (JobSpec(), [a_member()], 0.0, "DeadlineExceeded"),
        (JobSpec(backoff_limit=0), [a_member("a", "Failed")], 0.0, "BackoffLimitExceeded"),
        (
            JobSpec(completions=2, is_indexed=True, backoff_limit_per_index=1),
            [a_member("a", "Failed", 0, failures=1), a_member("b", "Succeeded", 1)],
            None,
            "FailedIndexes",
        ),
        (
            JobSpec(completions=3, is_indexed=True, backoff_limit_per_index=0, max_failed_indexes=0),
            [a_member("a", "Failed", 0)],
            None,
            "MaxFailedIndexesExceeded",
        ),
        (
            JobSpec(completions=3, is_indexed=True, success_rules=({"succeededCount": 1},)),
            [a_member("a", "Succeeded", 2)],
            None,
            "SuccessPolicy",
        ),
    ],
)
def test_the_finished_condition_follows_the_precedence(
    spec: JobSpec, members: list[JobPod], left_s: float | None, reason: str | None
) -> None:
    found = decide(spec, {}, members, summarize_pods(spec, {}, TerminatedPodCounts(), members), left_s)
    assert (None if found is None else found.reason) == reason


def test_an_earlier_decision_stays() -> None:
    told = [{"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy", "message": "m"}]
    spec, members = JobSpec(backoff_limit=0), [a_member("a", "Failed")]
    found = decide(spec, {"conditions": told}, members, summarize_pods(spec, {}, TerminatedPodCounts(), members), 0.0)
    assert found is not None
    assert (found.target, found.reason, found.is_failure) == ("SuccessCriteriaMet", "SuccessPolicy", False)


def test_the_completions_are_reached_when_no_pod_runs() -> None:
    spec, done = JobSpec(completions=1), [a_member("a", "Succeeded")]
    sums = summarize_pods(spec, {}, TerminatedPodCounts(), done)
    assert is_complete(spec, sums, active=0)
    assert not is_complete(spec, sums, active=1)
    assert not is_complete(JobSpec(completions=2), sums, active=0)
    assert not is_complete(JobSpec(), summarize_pods(JobSpec(), {}, TerminatedPodCounts(), []), active=0)
