"""A model of an autoscaler at work on an embedded cluster that has no node: it buys, tells, and gives back."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import Cluster
from harness.embedded_server import HEADGATE
from harness.scheduler_process import wait_for
from headgate.cli.demos.demo_cluster import DemoCluster, start_demo_cluster
from headgate.kube.api_resources import PODS
from headgate.nodes.autoscalers.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerFlags
from headgate.nodes.autoscalers.instance_types import InstanceType
from headgate.nodes.autoscalers.karpenter import Karpenter, KarpenterSettings
from headgate.nodes.autoscalers.model import AutoscalerModel
from headgate.nodes.autoscalers.node_claims import NodePool
from headgate.nodes.autoscalers.node_groups import NodeGroup

MACHINE = InstanceType("one-cpu", {"cpu": "1", "memory": "4Gi", "pods": "110"})
HASTY = ClusterAutoscalerFlags(
    scan_interval_s=0.1,
    scale_down_unneeded_time_s=0.5,
    scale_down_delay_after_add_s=0.5,
    node_delete_delay_after_taint_s=0.1,
)
MODELS: dict[str, Callable[[], AutoscalerModel]] = {
    "cluster-autoscaler": lambda: ClusterAutoscaler([NodeGroup("pool", MACHINE)], HASTY),
    "karpenter": lambda: Karpenter(
        [NodePool("pool", (MACHINE,))],
        KarpenterSettings(batch_idle_s=0.1, batch_max_s=0.2, poll_s=0.2, validation_s=0.2),
    ),
}
PATIENCE_S = 60.0


def a_pod(name: str, **annotations: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not what():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("model", MODELS)
def test_nodes_are_added_for_pods_without_a_node_and_removed_when_they_are_idle(model: str, tmp_path: Path) -> None:
    async def scenario(arm: DemoCluster) -> None:
        for name in ("one", "two"):
            await arm.create(PODS, a_pod(name))
        await until(lambda: arm.running == ["one", "two"])
        counts = arm.counts()
        assert (counts.added, counts.idle, counts.unused, counts.waiting) == (2, 0, 0, 0)
        await arm.patch(PODS, "one", {"metadata": {"annotations": {"headgate.dev/run-for": "0s"}}})
        await until(lambda: arm.removed == 1)
        assert (arm.running, arm.counts().idle) == (["two"], 0)

    async def main() -> None:
        async with start_demo_cluster(tmp_path, MODELS[model], model) as arm:
            await scenario(arm)

    asyncio.run(main())


def test_up_with_an_autoscaler_starts_from_no_node_and_adds_what_pods_need(tmp_path: Path) -> None:
    flags = ("--nodes", "0", "--node-cpu", "2", "--autoscaler", "karpenter")
    with Cluster(tmp_path / "data", *flags) as running:
        assert any("a simulated karpenter adds more" in line for line in running.printed)
        pods = "/api/v1/namespaces/default/pods"
        for name in ("one", "two", "three"):
            assert running.ask("POST", pods, a_pod(name))[0] == 201

        def bound() -> list[str]:
            found = (pod["spec"].get("nodeName") for pod in running.ask("GET", pods)[1]["items"])
            return sorted(node for node in found if node)

        wait_for(lambda: len(bound()) == 3)
        assert bound() in (["pool-0001", "pool-0001", "pool-0002"], ["pool-0001", "pool-0002", "pool-0002"])
        assert len(running.ask("GET", "/api/v1/nodes")[1]["items"]) == 2


def test_an_autoscaler_without_kubelets_for_its_machines_is_refused(tmp_path: Path) -> None:
    flags = ["--data", str(tmp_path), "--components", "apiserver", "--autoscaler", "karpenter"]
    done = subprocess.run([str(HEADGATE), "up", *flags], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "--autoscaler needs nodes" in done.stderr) == (2, True)
