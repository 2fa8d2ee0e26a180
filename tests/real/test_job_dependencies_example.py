"""The dependency controller of examples/controllers on both servers, beside Headgate's own queues, with the rights of
its file, its sample, and a kill."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.scheduler_process import send
from harness.server import Server
from harness.server_kinds import SERVER_KINDS
from headgate.kube import conditions
from queued_objects import SCHEDULING_GATED, collection, queued
from real.example_controllers import (
    PODS,
    ExampleController,
    delete_pods,
    documents,
    finish,
    gated_pod,
    gates,
    path_of,
    reasons,
    running,
)
from real.kueue_cluster import KueueCluster

pytestmark = pytest.mark.real

GATE, FOREIGN = "example.com/dependencies", "example.com/other"
AFTER, COMPLETED = "example.com/after", "example.com/after-completed"
JOBS = collection("Job", "default")
MERGE = "application/merge-patch+json"
LISTED = ("/api/v1/pods?limit=1", "/apis/batch/v1/jobs?limit=1")


@pytest.fixture(scope="module", params=SERVER_KINDS)
def cluster(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KueueCluster]:
    made = KueueCluster(request.param, tmp_path_factory.mktemp(request.param), kube_binaries, "SchedulingGatedBy=true")
    made.queue("our-queue", 8)
    yield made
    made.stop()


@pytest.fixture
def controller(cluster: KueueCluster, tmp_path: Path) -> Iterator[ExampleController]:
    """It is gone when a test ends, and so are its Jobs and pods."""
    server = cluster.server
    yield from running(server, tmp_path, "job-dependencies", LISTED)
    for job in send(server, "GET", JOBS)["items"]:
        send(server, "DELETE", f"{JOBS}/{job['metadata']['name']}", {"propagationPolicy": "Background"})
    cluster.until(lambda: not send(server, "GET", JOBS)["items"])
    delete_pods(server)


def a_job(name: str, after: str = "", **spec: Any) -> dict[str, Any]:
    annotations = {AFTER: after, SCHEDULING_GATED: GATE} if after else None
    return queued("Job", name, queue="our-queue" if after else "", annotations=annotations, **spec)


def create(server: Server, *objects: dict[str, Any]) -> None:
    for each in objects:
        send(server, "POST", JOBS if each["kind"] == "Job" else PODS, each)


def annotations_of(server: Server, path: str) -> dict[str, str]:
    found: dict[str, str] = send(server, "GET", path)["metadata"].get("annotations") or {}
    return found


def is_recorded(server: Server, path: str, names: str) -> bool:
    return annotations_of(server, path).get(COMPLETED) == names


def is_ungated(server: Server, job: str) -> bool:
    return SCHEDULING_GATED not in annotations_of(server, f"{JOBS}/{job}")


def has_event(server: Server, job: str, reason: str, text: str) -> bool:
    return text in reasons(server, job, JOBS).get(reason, "")


def pod_of(server: Server, controller: ExampleController, job: str) -> str:
    """The name of its only pod; not that of an earlier Job of its name, which the garbage collector deletes later."""
    uid = send(server, "GET", f"{JOBS}/{job}")["metadata"]["uid"]
    path = f"{PODS}?labelSelector=batch.kubernetes.io/controller-uid={uid}"
    (pod,) = controller.until(lambda: send(server, "GET", path)["items"])
    name: str = pod["metadata"]["name"]
    return name


def complete(server: Server, controller: ExampleController, name: str) -> None:
    """Its pod ends, and the controller of Jobs says so."""
    finish(server, pod_of(server, controller, name))
    controller.until(partial(has_condition, server, name, "Complete"))


def has_condition(server: Server, name: str, kind: str) -> bool:
    found = conditions.find(send(server, "GET", f"{JOBS}/{name}").get("status", {}).get("conditions"), kind)
    return found is not None and found["status"] == "True"


def remove_job(server: Server, controller: ExampleController, name: str) -> None:
    send(server, "DELETE", f"{JOBS}/{name}", {"propagationPolicy": "Background"})
    controller.until(lambda: server.request("GET", f"{JOBS}/{name}").status == 404)


def test_the_pod_and_the_job_of_the_sample_wait_for_both_jobs(
    cluster: KueueCluster, controller: ExampleController
) -> None:
    server = cluster.server
    sample = documents("job-dependencies-sample.yaml")
    create(server, *sample)
    controller.until(lambda: "extract, clean" in reasons(server, "notify").get("WaitingForDependencies", ""))
    complete(server, controller, "extract")
    for waiting in sample[2:]:
        controller.until(partial(is_recorded, server, path_of(waiting), "extract"))
    remove_job(server, controller, "extract")  # it is needed no more
    assert (gates(server, "notify"), cluster.workloads("report")) == ([GATE], [])
    assert annotations_of(server, f"{JOBS}/report")[SCHEDULING_GATED] == GATE
    complete(server, controller, "clean")
    controller.until(lambda: not gates(server, "notify"))
    cluster.until(lambda: send(server, "GET", f"{JOBS}/report")["spec"]["suspend"] is False)
    assert len(cluster.workloads("report")) == 1
    assert controller.patches()["notify"] == 2  # what has completed, and the gate
    assert "DependencyMissing" not in reasons(server, "notify")


def test_missing_deleted_and_failed_jobs_are_reported_and_waited_for(
    cluster: KueueCluster, controller: ExampleController
) -> None:
    server = cluster.server
    create(server, gated_pod("waiting", FOREIGN, GATE, annotations={AFTER: "later"}))
    controller.until(lambda: "there is no Job later" in reasons(server, "waiting").get("DependencyMissing", ""))
    create(server, a_job("later", backoffLimit=0))
    controller.until(lambda: "WaitingForDependencies" in reasons(server, "waiting"))
    pod = pod_of(server, controller, "later")
    send(server, "PATCH", f"{PODS}/{pod}/status", {"status": {"phase": "Failed"}}, MERGE)
    controller.until(lambda: "failed: Job later" in reasons(server, "waiting").get("DependencyFailed", ""))
    remove_job(server, controller, "later")
    create(server, a_job("later"))  # another one of its name
    complete(server, controller, "later")
    controller.until(lambda: gates(server, "waiting") == [FOREIGN])


def test_a_cycle_is_reported_on_all_its_jobs_until_it_is_broken(
    cluster: KueueCluster, controller: ExampleController
) -> None:
    server = cluster.server
    create(server, a_job("a", "c"), a_job("b", "a"), a_job("c", "b"), a_job("behind", "c"))
    for name, path in {"a": "a -> c -> b -> a", "b": "b -> a -> c -> b", "c": "c -> b -> a -> c"}.items():
        controller.until(partial(has_event, server, name, "DependencyCycle", path))
    assert cluster.workloads("a") == []
    create(server, a_job("start"))
    send(server, "PATCH", f"{JOBS}/c", {"metadata": {"annotations": {AFTER: "start"}}}, MERGE)
    complete(server, controller, "start")
    for name in ("c", "a", "b", "behind"):
        controller.until(partial(is_ungated, server, name))
        if name in ("c", "a"):
            complete(server, controller, name)
    assert "DependencyCycle" not in reasons(server, "behind", JOBS)


def test_a_controller_that_is_killed_continues_where_it_was(
    cluster: KueueCluster, controller: ExampleController
) -> None:
    server = cluster.server
    create(server, a_job("first"), a_job("second"))
    create(server, gated_pod("one", GATE, annotations={AFTER: "first"}), a_job("both", "first,second"))
    create(server, gated_pod("again", GATE, annotations={AFTER: "first"}))
    controller.until(lambda: all("WaitingForDependencies" in reasons(server, name) for name in ("one", "again")))
    controller.lose_response("/pods/one")
    complete(server, controller, "first")
    controller.until(lambda: not gates(server, "one"))  # performed, and the controller does not know it
    controller.until(partial(is_recorded, server, f"{JOBS}/both", "first"))
    controller.until(lambda: not gates(server, "again"))
    controller.kill()
    remove_job(server, controller, "first")  # recorded before
    send(server, "DELETE", f"{PODS}/again", {"gracePeriodSeconds": 0})
    create(server, gated_pod("again", GATE, annotations={AFTER: "second"}))
    complete(server, controller, "second")
    assert gates(server, "again") == [GATE]
    controller.start()
    controller.until(lambda: not gates(server, "again"))
    controller.until(lambda: cluster.workloads("both"))
    assert (controller.patches()["one"], controller.patches()["again"]) == (1, 2)
