"""The quota controller on the embedded server with a virtual clock: admission, waiting and preemption."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded
from headgate.controllers.framework.effects import Patch
from headgate.kube import conditions
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from headgate.quota.kinds.definitions import definitions
from kueue_builders import Wire, a_cluster_queue, a_flavor, a_local_queue, a_workload, groups
from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.controllers.world import World

API = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{API}/namespaces/ns/workloads"
KINDS = {
    "resourceflavors": "ResourceFlavor",
    "clusterqueues": "ClusterQueue",
    "localqueues": "LocalQueue",
    "workloads": "Workload",
}
PREEMPTION = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def a_server() -> Embedded:
    server = Embedded(namespace="ns")
    for each in definitions(with_older=False):
        answer = server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
        assert answer.status == 201, answer.body
    return server


def put(world: World, plural: str, obj: Wire) -> None:
    metadata = {key: value for key, value in obj["metadata"].items() if key in ("name", "namespace", "annotations")}
    where = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": KINDS[plural], **obj, "metadata": metadata}
    body.pop("status", None)
    answer = world.server.post(f"{API}{where}/{plural}", body)
    assert answer.status == 201, answer.body


def a_world(cpu: int = 2, **spec: Any) -> CrashingWorld:
    world = CrashingWorld(lambda: QuotaController(QuotaSettings()), server=a_server())
    put(world, "resourceflavors", a_flavor())
    put(world, "clusterqueues", a_cluster_queue("cq", {"default": {"cpu": cpu}}, **spec))
    put(world, "localqueues", a_local_queue())
    world.advance(1)
    world.writes = 0
    return world


def add(world: World, name: str, cpu: int = 1, **more: Any) -> None:
    put(world, "workloads", a_workload(name, cpu=cpu, **more))


def status(world: World, name: str) -> Wire:
    found: Wire = world.server.get(f"{WORKLOADS}/{name}").body.get("status") or {}
    return found


def is_true(world: World, name: str, condition: str) -> bool:
    return conditions.is_true(status(world, name).get("conditions"), condition)


def admitted(world: World) -> list[str]:
    items = world.server.get(WORKLOADS).body["items"]
    return sorted(each["metadata"]["name"] for each in items if is_true(world, each["metadata"]["name"], "Admitted"))


def finish(world: World, name: str) -> None:
    done = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": NOW}
    known = status(world, name).get("conditions") or []
    world.server.patch(f"{WORKLOADS}/{name}/status", {"status": {"conditions": [*known, done]}})


NOW = "2026-01-01T00:00:00Z"


@pytest.fixture
def world() -> CrashingWorld:
    return a_world()


def test_a_workload_that_fits_is_admitted_in_one_write_with_its_flavor_and_usage(world: CrashingWorld) -> None:
    before = len(world.requests)
    add(world, "w")
    world.settle()
    assert [method for method, path in world.requests[before:] if "/workloads/" in path] == ["PATCH"]
    (given,) = status(world, "w")["admission"]["podSetAssignments"]
    assert given == {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}, "count": 1}
    assert is_true(world, "w", "QuotaReserved")
    assert is_true(world, "w", "Admitted")
    assert [each.reason for each in world.emitted] == ["QuotaReserved", "Admitted"]


def test_a_workload_that_does_not_fit_waits_with_the_reason_and_is_admitted_when_another_ends(
    world: CrashingWorld,
) -> None:
    for name in ("a", "b", "c"):
        add(world, name)
        world.server.epoch_s += 1
    world.advance(1)
    assert admitted(world) == ["a", "b"]
    waits = conditions.find(status(world, "c")["conditions"], "QuotaReserved")
    assert waits is not None
    assert "insufficient unused quota for cpu in flavor default, 1 more needed" in waits["message"]
    finish(world, "a")
    world.advance(1)
    assert is_true(world, "c", "Admitted")


def test_a_workload_behind_a_protected_one_says_so_until_the_annotation_is_removed() -> None:
    strategy, queue = "headgate.dev/dequeue-strategy", f"{API}/clusterqueues/cq"
    world = a_world(cpu=10, annotations={strategy: "backfill"})
    for name, cpu, limits in (
        ("holder", 6, {"maximumExecutionTimeSeconds": 600}),
        ("large", 9, {}),
        ("small", 2, {}),
        ("short", 2, {"maximumExecutionTimeSeconds": 60}),
    ):
        add(world, name, cpu, **limits)
        world.advance(1)
    assert admitted(world) == ["holder", "short"]
    waits = conditions.find(status(world, "small")["conditions"], "QuotaReserved")
    assert waits is not None
    assert waits["reason"] == "FirstInLineProtected"
    assert "it would delay workload ns/large, the first in line of ClusterQueue cq" in waits["message"]

    world.server.patch(queue, {"metadata": {"annotations": {strategy: "fifo"}}})
    world.advance(1)
    active = conditions.find(world.server.get(queue).body["status"]["conditions"], "Active")
    assert active is not None
    assert (active["status"], active["reason"]) == ("False", "Invalid")
    assert f"metadata.annotations[{strategy}]: must be backfill" in active["message"]

    world.server.patch(queue, {"metadata": {"annotations": {strategy: None}}})
    world.advance(1)
    assert admitted(world) == ["holder", "short", "small"]


def test_the_status_of_queues_has_pending_counts_and_usage(world: CrashingWorld) -> None:
    for name in ("a", "b", "c"):
        add(world, name)
    world.advance(1)
    queue = world.server.get(f"{API}/clusterqueues/cq").body["status"]
    assert (queue["pendingWorkloads"], queue["reservingWorkloads"], queue["admittedWorkloads"]) == (1, 2, 2)
    assert queue["flavorsUsage"] == [{"name": "default", "resources": [{"name": "cpu", "total": "2", "borrowed": "0"}]}]
    assert conditions.is_true(queue["conditions"], "Active")
    local = world.server.get(f"{API}/namespaces/ns/localqueues/lq").body["status"]
    assert (local["pendingWorkloads"], local["admittedWorkloads"]) == (1, 2)


def test_pending_workloads_of_a_stopped_local_queue_are_not_counted_in_its_cluster_queue(world: CrashingWorld) -> None:
    for name in ("a", "b", "c"):
        add(world, name)
    world.advance(1)

    def stop(policy: str) -> tuple[int, int]:
        path = f"{API}/namespaces/ns/localqueues/lq"
        assert world.server.patch(path, {"spec": {"stopPolicy": policy}}).status == 200
        world.advance(1)
        paths = (f"{API}/clusterqueues/cq", path)
        counts = [world.server.get(each).body["status"]["pendingWorkloads"] for each in paths]
        return counts[0], counts[1]

    assert stop("Hold") == (0, 1)
    add(world, "d")
    world.advance(1)
    assert stop("Hold") == (0, 2)
    assert stop("None") == (2, 2)


def test_a_local_queue_reports_an_inactive_cluster_queue_with_kueues_message(world: CrashingWorld) -> None:
    def active() -> tuple[str, str]:
        told = world.server.get(f"{API}/namespaces/ns/localqueues/lq").body["status"]["conditions"]
        found = conditions.find(told, "Active")
        assert found is not None
        return found["reason"], found["message"]

    said = "Can't submit new workloads to clusterQueue"
    world.server.patch(f"{API}/clusterqueues/cq", {"spec": {"stopPolicy": "Hold"}})
    world.advance(1)
    assert active() == ("ClusterQueueIsInactive", said)
    world.server.delete(f"{API}/clusterqueues/cq")
    world.advance(1)
    assert active() == ("ClusterQueueDoesNotExist", said)


def test_a_queue_without_a_cohort_borrows_nothing_although_it_uses_more_than_its_quota() -> None:
    def rows(field: str) -> list[tuple[str, str, str]]:
        ((flavor, resources),) = ((each["name"], each["resources"]) for each in queue[field])
        return [(flavor, each["total"], each["borrowed"]) for each in resources]

    for cohort, borrowed in (("", "0"), ("all", "1")):
        world = a_world(cpu=2, **({"cohortName": cohort} if cohort else {}))
        add(world, "a", 2)
        world.advance(1)
        world.server.patch(f"{API}/clusterqueues/cq", {"spec": {"resourceGroups": groups({"default": {"cpu": 1}})}})
        world.advance(1)
        queue = world.server.get(f"{API}/clusterqueues/cq").body["status"]
        assert rows("flavorsReservation") == [("default", "2", borrowed)]
        assert rows("flavorsUsage") == [("default", "2", borrowed)]


def test_a_preemptor_is_admitted_when_its_victim_has_released_its_quota() -> None:
    world = a_world(cpu=1, **PREEMPTION)
    add(world, "low")
    world.advance(1)
    add(world, "high", priority=5)
    world.advance(1)
    assert is_true(world, "low", "Evicted")
    assert admitted(world) == ["low"], "it holds its quota until it is taken off its job"
    known = [each for each in status(world, "low")["conditions"] if each["type"] not in ("QuotaReserved", "Admitted")]
    world.server.patch(f"{WORKLOADS}/low/status", {"status": {"admission": None, "conditions": known}})
    world.advance(1)
    assert admitted(world) == ["high"]


def test_a_write_with_a_lost_response_reserves_quota_once(world: CrashingWorld) -> None:
    losses = iter([True])
    world.loses_response = lambda effect: isinstance(effect, Patch) and next(losses, False)
    for name in ("a", "b", "c"):
        add(world, name)
    world.advance(10)
    assert len(admitted(world)) == 2


def test_a_crash_at_any_write_admits_no_workload_twice_and_loses_none() -> None:
    def within_quota(world: World) -> None:
        items = world.server.get(WORKLOADS).body["items"]
        held = [each for each in items if "admission" in (each.get("status") or {})]
        assert len([each for each in held if not _is_finished(each)]) <= 2

    def make() -> CrashingWorld:
        world = a_world()
        world.check = within_quota
        world.writes = 0
        return world

    def story(world: CrashingWorld) -> None:
        for name in ("a", "b", "c", "d"):
            add(world, name)
        world.advance(5)
        for name in admitted(world):
            finish(world, name)
        world.advance(5)

    def look(title: str, world: CrashingWorld) -> None:
        assert admitted(world) == ["a", "b", "c", "d"], title

    run_with_crashes(make, story, look)


def _is_finished(workload: Wire) -> bool:
    return conditions.is_true(workload["status"].get("conditions"), "Finished")
