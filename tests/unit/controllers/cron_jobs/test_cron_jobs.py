"""Which Jobs a CronJob starts and when, and which it keeps."""

from __future__ import annotations

import pytest

from headgate.controllers.framework.effects import Create, Delete, EffectResponse, Get, Replace
from headgate.kube.api_resources import CRON_JOBS, JOBS
from headgate.kube.timestamps import parse_time
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.cron_jobs.fixtures import CRONS, PATH, Stage

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


@pytest.fixture
def stage() -> Stage:
    return Stage()


def minute(text: str) -> int:
    parsed = parse_time(text)
    assert isinstance(parsed, int)
    return parsed // 60


def test_a_job_is_started_for_every_minute_of_the_schedule(stage: Stage) -> None:
    stage.add(ends="Succeeded")
    assert stage.names() == []
    stage.pass_minutes(3)
    assert stage.names() == [f"c-{minute(f'2023-11-14T22:{each}:00Z')}" for each in (14, 15, 16)]
    assert stage.status() == {
        "lastScheduleTime": "2023-11-14T22:16:00Z",
        "lastSuccessfulTime": "2023-11-14T22:16:00Z",
    }
    assert stage.events() == ["SuccessfulCreate", "SawCompletedJob"] * 3
    assert stage.said("SawCompletedJob") == f"Saw completed job: {stage.names()[0]}, condition: Complete"


