"""The real Karpenter and the real kube-scheduler beside `headgate run --components gates,webhooks`.

Volcano's issue #4710: a queue has capacity for one of five pods, and there is no node. Without the gates, five machines
are bought; with them, one. How it is known that nothing was bought: `karpenter_cluster.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.karpenter import Karpenter, Kubelets
from harness.kube_scheduler import kube_scheduler
from harness.processes import Process
from harness.queues import API_VERSION, a_group
from harness.real_server import RealServer
from harness.scheduler_process import get_pod, is_bound, patch_pod, scheduled_reason, send
from harness.webhooks import prepare
from headgate.capacity.names import GROUP_NAMES
from real.gated_cluster import STOP_AFTER, GatesProcess
from real.karpenter_cluster import KarpenterCluster

pytestmark = pytest.mark.real

PODS = "/api/v1/namespaces/default/pods"
POD_GROUPS = f"/apis/{API_VERSION}/namespaces/default/podgroups"


@pytest.fixture(scope="module")
def cluster(
    kube_binaries: Path, karpenter_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KarpenterCluster]:
    folder = tmp_path_factory.mktemp("gates-only-karpenter")
    server = RealServer(folder / "server", kube_binaries)
    processes: list[Process] = []
    try:
        processes.append(Karpenter(server, karpenter_binaries, folder / "karpenter"))
        prepare(server)
        command = kube_scheduler(kube_binaries, server.kubeconfig, folder)
        processes.append(Process(command, folder / "kube-scheduler.log"))
        processes.append(GatesProcess(server, folder / "gates.log", "--no-leader-elect"))
        made = KarpenterCluster(server, processes, folder, adds_gates=True, scheduler_name="default-scheduler")
        with Kubelets(server):
            yield made
    finally:
        for process in reversed(processes):
            process.stop()
        server.disconnect()
        server.stop()


def five_executors(cluster: KarpenterCluster, scenario: str, *, gated: bool) -> None:
    cluster.queue(scenario, "1")
    for number in range(1, 6):
        cluster.pod(scenario, f"{scenario}-executor-{number}", gated=gated)


def test_without_gates_five_machines_are_bought_for_a_queue_of_one_cpu(cluster: KarpenterCluster) -> None:
    five_executors(cluster, "off", gated=False)
    cluster.until(lambda: cluster.machines("off") == 5)


def test_with_gates_one_machine_is_bought_for_a_queue_of_one_cpu(cluster: KarpenterCluster) -> None:
    five_executors(cluster, "on", gated=True)
    cluster.until(lambda: cluster.reasons("on") == {"SchedulingGated": 4})
    cluster.settle()
    assert cluster.machines("on") == 1
    assert cluster.reasons("on") == {"SchedulingGated": 4}


def test_the_pod_after_a_terminating_one_buys_no_machine(cluster: KarpenterCluster) -> None:
    cluster.queue("slow", "1")
    ends_slowly = {STOP_AFTER: "100s"}
    cluster.pod("slow", "slow-old", gated=True, annotations=ends_slowly, terminationGracePeriodSeconds=120)
    cluster.until_bound("slow-old")
    cluster.pod("slow", "slow-new", gated=True)
    send(cluster.server, "DELETE", f"{PODS}/slow-old")
    cluster.settle()
    waiting = get_pod(cluster.server, "slow-new")
    assert (is_bound(waiting), scheduled_reason(waiting)) == (False, "SchedulingGated")
    patch_pod(cluster.server, "slow-old", {"metadata": {"annotations": {STOP_AFTER: "0s"}}})
    cluster.until_bound("slow-new")
    cluster.settle()
    assert cluster.machines("slow") == 1


def test_a_gang_gets_all_its_machines_when_its_queue_has_capacity_for_it_and_none_before(
    cluster: KarpenterCluster,
) -> None:
    cluster.queue("gang", "2")
    send(cluster.server, "POST", POD_GROUPS, a_group("gang", queue="gang", minMember=3))
    members = [f"gang-{number}" for number in range(3)]
    for name in members:
        cluster.pod("gang", name, gated=True, annotations={GROUP_NAMES[0]: "gang"})
    cluster.settle()
    assert cluster.machines("gang") == 0
    cluster.set_limit("gang", "3")
    cluster.until_bound(*members)
    cluster.settle()
    assert cluster.machines("gang") == 3
