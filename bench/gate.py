"""Pods with the queue gate on a real kube-apiserver: reserved, ungated, placed, bound; compared with the raw limit.

    make bench ARGS="gate --pods 10000 --rounds 5"

``through``: single pods with annotation and gate exist when ``headgate run`` starts, and their queue has capacity for
all; the raw limit is a loop that removes a gate and then binds, in the same run. ``freed``: ten queues with a capacity
of one pod each are full, many pods wait in them, and the ten running pods are deleted at once. etcd does not fsync.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench import report, rounds, standings
from bench.cluster import MEASURED, Cluster, pod_name
from bench.contenders import OURS, at_rest, running, unless_it_ends
from bench.process import cpu_s
from bench.rounds import Place, Round
from bench.scheduler import FLAGS
from bench.standings import FEWEST_ROUNDS
from harness.embedded_server import HEADGATE
from harness.real_server import HOW_TO_GET_THEM, RealServer, binaries
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME, QUEUES
from headgate.client import write_requests
from headgate.kube.api_resources import PODS

NODES: Final = 1_000
FREED: Final = 10
SHARE: Final = standings.Bar(0.6)
FIRST_BIND: Final = standings.Bar(1.0, at_least=False)
_WARM_UP: Final = 500
_TIMEOUT_S: Final = 300.0


def _queued(number: int, queue: str) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "500Mi"}
    return {
        "metadata": {"name": pod_name(number), "annotations": {OPT_IN: "true", QUEUE_NAME: queue}},
        "spec": {
            "schedulerName": OURS.serves,
            "schedulingGates": [{"name": GATE}],
            "containers": [{"name": "main", "image": "registry.example/app:1", "resources": {"requests": requests}}],
        },
    }


async def _make(cluster: Cluster, numbers: Sequence[int], queues: Sequence[str]) -> None:
    async def one(number: int) -> None:
        await cluster.transport.request(
            write_requests.create(PODS, MEASURED, _queued(number, queues[number % len(queues)]))
        )

    await cluster.each(numbers, one)


async def _install(cluster: Cluster) -> None:
    kubeconfig = str(cluster.server.kubeconfig)
    subprocess.run([str(HEADGATE), "install-crds", "--kubeconfig", kubeconfig], check=True, capture_output=True)
    queues = [("wide", "10000"), *((f"narrow-{number}", "100m") for number in range(FREED))]
    for name, cpu in queues:
        meta = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        await cluster.transport.request(
            write_requests.create(QUEUES, "", {**meta, "spec": {"capability": {"cpu": cpu}}})
        )


async def through(place: Place) -> Round:
    cluster = place.cluster
    await _make(cluster, range(place.pods), ["wide"])
    cpu, began_s = place.cpu(), time.perf_counter()
    with running(OURS, place.programs, place.kubeconfig(), place.folder) as process:
        first_s = await unless_it_ends(process, cluster.first_bound(_TIMEOUT_S))
        last_s = await unless_it_ends(process, cluster.all_bound(_TIMEOUT_S))
        work_us = place.per_pod({OURS.name: cpu_s(process.pid), **cpu.used_s()})
        await at_rest(process, place.servers())
        used = {OURS.name: cpu_s(process.pid), **cpu.used_s()}
    await cluster.empty()
    return Round(place.pods / (last_s - first_s), place.pods / (last_s - began_s), place.per_pod(used), work_us)


async def freed(place: Place) -> tuple[float, float]:
    """Seconds from the deletions until the first and until the last of the ten queues has a bound pod again."""
    cluster = place.cluster
    queues = [f"narrow-{number}" for number in range(FREED)]
    with running(OURS, place.programs, place.kubeconfig(), place.folder) as process:
        await _make(cluster, range(FREED), queues)
        await unless_it_ends(process, cluster.all_bound(_TIMEOUT_S))
        await _make(cluster, range(FREED, FREED + place.pods), queues)
        await at_rest(process, place.servers())
        uids = await cluster.uids()

        async def delete(number: int) -> None:
            name = pod_name(number)
            options = {"gracePeriodSeconds": 0}
            await cluster.transport.request(write_requests.delete(PODS, MEASURED, name, uids[name], options))

        began_s = time.perf_counter()
        await cluster.each(range(FREED), delete)
        first_s = await unless_it_ends(process, cluster.first_bound(_TIMEOUT_S))
        last_s = await unless_it_ends(process, cluster.bound(FREED, _TIMEOUT_S))
    await cluster.empty()
    return first_s - began_s, last_s - began_s


async def measure(pods: int, wanted: int, folder: Path, programs: Path) -> list[list[str]]:
    server = RealServer(folder, programs, flags=FLAGS)
    try:
        cluster = Cluster(server)
        try:
            await cluster.prepare(NODES)
            await _install(cluster)
            place = Place(cluster, programs, folder, NODES, pods)
            await rounds.raw(Place(cluster, programs, folder, NODES, _WARM_UP), lift=True)
            turns: dict[str, standings.Take] = {
                standings.RAW: lambda: rounds.raw(place, lift=True),
                OURS.name: lambda: through(place),
            }
            found = await standings.in_turns(f"{pods:,} pods through the gate", wanted, turns)
            waits = [await freed(place) for _ in range(wanted)]
        finally:
            await cluster.close()
    finally:
        server.stop()
    raw, ours = found[standings.RAW], found[OURS.name]
    share = statistics.median(mine.rate / its.rate for mine, its in zip(ours, raw, strict=True))
    middle = {name: statistics.median(each.rate for each in taken) for name, taken in found.items()}
    first_s, last_s = (statistics.median(each) for each in zip(*waits, strict=True))
    own_us = statistics.median(each.cpu_us[OURS.name] for each in ours)
    return [
        [
            f"{pods:,} pods through gate, reservation, removal and bind",
            f"{middle[OURS.name]:,.0f}/s, own CPU {own_us:,.0f} µs per pod",
            f"raw limit {middle[standings.RAW]:,.0f}/s",
            SHARE.said(share),
        ],
        [
            f"{FREED} queues freed at once, {pods:,} waiting: first bind",
            f"{first_s:.2f} s; all ten after {last_s:.2f} s",
            "",
            f"bar ≤ 1 s{'' if first_s <= FIRST_BIND.value else ', **missed**'}",
        ],
    ]


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench gate", description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS)
    given = parser.parse_args(arguments)
    programs = binaries()
    if programs is None:
        print(f"\nthe real Kubernetes binaries are absent: {HOW_TO_GET_THEM}")
        return
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        rows = report.run(measure(given.pods, given.rounds, Path(folder), programs))
    lines = report.table(("what", "Headgate", "beside it", "of it"), rows)
    print("\n".join(lines))
    if given.rounds >= FEWEST_ROUNDS:
        report.write("through the gate", lines)
