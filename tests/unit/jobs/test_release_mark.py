"""Jobs that `headgate uninstall` released: the next installation does not stop those that run."""

from __future__ import annotations

import pytest

from headgate.jobs.framework.release_mark import is_released
from headgate.jobs.settings import JobSettings
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.kubelet import ENDS
from unit.jobs.fixtures import JOBS, a_job, a_world, add, has, is_complete, job, reasons, running, workload
from unit.jobs.queue_fixtures import PODS, create
from unit.jobs.uninstallation import uninstall


def _one_runs_one_waits() -> CrashingWorld:
    """Job `a` has the quota, `b` waits for it. Without admission, because webhooks are gone at an uninstallation."""
    world = a_world(has_admission=False)
    for name in ("a", "b"):
        add(world, name)
        world.advance(2)
    assert running(world) == ["a"]
    return world


def _end(world: CrashingWorld, name: str) -> None:
    for pod in world.server.get(PODS).body["items"]:
        if pod["metadata"]["labels"]["job-name"] == name:
            world.server.patch(f"{PODS}/{pod['metadata']['name']}", {"metadata": {"annotations": {ENDS: "Succeeded"}}})
    world.advance(5)


@pytest.mark.parametrize("deletes_data", [False, True])
def test_jobs_that_an_uninstallation_let_run_are_not_stopped_by_the_next_installation(deletes_data: bool) -> None:
    world = _one_runs_one_waits()
    lines = uninstall(world, deletes_data=deletes_data)
    assert "job.batch/ns/b started" in lines
    assert "job.batch/ns/a marked: a later installation does not stop it" in lines
    world.emitted.clear()
    world.advance(60)
    assert running(world) == ["a", "b"]
    assert "Stopped" not in reasons(world)
    assert "RunsWithoutAdmission" in reasons(world)
    assert is_released(job(world, "b"))
    assert is_released(job(world, "a")) == deletes_data, "its Workload is admitted unless it is deleted"
    for name in ("a", "b"):
        _end(world, name)
        assert is_complete(world, name)


def test_a_released_job_gets_quota_when_there_is_some_and_can_be_preempted_from_then_on() -> None:
    world = a_world(has_admission=False, preemption={"withinClusterQueue": "LowerPriority"})
    for name in ("a", "b"):
        add(world, name, priority="low")
        world.advance(2)
    uninstall(world)
    world.advance(5)
    _end(world, "a")
    assert has(world, "b", "Admitted")
    assert not is_released(job(world, "b"))
    add(world, "high", priority="high")
    world.advance(5)
    assert running(world) == ["a", "high"]


def test_a_job_that_still_waits_is_queued_again() -> None:
    world = _one_runs_one_waits()
    uninstall(world, lifts_gates=False)
    assert is_released(job(world, "b"))
    world.advance(5)
    assert running(world) == ["a"]
    assert not is_released(job(world, "b"))
    _end(world, "a")
    assert running(world) == ["a", "b"], "a has ended, and b has its quota"


def test_a_job_that_a_user_starts_while_headgate_is_not_installed_is_not_stopped() -> None:
    world = _one_runs_one_waits()
    uninstall(world, lifts_gates=False)
    world.server.patch(f"{JOBS}/b", {"spec": {"suspend": False}})
    world.advance(5)
    assert running(world) == ["a", "b"]


def test_a_released_job_that_its_user_suspends_is_queued_again() -> None:
    world = _one_runs_one_waits()
    uninstall(world, deletes_data=True)
    world.advance(5)
    world.server.patch(f"{JOBS}/b", {"spec": {"suspend": True}})
    world.advance(5)
    assert not is_released(job(world, "b"))
    assert has(world, "b", "Admitted"), "no other job has a Workload"
    assert running(world) == ["a", "b"]
    assert job(world, "b")["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}


def test_a_job_that_was_created_while_headgate_was_not_installed_is_stopped_and_queued() -> None:
    """As in Kueue: a suspended job loses no more than the work of its pods, and a queue keeps its limit."""
    world = _one_runs_one_waits()
    uninstall(world)
    add(world, "c")
    world.advance(5)
    assert running(world) == ["a", "b"]
    assert workload(world, "c") is not None


def test_the_mark_of_a_copied_manifest_has_no_effect() -> None:
    world = _one_runs_one_waits()
    uninstall(world)
    copied = a_job("copy", annotations=dict(job(world, "b")["metadata"]["annotations"]))
    create(world.server, JOBS, copied)
    world.advance(5)
    assert "copy" not in running(world)


def test_a_released_job_without_a_queue_name_stays_as_it_is() -> None:
    world = a_world(has_admission=False, settings=JobSettings(manages_all=True))
    create(world.server, JOBS, {**a_job("a"), "metadata": {"name": "a"}})
    world.advance(2)
    assert running(world) == []
    assert "job.batch/ns/a started" in uninstall(world)
    world.advance(5)
    assert running(world) == ["a"]


def test_a_second_uninstallation_writes_nothing_more() -> None:
    world = _one_runs_one_waits()
    uninstall(world)
    assert uninstall(world) == []
