"""The real Karpenter, with its provider of simulated machines, beside a real API server, and kubelets for it.

A node pool has machines of one size unless a test chooses otherwise, so that the number of machines shows how many pods
they were bought for. Each scenario has its own pool, which its pods select. The kubelets of the machines are KWOK's, or
hollow ones in a thread of this process. `make karpenter` builds the binaries.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.processes import Process, free_ports
from harness.real_server import REPOSITORY
from harness.scheduler_process import send, wait_for
from harness.server import Server
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.kubeconfig import RESTConfig
from headgate.nodes.autoscalers.instance_types import InstanceType
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.io.kubelet_runner import HollowKubeletRunner
from headgate.nodes.options import HollowOptions

Object = dict[str, Any]

HOW_TO_GET_IT = "run `make karpenter` (needs Go), or set HEADGATE_KUBE_BIN to a folder that has it"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
POOLS = "/apis/karpenter.sh/v1/nodepools"
STORY = "example.com/story"
TYPE = "node.kubernetes.io/instance-type"
SHAPES = tuple(
    InstanceType(f"cpu-{cpu}", {"cpu": str(cpu), "memory": "8Gi", "pods": "110"}, price=price)
    for cpu, price in ((1, 1.0), (2, 1.9), (4, 3.6))
)
CLASSES = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
WITH_GPU = InstanceType("gpu-1", {"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "1"}, price=9.0)


def karpenter_folder() -> Path | None:
    """Where `make karpenter` put it, or None if it did not."""
    command = [sys.executable, str(REPOSITORY / "tools" / "kube" / "build.py"), "karpenter", "--print-dir"]
    folder = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    wanted = all(os.access(folder / name, os.X_OK) for name in ("karpenter", "kwok"))
    return folder if wanted and (folder / "karpenter-manifests").is_dir() else None


class Karpenter(Process):
    def __init__(self, server: Server, programs: Path, folder: Path) -> None:
        folder.mkdir()
        _define(server, programs)
        types = folder / "instance-types.json"
        types.write_text(json.dumps([_instance_type(shape) for shape in (*SHAPES, WITH_GPU)]))
        metrics, health = free_ports(2)
        environment = {
            **os.environ,
            "KUBECONFIG": str(server.kubeconfig),
            "DISABLE_LEADER_ELECTION": "true",
            "METRICS_PORT": str(metrics),
            "HEALTH_PROBE_PORT": str(health),
            "LOG_LEVEL": "info",
            "BATCH_IDLE_DURATION": "200ms",
            "BATCH_MAX_DURATION": "1s",
            "INSTANCE_TYPES_FILE_PATH": str(types),
        }
        send(server, "POST", CLASSES, _node_class())
        super().__init__([str(programs / "karpenter")], folder / "karpenter.log", environment)


class Kwok(Process):
    """KWOK's own kubelets for all simulated nodes of a server, as a process."""

    def __init__(self, server: Server, programs: Path, folder: Path) -> None:
        stages = folder / "stages.yaml"
        found = sorted((programs / "kwok-manifests").glob("*.yaml"))
        stages.write_text("\n---\n".join(file.read_text() for file in found))
        command = [
            str(programs / "kwok"),
            *(f"--kubeconfig={server.kubeconfig}", f"--config={stages}", "--manage-all-nodes=false"),
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            *("--node-lease-duration-seconds=0", "--server-address=", "--cidr=10.200.0.0/16"),
        ]
        super().__init__(command, folder / "kwok.log")


class Kubelets:
    """Hollow kubelets for all simulated nodes of a server, in a thread of their own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._started = threading.Event()

    def __enter__(self) -> Kubelets:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *raised: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        access = find_rest_config(str(self._server.kubeconfig))
        assert isinstance(access, RESTConfig)
        transport = HTTPTransport(access)
        working = asyncio.create_task(HollowKubeletRunner(HollowKubelets(HollowOptions()), transport).run())
        self._started.set()
        try:
            await self._done.wait()
        finally:
            working.cancel()
            await asyncio.wait([working])
            await transport.close()


def create_pool(
    server: Server,
    name: str,
    shapes: Sequence[InstanceType] = SHAPES[:1],
    consolidate_after: str = "Never",
    startup_taint: str = "",
) -> None:
    """A NodePool for pods that select `STORY: name`. Its nodes are kept, idle or not, unless `consolidate_after` says
    otherwise. `startup_taint`: a node takes no pods until a client removes this taint."""
    template = {
        "requirements": [_must_be(TYPE, *(shape.name for shape in shapes))],
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "expireAfter": "Never",
        **({"startupTaints": [{"key": startup_taint, "effect": "NoSchedule"}]} if startup_taint else {}),
    }
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": {STORY: name}}, "spec": template},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": consolidate_after},
        },
    }
    send(server, "POST", POOLS, pool)


def bought(server: Server, pool: str) -> list[Object]:
    """The machines that Karpenter has for the pool, as claims."""
    return all_bought(server).get(pool, [])


def all_bought(server: Server) -> dict[str, list[Object]]:
    """By pool."""
    found: dict[str, list[Object]] = {}
    for claim in send(server, "GET", CLAIMS)["items"]:
        found.setdefault(claim["metadata"]["labels"]["karpenter.sh/nodepool"], []).append(claim)
    return found


def _define(server: Server, programs: Path) -> None:
    files = sorted((programs / "karpenter-manifests").glob("*.yaml"))
    kinds = [send(server, "POST", DEFINITIONS, yaml.safe_load(file.read_text()))["spec"] for file in files]
    wait_for(lambda: all(_is_served(server, kind) for kind in kinds))


def _is_served(server: Server, kind: Object) -> bool:
    """Established does not suffice: for a moment longer a kube-apiserver answers that its storage is initializing."""
    (version,) = [each["name"] for each in kind["versions"] if each["storage"]]
    return server.request("GET", f"/apis/{kind['group']}/{version}/{kind['names']['plural']}").status == 200


def _instance_type(shape: InstanceType) -> Object:
    where = [_must_be("karpenter.sh/capacity-type", "on-demand"), _must_be("topology.kubernetes.io/zone", "zone-a")]
    return {
        "name": shape.name,
        "offerings": [{"Price": shape.price, "Available": True, "Requirements": where}],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        # Karpenter keeps 100m and 10Mi of each machine for the kubelet.
        "resources": {**shape.resources, "cpu": f"{shape.counts['cpu'] + 100}m"},
    }


def _must_be(key: str, *values: str) -> Object:
    return {"key": key, "operator": "In", "values": list(values)}


def _node_class() -> Object:
    return {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}
