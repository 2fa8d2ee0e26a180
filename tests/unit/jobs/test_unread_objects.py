"""Objects that cannot be read after a failed write: only an unknown outcome delays the next plan, and an Event tells
which right is missing. Keys that a read affects are reconciled."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import (
    UNREACHABLE,
    Create,
    Discover,
    Effect,
    EffectResponse,
    Get,
    Patch,
)
from headgate.controllers.framework.reconcile import Done, RequeueWithBackoff
from headgate.jobs.framework.job_controller import ManagedJobController
from headgate.kube.api_resources import JOBS as JOB
from headgate.kube.api_resources import NAMESPACES, APIResource
from headgate.kube.api_resources import PODS as POD
from headgate.kube.feature_gates import FeatureGates
from headgate.quota.kinds.names import WORKLOADS as WORKLOAD
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs import fixtures as of_jobs
from unit.jobs.pods import fixtures as of_pods
from unit.jobs.queue_fixtures import API, PODS

FORBIDDEN = 'User "headgate" cannot get resource'


class Failures:
    """The first writes to objects of a resource get ``status`` and are not performed; reads get ``read_status``."""

    def __init__(
        self, world: CrashingWorld, resource: APIResource, status: int, count: int = 1, read_status: int = 403
    ) -> None:
        self.left = count
        self._world, self._resource, self._status, self._read_status = world, resource, status, read_status
        world.refuse = self

    def __call__(self, effect: Effect) -> EffectResponse | None:
        if not isinstance(effect, Create | Patch | Get) or effect.resource != self._resource:
            return None
        if isinstance(effect, Get):
            return EffectResponse(self._read_status, {"message": FORBIDDEN}, self._world.server.epoch_s)
        if self.left == 0:
            return None
        self.left -= 1
        return EffectResponse(self._status, {"message": "no"}, self._world.server.epoch_s)


def stop_serving(world: CrashingWorld, resource: APIResource) -> None:
    documents = [world.perform(Discover("/api")).body, world.perform(Discover("/apis")).body]
    served = DiscoveredKinds.read(documents)
    kept = {name: row for name, row in served.by_name.items() if row.resource != resource}
    for controller in world.controllers:
        world.enqueue(controller, controller.discovered(msgspec.structs.replace(served, by_name=kept)))


@pytest.mark.parametrize("status", [409, 429])
def test_a_failed_start_of_a_job_with_a_known_outcome_is_repeated_without_a_read(status: int) -> None:
    world = of_jobs.a_world()
    Failures(world, JOB, status, count=3)
    of_jobs.add(world, "a")
    world.advance(5)
    assert of_jobs.running(world) == ["a"]
    assert "FailedToRead" not in of_jobs.reasons(world)


@pytest.mark.parametrize("status", [409, 429])
def test_a_failed_start_of_a_pod_with_a_known_outcome_is_repeated_without_a_read(status: int) -> None:
    world = of_pods.a_world()
    Failures(world, POD, status, count=3)
    of_pods.add(world, "a")
    world.advance(5)
    assert of_pods.started(world) == ["a"]
    assert "FailedToRead" not in of_pods.reasons(world)


def test_conflicts_of_a_job_that_cannot_be_read_are_repeated_with_back_off() -> None:
    world = of_jobs.a_world()
    failures = Failures(world, JOB, 409, count=1000)
    of_jobs.add(world, "a")
    world.advance(5)
    assert failures.left > 980


def test_conflicts_of_a_pod_that_cannot_be_read_are_repeated_with_back_off() -> None:
    world = of_pods.a_world()
    failures = Failures(world, POD, 409, count=1000)
    of_pods.add(world, "a")
    world.advance(5)
    assert failures.left > 980
    assert "FailedToStart" not in of_pods.reasons(world)


def test_a_missing_right_to_read_a_job_is_reported_once() -> None:
    world = of_jobs.a_world()
    Failures(world, JOB, UNREACHABLE)
    of_jobs.add(world, "a")
    world.advance(60)
    assert of_jobs.running(world) == []
    [event] = [each for each in world.emitted if each.reason == "FailedToRead"]
    assert event.type == "Warning"
    assert "the right to get jobs.batch is missing" in event.message
    assert FORBIDDEN in event.message
    world.refuse = lambda effect: None
    world.advance(90)
    assert of_jobs.running(world) == ["a"]


def test_a_missing_right_to_read_a_pod_is_reported_once() -> None:
    world = of_pods.a_world()
    Failures(world, POD, UNREACHABLE)
    of_pods.add(world, "a")
    world.advance(60)
    assert of_pods.started(world) == []
    [event] = [each for each in world.emitted if each.reason == "FailedToRead"]
    assert event.type == "Warning"
    assert "the right to get pods is missing" in event.message
    world.refuse = lambda effect: None
    world.advance(90)
    assert of_pods.started(world) == ["a"]


def test_a_kind_of_jobs_that_is_not_served_any_more_blocks_no_quota() -> None:
    world = of_jobs.a_world()
    Failures(world, JOB, UNREACHABLE, count=1000, read_status=404)
    of_jobs.add(world, "a")
    world.settle()
    assert world.server.patch(f"{API}/clusterqueues/cq", {"spec": {"stopPolicy": "HoldAndDrain"}}).status == 200
    world.advance(400)
    assert of_jobs.has(world, "a", "QuotaReserved"), "discovery still lists the kind"
    stop_serving(world, JOB)
    world.advance(400)
    assert not of_jobs.has(world, "a", "QuotaReserved")


def test_pods_are_released_when_workloads_are_not_served_any_more() -> None:
    world = of_pods.a_world()
    Failures(world, WORKLOAD, UNREACHABLE, count=1000, read_status=404)
    of_pods.add(world, "a")
    world.settle()
    of_pods.delete(world, "a")
    world.advance(100)
    assert list(of_pods.pods(world)) == ["a"], "discovery still lists Workloads"
    stop_serving(world, WORKLOAD)
    world.advance(100)
    assert list(of_pods.pods(world)) == []


def test_a_pod_that_a_read_shows_as_unmanaged_loses_its_finalizer() -> None:
    """The later watch event has the version that was read, and enqueues nothing."""
    world = of_pods.a_world()
    of_pods.add(world, "a")
    world.deliver_all()
    world.silent = (POD,)
    labels = {f"{of_pods.K}/managed": None, f"{of_pods.K}/queue-name": None}
    assert world.server.patch(f"{PODS}/a", {"metadata": {"labels": labels}}).status == 200
    world.advance(1)
    assert "finalizers" not in of_pods.pods(world)["a"]["metadata"]


@pytest.mark.parametrize("status", [409, 500])
def test_the_children_of_a_job_that_a_read_shows_without_a_queue_are_reconciled(status: int) -> None:
    controller = ManagedJobController(FeatureGates())
    parent = _job("parent", "1")
    child = _job("child", "2", {"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": "parent"})
    del child["metadata"]["labels"]
    list(controller.applied(NAMESPACES, {"metadata": {"name": "ns"}}, 0))
    for each in (parent, child):
        list(controller.applied(JOB, each, 0))
    key, child_key = (("jobs.batch", "ns", name) for name in ("parent", "child"))
    steps = controller.reconcile(key, 0)
    assert isinstance(next(steps), Patch)
    assert isinstance(steps.send(EffectResponse(status, {}, 0)), Get)
    changed = _job("parent", "3")
    del changed["metadata"]["labels"]
    with pytest.raises(StopIteration) as done:
        steps.send(EffectResponse(200, changed, 0))
    result = done.value.value
    assert isinstance(result, Done if status == 409 else RequeueWithBackoff)
    assert child_key in [each.key for each in result.enqueues]


def _job(name: str, version: str, *owners: dict[str, Any]) -> dict[str, Any]:
    references = [{**each, "controller": True} for each in owners]
    metadata = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": version, "ownerReferences": references}
    return {**of_jobs.a_job(name), "metadata": {**of_jobs.a_job(name)["metadata"], **metadata}}
