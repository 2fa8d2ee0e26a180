"""Headgate's controllers on the embedded server against kube-controller-manager on a real one: the same scenarios with
the same results.

Both clusters belong to this module and have hollow nodes. All scenarios run at the same time, because the real
controllers wait by the clock: 5 s before they touch a namespace, 40 s and more before they give up a lost node.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.embedded_server import EmbeddedServer
from harness.processes import Process
from harness.real_server import RealServer
from harness.scenarios import ScenarioResult, ScenarioRunner, compare_results
from harness.server import Server
from harness.server_pair import ServerPair, report_path
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.kubeconfig import RESTConfig
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.io.kubelet_runner import HollowKubeletRunner
from headgate.nodes.node_template import NodeTemplate, make_nodes
from headgate.nodes.options import HollowOptions
from real.allowed_differences import ALLOWED
from real.controller_scenarios import CASCADES
from real.custom_kind_scenarios import CUSTOM
from real.namespace_scenarios import NAMESPACES, STRAY_PODS

pytestmark = pytest.mark.real

SCENARIOS = [*STRAY_PODS, *CUSTOM, *NAMESPACES, *CASCADES]
CONTROLLERS = (
    "namespace-controller,garbage-collector-controller,pod-garbage-collector-controller,serviceaccount-controller,"
    "root-ca-certificate-publisher-controller"
)
Ends = dict[str, ScenarioResult]


@contextmanager
def hollow_nodes(server: Server) -> Iterator[None]:
    """A fleet of one node, in a thread of its own."""
    loop = asyncio.new_event_loop()
    access = find_rest_config(str(server.kubeconfig))
    assert isinstance(access, RESTConfig)
    stop = asyncio.Event()

    async def run() -> None:
        transport = HTTPTransport(access)
        fleet = asyncio.create_task(
            HollowKubeletRunner(HollowKubelets(HollowOptions(), make_nodes(1, NodeTemplate())), transport).run()
        )
        await stop.wait()
        fleet.cancel()
        await asyncio.wait([fleet])
        await transport.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def controller_manager(server: RealServer, folder: Path, binaries: Path) -> Process:
    return Process(
        [
            str(binaries / "kube-controller-manager"),
            *(f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", f"--controllers={CONTROLLERS}"),
            *("--use-service-account-credentials=false", "--secure-port=0", f"--root-ca-file={server.ca}"),
        ],
        folder / "kube-controller-manager.log",
    )


def start_scenarios(server: Server, start: Callable[[], None]) -> tuple[ScenarioRunner, Callable[[], Ends]]:
    runner = ScenarioRunner(server, SCENARIOS)
    runner.prepare()
    start()
    return runner, runner.start()


@pytest.fixture(scope="module")
def clusters(
    kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory, met_allowances: Counter[str]
) -> Iterator[ServerPair]:
    folder = tmp_path_factory.mktemp("controllers")
    real = RealServer(folder / "real", kube_binaries)
    flags = ("--components", "apiserver,controllers")
    ours = EmbeddedServer(folder / "embedded", kube_binaries / "kubectl", flags)
    pair = ServerPair(real, ours, ALLOWED, report_path(), met_allowances)
    with hollow_nodes(real), hollow_nodes(ours):
        yield pair
    pair.close()
    real.stop()
    ours.stop()


def test_every_scenario_ends_the_same_on_both_clusters(
    clusters: ServerPair, kube_binaries: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    managers: list[Process] = []
    assert isinstance(clusters.real, RealServer)
    real_server = clusters.real
    first, real_ends = start_scenarios(
        real_server, lambda: managers.append(controller_manager(real_server, tmp_path, kube_binaries))
    )
    second, our_ends = start_scenarios(clusters.ours, lambda: None)
    try:
        real, ours = real_ends(), our_ends()
    finally:
        first.close()
        second.close()
        for manager in managers:
            manager.stop()
    for scenario in SCENARIOS:
        with subtests.test(msg=scenario.name):
            clusters.judge(list(compare_results(scenario.name, real[scenario.name], ours[scenario.name])))
            assert not real[scenario.name].failure
