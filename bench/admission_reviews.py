"""How long an admission review takes while the same process leads the scheduler, quota and jobs, on a real
kube-apiserver.

    make bench ARGS="admission-reviews --seconds 30"

500 pods wait in a full queue, 1,000 for a node that does not exist, and 100 Jobs for quota; the labels of nodes change
five times a second, so that the scheduler tries the 1,000 again. Then clients create 60 pods per second that opt in to
the queue gate, and delete old ones. Reviews of a new pod are sent to the webhook server at the same rate,
over connections that stay open, as an API server sends them. The second row is what kube-apiserver itself measured.
etcd does not fsync.
"""

from __future__ import annotations

import argparse
import base64
import functools
import http.client
import json
import queue
import re
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from bench import report
from clusters import a_node, a_pod
from harness.processes import free_ports
from harness.real_server import HOW_TO_GET_THEM, RealServer, binaries
from harness.scheduler_process import create_nodes, send
from harness.server import Server
from harness.webhooks import SECRET, WebhookProcess, prepare, sent
from headgate.capacity.names import OPT_IN, QUEUE_NAME, QUEUES

RATE: Final = 60.0
NODES: Final = 100
WAITING_PODS: Final = 500
WAITING_JOBS: Final = 100
UNSCHEDULABLE_PODS: Final = 1000
_PODS: Final = "/api/v1/namespaces/default/pods"
_JOBS: Final = "/apis/batch/v1/namespaces/default/jobs"
_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_CLIENTS: Final = 24
_NODE_CHANGES: Final = 5.0  # per second
_BUCKET: Final = re.compile(
    r'apiserver_admission_webhook_admission_duration_seconds_bucket\{name="gate\.pods\.headgate\.dev",[^}]*le="([^"]+)"\}'
    r" (\d+)"
)
_HANDLED: Final = re.compile(
    r'headgate_webhook_review_duration_seconds_bucket\{webhook="gate\.pods\.headgate\.dev",le="([0-9.]+)"\} (\d+)'
)
REVIEW: Final = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "object": {
            "metadata": {"name": "p", "annotations": {QUEUE_NAME: "wide", OPT_IN: "true"}},
            "spec": {"schedulerName": "headgate", "containers": [{"name": "c", "image": "i"}]},
        },
    },
}


class Reviewer:
    """Sends a review to the webhook server, over a connection of each thread."""

    def __init__(self, server: Server, port: int) -> None:
        bundle = base64.b64decode(sent(server, "GET", SECRET).json()["data"]["ca.crt"]).decode()
        self._trust = ssl.create_default_context(cadata=bundle)
        self._port = port
        self._local = threading.local()
        self._body = json.dumps(REVIEW).encode()

    def review(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=60, context=self._trust)
            self._local.connection = connection
        connection.request("POST", "/pods/mutate", self._body)
        answer = connection.getresponse()
        assert (answer.status, b"JSONPatch" in answer.read()) == (200, True)


def at_rate(action: Callable[[int], object], seconds: float, rate: float = RATE) -> list[float]:
    """Starts the action this number of times per second, even if earlier ones still run. Returns how long each took,
    from the time when it was due."""
    due: queue.SimpleQueue[tuple[int, float] | None] = queue.SimpleQueue()
    took_s: list[float] = []

    def work() -> None:
        while (item := due.get()) is not None:
            action(item[0])
            took_s.append(time.perf_counter() - item[1])

    workers = [threading.Thread(target=work) for _ in range(_CLIENTS)]
    for worker in workers:
        worker.start()
    begin_s = time.perf_counter()
    for number in range(int(seconds * rate)):
        due_s = begin_s + number / rate
        time.sleep(max(0.0, due_s - time.perf_counter()))
        due.put((number, due_s))
    for _ in workers:
        due.put(None)
    for worker in workers:
        worker.join()
    return sorted(took_s)


def _pod(name: str, queue_name: str, cpu: str) -> dict[str, Any]:
    pod = a_pod(name, {"cpu": cpu}, schedulerName="headgate")
    pod["metadata"] = {"name": name, "annotations": {QUEUE_NAME: queue_name, OPT_IN: "true"}}
    return pod


def _unschedulable(number: int) -> dict[str, Any]:
    pod = _pod(f"unschedulable-{number}", "wide", "10m")
    pod["spec"]["nodeSelector"] = {"absent": f"value-{number % 200}"}
    return pod


def _change_node(server: Server, number: int) -> None:
    body = {"metadata": {"labels": {"round": str(number)}}}
    send(server, "PATCH", f"/api/v1/nodes/node-{number % NODES}", body, "application/merge-patch+json")


def _job(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "team"}}
    return {"metadata": metadata, "spec": {"suspend": True, "template": template}}


