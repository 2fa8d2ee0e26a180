"""A burst of pods in groups that are all admitted: how fast their gates are removed, compared with patches alone.

The gated pods exist, with quota for all of them, when the quota manager starts: it creates a Workload for each group,
admits it and removes the gates. The time is measured from the second in which the first Workload was admitted (its
condition says so) to the last gate removal that the watch showed. The comparison is a loop that removes as many gates
of pods without a queue, on the same server in the same run, and decides nothing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from bench import report
from bench.cluster import send
from bench.loads import plenty
from bench.process import Cpu
from bench.quota_managers import Place, QuotaManager
from bench.running import Runner
from bench.standings import Bar
from headgate.client import write_requests
from headgate.client.io.informer import Informer, InformerEvent, ObjectApplied
from headgate.controllers.ownership.pods import seconds
from headgate.http.transport import HTTPRequest
from headgate.jobs import names
from headgate.kube.api_resources import NAMESPACES, PODS
from headgate.quota.kinds.names import WORKLOADS
from headgate.quota.names import ADMITTED

Object = dict[str, Any]

SHARE: Final = Bar(0.6)
GROUP: Final = 100
_RAW: Final = "raw"
_TIMEOUT_S: Final = 1200.0
_LIFTED: Final = msgspec.json.encode(
    {"spec": {"schedulingGates": [{"$patch": "delete", "name": names.ADMISSION_GATE}]}}
)


class Burst(msgspec.Struct, frozen=True):
    """Pods per second; ``share`` of the raw limit; ``cpu_us`` per pod, by process."""

    rate: float
    raw: float
    share: float
    cpu_us: dict[str, float]


def _pod(number: int, namespace: str, queue: str) -> Object:
    """Without a queue: no component manages the pod."""
    metadata: Object = {"name": f"pod-{number:05}", "namespace": namespace}
    if queue:
        labels = {names.QUEUE_NAME: queue, names.MANAGED: "true", names.POD_GROUP_NAME: f"group-{number // GROUP:03}"}
        annotations = {names.TOTAL_COUNT: str(GROUP)}
        metadata |= {"labels": labels, "annotations": annotations, "finalizers": [names.MANAGED]}
    resources = {"requests": {"cpu": "1"}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
    spec = {"containers": [container], "restartPolicy": "Never", "schedulingGates": [{"name": names.ADMISSION_GATE}]}
    return {"metadata": metadata, "spec": spec}


class _Lifted:
    """Pods whose gates are removed, as the watch has shown."""

    def __init__(self, runner: Runner, namespace: str) -> None:
        self.names: Final[set[str]] = set()
        informer = Informer(
            runner.transport,
            PODS.collection_path(namespace),
            self._handle,
            jitter=random.random,
            sleep=asyncio.sleep,
            fields=("spec.schedulingGates",),
        )
        self.task: Final = asyncio.create_task(informer.run())

    def _handle(self, event: InformerEvent) -> None:
        if isinstance(event, ObjectApplied) and not (event.object.get("spec") or {}).get("schedulingGates"):
            self.names.add(event.object["metadata"]["name"])


async def _raw(place: Place, count: int) -> float:
    runner = Runner(place.kubeconfig, plenty(count, 1), finishes=False)
    try:
        await runner.furnish()
        ((_, queue),) = plenty(count, 1).places
        await send(runner.transport, write_requests.create(NAMESPACES, "", {"metadata": {"name": _RAW}}))

        def making(namespace: str, queue: str) -> Callable[[int], Any]:
            return lambda number: send(
                runner.transport, write_requests.create(PODS, namespace, _pod(number, namespace, queue))
            )

        await runner.each(range(count), making(_RAW, ""))
        await runner.each(range(count), making(queue, queue))
        lifted = _Lifted(runner, _RAW)

        async def lift(number: int) -> None:
            path = PODS.object_path(_RAW, f"pod-{number:05}")
            await send(
                runner.transport, HTTPRequest("PATCH", path, "", write_requests.PATCH_HEADERS["strategic"], _LIFTED)
            )

        began_s = time.perf_counter()
        await runner.each(range(count), lift)
        took_s = time.perf_counter() - began_s
        lifted.task.cancel()
        return count / took_s
    finally:
        await runner.close()


async def _burst(place: Place, count: int) -> tuple[float, dict[str, float]]:
    load = plenty(count, 1)
    runner = Runner(place.kubeconfig, load, finishes=False)
    try:
        ((_, queue),) = load.places
        lifted = _Lifted(runner, queue)
        cpu = Cpu(place.pids())
        await runner.until(lambda: len(lifted.names) == count, _TIMEOUT_S, f"not all of {count} gates were lifted")
        ended_s = time.time()
        lifted.task.cancel()
        took_s = ended_s - await _first_admission_s(runner, queue)
        return count / took_s, {name: each / count * 1e6 for name, each in cpu.used_s().items()}
    finally:
        await runner.close()


async def _first_admission_s(runner: Runner, namespace: str) -> float:
    response = await send(runner.transport, HTTPRequest("GET", WORKLOADS.collection_path(namespace)))
    found = (
        seconds(condition["lastTransitionTime"])
        for each in msgspec.json.decode(response.body)["items"]
        for condition in each["status"]["conditions"]
        if condition["type"] == ADMITTED
    )
    return min(each_s for each_s in found if each_s is not None)


def take(manager: QuotaManager, count: int, folder: Path, programs: Path) -> Burst:
    place = manager.open(folder, programs)
    try:
        raw = report.run(_raw(place, count))
        place.begin("quota,jobs")
        rate, cpu_us = report.run(_burst(place, count))
        return Burst(rate, raw, rate / raw, cpu_us)
    finally:
        place.stop()
