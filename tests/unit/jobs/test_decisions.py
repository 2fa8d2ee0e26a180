"""The decisions that quota and jobs report for the log: exactly one for each, with queue, numbers and reason."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.controllers.framework.reconcile import Done, ReconcileSteps
from headgate.kube.decisions import Decision
from headgate.quota.api.pods_ready import WaitForPodsReady
from headgate.quota.engine import QuotaSettings
from unit.controllers.kubelet import Kubelet
from unit.jobs import fixtures as of_jobs
from unit.jobs.pods import fixtures as of_pods
from unit.jobs.queue_fixtures import PREEMPTION
from unit.jobs.test_rejected_starts import DENIED, Plugin


class Absent(Kubelet):
    """No pod ever runs."""

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        yield from ()
        return Done()


class Reported(list[Decision]):
    """The decisions in order."""

    def lines(self) -> list[str]:
        return [f"{each.kind} {each.name.rpartition('-')[0] or each.name} {each.verb}" for each in self]

    def last(self, verb: str) -> dict[str, Any]:
        found = next(each for each in reversed(self) if each.verb == verb)
        fields: dict[str, Any] = msgspec.to_builtins(found)
        return {name: value for name, value in fields.items() if name not in ("uid", "name", "verb")}


def test_a_job_that_is_admitted_started_preempted_and_stopped() -> None:
    reported = Reported()
    world = of_jobs.a_world(decided=reported.append, **PREEMPTION)
    of_jobs.add(world, "low", priority="low")
    world.advance(2)
    assert reported.lines() == ["Workload job-low admitted", "Job low started"]
    assert reported.last("admitted") == {
        "kind": "Workload",
        "namespace": "ns",
        "queue": "lq",
        "clusterQueue": "cq",
        "resources": {"cpu": "1"},
        "flavors": {"cpu": "default"},
        "waitSeconds": reported[0].wait_seconds,
    }
    started = reported.last("started")
    assert (started["queue"], started["clusterQueue"], started["namespace"]) == ("lq", "cq", "ns")
    assert 0 <= started["durationSeconds"] <= 2
    reported.clear()
    of_jobs.add(world, "high", priority="high")
    world.advance(2)
    assert reported.lines() == [
        "Workload job-low preempted",
        "Job low stopped",
        "Workload job-high admitted",
        "Job high started",
    ]
    preempted = reported.last("preempted")
    assert preempted["reason"] == "InClusterQueue"
    assert preempted["preemptor"].startswith("ns/job-high-")
    assert (preempted["clusterQueue"], preempted["resources"]) == ("cq", {"cpu": "1"})
    assert "Preempted" in reported.last("stopped")["message"]


def test_a_job_whose_pods_are_not_ready_in_time_is_evicted() -> None:
    reported = Reported()
    quota = QuotaSettings(pods_ready=WaitForPodsReady(timeout_s=5.0))
    world = of_jobs.a_world(decided=reported.append, quota=quota, kubelet=Absent)
    of_jobs.add(world, "a")
    world.advance(8)
    assert reported.lines()[:4] == [
        "Workload job-a admitted",
        "Job a started",
        "Workload job-a evicted",
        "Job a stopped",
    ]
    assert reported.last("evicted")["reason"] == "PodsReadyTimeout"


def test_a_rejected_start_is_refused() -> None:
    reported = Reported()
    world = of_jobs.a_world(decided=reported.append)
    Plugin(world, "a")
    of_jobs.add(world, "a")
    world.settle()
    assert reported.lines()[:2] == ["Workload job-a admitted", "Job a refused"]
    refused = reported.last("refused")
    assert (refused["reason"], refused["message"]) == ("FailedToStart", DENIED)


def test_a_pod_that_is_admitted_and_loses_its_gate() -> None:
    reported = Reported()
    world = of_pods.a_world(cpu=1, decided=reported.append)
    of_pods.add(world, "a")
    world.advance(2)
    assert reported.lines() == ["Workload pod-a admitted", "Pod a gate removed"]
    removed = reported.last("gate removed")
    assert (removed["queue"], removed["clusterQueue"]) == ("lq", "cq")
    assert removed["durationSeconds"] >= 0


def test_a_rejected_ungating_is_refused() -> None:
    reported = Reported()
    world = of_pods.a_world(cpu=1, decided=reported.append)
    Plugin(world, "a")
    of_pods.add(world, "a")
    world.settle()
    assert "Pod a refused" in reported.lines()
    assert "Pod a gate removed" not in reported.lines()


def test_a_pod_whose_workload_is_preempted_is_stopped() -> None:
    reported = Reported()
    world = of_pods.a_world(cpu=1, decided=reported.append, **PREEMPTION)
    of_pods.add(world, "low", priority="low")
    world.advance(2)
    of_pods.add(world, "high", priority="high")
    world.settle()
    assert [each for each in reported.lines() if "low" in each] == [
        "Workload pod-low admitted",
        "Pod low gate removed",
        "Workload pod-low preempted",
        "Pod low stopped",
    ]
