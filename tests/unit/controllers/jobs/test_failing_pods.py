"""Jobs with failing pods: counting, back-off, and limits."""

from __future__ import annotations

import pytest

from headgate.controllers.jobs.job_pods import INDEX_FAILURES, INDEX_IGNORED
from unit.controllers.jobs.fixtures import Stage
from unit.controllers.world import Object

DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


@pytest.fixture
def stage() -> Stage:
    return Stage()


def rules(*each: Object) -> Object:
    return {"rules": list(each)}


def by_code(action: str, *values: int, operator: str = "In") -> Object:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values)}}


def by_disruption(action: str) -> Object:
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def test_a_failed_pod_is_replaced_after_ten_seconds_then_twenty(stage: Stage) -> None:
    stage.add()
    for wait_s in (10, 20, 40):
        stage.fail(*stage.live())
        stage.advance(wait_s - 1)
        assert stage.live() == []
        stage.advance(2)
        assert len(stage.live()) == 1
    assert stage.numbers() == (1, 0, 3, 0)


def test_a_success_clears_earlier_failures(stage: Stage) -> None:
    stage.add(completions=3)
    stage.fail(*stage.live())
    stage.advance(11)
    stage.succeed(*stage.live())
    stage.advance(1)
    stage.fail(*stage.live())
    stage.advance(8)
    assert stage.live() == []
    stage.advance(3)
    assert len(stage.live()) == 1


def test_other_pods_run_on_during_the_back_off(stage: Stage) -> None:
    stage.add(parallelism=3, completions=3)
    stage.fail(stage.live()[0])
    assert stage.numbers() == (2, 0, 1, 0)


def test_more_failures_than_the_limit_end_the_job_and_every_pod(stage: Stage) -> None:
    stage.add(parallelism=3, completions=3, backoffLimit=1)
    stage.fail(*stage.live()[:2])
    assert stage.names() == ["j-00001", "j-00002"], "who still ran is gone"
    assert stage.numbers() == (0, 0, 3, 0)
    assert stage.conditions() == [
        ("FailureTarget", "True", "BackoffLimitExceeded"),
        ("Failed", "True", "BackoffLimitExceeded"),
    ]
    assert stage.message("Failed") == "Job has reached the specified backoff limit"
    assert stage.events() == ["SuccessfulCreate"] * 3 + ["SuccessfulDelete", "BackoffLimitExceeded"]


def test_restarts_inside_pods_count_too(stage: Stage) -> None:
    stage.add(template={"restartPolicy": "OnFailure"}, parallelism=2, completions=2, backoffLimit=3)
    container = {"name": "c", "image": "i", "imageID": "", "ready": True, "state": {"running": {}}}
    one, other = stage.names()
    stage.set_pod(one, phase="Running", containerStatuses=[{**container, "restartCount": 2}])
    assert stage.conditions() == []
    stage.set_pod(other, phase="Running", containerStatuses=[{**container, "restartCount": 1}])
    assert stage.conditions()[-1] == ("Failed", "True", "BackoffLimitExceeded")


def test_a_job_past_its_active_deadline_fails(stage: Stage) -> None:
    stage.add(activeDeadlineSeconds=30)
    stage.advance(28)
    assert len(stage.live()) == 1
    stage.advance(2)
    assert stage.live() == []
    assert stage.conditions()[-1] == ("Failed", "True", "DeadlineExceeded")


def test_the_active_deadline_of_a_suspended_job_does_not_run(stage: Stage) -> None:
    stage.add(activeDeadlineSeconds=30, suspend=True)
    stage.advance(100)
    stage.change(suspend=False)
    stage.advance(28)
    assert len(stage.live()) == 1
    stage.advance(3)
    assert stage.conditions()[-1] == ("Failed", "True", "DeadlineExceeded")


def test_a_deleted_pod_counts_as_failed_and_is_replaced(stage: Stage) -> None:
    stage.add()
    stage.delete_pod(stage.names()[0])
    assert stage.names() == []
    assert stage.numbers() == (0, 0, 1, 0)
    stage.advance(11)
    assert len(stage.live()) == 1


def test_a_terminating_pod_is_not_replaced_before_it_ends_with_the_policy_failed(stage: Stage) -> None:
    stage.add(podReplacementPolicy="Failed")
    (name,) = stage.names()
    stage.delete_pod(name)
    assert stage.numbers() == (0, 0, 0, 1)
    stage.advance(60)
    assert stage.names() == [name], "it is still counted on"
    stage.fail(name)
    assert stage.numbers() == (0, 0, 1, 0)
    stage.advance(11)
    assert len(stage.live()) == 1


def test_a_rule_fails_the_job_and_is_named(stage: Stage) -> None:
    stage.add(parallelism=2, completions=2, podFailurePolicy=rules(by_code("Ignore", 1), by_code("FailJob", 42)))
    stage.fail(stage.names()[0], code=42)
    assert stage.conditions()[-1] == ("Failed", "True", "PodFailurePolicy")
    expected = "Container c for pod a/j-00001 failed with exit code 42 matching FailJob rule at index 1"
    assert stage.message("Failed") == stage.message("FailureTarget") == expected


