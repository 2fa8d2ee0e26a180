"""One round of each kind: pods are created, a scheduler binds them, the times are recorded, and the pods are deleted.

A scheduler is a process that starts for its round and ends with it. ``plain``: the pods exist before the scheduler
starts. ``warm``: the scheduler has read everything and is idle when the pods are created, so its CPU time is the cost
of these pods and nothing else. ``ungate``: the pods are parked and the scheduler is idle when their gates are removed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench import limits
from bench.cluster import Cluster
from bench.contenders import Contender, at_rest, running, unless_it_ends
from bench.process import Cpu, cpu_s

TIMEOUT_S: Final = 180.0


class Round(msgspec.Struct, frozen=True):
    """``rate``: pods per second, from the first bind (or patch) to the last bind; ``whole_rate``: from the start of the
    process. ``cpu_us``: per pod, by process, until all processes are idle again; ``work_us``: the same from the first
    bind (or patch) to the last. Where all cores are busy, the sum of ``work_us`` determines the rate, and other load on
    the machine changes it less."""

    rate: float
    whole_rate: float
    cpu_us: dict[str, float]
    work_us: dict[str, float]


class Place(msgspec.Struct, frozen=True):
    """The cluster in which rounds are run."""

    cluster: Cluster
    programs: Path
    folder: Path
    nodes: int
    pods: int

    def cpu(self) -> Cpu:
        return Cpu(self.cluster.server.pids())

    def servers(self) -> list[int]:
        return list(self.cluster.server.pids().values())

    def per_pod(self, used_s: dict[str, float]) -> dict[str, float]:
        return {name: each / self.pods * 1e6 for name, each in used_s.items()}

    def kubeconfig(self) -> Path:
        return self.cluster.server.kubeconfig


async def raw(place: Place, *, lift: bool) -> Round:
    cluster = place.cluster
    await cluster.make_pods(place.pods, "no-scheduler", gated=lift)
    uids = await cluster.uids()
    cpu, own_s, began_s = place.cpu(), time.process_time(), time.perf_counter()
    await limits.bind_all(cluster, place.nodes, uids, lift=lift)
    rate = place.pods / (time.perf_counter() - began_s)
    used = {"loop": time.process_time() - own_s, **cpu.used_s()}
    await cluster.empty()
    return Round(rate, rate, place.per_pod(used), place.per_pod(used))


async def plain(place: Place, contender: Contender) -> Round:
    cluster = place.cluster
    await cluster.make_pods(place.pods, contender.serves)
    cpu, began_s = place.cpu(), time.perf_counter()
    with running(contender, place.programs, place.kubeconfig(), place.folder) as process:
        first_s = await unless_it_ends(process, cluster.first_bound(TIMEOUT_S))
        working, before_s = place.cpu(), cpu_s(process.pid)
        last_s = await unless_it_ends(process, cluster.all_bound(TIMEOUT_S))
        work_us = place.per_pod({contender.name: cpu_s(process.pid) - before_s, **working.used_s()})
        await at_rest(process, place.servers())
        used = {contender.name: cpu_s(process.pid), **cpu.used_s()}
    await cluster.empty()
    return Round(place.pods / (last_s - first_s), place.pods / (last_s - began_s), place.per_pod(used), work_us)


async def warm(place: Place, contender: Contender) -> Round:
    cluster = place.cluster
    with running(contender, place.programs, place.kubeconfig(), place.folder) as process:
        await at_rest(process, place.servers())
        cpu, before_s, began_s = place.cpu(), cpu_s(process.pid), time.perf_counter()
        await cluster.make_pods(place.pods, contender.serves)
        last_s = await unless_it_ends(process, cluster.all_bound(TIMEOUT_S))
        work_us = place.per_pod({contender.name: cpu_s(process.pid) - before_s, **cpu.used_s()})
        await at_rest(process, place.servers())
        used = {contender.name: cpu_s(process.pid) - before_s, **cpu.used_s()}
    rate = place.pods / (last_s - began_s)
    await cluster.empty()
    return Round(rate, rate, place.per_pod(used), work_us)


async def ungate(place: Place, contender: Contender) -> Round:
    cluster = place.cluster
    await cluster.make_pods(place.pods, contender.serves, gated=True)
    with running(contender, place.programs, place.kubeconfig(), place.folder) as process, _patchers(place) as patchers:
        await at_rest(process, place.servers())
        cpu, before_s, began_s = place.cpu(), cpu_s(process.pid), time.perf_counter()
        _go(patchers)
        last_s = await unless_it_ends(process, cluster.all_bound(TIMEOUT_S))
        work_us = place.per_pod({contender.name: cpu_s(process.pid) - before_s, **cpu.used_s()})
        await at_rest(process, place.servers())
        used = {contender.name: cpu_s(process.pid) - before_s, **cpu.used_s()}
    rate = place.pods / (last_s - began_s)
    await cluster.empty()
    return Round(rate, rate, place.per_pod(used), work_us)


@contextmanager
def _patchers(place: Place) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.limits", str(place.kubeconfig()), str(place.pods)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.terminate()


def _go(patchers: subprocess.Popen[str]) -> None:
    assert patchers.stdin is not None
    patchers.stdin.write("\n")
    patchers.stdin.flush()