def _fill(server: Server) -> None:
    for name, cpu in (("wide", "100000"), ("full", "1")):
        queue_object = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        send(server, "POST", QUEUES.collection_path(""), {**queue_object, "spec": {"capability": {"cpu": cpu}}})
    quota = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": "20"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    for kind, path, obj in (
        ("ResourceFlavor", f"{_KUEUE}/resourceflavors", {"metadata": {"name": "any"}}),
        (
            "ClusterQueue",
            f"{_KUEUE}/clusterqueues",
            {"metadata": {"name": "team"}, "spec": {"namespaceSelector": {}, "resourceGroups": groups}},
        ),
        (
            "LocalQueue",
            f"{_KUEUE}/namespaces/default/localqueues",
            {"metadata": {"name": "team"}, "spec": {"clusterQueue": "team"}},
        ),
    ):
        send(server, "POST", path, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **obj})
    create_nodes(server, (a_node(f"node-{number}", cpu="1000", pods="10000") for number in range(NODES)))


def _apiserver_buckets(server: Server) -> dict[str, int]:
    page = server.request("GET", "/metrics").body.decode()
    return {le: int(count) for le, count in _BUCKET.findall(page)}


def _percentiles(took_s: list[float]) -> list[str]:
    shown = [took_s[len(took_s) // 2], took_s[int(len(took_s) * 0.99)], took_s[-1]]
    return [f"{each * 1e3:.1f} ms" for each in shown]


def measure(server: Server, folder: Path, seconds: float) -> list[list[str]]:
    prepare(server)
    _fill(server)
    (metrics_port,) = free_ports(1)
    flags = ("--components", "scheduler,webhooks,quota,jobs", "--metrics-listen", f"127.0.0.1:{metrics_port}")
    process = WebhookProcess(server, folder / "run.log", *flags, "--log-level", "warning")
    try:
        process.wait_until(lambda: process.log.read_text().count("elected: ") >= 3, 60)
        reviewer = Reviewer(server, process.port)
        at_rate(lambda number: reviewer.review(), 2.0)
        waiting = functools.partial(_pod, queue_name="full", cpu="1")
        at_rate(lambda number: send(server, "POST", _PODS, waiting(f"waiting-{number}")), WAITING_PODS / 200, 200)
        at_rate(lambda number: send(server, "POST", _JOBS, _job(f"job-{number}")), WAITING_JOBS / 100, 100)
        at_rate(lambda number: send(server, "POST", _PODS, _unschedulable(number)), UNSCHEDULABLE_PODS / 200, 200)
        before = _apiserver_buckets(server)
        created_s: list[float] = []

        def create_and_delete(number: int) -> None:
            began_s = time.perf_counter()
            send(server, "POST", _PODS, _pod(f"pod-{number}", "wide", "10m"))
            created_s.append(time.perf_counter() - began_s)
            if number >= 300:
                send(server, "DELETE", f"{_PODS}/pod-{number - 300}", {"gracePeriodSeconds": 0})

        load = threading.Thread(target=at_rate, args=(create_and_delete, seconds))
        changes = threading.Thread(
            target=at_rate, args=(lambda number: _change_node(server, number), seconds, _NODE_CHANGES)
        )
        load.start()
        changes.start()
        took_s = at_rate(lambda number: reviewer.review(), seconds)
        load.join()
        changes.join()
        counts = {le: count - before.get(le, 0) for le, count in _apiserver_buckets(server).items()}
        total = counts.get("+Inf", 0)
        within = ", ".join(
            f"{count / total:.1%} within {float(le) * 1e3:g} ms" for le, count in counts.items() if le != "+Inf"
        )
        print("kube-apiserver:", within, flush=True)
        connection = http.client.HTTPConnection("127.0.0.1", metrics_port, timeout=20)
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
        shown = _HANDLED.findall(page)
        handled = ", ".join(
            f"{int(count) / int(shown[-1][1]):.1%} within {float(le) * 1e3:g} ms" for le, count in shown
        )
        print("webhook server, from the arrival of a review to its answer:", handled, flush=True)
    finally:
        process.stop()
    rows = [["review, from its due time to the end of the answer", *_percentiles(took_s)]]
    return [*rows, ["creation of a pod through kube-apiserver", *_percentiles(sorted(created_s))]]


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench admission-reviews", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the load lasts")
    given = parser.parse_args(arguments)
    programs = binaries()
    if programs is None:
        print(f"\nthe real Kubernetes binaries are absent: {HOW_TO_GET_THEM}")
        return
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        server = RealServer(Path(folder) / "server", programs)
        try:
            rows = measure(server, Path(folder), given.seconds)
        finally:
            server.disconnect()
            server.stop()
    lines = report.table(("what, at 60 pods per second", "median", "p99", "longest"), rows)
    print("\n".join(lines))