def test_a_job_has_the_template_and_its_scheduled_time(stage: Stage) -> None:
    metadata = {"labels": {"team": "blue"}, "annotations": {"note": "x"}}
    pod = {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "i"}]}
    job = {"metadata": metadata, "spec": {"parallelism": 2, "completions": 2, "template": {"spec": pod}}}
    made = stage.add(job=job, timeZone="Asia/Kathmandu")
    stage.pass_minutes(1)
    [started] = stage.jobs()
    assert started["metadata"]["labels"]["team"] == "blue"
    assert started["metadata"]["annotations"] == {"note": "x", SCHEDULED: "2023-11-15T03:59:00+05:45"}
    assert started["spec"]["completions"] == 2
    [owner] = started["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": "c",
        "uid": made["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    [active] = stage.status()["active"]
    assert {**active, "resourceVersion": ""} == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": "a",
        "name": started["metadata"]["name"],
        "uid": started["metadata"]["uid"],
        "resourceVersion": "",
    }


def test_jobs_may_run_side_by_side(stage: Stage) -> None:
    stage.add()
    stage.pass_minutes(3)
    assert stage.active() == stage.names()
    assert len(stage.names()) == 3


def test_a_job_that_still_runs_forbids_the_next(stage: Stage) -> None:
    stage.add(concurrencyPolicy="Forbid")
    stage.pass_minutes(3)
    assert len(stage.names()) == 1
    assert stage.events()[0] == "SuccessfulCreate"
    assert set(stage.events()[1:]) == {"JobAlreadyActive"}
    first = stage.names()[0]
    stage.delete_job(first)
    assert stage.names() == [f"c-{minute('2023-11-14T22:16:00Z')}"], "the last time that was missed, not all of them"
    assert "MissingJob" in stage.events()


def test_a_job_that_still_runs_is_replaced(stage: Stage) -> None:
    stage.add(concurrencyPolicy="Replace")
    stage.pass_minutes(3)
    assert stage.names() == stage.active() == [f"c-{minute('2023-11-14T22:16:00Z')}"]
    assert stage.events().count("SuccessfulDelete") == 2
    assert "UnexpectedJob" not in stage.events()


def test_nothing_is_started_while_suspended_and_the_last_missed_one_afterwards(stage: Stage) -> None:
    stage.add(suspend=True, ends="Succeeded")
    stage.pass_minutes(10)
    assert stage.names() == []
    stage.change(suspend=False)
    assert stage.names() == [f"c-{minute('2023-11-14T22:23:00Z')}"]


def test_a_time_before_the_starting_deadline_is_not_started(stage: Stage) -> None:
    stage.add(suspend=True, startingDeadlineSeconds=10)
    stage.pass_minutes(10)
    stage.change(suspend=False)
    assert stage.names() == []
    stage.pass_minutes(1)
    assert stage.names() == [f"c-{minute('2023-11-14T22:24:00Z')}"]


def test_more_than_a_hundred_missed_times_are_reported_and_the_last_one_is_started(stage: Stage) -> None:
    stage.add(suspend=True, ends="Succeeded")
    stage.last_started("2023-11-10T00:00:00Z")
    stage.change(suspend=False)
    assert stage.names() == [f"c-{minute('2023-11-14T22:13:00Z')}"]
    assert stage.events()[:2] == ["TooManyMissedTimes", "SuccessfulCreate"]


def test_finished_jobs_are_kept_up_to_the_limits(stage: Stage) -> None:
    stage.add("good", ends="Succeeded", successfulJobsHistoryLimit=2)
    stage.add("bad", ends="Failed", failedJobsHistoryLimit=1)
    stage.pass_minutes(5)
    last, before = minute("2023-11-14T22:18:00Z"), minute("2023-11-14T22:17:00Z")
    assert stage.names() == [f"bad-{last}", f"good-{before}", f"good-{last}"]
    assert stage.said("SuccessfulDelete") == f"Deleted job bad-{minute('2023-11-14T22:14:00Z')}"
    assert "lastSuccessfulTime" not in stage.status("bad")


def test_with_a_limit_of_zero_no_job_is_kept(stage: Stage) -> None:
    stage.add(ends="Succeeded", successfulJobsHistoryLimit=0)
    stage.pass_minutes(3)
    assert stage.names() == []
    assert stage.status()["lastSuccessfulTime"] == "2023-11-14T22:16:00Z"


def test_a_foreign_job_is_reported_and_not_adopted(stage: Stage) -> None:
    cron = stage.add(schedule="0 0 1 1 *", ends="Succeeded")
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": "c",
        "uid": cron["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"name": "by-hand", "ownerReferences": [owner]}
    answer = stage.server.post(PATH, {"metadata": metadata, "spec": cron["spec"]["jobTemplate"]["spec"]})
    assert answer.status == 201, answer.body
    stage.pass_minutes(1)
    assert set(stage.events()) == {"UnexpectedJob"}
    assert stage.said("UnexpectedJob") == "Saw a job that the controller did not create or forgot: by-hand"
    assert stage.status() == {"lastSuccessfulTime": "2023-11-14T22:13:20Z"}


def test_an_interval_starts_at_the_creation_of_the_cron_job(stage: Stage) -> None:
    stage.add(schedule="@every 90s", ends="Succeeded")
    stage.pass_minutes(5)
    due = ("22:14:50", "22:16:20", "22:17:50")
    assert stage.names() == [f"c-{minute(f'2023-11-14T{each}Z')}" for each in due]
    assert stage.status()["lastScheduleTime"] == "2023-11-14T22:17:50Z"


def test_two_times_within_one_minute_get_one_job(stage: Stage) -> None:
    stage.add(schedule="@every 15s", ends="Succeeded")
    stage.pass_minutes(2)
    minutes = [minute(f"2023-11-14T22:{each}:00Z") for each in (13, 14, 15)]
    assert stage.names() == [f"c-{each}" for each in minutes]
    assert stage.active() == []


def test_a_job_of_this_minute_that_still_runs_is_not_tried_again(stage: Stage) -> None:
    stage.add(schedule="@every 15s")
    stage.world.advance(40)
    assert stage.world.requests.count(("POST", PATH)) == 1


def test_a_time_zone_moves_the_hour(stage: Stage) -> None:
    stage.add("berlin", schedule="30 23 * * *", timeZone="Europe/Berlin")
    stage.add("utc", schedule="30 23 * * *")
    stage.pass_minutes(20)
    assert stage.names() == [f"berlin-{minute('2023-11-14T22:30:00Z')}"]
    stage.pass_minutes(60)
    assert stage.names()[1] == f"utc-{minute('2023-11-14T23:30:00Z')}"


def test_a_schedule_without_a_time_is_reported(stage: Stage) -> None:
    stage.add(schedule="0 0 31 2 *")
    stage.pass_minutes(5)
    assert stage.events() == ["InvalidSchedule"]
    text = "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second"
    assert stage.said("InvalidSchedule") == text


def test_a_new_schedule_counts_from_now_on(stage: Stage) -> None:
    stage.add(schedule="0 0 1 1 *")
    stage.pass_minutes(10)
    stage.change(schedule="*/2 * * * *")
    assert stage.names() == [], "22:22 was due by the new schedule, but before it was there"
    stage.pass_minutes(1)
    assert stage.names() == [f"c-{minute('2023-11-14T22:24:00Z')}"]


def test_a_rejected_job_is_reported_and_retried(stage: Stage) -> None:
    refused = EffectResponse(403, {"message": "exceeded quota"}, 0.0)
    stage.world.refuse = lambda effect: refused if isinstance(effect, Create) else None
    stage.add()
    stage.world.advance(41)
    assert set(stage.events()) == {"FailedCreate"}
    assert stage.said("FailedCreate") == "Error creating job: exceeded quota"
    stage.world.refuse = lambda effect: None
    stage.world.advance(18)
    assert len(stage.names()) == 1


def test_a_terminating_namespace_is_not_reported(stage: Stage) -> None:
    cause = {"reason": "NamespaceTerminating"}
    refused = EffectResponse(403, {"message": "no", "details": {"causes": [cause]}}, 0.0)
    stage.world.refuse = lambda effect: refused if isinstance(effect, Create) else None
    stage.add()
    stage.pass_minutes(1)
    assert stage.events() == []


def test_a_job_that_cannot_be_deleted_keeps_its_successor_waiting(stage: Stage) -> None:
    stage.add(concurrencyPolicy="Replace")
    stage.pass_minutes(1)
    refused = EffectResponse(403, {"message": "not you"}, 0.0)
    stage.world.refuse = lambda effect: refused if isinstance(effect, Delete) else None
    stage.pass_minutes(1)
    assert len(stage.names()) == 1
    assert stage.said("FailedDelete") == "Deleted job: not you"


def test_a_job_name_that_is_taken_is_not_used(stage: Stage) -> None:
    cron = stage.add()
    taken = f"c-{minute('2023-11-14T22:14:00Z')}"
    stage.server.post(PATH, {"metadata": {"name": taken}, "spec": cron["spec"]["jobTemplate"]["spec"]})
    stage.pass_minutes(1)
    assert stage.status() == {}
    stage.pass_minutes(1)
    assert stage.active() == [f"c-{minute('2023-11-14T22:15:00Z')}"]


def test_a_late_watch_creates_no_second_job_and_no_event(stage: Stage) -> None:
    stage.add()
    stage.server.epoch_s += 41
    for _ in range(3):
        stage.look_deaf_to(CRON_JOBS)  # Jobs are heard of, the CronJob's new status is not
    assert stage.events() == ["SuccessfulCreate"]
    assert len(stage.names()) == 1


def test_a_late_watch_of_jobs_is_no_reason_to_miss_or_to_suspect_one(stage: Stage) -> None:
    stage.add(concurrencyPolicy="Replace")
    stage.pass_minutes(1)
    stage.server.epoch_s += 60
    for _ in range(3):
        stage.look_deaf_to(JOBS)  # neither that the first one went nor that the second one came
    assert stage.events() == ["SuccessfulCreate", "SuccessfulDelete", "SuccessfulCreate"]
    assert ("GET", f"{PATH}/{stage.active()[0]}") not in stage.world.requests


def test_a_concurrent_status_write_is_not_lost(stage: Stage) -> None:
    stage.add()
    conflicts = [EffectResponse(409, {"message": "the object has been modified"}, 0.0)]
    stage.world.refuse = lambda effect: conflicts.pop() if isinstance(effect, Replace) and conflicts else None
    stage.pass_minutes(1)
    assert stage.active() == stage.names()
    assert len(stage.names()) == 1


def test_a_status_with_an_empty_reference_is_corrected(stage: Stage) -> None:
    stage.add("good", ends="Succeeded")
    stage.add()
    nonsense = [{"kind": "Job"}, {"name": "never", "uid": "x"}]
    assert stage.server.patch(f"{CRONS}/c/status", {"status": {"active": nonsense}}).status == 200
    stage.pass_minutes(1)
    assert stage.active() == [f"c-{minute('2023-11-14T22:14:00Z')}"]
    assert stage.status("good")["lastSuccessfulTime"] == "2023-11-14T22:14:00Z"


def test_an_unanswered_read_of_a_job_is_retried(stage: Stage) -> None:
    stage.add()
    stage.pass_minutes(1)
    [name] = stage.names()
    down = EffectResponse(503, {"message": "not now"}, 0.0)
    stage.world.refuse = lambda effect: down if isinstance(effect, Get) else None
    stage.delete_job(name)
    assert stage.active() == [name]
    stage.world.refuse = lambda effect: None
    stage.world.advance(10)
    assert stage.active() == []
    assert "MissingJob" in stage.events()


def test_a_cron_job_that_is_being_deleted_starts_nothing(stage: Stage) -> None:
    stage.add()
    stage.server.patch(f"{CRONS}/c", {"metadata": {"finalizers": ["example.com/hold"]}})
    assert stage.server.delete(f"{CRONS}/c").status == 200
    stage.pass_minutes(2)
    assert stage.names() == []


def test_a_crash_at_any_write_does_not_change_the_result() -> None:
    def told(at: int, *, sent: bool) -> tuple[CrashingWorld, object]:
        stage = Stage()
        stage.add(ends="Succeeded", successfulJobsHistoryLimit=1, concurrencyPolicy="Forbid")
        stage.world.crash_at, stage.world.sent, stage.world.writes = at, sent, 0
        stage.pass_minutes(3)
        return stage.world, (stage.names(), stage.status())

    first, end = told(0, sent=False)
    assert first.writes > 10
    for at in range(1, first.writes + 1):
        for sent in (False, True):
            world, end_with_death = told(at, sent=sent)
            assert world.crashes == 1
            assert end_with_death == end, f"death at write {at}, {'carried out' if sent else 'not sent'}"
