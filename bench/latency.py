"""How long a pod waits for its node with the queue gate and without, one pod at a time on a real kube-apiserver.

    make bench ARGS="latency --pods 300"

Gated and ungated pods alternate. ``headgate run`` is idle when a pod is created, and its queue and the nodes have free
capacity. Measured from the request that creates the pod until a watch shows the node. etcd does not fsync.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench import report, standings
from clusters import a_node, a_pod
from harness.embedded_server import HEADGATE
from harness.real_server import HOW_TO_GET_THEM, RealServer, binaries
from harness.scheduler_process import SchedulerProcess, create_nodes, send
from harness.server import Server, Watch
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME, QUEUES

NODES: Final = 20
BAR: Final = standings.Bar(2.0, at_least=False)
_PODS: Final = "/api/v1/namespaces/default/pods"
_WARM_UP: Final = 20
_TIMEOUT_S: Final = 60.0


def _pod(number: int, *, gated: bool) -> dict[str, Any]:
    name = f"pod-{number:05}"
    gates = {"schedulingGates": [{"name": GATE}]} if gated else {}
    pod = a_pod(name, {"cpu": "1m"}, schedulerName="headgate", **gates)
    pod["metadata"] = {"name": name, "annotations": {QUEUE_NAME: "wide", **({OPT_IN: "true"} if gated else {})}}
    return pod


def _one(server: Server, watch: Watch, number: int, *, gated: bool) -> float:
    began_s = time.perf_counter()
    uid = send(server, "POST", _PODS, _pod(number, gated=gated))["metadata"]["uid"]
    while True:
        shown = json.loads(watch.lines(1)[0])["object"]
        if shown["metadata"]["uid"] == uid and shown["spec"].get("nodeName"):
            return time.perf_counter() - began_s


def measure(server: Server, folder: Path, pods: int) -> list[str]:
    kubeconfig = str(server.kubeconfig)
    subprocess.run([str(HEADGATE), "install-crds", "--kubeconfig", kubeconfig], check=True, capture_output=True)
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "wide"}}
    send(server, "POST", QUEUES.collection_path(""), {**queue, "spec": {"capability": {"cpu": "1000"}}})
    create_nodes(server, (a_node(f"node-{number}", cpu="1000", pods="10000") for number in range(NODES)))
    begin = send(server, "GET", _PODS)["metadata"]["resourceVersion"]
    took_s: dict[bool, list[float]] = {True: [], False: []}
    scheduler = SchedulerProcess(server, folder / "run.log", "--no-leader-elect")
    try:
        watch = server.watch(f"{_PODS}?watch=1&resourceVersion={begin}&timeoutSeconds=3600", timeout_s=_TIMEOUT_S)
        try:
            for number in range(_WARM_UP + 2 * pods):
                gated = number % 2 == 0
                one_s = _one(server, watch, number, gated=gated)
                if number >= _WARM_UP:
                    took_s[gated].append(one_s)
        finally:
            watch.close()
    finally:
        scheduler.stop()
    middle = {gated: statistics.median(each) for gated, each in took_s.items()}
    return [
        f"creation to node, median of {pods:,} pods each",
        *(f"{middle[gated] * 1e3:.1f} ms" for gated in (True, False)),
        BAR.said(middle[True] / middle[False]),
    ]


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench latency", description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=300, help="of each kind")
    given = parser.parse_args(arguments)
    programs = binaries()
    if programs is None:
        print(f"\nthe real Kubernetes binaries are absent: {HOW_TO_GET_THEM}")
        return
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        server = RealServer(Path(folder) / "server", programs)
        try:
            row = measure(server, Path(folder), given.pods)
        finally:
            server.disconnect()
            server.stop()
    lines = report.table(("what", "gated", "ungated", "gated / ungated"), [row])
    print("\n".join(lines))
    report.write("one gated pod", lines)
