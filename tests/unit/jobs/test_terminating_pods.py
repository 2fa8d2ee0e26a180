"""Pods that still terminate after their quota was released: metrics, and an Event when it takes too long."""

from __future__ import annotations

from typing import Any

from headgate.jobs.metrics import JobMetrics
from headgate.jobs.settings import JobSettings
from headgate.jobs.terminating_pods import REASON, TerminatingPodsController
from unit.controllers.kubelet import Kubelet
from unit.controllers.world import World
from unit.jobs import fixtures as job_fixtures
from unit.jobs.pods.fixtures import SlowKubelet, a_world, add, add_group, controller, delete, end, pods
from unit.jobs.queue_fixtures import WORKLOADS
from unit.jobs.test_job_metrics import read

TERMINATING = "headgate_terminating_released_pods"
OVERDUE = "headgate_overdue_released_pods"
OLDEST = "_oldest_seconds"


class SilentKubelet(Kubelet):
    """Terminating pods never end."""

    def _sync(self, pod: dict[str, Any], now_s: float) -> None:
        if "deletionTimestamp" not in pod["metadata"]:
            super()._sync(pod, now_s)


def shown(world: World, metrics: JobMetrics | None = None) -> dict[str, float]:
    found = read(metrics or controller(world).metrics, world.server.epoch_s)
    return {name: value for name, value in found.items() if "_released_pods" in name}


def events(world: World) -> list[tuple[str, str, str]]:
    return [(each.about["name"], each.type, each.message) for each in world.emitted if each.reason == REASON]


def test_a_pod_that_outlives_its_grace_period_is_overdue_after_five_minutes_and_is_reported_once() -> None:
    world = a_world(kubelet=SilentKubelet)
    add(world, "stuck")
    world.advance(2)
    delete(world, "stuck")
    world.advance(359)
    found = shown(world)
    assert (found[TERMINATING], found[OVERDUE], events(world)) == (1, 0, [])
    assert 359 <= found[TERMINATING + OLDEST] <= 360
    ends = pods(world)["stuck"]["metadata"]["deletionTimestamp"]
    world.advance(2)
    assert shown(world)[OVERDUE] == 1
    assert 300 <= shown(world)[OVERDUE + OLDEST] <= 302
    ((name, kind, message),) = events(world)
    assert (name, kind) == ("stuck", "Warning")
    assert f"its grace period ended at {ends}, and its quota is released" in message
    world.advance(3600)
    assert len(events(world)) == 1
    assert shown(world)[OVERDUE + OLDEST] >= 3900


def test_a_pod_that_ends_in_time_is_never_reported() -> None:
    world = a_world(kubelet=SlowKubelet, settings=JobSettings(report_terminating_after_s=1.0))
    add(world, "polite")
    world.advance(2)
    delete(world, "polite")
    world.advance(30)
    assert shown(world)[TERMINATING] == 1
    world.advance(40)
    assert set(shown(world).values()) == {0}
    assert events(world) == []


def test_the_time_is_a_setting() -> None:
    world = a_world(kubelet=SilentKubelet, settings=JobSettings(report_terminating_after_s=10.0))
    add(world, "stuck", grace_s=20)
    world.advance(2)
    delete(world, "stuck")
    world.advance(28)
    assert shown(world)[OVERDUE] == 0
    world.advance(3)
    assert shown(world)[OVERDUE] == 1


def test_a_terminating_member_of_a_group_that_keeps_its_quota_is_not_counted() -> None:
    world = a_world(kubelet=SilentKubelet)
    add_group(world, "g")
    world.advance(2)
    delete(world, "g-0")
    world.advance(600)
    assert shown(world)[TERMINATING] == 0
    assert events(world) == []
    delete(world, "g-1")
    world.advance(1)
    assert shown(world)[TERMINATING] == 2, "the last pod releases the quota of all"
    assert [name for name, _, _ in events(world)] == ["g-0"]


def test_a_pod_that_has_ended_is_gone_although_its_object_exists() -> None:
    world = a_world(kubelet=SilentKubelet)
    add(world, "stuck")
    world.advance(2)
    assert world.server.patch(_path("stuck"), {"metadata": {"finalizers": ["example.com/hold"]}}).status == 200
    delete(world, "stuck")
    world.advance(400)
    assert shown(world)[OVERDUE] == 1
    end(world, "stuck", "Failed")
    assert world.server.patch(f"{_path('stuck')}/status", {"status": {"phase": "Failed"}}).status == 200
    world.advance(1)
    assert "stuck" in pods(world)
    assert set(shown(world).values()) == {0}


def test_a_new_process_counts_the_same_pods_and_reports_them_again() -> None:
    world = a_world(kubelet=SilentKubelet)
    add(world, "stuck")
    world.advance(2)
    delete(world, "stuck")
    world.advance(400)
    before = shown(world)
    world.crash()
    world.settle()
    assert shown(world) == before
    assert [name for name, _, _ in events(world)] == ["stuck", "stuck"]


def test_a_second_deletion_with_a_shorter_grace_period_ends_earlier_and_began_when_the_first_did() -> None:
    world = a_world(kubelet=SilentKubelet)
    add(world, "stuck", grace_s=600)
    world.advance(2)
    delete(world, "stuck")
    world.advance(100)
    assert world.server.delete(_path("stuck"), {"gracePeriodSeconds": 10}).status == 200
    world.advance(311)
    found = shown(world)
    assert found[OVERDUE] == 1
    assert found[TERMINATING + OLDEST] >= 411


def test_the_pods_of_a_job_count_too() -> None:
    metrics = JobMetrics()
    world = job_fixtures.a_world(
        kubelet=SilentKubelet, more=[lambda server: TerminatingPodsController(metrics, report_after_s=5.0)]
    )
    job_fixtures.add(world, "a")
    world.advance(2)
    found = job_fixtures.workload(world, "a")
    assert found is not None
    path = f"{WORKLOADS}/{found['metadata']['name']}"
    assert world.server.patch(path, {"spec": {"active": False}}).status == 200, "it is evicted"
    world.advance(1)
    assert shown(world, metrics)[TERMINATING] == 1
    world.advance(60)
    assert shown(world, metrics)[OVERDUE] == 1
    assert len(events(world)) == 1


def _path(name: str) -> str:
    return f"/api/v1/namespaces/ns/pods/{name}"
