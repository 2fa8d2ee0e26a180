"""Finished Jobs are deleted after their TTL."""

from __future__ import annotations

import pytest

from headgate.controllers.framework.effects import Delete, Effect, EffectResponse, Get
from headgate.controllers.ttl_after_finished import TTLAfterFinishedController, expires_s
from unit.controllers.jobs.fixtures import JOBS_PATH, Stage


@pytest.fixture
def stage() -> Stage:
    return Stage(TTLAfterFinishedController)


def is_there(stage: Stage, name: str = "j") -> bool:
    """A job that is going waits for its pods: that is the collector's business."""
    answer = stage.server.get(f"{JOBS_PATH}/{name}")
    return answer.status == 200 and "deletionTimestamp" not in answer.body["metadata"]


def test_a_finished_job_is_deleted_after_its_ttl(stage: Stage) -> None:
    stage.add(ttlSecondsAfterFinished=30)
    stage.succeed(*stage.live())
    stage.advance(28)
    assert is_there(stage)
    stage.advance(3)
    assert not is_there(stage)
    assert stage.job()["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_a_running_job_and_a_job_without_a_ttl_stay(stage: Stage) -> None:
    stage.add(ttlSecondsAfterFinished=0)
    stage.add("k", completions=0)
    stage.advance(100)
    assert is_there(stage)
    assert is_there(stage, "k")


def test_a_job_whose_ttl_is_extended_at_the_last_moment_stays(stage: Stage) -> None:
    stage.add(ttlSecondsAfterFinished=30, completions=0)
    stage.advance(20)

    def change(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Get):
            stage.server.patch(f"{JOBS_PATH}/j", {"spec": {"ttlSecondsAfterFinished": 60}})
        return None

    stage.world.refuse = change
    stage.advance(15)
    assert is_there(stage)
    stage.advance(30)
    assert not is_there(stage)


def test_a_shorter_ttl_counts_at_once(stage: Stage) -> None:
    stage.add(ttlSecondsAfterFinished=3000, completions=0)
    stage.change(ttlSecondsAfterFinished=0)
    assert not is_there(stage)


def test_a_request_to_an_unreachable_server_is_retried(stage: Stage) -> None:
    stage.add(ttlSecondsAfterFinished=1, completions=0)
    stage.world.refuse = lambda effect: EffectResponse(503, {}, 0.0) if isinstance(effect, Get | Delete) else None
    stage.advance(2)
    stage.world.refuse = lambda effect: None
    assert is_there(stage)
    stage.advance(100)
    assert not is_there(stage)


def test_the_ttl_starts_at_the_finished_condition() -> None:
    condition = {"type": "Failed", "status": "True", "lastTransitionTime": "2023-11-14T22:13:20Z"}
    job = {"metadata": {}, "spec": {"ttlSecondsAfterFinished": 5}, "status": {"conditions": [condition]}}
    assert expires_s(job) == 1_700_000_005
    assert expires_s({**job, "metadata": {"deletionTimestamp": "2023-11-14T22:13:20Z"}}) is None
    assert expires_s({**job, "spec": {}}) is None
    assert expires_s({**job, "status": {"conditions": [{**condition, "status": "False"}]}}) is None