def test_a_rule_ignores_a_disruption(stage: Stage) -> None:
    stage.add(backoffLimit=0, podFailurePolicy=rules(by_disruption("Ignore")))
    stage.fail(*stage.live(), conditions=[DISRUPTED])
    assert stage.numbers() == (0, 0, 0, 0)
    stage.advance(11)
    stage.fail(*stage.live())
    assert stage.conditions()[-1] == ("Failed", "True", "BackoffLimitExceeded")


def test_an_index_is_retried_with_its_failure_count(stage: Stage) -> None:
    stage.add(completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=2)
    for failures, wait_s in ((1, 10), (2, 20)):
        stage.fail(stage.of_index(1))
        stage.advance(wait_s - 1)
        assert len(stage.live()) == 1
        stage.advance(2)
        assert stage.pod(stage.of_index(1))["metadata"]["annotations"][INDEX_FAILURES] == str(failures)
        assert stage.numbers() == (2, 0, failures, 0)
    stage.fail(stage.of_index(1))
    assert stage.status()["failedIndexes"] == "1"
    assert stage.conditions() == []
    stage.succeed(stage.of_index(0))
    assert stage.conditions()[-1] == ("Failed", "True", "FailedIndexes")
    assert stage.numbers() == (0, 1, 3, 0)


def test_a_failed_pod_keeps_its_finalizer_until_its_index_is_retried(stage: Stage) -> None:
    stage.add(completionMode="Indexed", completions=1, parallelism=1, backoffLimitPerIndex=1)
    (name,) = stage.names()
    stage.fail(name)
    assert "finalizers" in stage.pod(name)["metadata"]
    assert stage.numbers() == (0, 0, 0, 0)
    stage.advance(11)
    assert "finalizers" not in stage.pod(name)["metadata"]
    assert stage.numbers() == (1, 0, 1, 0)


def test_ignored_failures_of_an_index_are_counted_separately(stage: Stage) -> None:
    policy = rules(by_code("Ignore", 3))
    stage.add(completionMode="Indexed", completions=1, parallelism=1, backoffLimitPerIndex=1, podFailurePolicy=policy)
    stage.fail(stage.of_index(0), code=3)
    stage.advance(11)
    annotations = stage.pod(stage.of_index(0))["metadata"]["annotations"]
    assert (annotations[INDEX_FAILURES], annotations[INDEX_IGNORED]) == ("0", "1")


def test_a_rule_fails_an_index(stage: Stage) -> None:
    policy = rules(by_code("FailIndex", 42))
    stage.add(completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=5, podFailurePolicy=policy)
    stage.fail(stage.of_index(0), code=42)
    assert stage.status()["failedIndexes"] == "0"
    stage.advance(60)
    assert list(map(stage.index_of, stage.live())) == [1]


def test_more_failed_indexes_than_allowed_end_the_job(stage: Stage) -> None:
    stage.add(completionMode="Indexed", completions=4, parallelism=4, backoffLimitPerIndex=0, maxFailedIndexes=1)
    stage.fail(stage.of_index(1))
    assert stage.conditions() == []
    stage.fail(stage.of_index(3))
    assert stage.status()["failedIndexes"] == "1,3"
    assert stage.conditions()[-1] == ("Failed", "True", "MaxFailedIndexesExceeded")
    assert stage.live() == []


def test_a_success_policy_ends_the_job_and_running_pods_do_not_count_as_failed(stage: Stage) -> None:
    policy = {"rules": [{"succeededIndexes": "2,3", "succeededCount": 2}, {"succeededIndexes": "0"}]}
    stage.add(completionMode="Indexed", completions=4, parallelism=4, successPolicy=policy)
    stage.succeed(stage.of_index(3))
    assert stage.conditions() == []
    stage.succeed(stage.of_index(0))
    assert stage.conditions() == [
        ("SuccessCriteriaMet", "True", "SuccessPolicy"),
        ("Complete", "True", "SuccessPolicy"),
    ]
    assert stage.message("Complete") == "Matched rules at index 1"
    assert stage.numbers() == (0, 2, 0, 0)
    assert stage.live() == []


def test_a_job_is_finished_only_when_every_pod_has_ended(stage: Stage) -> None:
    stage.add(parallelism=2, completions=2, backoffLimit=0, template={"nodeName": "n"})
    one, other = stage.names()
    stage.fail(one)
    assert stage.conditions() == [("FailureTarget", "True", "BackoffLimitExceeded")]
    assert stage.numbers() == (0, 0, 2, 1)
    stage.delete_pod(other, gracePeriodSeconds=0)
    assert stage.conditions()[-1] == ("Failed", "True", "BackoffLimitExceeded")
    assert stage.numbers() == (0, 0, 2, 0)
