"""The two clusters of the workload scenarios: a real control plane with hollow nodes, and a complete `headgate up`.

`HEADGATE_COMPARE=real,real` runs two real clusters: a difference is then a defect of the scenario.
`HEADGATE_COMPARE=real,controllers` compares with a real API server whose kube-controller-manager is Headgate's.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import yaml

from harness.control_plane import Nodes, scheduler_config
from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.processes import Process
from harness.real_server import RealServer
from harness.scenarios import Scenario, ScenarioResult, ScenarioRunner
from harness.server import Server
from harness.server_pair import ServerPair, report_path
from headgate.nodes.options import DEFAULT_RESOURCES, HollowOptions
from real.allowed_differences import ALLOWED
from real.workloads.scenario_cluster import WorkloadCluster

NODES = 3
SIZE = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
AT_ONCE = 14
"""Scenarios at the same time on one cluster: more only wait for the processors."""
RATE = 2000
WITHOUT = (
    "certificatesigningrequest-signing",
    "certificatesigningrequest-approving",
    "certificatesigningrequest-cleaner",
    "horizontal-pod-autoscaler",
    "endpoints",
    "endpointslice",
    "endpointslice-mirroring",
)
"""Controllers of kinds that no scenario is about."""


class ClusterPair:
    """Both clusters; a scenario runs once on each."""

    def __init__(self, real: Server, ours: Server, met: Counter[str]) -> None:
        self.servers = ServerPair(real, ours, ALLOWED, report_path(), met)
        self._told: dict[str, tuple[ScenarioResult, ScenarioResult]] = {}

    def run(self, scenarios: Sequence[Scenario]) -> dict[str, tuple[ScenarioResult, ScenarioResult]]:
        fresh = [each for each in scenarios if each.name not in self._told]
        tellers = [
            ScenarioRunner(server, fresh, WorkloadCluster, AT_ONCE) for server in (self.servers.real, self.servers.ours)
        ]
        ends = [each.start() for each in tellers]
        real, ours = (each() for each in ends)
        for teller in tellers:
            teller.close()
        self._told |= {name: (real[name], ours[name]) for name in real}
        return {each.name: self._told[each.name] for each in scenarios}


@contextmanager
def two_clusters(folder: Path, programs: Path, met: Counter[str]) -> Iterator[ClusterPair]:
    with ExitStack() as stack:
        real: Server = stack.enter_context(a_real_cluster(folder / "real", programs))
        ours: Server = stack.enter_context(_other_side(os.environ.get("HEADGATE_COMPARE"), folder, programs))
        sides = ClusterPair(real, ours, met)
        stack.callback(sides.servers.close)
        yield sides


def _other_side(which: str | None, folder: Path, programs: Path) -> AbstractContextManager[Server]:
    if which == "real,real":
        return a_real_cluster(folder / "again", programs, "real again")
    if which == "real,controllers":
        return a_real_cluster(folder / "controllers", programs, "controllers", _our_controllers)
    return an_embedded_cluster(folder / "ours", programs)


def _kube_controller_manager(server: RealServer, programs: Path, plugins: Path) -> list[str]:
    return [
        *(str(programs / "kube-controller-manager"), f"--kubeconfig={server.kubeconfig}", "--secure-port=0"),
        *("--leader-elect=false", f"--kube-api-qps={RATE}", f"--kube-api-burst={RATE}"),
        f"--controllers={','.join(('*', *(f'-{each}-controller' for each in WITHOUT)))}",
        *("--use-service-account-credentials=false", f"--root-ca-file={server.ca}"),
        *(f"--flex-volume-plugin-dir={plugins}", "--pvclaimbinder-sync-period=2s"),
        *("--node-monitor-period=1s", "--node-monitor-grace-period=12s", "--node-startup-grace-period=12s"),
    ]


def _our_controllers(server: RealServer, programs: Path, plugins: Path) -> list[str]:
    return [str(HEADGATE), "run", "--components", "controllers", "--kubeconfig", str(server.kubeconfig)]


@contextmanager
def a_real_cluster(
    folder: Path,
    programs: Path,
    name: str = "real",
    manager: Callable[[RealServer, Path, Path], list[str]] = _kube_controller_manager,
) -> Iterator[RealServer]:
    server = RealServer(folder, programs, name)
    config, plugins = folder / "scheduler.yaml", folder / "plugins"
    plugins.mkdir()
    config.write_text(yaml.safe_dump(scheduler_config(str(server.kubeconfig), elected=False)))
    nodes = Nodes(server, NODES, {**DEFAULT_RESOURCES, **SIZE}, HollowOptions(controller_manager=True, heartbeat_s=3.0))
    processes = [
        Process(manager(server, programs, plugins), folder / "kube-controller-manager.log"),
        Process(
            [str(programs / "kube-scheduler"), f"--config={config}", "--secure-port=0"], folder / "kube-scheduler.log"
        ),
    ]
    try:
        slow_to_stop(server)
        yield server
    finally:
        for each in processes:
            each.stop()
        nodes.stop()
        server.stop()


@contextmanager
def an_embedded_cluster(folder: Path, programs: Path) -> Iterator[EmbeddedServer]:
    size = ("--node-cpu", SIZE["cpu"], "--node-memory", SIZE["memory"], "--node-resource", f"pods={SIZE['pods']}")
    grace = ("--node-monitor-grace-period", "12s")
    flags = ("--components", "apiserver,nodes,controllers,scheduler", "--nodes", str(NODES), *grace, *size)
    server = EmbeddedServer(folder, programs / "kubectl", flags)
    try:
        slow_to_stop(server)
        yield server
    finally:
        server.stop()


def slow_to_stop(server: Server) -> None:
    """Containers need a moment to stop, as they do anywhere: controllers race with kubelets that need none."""
    cluster = WorkloadCluster(server, "all")
    cluster.until("all nodes are there", lambda: len(cluster.items("/api/v1/nodes")) == NODES)
    done = server.kubectl(["annotate", "nodes", "--all", "headgate.dev/stop-after=500ms"])
    assert done.exit == 0, done
