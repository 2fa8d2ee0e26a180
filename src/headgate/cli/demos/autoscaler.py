"""The scenario of volcano#4710: a queue with capacity for two pods, six pods, and an autoscaler that starts with no
nodes.

It runs twice in parallel: in a cluster whose pods did not opt in to the queue's gate, and in one whose pods did. The
engines are the same as in ``headgate up``; the autoscaler is a model (``nodes/autoscalers/``) that scans twice a
second. ``demo_cluster.py`` is one cluster, ``cli/commands/demo.py`` the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from headgate.capacity.names import OPT_IN, QUEUE_NAME, QUEUES
from headgate.cli.demos.demo_cluster import DemoCluster, MachineCounts, start_demo_cluster
from headgate.cli.embedded.autoscalers import make_autoscaler
from headgate.kube.api_resources import PODS
from headgate.nodes.autoscalers.cluster_autoscaler import ClusterAutoscalerFlags
from headgate.nodes.autoscalers.instance_types import InstanceType

Object = dict[str, Any]

QUIET_S: Final = 6.0
"""Longer than any delay in the scenario: Cluster Autoscaler waits two seconds for more pods, and the back-off of a pod
that failed twice is four seconds."""
_QUEUE: Final = "demo"
_MACHINE: Final = InstanceType(
    "one-cpu",
    {"cpu": "1", "memory": "4Gi", "pods": "110"},
    annotations={"headgate.dev/boot-after": "500ms"},
)
_FLAGS: Final = ClusterAutoscalerFlags(scan_interval_s=0.5)
_IDLE_S: Final = 3600.0
"""Longer than the scenario, so that idle nodes are not removed before they are counted."""


class DemoStep(msgspec.Struct, frozen=True):
    step: str
    off: MachineCounts
    on: MachineCounts


OnStep = Callable[[DemoStep], None]


async def run_autoscaler_demo(model: str, on_step: OnStep, idle_s: float = QUIET_S) -> list[DemoStep]:
    """Runs each step in both clusters, and returns the counts after each."""
    make = partial(make_autoscaler, model, _MACHINE, _FLAGS, _IDLE_S)
    with tempfile.TemporaryDirectory(prefix="headgate-demo-") as folder:
        async with contextlib.AsyncExitStack() as stack:
            off, on = [
                await stack.enter_async_context(start_demo_cluster(Path(folder) / name, make, model))
                for name in ("off", "on")
            ]
            rows = []
            for step, action in _STEPS.items():
                await asyncio.gather(action(off, False), action(on, True))
                await asyncio.gather(off.wait_until_idle(idle_s), on.wait_until_idle(idle_s))
                rows.append(DemoStep(step, off.counts(), on.counts()))
                on_step(rows[-1])
            return rows


def conclusion(rows: Sequence[DemoStep]) -> str:
    off, on = rows[-1].off, rows[-1].on
    same = (
        "and as many pods ran" if off.running == on.running else f"and {on.running} pods ran instead of {off.running}"
    )
    return f"Without gates the autoscaler added {_outcome(off)}; with gates it added {_outcome(on)}, {same}."


def _outcome(counts: MachineCounts) -> str:
    unused = f"{counts.unused} of which never ran a pod" if counts.unused else "all of which ran pods"
    return f"{counts.added} nodes, {unused}"


async def _create_queue(cluster: DemoCluster, gated: bool) -> None:
    spec = {"weight": 1, "capability": {"cpu": "2"}}
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": _QUEUE}, "spec": spec}
    await cluster.create(QUEUES, queue)


async def _submit_driver(cluster: DemoCluster, gated: bool) -> None:
    await cluster.create(PODS, _pod("driver", gated))


async def _submit_executors(cluster: DemoCluster, gated: bool) -> None:
    for number in range(1, 6):
        await cluster.create(PODS, _pod(f"executor-{number}", gated))


async def _finish_one(cluster: DemoCluster, gated: bool) -> None:
    for name in [name for name in cluster.running if name != "driver"][:1]:
        await cluster.patch(PODS, name, {"metadata": {"annotations": {"headgate.dev/run-for": "0s"}}})


async def _raise_limit(cluster: DemoCluster, gated: bool) -> None:
    await cluster.patch(QUEUES, _QUEUE, {"spec": {"capability": {"cpu": "3"}}})


_STEPS: Final[dict[str, Callable[[DemoCluster, bool], Awaitable[None]]]] = {
    "a queue of 2 CPU": _create_queue,
    "the driver is submitted": _submit_driver,
    "five executors are submitted": _submit_executors,
    "one executor finishes": _finish_one,
    "the queue grows to 3 CPU": _raise_limit,
}
STEPS: Final = len(_STEPS)


def _pod(name: str, gated: bool) -> Object:
    annotations = {QUEUE_NAME: _QUEUE} | ({OPT_IN: "true"} if gated else {})
    container = {"name": "main", "image": "spark", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "headgate", "restartPolicy": "Never", "containers": [container]},
    }
