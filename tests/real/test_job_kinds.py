"""An invented kind of job in Kueue's queues, as `docs/job-kinds.md` says, beside a real API server and on our own.

Its controller is this test: it follows ``spec.suspend``, as the page asks of it.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.processes import Process
from harness.real_server import RealServer
from harness.scheduler_process import send, wait_for
from harness.server import JSON_TYPE, Server
from kueue_builders import a_cluster_queue, a_flavor, a_local_queue
from unit.jobs.training import DEFINITION, FILE, RUNS, a_run, status_of

pytestmark = pytest.mark.real

API = "/apis/kueue.x-k8s.io/v1beta2"
PATH = RUNS.collection_path("default")
MERGE = "application/merge-patch+json"


@pytest.fixture(params=["ours", "real"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    kinds = ("--job-kinds", str(FILE))
    if request.param == "ours":
        own = EmbeddedServer(tmp_path / "ours", flags=("--components", "apiserver,quota,jobs", *kinds))
        try:
            yield own
        finally:
            own.disconnect()
            own.stop()
        return
    real = RealServer(tmp_path / "real", request.getfixturevalue("kube_binaries"))
    kubeconfig = ("--kubeconfig", str(real.kubeconfig))
    process: Process | None = None
    try:
        subprocess.run([str(HEADGATE), "install-crds", *kubeconfig], check=True, capture_output=True)
        flags = ("--components", "quota,jobs", "--no-leader-elect", *kinds)
        process = Process([str(HEADGATE), "run", *kubeconfig, *flags], tmp_path / "run.log")
        yield real
    finally:
        if process is not None:
            process.stop()
        real.disconnect()
        real.stop()


def run(server: Server, name: str) -> dict[str, Any]:
    """As it is, after its controller has had a look at it."""
    found: dict[str, Any] = send(server, "GET", f"{PATH}/{name}")
    if (found.get("status") or {}) != status_of(found):
        body = {"status": {**dict.fromkeys(found.get("status") or {}), **status_of(found)}}
        found = send(server, "PATCH", f"{PATH}/{name}/status", body, MERGE)
    return found


def created(server: Server, path: str, body: dict[str, Any]) -> bool:
    """Kinds may be so new that the server does not serve them yet."""
    answer = server.request("POST", path, JSON_TYPE, json.dumps(body).encode())
    return answer.status in (201, 409)


def is_running(server: Server, *names: str) -> list[str] | None:
    found = {name: run(server, name) for name in names}
    return [name for name, each in found.items() if each["spec"]["suspend"] is False] or None


def test_a_custom_job_kind_waits_for_quota_is_admitted_partially_and_releases_its_quota(server: Server) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    send(server, "POST", definitions, DEFINITION)
    for plural, kind, obj in (
        ("resourceflavors", "ResourceFlavor", a_flavor(labels={"disk": "ssd"})),
        ("clusterqueues", "ClusterQueue", a_cluster_queue("cq", {"default": {"cpu": 4}})),
        ("namespaces/default/localqueues", "LocalQueue", a_local_queue(namespace="default")),
    ):
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **obj}
        wait_for(functools.partial(created, server, f"{API}/{plural}", body))
    wait_for(lambda: created(server, PATH, a_run("first", workers=5, least=2)))
    wait_for(lambda: is_running(server, "first"))
    found = run(server, "first")
    assert found["spec"]["workers"]["replicas"] == 3, "as many as there is quota for"
    assert found["spec"]["workers"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}
    send(server, "POST", PATH, a_run("second"))
    wait_for(lambda: len(send(server, "GET", f"{API}/namespaces/default/workloads")["items"]) == 2)
    assert is_running(server, "first", "second") == ["first"]
    send(server, "PATCH", f"{PATH}/first", {"metadata": {"annotations": {"example.com/ends": "Complete"}}}, MERGE)
    wait_for(lambda: "second" in (is_running(server, "first", "second") or ()))
