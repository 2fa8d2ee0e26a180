"""Two replicas of the webhooks behind one Service are restarted one after the other while pods are created: no pod is
refused, and none comes without its gate."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import a_pod
from harness.embedded_server import HEADGATE
from harness.pod_creation import RATE, PodCreator
from harness.processes import Process, free_ports
from harness.real_server import RealServer
from harness.scheduler_process import wait_for
from harness.service_proxy import ServiceProxy
from harness.webhooks import prepare, sent
from headgate.capacity.names import OPT_IN

pytestmark = pytest.mark.real

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def server(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    running = RealServer(tmp_path_factory.mktemp("rolling-real"), kube_binaries)
    prepare(running)
    yield running
    running.disconnect()
    running.stop()


class Replicas:
    """Two replicas behind one address, started as a Deployment starts them."""

    def __init__(self, server: RealServer, folder: Path, *flags: str) -> None:
        self.ports = free_ports(2)
        self.proxy = ServiceProxy(self.ports)
        self._server, self._folder, self._flags = server, folder, flags
        self._starts = 0
        self.processes = {port: self._start(port) for port in self.ports}
        for port in self.ports:
            self.until_ready(port)

    def _start(self, port: int) -> Process:
        self._starts += 1
        where = ("--webhook-url", f"https://127.0.0.1:{self.proxy.port}", "--webhook-listen", f"127.0.0.1:{port}")
        components = ("run", "--kubeconfig", str(self._server.kubeconfig), "--components", "webhooks,jobs,scheduler")
        return Process([str(HEADGATE), *components, *where, *self._flags], self._folder / f"{self._starts}.log")

    def until_ready(self, port: int) -> None:
        wait_for(lambda: port in self.proxy.ready, self.processes[port], 60)

    def restart(self, port: int) -> None:
        self.processes[port].signal(signal.SIGTERM)
        assert self.processes[port].wait(60) == 0
        self.processes[port] = self._start(port)
        self.until_ready(port)

    def close(self) -> None:
        for process in self.processes.values():
            process.signal(signal.SIGINT)
        for process in self.processes.values():
            process.stop()
        self.proxy.close()


def test_no_pod_is_refused_or_ungated_while_both_replicas_are_restarted(server: RealServer, tmp_path: Path) -> None:
    replicas = Replicas(server, tmp_path)
    try:
        gate = {"name": "probe", "annotations": {OPT_IN: "true"}}
        probe = {**a_pod("probe", {}, schedulerName="headgate"), "metadata": gate}
        wait_for(
            lambda: sent(server, "POST", f"{PODS}?dryRun=All", probe).json().get("spec", {}).get("schedulingGates"),
            replicas.processes[replicas.ports[0]],
        )
        with PodCreator(server) as creator:
            for port in replicas.ports:
                replicas.restart(port)
        assert creator.outcomes.keys() == {"gated"}, creator.outcomes
        assert creator.outcomes["gated"] > 4 * RATE, "pods were created all the time"
        assert all(replicas.proxy.connections.values()), "each replica was asked"
    finally:
        replicas.close()
