"""The story of volcano#4710: a queue with room for two pods, six that want in, and an autoscaler that starts from none.

It is told twice at the same time, to a cluster whose pods did not ask for the queue's gate and to one whose pods did.
The engines are the ones that always run; the autoscaler is a model (``nodes/models/``) in a hurry: it looks twice a
second. ``arm.py`` is one cluster, ``cli/demo.py`` the command.
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
from headgate.cli.autoscalers import make_autoscaler
from headgate.cli.demos.arm import Arm, Counts, cluster
from headgate.kube.resource import PODS
from headgate.nodes.models.cluster_autoscaler import Flags
from headgate.nodes.models.machine import Shape

Object = dict[str, Any]

QUIET_S: Final = 6.0
"""Longer than anybody here thinks: Cluster Autoscaler waits two seconds for more pods to come, and a pod that was tried
twice in vain may be left alone by the scheduler for four."""
_QUEUE: Final = "demo"
_MACHINE: Final = Shape(
    "one-cpu",
    {"cpu": "1", "memory": "4Gi", "pods": "110"},
    annotations={"headgate.dev/boot-after": "500ms"},
)
_HASTY: Final = Flags(scan_interval_s=0.5)
_IDLE_S: Final = 3600.0
"""Longer than the story: what it counts as idle must still be there."""


class Row(msgspec.Struct, frozen=True):
    step: str
    off: Counts
    on: Counts


Tell = Callable[[Row], None]


async def tell(model: str, report: Tell, quiet_s: float = QUIET_S) -> list[Row]:
    """Each step in both clusters, and what it came to."""
    make = partial(make_autoscaler, model, _MACHINE, _HASTY, _IDLE_S)
    with tempfile.TemporaryDirectory(prefix="headgate-demo-") as folder:
        async with contextlib.AsyncExitStack() as stack:
            off, on = [
                await stack.enter_async_context(cluster(Path(folder) / name, make, model)) for name in ("off", "on")
            ]
            rows = []
            for step, act in _STEPS.items():
                await asyncio.gather(act(off, False), act(on, True))
                await asyncio.gather(off.settle(quiet_s), on.settle(quiet_s))
                rows.append(Row(step, off.counts(), on.counts()))
                report(rows[-1])
            return rows


def conclusion(rows: Sequence[Row]) -> str:
    off, on = rows[-1].off, rows[-1].on
    same = (
        "and as many pods ran" if off.running == on.running else f"and {on.running} pods ran instead of {off.running}"
    )
    return f"Without gates the autoscaler bought {_fate(off)}; with gates it bought {_fate(on)}, {same}."


def _fate(counts: Counts) -> str:
    unused = f"{counts.unused} of which never ran a pod" if counts.unused else "all of which ran pods"
    return f"{counts.bought} machines, {unused}"


async def _begin(arm: Arm, gated: bool) -> None:
    spec = {"weight": 1, "capability": {"cpu": "2"}}
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": _QUEUE}, "spec": spec}
    await arm.create(QUEUES, queue)


async def _submit_driver(arm: Arm, gated: bool) -> None:
    await arm.create(PODS, _pod("driver", gated))


async def _submit_executors(arm: Arm, gated: bool) -> None:
    for number in range(1, 6):
        await arm.create(PODS, _pod(f"executor-{number}", gated))


async def _finish_one(arm: Arm, gated: bool) -> None:
    for name in [name for name in arm.running if name != "driver"][:1]:
        await arm.patch(PODS, name, {"metadata": {"annotations": {"headgate.dev/run-for": "0s"}}})


async def _raise_limit(arm: Arm, gated: bool) -> None:
    await arm.patch(QUEUES, _QUEUE, {"spec": {"capability": {"cpu": "3"}}})


_STEPS: Final[dict[str, Callable[[Arm, bool], Awaitable[None]]]] = {
    "a queue with room for 2 CPU": _begin,
    "the driver is submitted": _submit_driver,
    "five executors are submitted": _submit_executors,
    "one executor finishes": _finish_one,
    "the queue grows to 3 CPU": _raise_limit,
}


def _pod(name: str, gated: bool) -> Object:
    annotations = {QUEUE_NAME: _QUEUE} | ({OPT_IN: "true"} if gated else {})
    container = {"name": "main", "image": "spark", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "headgate", "restartPolicy": "Never", "containers": [container]},
    }
