"""Running Jobs: the number of pods, their indexes, and the status."""

from __future__ import annotations

import pytest

from headgate.controllers.framework.effects import Create, Effect, EffectResponse
from headgate.kube.feature_gates import FeatureGates
from unit.controllers.jobs.fixtures import INDEX, PODS_PATH, TRACKING, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_as_many_pods_run_as_are_allowed_and_still_needed(stage: Stage) -> None:
    stage.add(completions=3, parallelism=2)
    assert len(stage.live()) == 2
    stage.succeed(*stage.live())
    assert len(stage.live()) == 1
    stage.succeed(*stage.live())
    assert stage.numbers() == (0, 3, 0, 0)
    assert stage.conditions() == [
        ("SuccessCriteriaMet", "True", "CompletionsReached"),
        ("Complete", "True", "CompletionsReached"),
    ]
    assert stage.events() == ["SuccessfulCreate"] * 3 + ["Completed"]


def test_pods_carry_the_finalizer_until_they_are_counted(stage: Stage) -> None:
    stage.add(parallelism=2, completions=2)
    one, other = stage.names()
    assert [stage.pod(each)["metadata"]["finalizers"] for each in (one, other)] == [[TRACKING]] * 2
    stage.succeed(one)
    assert "finalizers" not in stage.pod(one)["metadata"]
    assert stage.pod(other)["metadata"]["finalizers"] == [TRACKING]


def test_ready_pods_are_reported(stage: Stage) -> None:
    stage.add(parallelism=2, completions=2)
    stage.run(stage.names()[0])
    assert (stage.status()["active"], stage.status()["ready"]) == (2, 1)


def test_without_completions_one_success_is_enough_and_the_others_may_end(stage: Stage) -> None:
    stage.add(parallelism=3)
    one, two, three = stage.names()
    stage.succeed(one)
    assert stage.live() == [two, three]
    assert stage.numbers() == (2, 1, 0, 0)
    stage.succeed(two)
    stage.fail(three)
    assert stage.numbers() == (0, 2, 1, 0)
    assert stage.conditions()[-1] == ("Complete", "True", "CompletionsReached")


def test_zero_completions_are_complete_at_once(stage: Stage) -> None:
    stage.add(completions=0)
    assert stage.names() == []
    assert stage.conditions()[-1] == ("Complete", "True", "CompletionsReached")


def test_more_and_less_parallelism_while_running(stage: Stage) -> None:
    stage.add(parallelism=2, completions=10)
    stage.change(parallelism=4)
    assert len(stage.live()) == 4
    stage.run(stage.names()[3])
    stage.change(parallelism=1)
    assert stage.names() == ["j-00004"], "who is furthest stays"
    assert stage.numbers() == (1, 0, 0, 0), "who is not wanted has not failed"
    stage.change(parallelism=0)
    assert stage.live() == []
    assert stage.numbers()[0] == 0


