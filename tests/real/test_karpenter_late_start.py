"""The real Karpenter and the real kube-scheduler beside `headgate run`: a preemption in Kueue's queues buys no machine.

Machines have one CPU and there are none at the start. The victim takes longer to end than Karpenter needs to plan: a
witness without a queue gets a machine of its own meanwhile (`karpenter_cluster.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import a_pod
from harness.karpenter import STORY, Karpenter, Kubelets, bought, create_pool
from harness.kube_scheduler import kube_scheduler
from harness.processes import Process
from harness.scheduler_process import create_pod, get_pod, is_bound, patch_pod, scheduled_reason, wait_for
from queued_objects import GROUP_NAME, TOTAL
from real.kueue_cluster import KueueCluster

pytestmark = pytest.mark.real

PREEMPTS = {"preemption": {"withinClusterQueue": "LowerPriority"}}
STOP_AFTER = "headgate.dev/stop-after"
WITNESS = "witness"
PATIENCE_S = 90.0


class LateStartCluster:
    def __init__(self, cluster: KueueCluster, karpenter: Process) -> None:
        self.cluster = cluster
        self._karpenter = karpenter
        self._numbers = itertools.count(1)
        create_pool(cluster.server, WITNESS)

    def queue(self, story: str, cpu: int) -> None:
        create_pool(self.cluster.server, story)
        self.cluster.queue(story, cpu, **PREEMPTS)

    def pod(self, story: str, name: str, priority: str = "low", **more: Any) -> None:
        annotations = {STOP_AFTER: "60s", **more.pop("annotations", {})}
        self.cluster.pod(name, story, priority, 120, annotations=annotations, nodeSelector={STORY: story}, **more)

    def machines(self, story: str) -> int:
        return len(bought(self.cluster.server, story))

    def until(self, what: Callable[[], Any]) -> None:
        wait_for(what, self._karpenter, PATIENCE_S)

    def until_bound(self, *names: str) -> None:
        self.until(lambda: all(is_bound(get_pod(self.cluster.server, name)) for name in names))

    def settle(self) -> None:
        """Karpenter has looked at everything that came before."""
        name = f"witness-{next(self._numbers)}"
        create_pod(self.cluster.server, a_pod(name, {"cpu": "1"}, nodeSelector={STORY: WITNESS}))
        self.until_bound(name)

    def end(self, *names: str) -> None:
        for name in names:
            patch_pod(self.cluster.server, name, {"metadata": {"annotations": {STOP_AFTER: "0s"}}})


@pytest.fixture(scope="module")
def cluster(
    kube_binaries: Path, karpenter_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LateStartCluster]:
    folder = tmp_path_factory.mktemp("karpenter-late")
    cluster = KueueCluster("real", folder, kube_binaries, "StartAfterTerminatingPods=true")
    beside: list[Process] = []
    try:
        beside.append(Karpenter(cluster.server, karpenter_binaries, folder / "karpenter"))
        command = kube_scheduler(kube_binaries, cluster.server.kubeconfig, folder)
        beside.append(Process(command, folder / "kube-scheduler.log"))
        with Kubelets(cluster.server):
            yield LateStartCluster(cluster, beside[0])
    finally:
        for process in reversed(beside):
            process.stop()
        cluster.stop()


def test_a_preemptor_buys_no_machine_while_its_victim_ends(cluster: LateStartCluster) -> None:
    cluster.queue("alone", 1)
    cluster.pod("alone", "alone-victim")
    cluster.until_bound("alone-victim")
    cluster.pod("alone", "alone-urgent", "high")
    cluster.until(lambda: cluster.cluster.has_quota("alone-urgent"))
    cluster.settle()
    waiting = get_pod(cluster.cluster.server, "alone-urgent")
    assert "deletionTimestamp" in get_pod(cluster.cluster.server, "alone-victim")["metadata"]
    assert (is_bound(waiting), scheduled_reason(waiting)) == (False, "SchedulingGated")
    assert cluster.machines("alone") == 1
    cluster.end("alone-victim")
    cluster.until_bound("alone-urgent")
    cluster.settle()
    assert cluster.machines("alone") == 1


def test_a_gang_buys_no_machine_while_its_victims_end(cluster: LateStartCluster) -> None:
    cluster.queue("gang", 2)
    victims, urgent = ("gang-victim-1", "gang-victim-2"), ("gang-urgent-1", "gang-urgent-2")
    for name in victims:
        cluster.pod("gang", name)
    cluster.until_bound(*victims)
    for name in urgent:
        cluster.pod("gang", name, "high", labels={GROUP_NAME: "gang-urgent"}, annotations={TOTAL: "2"})
    cluster.until(lambda: cluster.cluster.has_quota(urgent[0]))
    cluster.end(victims[0])
    cluster.settle()
    assert [scheduled_reason(get_pod(cluster.cluster.server, name)) for name in urgent] == ["SchedulingGated"] * 2
    cluster.end(victims[1])
    cluster.until_bound(*urgent)
    cluster.settle()
    assert cluster.machines("gang") == 2


def test_switched_off_a_machine_is_bought_for_the_preemptor(cluster: LateStartCluster) -> None:
    """The last scenario here: nothing switches it on again."""
    cluster.cluster.switch("StartAfterTerminatingPods=false")
    cluster.queue("off", 1)
    cluster.pod("off", "off-victim")
    cluster.until_bound("off-victim")
    cluster.pod("off", "off-urgent", "high")
    cluster.until(lambda: cluster.machines("off") == 2)
