"""Pods of controllers: Headgate's on the embedded server, and kube-controller-manager's on a real kube-apiserver.

    make bench ARGS="workloads --pods 5000 --jobs 1000 --rounds 5"

``deployment``: one Deployment with this number of pods, from its creation until its status counts them all. ``jobs``:
this number of Jobs of five pods each, created by 16 connections, until every pod exists. No scheduler binds the pods:
only the controllers that create them are measured. kube-controller-manager may send 5,000 requests per second (the
default is 20); its etcd does not fsync, the embedded server does. Every round starts both clusters again, one after the
other.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from bench import report
from bench.cluster import CONNECTIONS, Stuck, access_to, send
from bench.process import Cpu
from bench.standings import FEWEST_ROUNDS, Bar
from harness.embedded_server import EmbeddedServer
from harness.processes import Process
from harness.real_server import HOW_TO_GET_THEM, RealServer, binaries
from harness.server import Server
from headgate.client import write_requests
from headgate.client.io.http_transport import HTTPTransport
from headgate.http.transport import HTTPRequest, encode_query
from headgate.kube.api_resources import NAMESPACES, PODS, APIResource

Object = dict[str, Any]

FASTER: Final = Bar(1.0)
PER_JOB: Final = 5
NAMESPACE: Final = "measured"
DEPLOYMENTS: Final = APIResource("apps", "v1", "deployments", namespaced=True)
JOBS: Final = APIResource("batch", "v1", "jobs", namespaced=True)
_QPS: Final = 5000
_TIMEOUT_S: Final = 300.0
_GLANCE_S: Final = 0.1
_FLAGS: Final = ("--enable-priority-and-fairness=false", "--max-requests-inflight=0")
_SPEC: Final = {
    "containers": [
        {
            "name": "main",
            "image": "registry.example/app:1",
            "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}, "limits": {"memory": "500Mi"}},
        }
    ]
}


class Side(msgspec.Struct, frozen=True):
    name: str
    server: Server
    pids: dict[str, int]


class Round(msgspec.Struct, frozen=True):
    """``cpu_us``: per pod, by process."""

    rate: float
    cpu_us: dict[str, float]


@contextmanager
def _real(folder: Path, programs: Path) -> Iterator[Side]:
    server = RealServer(folder, programs, flags=_FLAGS)
    try:
        manager = Process(
            [
                str(programs / "kube-controller-manager"),
                *(f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", "--secure-port=0"),
                *(f"--kube-api-qps={_QPS}", f"--kube-api-burst={_QPS}", "--use-service-account-credentials=false"),
                f"--flex-volume-plugin-dir={folder / 'plugins'}",
            ],
            folder / "kube-controller-manager.log",
        )
        try:
            yield Side("kube-controller-manager", server, {**server.pids(), manager.name: manager.pid})
        finally:
            manager.stop()
    finally:
        server.stop()


@contextmanager
def _ours(folder: Path, programs: Path) -> Iterator[Side]:
    server = EmbeddedServer(folder, programs / "kubectl", ("--components", "apiserver,controllers"))
    try:
        yield Side("Headgate", server, server.pids())
    finally:
        server.stop()


async def _deployment(transport: HTTPTransport, pods: int) -> None:
    labels = {"app": "bench"}
    template = {"metadata": {"labels": labels}, "spec": _SPEC}
    spec = {"replicas": pods, "selector": {"matchLabels": labels}, "template": template}
    await send(transport, write_requests.create(DEPLOYMENTS, NAMESPACE, {"metadata": {"name": "d"}, "spec": spec}))

    async def counted() -> bool:
        path = DEPLOYMENTS.object_path(NAMESPACE, "d")
        response = await send(transport, HTTPRequest("GET", path, "", write_requests.ACCEPT))
        count: int = (msgspec.json.decode(response.body).get("status") or {}).get("replicas", 0)
        return count == pods

    await _until(counted, f"the deployment does not count {pods} pods")


async def _jobs(transport: HTTPTransport, pods: int) -> None:
    left = iter(range(pods // PER_JOB))

    async def create() -> None:
        for number in left:
            template = {"spec": {**_SPEC, "restartPolicy": "Never"}}
            spec = {"parallelism": PER_JOB, "completions": PER_JOB, "template": template}
            job = {"metadata": {"name": f"j-{number:05}"}, "spec": spec}
            await send(transport, write_requests.create(JOBS, NAMESPACE, job))

    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(create())

    async def there() -> bool:
        query = encode_query({"limit": "1"})
        response = await send(
            transport, HTTPRequest("GET", PODS.collection_path(NAMESPACE), query, write_requests.ACCEPT)
        )
        page = msgspec.json.decode(response.body)
        count: int = len(page["items"]) + page["metadata"].get("remainingItemCount", 0)
        return count >= pods

    await _until(there, f"there are not {pods} pods")


async def _until(happened: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    deadline_s = time.perf_counter() + _TIMEOUT_S
    while not await happened():
        if time.perf_counter() > deadline_s:
            raise Stuck(f"{otherwise} after {_TIMEOUT_S:.0f} s")
        await asyncio.sleep(_GLANCE_S)


CASES: Final[dict[str, Callable[[HTTPTransport, int], Awaitable[None]]]] = {"deployment": _deployment, "jobs": _jobs}


async def _take(side: Side, case: str, pods: int) -> Round:
    transport = HTTPTransport(access_to(str(side.server.kubeconfig)), pool=CONNECTIONS)
    try:
        await send(transport, write_requests.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}}))
        warm = {"metadata": {"name": "warm"}, "spec": {"template": {"spec": {**_SPEC, "restartPolicy": "Never"}}}}
        await send(transport, write_requests.create(JOBS, "default", warm))

        async def works() -> bool:
            response = await send(
                transport, HTTPRequest("GET", PODS.collection_path("default"), "", write_requests.ACCEPT)
            )
            return bool(msgspec.json.decode(response.body)["items"])

        await _until(works, f"{side.name} does not work")
        cpu, began_s = Cpu(side.pids), time.perf_counter()
        await CASES[case](transport, pods)
        took_s = time.perf_counter() - began_s
        return Round(pods / took_s, {name: each / pods * 1e6 for name, each in cpu.used_s().items()})
    finally:
        await transport.close()


def measure(pods: dict[str, int], wanted: int, folder: Path, programs: Path) -> list[list[str]]:
    rows = []
    for case, count in pods.items():
        found: dict[str, list[Round]] = {}
        for number in range(wanted):
            for make in (_real, _ours):
                with make(folder / f"{case}-{number}-{make.__name__}", programs) as side:
                    one = report.run(_take(side, case, count))
                found.setdefault(side.name, []).append(one)
                print(
                    f"  {case}, round {number + 1}: {side.name:24} {one.rate:6,.0f} pods/s, CPU {_said(one)}",
                    flush=True,
                )
        rows.append(_row(f"{case}, {count:,} pods", *found.values()))
    return rows


def _row(title: str, real: list[Round], ours: list[Round]) -> list[str]:
    ratio = statistics.median(mine.rate / its.rate for mine, its in zip(ours, real, strict=True))
    rates = [f"{statistics.median(each.rate for each in side):,.0f}/s" for side in (real, ours)]
    return [title, *rates, FASTER.said(ratio), _said(real[-1]), _said(ours[-1])]


def _said(one: Round) -> str:
    return ", ".join(f"{name} {each:,.0f} µs" for name, each in one.cpu_us.items())


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench workloads", description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS)
    parser.add_argument("--cases", default=",".join(CASES))
    given = parser.parse_args(arguments)
    programs = binaries()
    if programs is None:
        print(f"\nthe real Kubernetes binaries are absent: {HOW_TO_GET_THEM}")
        return
    sizes = {"deployment": given.pods, "jobs": given.jobs * PER_JOB}
    chosen = {case: sizes[case] for case in given.cases.split(",")}
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        rows = measure(chosen, given.rounds, Path(folder), programs)
    lines = report.table(
        ("what", "kube-controller-manager", "Headgate", "of it", "CPU per pod, real", "CPU per pod, ours"), rows
    )
    print("\n".join(lines))
    if set(chosen) == set(CASES) and given.rounds >= FEWEST_ROUNDS:
        report.write("workloads", lines)
