"""An API server is killed and starts again under a running `headgate run`: new pods are bound seconds later.

Without leader election the informers continue. With leader election the outage is longer than the renew deadline, so
the scheduler and the controllers are elected again and list everything again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import a_node, a_pod
from harness.embedded_server import EmbeddedServer
from harness.processes import free_ports
from harness.queues import QUEUES, a_queue, install_crds
from harness.real_server import RealServer
from harness.scheduler_process import (
    SchedulerProcess,
    create_nodes,
    create_pod,
    get_pod,
    is_bound,
    pods,
    send,
    wait_for,
)
from harness.server import Server
from harness.server_kinds import SERVER_KINDS
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME

pytestmark = pytest.mark.real

Object = dict[str, Any]
Restart = Callable[[], None]
OUTAGE_S = 12.0
GOAL_S = 3.0
SLACK = 5
"""The goal is for a machine that does nothing else. What the same steps take before the outage, and after the recovery,
is added this often."""
TOLERATIONS = [{"operator": "Exists"}]
"""The node has no kubelet, so its controller adds taints after a while."""
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


@pytest.fixture(params=SERVER_KINDS)
def restarted(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path: Path
) -> Iterator[tuple[EmbeddedServer | RealServer, Restart]]:
    """A server, and a function that starts it again at the same address."""
    listen = ("--listen", f"127.0.0.1:{free_ports(1)[0]}")
    server: EmbeddedServer | RealServer
    if request.param == "real":
        server = RealServer(tmp_path / "server", kube_binaries)
    else:
        server = EmbeddedServer(tmp_path / "server", kube_binaries / "kubectl", listen)

    def restart() -> None:
        if isinstance(server, RealServer):
            server.restart()
        else:
            server.restart(listen)

    try:
        yield server, restart
    finally:
        server.disconnect()
        server.stop()


def a_gated_pod(name: str) -> Object:
    pod = a_pod(name, {"cpu": "1"}, schedulerName="headgate", schedulingGates=[{"name": GATE}], tolerations=TOLERATIONS)
    pod["metadata"]["annotations"] = {OPT_IN: "true", QUEUE_NAME: "q"}
    return pod


def a_replica_set(name: str) -> Object:
    template = a_pod(name, {"cpu": "1"}, schedulerName="headgate", tolerations=TOLERATIONS)
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


def is_replica_bound(server: Server, name: str) -> bool:
    return any(is_bound(pod) for each, pod in pods(server).items() if each.startswith(f"{name}-"))


def bind_pods(server: Server, name: str, running: SchedulerProcess) -> float:
    """Creates a pod with the queue gate and a ReplicaSet, and returns after how many seconds their pods are bound."""
    started_s = time.monotonic()
    create_pod(server, a_gated_pod(name))
    send(server, "POST", REPLICA_SETS, a_replica_set(f"set-{name}"))
    wait_for(lambda: is_bound(get_pod(server, name)) and is_replica_bound(server, f"set-{name}"), running, 90.0)
    return time.monotonic() - started_s


def test_new_pods_are_bound_within_seconds_of_the_end_of_an_outage(
    restarted: tuple[EmbeddedServer | RealServer, Restart], tmp_path: Path
) -> None:
    server, restart = restarted
    install_crds(server)
    send(server, "POST", QUEUES, a_queue("q", capability={"cpu": "100"}))
    create_nodes(server, [a_node("node-a", cpu="100", pods="100")])
    for election in ("--no-leader-elect", "--leader-elect"):
        log = tmp_path / f"run{election}.log"
        running = SchedulerProcess(server, log, "--components", "scheduler,controllers", election)
        try:
            bind_pods(server, f"first{election}", running)
            usual_s = bind_pods(server, f"second{election}", running)
            server.kill()
            server.disconnect()
            time.sleep(OUTAGE_S)
            restart()
            late_s = bind_pods(server, f"third{election}", running)
            usual_s = max(usual_s, bind_pods(server, f"fourth{election}", running))
        finally:
            running.stop()
        limit_s = GOAL_S + SLACK * usual_s
        assert late_s <= limit_s, f"{election}: {late_s:.1f} s, more than {limit_s:.1f} s\n{running.tail(60)}"
