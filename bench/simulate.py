"""``headgate simulate`` at its documented size: 1,000,000 pods over 30 days on 2,000 nodes in 50 queues.

The jobs are generated with the profile ``helios``: gangs, a daily cycle and bursts, so that queues are full at times
and pods wait behind their gates. ``--pods 20000`` simulates the first part of the trace, at the same rate. The CPU time
is the figure to compare, because a simulation has one thread; memory is the highest resident size of the process.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench import report
from headgate.cli.configuration.simulated import make_input
from headgate.cli.wiring.scheduler import installed_plugins
from headgate.simulate.generator import GeneratorOptions, generate
from headgate.simulate.settings import Settings
from headgate.simulate.simulation import Simulation
from headgate.simulate.snapshot import read_snapshot
from headgate.simulate.trace import TraceJob

PODS: Final = 1_000_000
DAYS: Final = 30.0
NODES: Final = 2_000
QUEUES: Final = 50
GPUS: Final = 8
BAR_S: Final = 30 * 60.0
BAR_BYTES: Final = 6 << 30
_PODS_PER_JOB: Final = 1.102
"""The mean of the profile, with pods of at most 8 GPUs."""
_LIMIT: Final = 120
"""GPUs of a queue of weight 1. All limits together are three quarters of the machines."""
_CONFIGURATION: Final = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}, {name: binpack}]
"""
"""Pods are packed, as GPU clusters do it, so that whole nodes are left for large jobs."""

Object = dict[str, Any]


def _objects() -> Iterator[Object]:
    capacity = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": str(GPUS), "pods": "110"}
    for number in range(NODES):
        name = f"node-{number:04d}"
        labels = {"kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": "gpu-8"}
        yield {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"capacity": capacity}}
    for number in range(QUEUES):
        limits = {"nvidia.com/gpu": str(_LIMIT * (1 + number % 3))}
        yield {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": f"team-{number:02d}"},
            "spec": {"weight": 1 + number % 3, "capability": limits},
        }


def _jobs(pods: int) -> Iterator[TraceJob]:
    options = GeneratorOptions(
        profile="helios",
        jobs=int(PODS / _PODS_PER_JOB * 1.02),
        days=DAYS * 1.02,
        queues={f"team-{number:02d}": float(1 + number % 3) for number in range(QUEUES)},
        high_priority=0.02,
    )
    left = pods
    for job in generate(options, 1):
        if left <= 0:
            return
        left -= job.pods
        yield job


class _Run:
    def __init__(self, pods: int) -> None:
        plugins = installed_plugins(lambda problem: None)
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
            (Path(folder) / "volcano.conf").write_text(_CONFIGURATION)
            settings = Settings(configuration_file="volcano.conf")
            made = make_input(settings, read_snapshot(_objects()), "volcano", plugins, Path(folder), None)
        assert not isinstance(made, str), made
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)  # as the command does it
        self.simulation = Simulation(made.given)
        self.most_live = self.most_waiting = 0
        self.pods = pods
        started_s, started_cpu_s = time.monotonic(), time.process_time()
        self.simulation.run(_jobs(pods), self._observe)
        self.wall_s = time.monotonic() - started_s
        self.cpu_s = time.process_time() - started_cpu_s
        self.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

    def _observe(self, simulation: Simulation) -> bool:
        self.most_live = max(self.most_live, len(simulation.pods))
        self.most_waiting = max(self.most_waiting, simulation.measurements.waiting_jobs)
        return True


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench simulate", description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=PODS, help="with fewer pods no table is written")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="write the profile of cProfile to this file")
    given = parser.parse_args(arguments)
    print(f"\n{given.pods:,} pods over {DAYS * given.pods / PODS:.3g} days, {NODES:,} nodes, {QUEUES} queues")
    profiler = cProfile.Profile() if given.profile else None
    if profiler is not None:
        profiler.enable()
    run = _Run(given.pods)
    if profiler is not None:
        profiler.disable()
        profiler.dump_stats(given.profile)
    measured, simulation = run.simulation.measurements, run.simulation
    print(
        f"  {simulation.ended_jobs:,} of {simulation.submitted_jobs:,} jobs ended, {measured.preemptions} preemptions,"
        f" {simulation.elapsed_s / 86_400:.1f} virtual days, at most {run.most_live:,} pods and {run.most_waiting:,}"
        " waiting jobs at a time"
    )
    rows = [
        ["wall time", f"{run.wall_s / 60:.1f} min", _against(run.wall_s <= BAR_S, "30 min")],
        ["CPU time", f"{run.cpu_s / 60:.1f} min", ""],
        ["CPU time of one pod", f"{run.cpu_s / given.pods * 1e3:.2f} ms", ""],
        ["memory", f"{run.peak_bytes / (1 << 30):.2f} GiB", _against(run.peak_bytes <= BAR_BYTES, "6 GiB")],
    ]
    for row in rows:
        print("  " + "  ".join(row))
    if given.pods >= PODS and profiler is None:
        report.write("simulation", report.table(("what", "measured", "bar"), rows))


def _against(met: bool, bar: str) -> str:
    return f"≤ {bar}{'' if met else ', **missed**'}"
