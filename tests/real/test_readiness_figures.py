"""The figures of docs/production-readiness.md, measured on a real API server: requests and bytes of each feature.

The audit log of the server says which requests an account sent. Lists, watches and the Lease are left out: they are per
process, not per object. A table of the page must have exactly the measured requests, and its bytes within a tenth.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clusters import a_node
from harness import rights
from harness.embedded_server import HEADGATE
from harness.processes import Process
from harness.real_server import REPOSITORY
from harness.rights import AuditedServer
from harness.scheduler_process import send, wait_for
from harness.server import JSON_TYPE
from headgate.capacity.names import GATE, STAMP
from rights_cases import GATES_ONLY, INSTALL, QUOTA, SCHEDULER

pytestmark = pytest.mark.real

Object = dict[str, Any]
PAGE = REPOSITORY / "docs" / "production-readiness.md"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
UNITS = 20
_TOLERANCE = 0.1
_PER_PROCESS = ("leases", "queues", "queues/status", "clusterqueues", "clusterqueues/status", "localqueues/status")
"""The Lease, and statuses of queues, which are written at most once a second whatever the number of pods."""
_ONCE = ("resourceflavors",)
"""Kinds whose objects get a finalizer, once."""


@pytest.fixture(scope="module")
def server(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedServer]:
    folder = tmp_path_factory.mktemp("figures")
    made = AuditedServer(folder / "server", kube_binaries)
    try:
        assert rights.headgate(made.configured(INSTALL, folder), ["install-crds"]).returncode == 0
        send(made, "POST", "/api/v1/nodes", a_node("node", cpu="16", pods="100"))
        send(made, "POST", "/apis/scheduling.volcano.sh/v1beta1/queues", rights.queue_object("wide", "1000"))
        yield made
    finally:
        made.disconnect()
        made.stop()


@pytest.fixture(scope="module")
def page() -> dict[str, list[str]]:
    """The cells of the rows of all tables, by the first cell."""
    rows = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {cells[0].strip(): [each.strip() for each in cells[1:]] for cells in rows}


_AFTERWARDS_S = 3.0
"""So long after the expected requests a surplus one would be sent, and is counted."""


class Run:
    """A component under the account that `examples/` make for it. ``sent``: the requests per unit since its start."""

    def __init__(self, server: AuditedServer, account: str, folder: Path, *words: str) -> None:
        self._server, self._account = server, account
        self._before = server.requests(account)
        config = server.configured(account, folder)
        command = [str(HEADGATE), "run", *words, "--kubeconfig", str(config)]
        self.process = Process(command, folder / "run.log")
        wait_for(lambda: "elected: " in self.process.log.read_text(), self.process)

    def stop(self, expected: str) -> str:
        """The requests per unit, as the page writes them, and as many as expected, or more: Events and statuses are
        written after what they report."""
        with contextlib.suppress(AssertionError):
            wait_for(lambda: self._sent() == expected, self.process)
        time.sleep(_AFTERWARDS_S)
        self.process.stop()
        return self._sent()

    def _sent(self) -> str:
        counts = Counter(self._server.requests(self._account))
        counts.subtract(self._before)
        shown = [
            f"{_ratio(count)} {what}"
            for what, count in sorted(counts.items())
            if _is_per_unit(*what.split(" ")) and round(count / UNITS, 1)
        ]
        return ", ".join(shown)


def _is_per_unit(verb: str, resource: str) -> bool:
    return bool(resource) and resource not in (*_PER_PROCESS, *_ONCE) and verb not in ("list", "watch")


def _ratio(count: int) -> str:
    return f"{count / UNITS:.1f}".removesuffix(".0")


def test_requests_for_a_pod_that_headgate_binds(
    server: AuditedServer, page: dict[str, list[str]], tmp_path: Path
) -> None:
    run = Run(server, SCHEDULER, tmp_path)
    names = [f"pod-{number}" for number in range(UNITS)]
    for name in names:
        rights.create_pod(
            server,
            name,
            {"cpu": "10m"},
            annotations=rights.in_queue("wide"),
            schedulingGates=[{"name": GATE}],
            schedulerName="headgate",
        )
    for name in names:
        wait_for(partial(rights.node_of, server, name), run.process)
    grown = [_growth(server, name) for name in names]
    server.typed("delete", "pod", *names, "--grace-period=0", "--force")
    expected = page["a pod in a queue, bound by Headgate"][0]
    assert run.stop(expected) == expected
    _is_about(page["stamp of a promise"][0], max(stamp for stamp, _ in grown))
    _is_about(page["managed fields of Headgate in a bound pod"][0], max(fields for _, fields in grown))


def test_requests_for_a_pod_that_another_scheduler_binds(
    server: AuditedServer, page: dict[str, list[str]], tmp_path: Path
) -> None:
    run = Run(server, GATES_ONLY, tmp_path, "--components", "gates")
    names = [f"pod-{number}" for number in range(UNITS)]
    gates = [{"name": GATE}]
    for name in names:
        annotations = rights.in_queue("wide")
        rights.create_pod(server, name, {"cpu": "10m"}, annotations=annotations, schedulingGates=gates)
    for name in names:
        wait_for(partial(rights.is_ungated, server, name), run.process)
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
        body = json.dumps({**binding, "target": {"kind": "Node", "name": "node"}}).encode()
        assert server.request("POST", f"{PODS}/{name}/binding", JSON_TYPE, body).status == 201
    server.typed("delete", "pod", *names, "--grace-period=0", "--force")
    expected = page["a pod in a queue, bound by another scheduler"][0]
    assert run.stop(expected) == expected


def test_requests_for_a_job_with_quota(server: AuditedServer, page: dict[str, list[str]], tmp_path: Path) -> None:
    server.typed("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": _wide_quota()}))
    run = Run(server, QUOTA, tmp_path, "--components", "quota,jobs")
    names = [f"job-{number}" for number in range(UNITS)]
    for name in names:
        send(server, "POST", JOBS, _job(name))

    def started() -> bool:
        items = send(server, "GET", JOBS)["items"]
        running = {each["metadata"]["name"] for each in items if not each["spec"].get("suspend")}
        return running.issuperset(names)

    wait_for(started, run.process)
    for name in names:
        finished = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        met = {**finished, "type": "SuccessCriteriaMet"}
        times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z"}
        status = {**times, "succeeded": 1, "conditions": [met, finished]}
        send(server, "PATCH", f"{JOBS}/{name}/status", {"status": status}, "application/merge-patch+json")

    def workloads() -> list[Object]:
        items = send(server, "GET", f"{KUEUE}/namespaces/default/workloads")["items"]
        return [each for each in items if each["spec"].get("queueName") == "wide"]

    def are_finished() -> bool:
        conditions = [(each.get("status") or {}).get("conditions") or [] for each in workloads()]
        return all(any(one["type"] == "Finished" for one in each) for each in conditions)

    wait_for(are_finished, run.process)
    size = max(len(json.dumps(each, separators=(",", ":"))) for each in workloads())
    expected = page["a Job with quota, from its creation to its end"][0]
    assert run.stop(expected) == expected
    _is_about(page["the Workload of a Job with one container, finished"][0], size)


def _growth(server: AuditedServer, name: str) -> tuple[int, int]:
    """The bytes of the stamp, and of the managed fields of Headgate."""
    pod = send(server, "GET", f"{PODS}/{name}")
    stamp = {STAMP: pod["metadata"]["annotations"][STAMP]}
    fields = [each for each in pod["metadata"]["managedFields"] if "headgate" in each["manager"]]
    assert fields, pod["metadata"]["managedFields"]
    return len(json.dumps(stamp, separators=(",", ":"))), len(json.dumps(fields, separators=(",", ":")))


def _is_about(cell: str, measured: int) -> None:
    """A cell such as `180 bytes`."""
    found = re.fullmatch(r"([\d,]+) bytes", cell)
    assert found, f"{cell!r} is not a number of bytes; measured: {measured}"
    stated = int(found[1].replace(",", ""))
    assert abs(stated - measured) <= _TOLERANCE * measured, f"the page says {stated}, measured: {measured}"


def _wide_quota() -> list[Object]:
    flavor = {"name": "wide", "resources": [{"name": "cpu", "nominalQuota": "1000"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    return [
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": "wide", **more}, "spec": spec}
        for kind, more, spec in (
            ("ResourceFlavor", {}, {}),
            ("ClusterQueue", {}, {"namespaceSelector": {}, "resourceGroups": groups}),
            ("LocalQueue", {"namespace": "default"}, {"clusterQueue": "wide"}),
        )
    ]


def _job(name: str) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": "wide"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"suspend": True, "template": template}}