def test_each_index_has_one_pod_with_its_annotation(stage: Stage) -> None:
    containers = [{"name": "c", "image": "i"}, {"name": "d", "image": "i", "env": [{"name": "JOB_COMPLETION_INDEX"}]}]
    stage.add(template={"containers": containers}, completionMode="Indexed", completions=3, parallelism=2)
    zero, one = stage.pods()
    for index, pod in enumerate((zero, one)):
        metadata = pod["metadata"]
        assert metadata["generateName"] == f"j-{index}-"
        assert metadata["name"].startswith(f"j-{index}-")
        assert metadata["annotations"][INDEX] == metadata["labels"][INDEX] == str(index)
        assert pod["spec"]["hostname"] == f"j-{index}"
    first, second = zero["spec"]["containers"]
    field = {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}
    assert first["env"] == [{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": field}}]
    assert second["env"] == [{"name": "JOB_COMPLETION_INDEX"}]
    stage.succeed(one["metadata"]["name"])
    assert stage.status()["completedIndexes"] == "1"
    assert sorted(map(stage.index_of, stage.live())) == [0, 2]
    stage.succeed(*stage.live())
    assert stage.status()["completedIndexes"] == "0-2"
    assert stage.numbers() == (0, 3, 0, 0)


def test_a_long_name_is_cut_but_never_its_index(stage: Stage) -> None:
    name = "a" * 60
    stage.add(name, completionMode="Indexed", completions=1, parallelism=1)
    assert stage.names() == ["a" * 55 + "-0-" + "00001"]


def test_two_pods_of_one_index_become_one(stage: Stage) -> None:
    stage.add(completionMode="Indexed", completions=2, parallelism=2)
    twin = stage.pod(stage.of_index(0))
    kept = {key: twin["metadata"][key] for key in ("annotations", "labels", "ownerReferences", "finalizers")}
    body = {"metadata": {"name": "twin", **kept}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert stage.server.post(PODS_PATH, body).status == 201
    stage.settle()
    assert sorted(map(stage.index_of, stage.live())) == [0, 1]
    assert stage.numbers() == (2, 0, 0, 0)


def test_indexes_beyond_fewer_completions_are_forgotten(stage: Stage) -> None:
    stage.add(completionMode="Indexed", completions=4, parallelism=4)
    stage.succeed(stage.of_index(0), stage.of_index(3))
    assert stage.status()["completedIndexes"] == "0,3"
    stage.change(completions=2, parallelism=2)
    assert stage.status()["completedIndexes"] == "0"
    assert list(map(stage.index_of, stage.live())) == [1]


def test_a_suspended_job_creates_no_pods_and_starts_when_it_is_resumed(stage: Stage) -> None:
    stage.add(suspend=True, parallelism=2, completions=2)
    assert stage.names() == []
    assert "startTime" not in stage.status()
    assert stage.conditions() == [("Suspended", "True", "JobSuspended")]
    stage.advance(100)
    stage.change(suspend=False)
    assert len(stage.live()) == 2
    assert stage.conditions() == [("Suspended", "False", "JobResumed")]
    assert stage.status()["startTime"] == "2023-11-14T22:15:00Z"
    assert stage.events() == ["Suspended", "SuccessfulCreate", "SuccessfulCreate", "Resumed"]


def test_a_job_that_is_suspended_while_it_runs_loses_its_pods_and_counts_none_of_them(stage: Stage) -> None:
    stage.add(parallelism=3, completions=5)
    stage.succeed(stage.names()[0])
    stage.change(suspend=True)
    assert stage.live() == []
    assert stage.numbers() == (0, 1, 0, 0)
    stage.change(suspend=False)
    assert len(stage.live()) == 3
    assert stage.numbers() == (3, 1, 0, 0)


@pytest.mark.parametrize("clears", [False, True])
def test_a_suspended_job_has_not_started_where_its_directives_may_change(clears: bool) -> None:
    stage = Stage(features=FeatureGates(mutable_scheduling_directives_for_suspended_jobs=clears))
    stage.add()
    stage.change(suspend=True)
    assert ("startTime" in stage.status()) is not clears
    stage.advance(100)
    stage.change(suspend=False)
    assert stage.status()["startTime"] == "2023-11-14T22:15:00Z"


def test_a_job_managed_by_another_controller_is_ignored(stage: Stage) -> None:
    stage.add(managedBy="example.com/other")
    assert stage.names() == []
    assert stage.status() == {}


def test_a_rejected_pod_is_reported_and_retried(stage: Stage) -> None:
    no_more = EffectResponse(403, {"message": 'pods "x" is forbidden: exceeded quota'}, 0.0)

    def refuse(effect: Effect) -> EffectResponse | None:
        return no_more if isinstance(effect, Create) and len(stage.names()) >= 2 else None

    stage.world.refuse = refuse
    stage.add(parallelism=5, completions=5)
    assert len(stage.live()) == 2
    assert stage.numbers() == (2, 0, 0, 0)
    assert "FailedCreate" in stage.events()
    stage.world.refuse = lambda effect: None
    stage.advance(60)
    assert len(stage.live()) == 5


def test_more_pods_than_one_reconcile_creates_are_created_in_several(stage: Stage) -> None:
    stage.add(parallelism=502, completions=502)
    stage.settle()
    assert stage.numbers() == (502, 0, 0, 0)
