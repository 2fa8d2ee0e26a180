"""The job controllers crash at every write, once before it and once after it: the final state is the same.

After every write, only finished pods are counted, each once; never more pods run than allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from embedded import Embedded
from headgate.controllers.garbage_collector.controller import GarbageCollector
from headgate.controllers.jobs.controller import JobController
from headgate.controllers.ttl_after_finished import TTLAfterFinishedController
from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.controllers.forked_variants import UNDISTURBED
from unit.controllers.jobs.fixtures import JOBS_PATH, PODS_PATH
from unit.controllers.kubelet import ENDS, Kubelet
from unit.controllers.world import Object, World


def a_world() -> CrashingWorld:
    numbers, server = count(1), Embedded(namespace="")

    def jobs() -> JobController:
        return JobController(lambda: f"{next(numbers):05d}")

    world = CrashingWorld(
        jobs,
        TTLAfterFinishedController,
        GarbageCollector,
        lambda: Kubelet(server),
        server=server,
        kinds=("pods", "jobs"),
    )
    server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    world.check = Judge()
    return world


class Judge:
    """Remembers which pods have ended, as the server showed it: counted pods may be deleted."""

    def __init__(self) -> None:
        self.ended: set[str] = set()

    def __call__(self, world: World) -> None:
        pods = world.server.get(PODS_PATH).body["items"]
        live = 0
        for pod in pods:
            going = "deletionTimestamp" in pod["metadata"]
            if going or pod["status"].get("phase") in ("Succeeded", "Failed"):
                self.ended.add(pod["metadata"]["uid"])
            else:
                live += 1
        for job in world.server.get(JOBS_PATH).body["items"]:
            status = job.get("status") or {}
            uids = [uid for each in (status.get("uncountedTerminatedPods") or {}).values() for uid in each]
            assert len(set(uids)) == len(uids)
            assert status.get("succeeded", 0) + status.get("failed", 0) + len(uids) <= len(self.ended)
            assert live <= max(job["spec"]["parallelism"], 4)


def a_job(ends: str | None = "Succeeded", **spec: Any) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    metadata = {"annotations": {ENDS: ends}} if ends else {}
    template = {"metadata": metadata, "spec": pod}
    return {"metadata": {"name": "j"}, "spec": {"template": template, **spec}}


def change(world: World, **spec: Any) -> None:
    assert world.server.patch(f"{JOBS_PATH}/j", {"spec": spec}).status == 200


def completes(world: CrashingWorld) -> None:
    world.server.post(JOBS_PATH, a_job(parallelism=2, completions=3))
    world.advance(5)


def completes_by_index(world: CrashingWorld) -> None:
    world.server.post(JOBS_PATH, a_job(parallelism=2, completions=3, completionMode="Indexed"))
    world.advance(5)


def fails(world: CrashingWorld) -> None:
    world.server.post(JOBS_PATH, a_job("Failed", parallelism=2, completions=2, backoffLimit=2))
    world.advance(60)


def fails_by_index(world: CrashingWorld) -> None:
    spec = {"completionMode": "Indexed", "backoffLimitPerIndex": 1}
    world.server.post(JOBS_PATH, a_job("Failed", parallelism=2, completions=2, **spec))
    world.advance(60)


def is_suspended_and_resumed(world: CrashingWorld) -> None:
    world.server.post(JOBS_PATH, a_job(None, parallelism=3, completions=3))
    world.advance(1)
    change(world, suspend=True)
    world.advance(2)
    change(world, suspend=False, parallelism=2)
    world.advance(2)


def goes_after_its_time(world: CrashingWorld) -> None:
    world.server.post(JOBS_PATH, a_job(parallelism=2, completions=2, ttlSecondsAfterFinished=5))
    world.advance(20)


SCENARIOS = [completes, completes_by_index, fails, fails_by_index, is_suspended_and_resumed, goes_after_its_time]


def end_of(world: World) -> Object:
    answer = world.server.get(f"{JOBS_PATH}/j")
    if answer.status == 404:
        return {"pods": len(world.server.get(PODS_PATH).body["items"])}
    status = answer.body["status"]
    kept = {key: status.get(key) for key in ("active", "succeeded", "ready", "terminating", "completedIndexes")}
    told = [(each["type"], each["status"], each["reason"]) for each in status.get("conditions") or ()]
    phases = sorted(pod["status"]["phase"] for pod in world.server.get(PODS_PATH).body["items"])
    return {**kept, "failed": status.get("failed"), "conditions": told, "pods": phases}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_crash_at_any_write_does_not_change_the_final_state(scenario: Callable[[CrashingWorld], None]) -> None:
    ends = run_with_crashes(a_world, scenario, lambda title, world: end_of(world))
    expected = ends[UNDISTURBED]
    assert {title: end for title, end in ends.items() if end != expected} == {}
