"""Runs every variant with every seed, and collects the results.

Each seed gives one trace (``jobs_of``), which all variants get. The first variant is the one that others are compared
with.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from headgate.capacity.names import QUEUES
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES
from headgate.simulate.comparison import FigureComparison, VariantResult, compare
from headgate.simulate.report import ReportHeader
from headgate.simulate.simulation import JournalEntry, Simulation, SimulationInput
from headgate.simulate.simulation_result import SimulationResult, result_of
from headgate.simulate.snapshot import Snapshot
from headgate.simulate.trace import TraceJob

Object = dict[str, Any]


class Progress(msgspec.Struct, frozen=True):
    """``done``: the number of finished simulations of ``total``. ``ended_jobs``: of the present one."""

    variant: str
    seed: int
    done: int
    total: int
    ended_jobs: int
    submitted_jobs: int
    virtual_s: float


class ExperimentOutput(msgspec.Struct, frozen=True, rename="camel"):
    """The JSON output."""

    header: ReportHeader
    comparison: Mapping[str, Mapping[str, FigureComparison]]
    variants: Sequence[VariantResult]


def run_experiment(
    inputs: Mapping[str, SimulationInput],
    seeds: Sequence[int],
    jobs_of: Callable[[int], Iterable[TraceJob]],
    on_progress: Callable[[Progress], bool] = lambda progress: True,
    journal: Callable[[str, int, JournalEntry], None] | None = None,
) -> list[VariantResult]:
    """``inputs``: by variant. It raises ``SimulationStopped`` if ``on_progress`` returns False."""
    results: dict[str, list[SimulationResult]] = {name: [] for name in inputs}
    total, done = len(inputs) * len(seeds), 0
    for seed in seeds:
        for name, given in inputs.items():
            results[name].append(_run(name, given, seed, jobs_of(seed), done, total, on_progress, journal))
            done += 1
    return [VariantResult(name, tuple(found)) for name, found in results.items()]


def _run(
    name: str,
    given: SimulationInput,
    seed: int,
    jobs: Iterable[TraceJob],
    done: int,
    total: int,
    on_progress: Callable[[Progress], bool],
    journal: Callable[[str, int, JournalEntry], None] | None,
) -> SimulationResult:
    write = None if journal is None else lambda entry: journal(name, seed, entry)
    simulation = Simulation(given, write)

    def report(running: Simulation) -> bool:
        return on_progress(
            Progress(name, seed, done, total, running.ended_jobs, running.submitted_jobs, running.elapsed_s)
        )

    try:
        simulation.run(jobs, report)
    finally:
        if isinstance(jobs, Generator):
            jobs.close()  # it may have a file open
    return result_of(simulation.measurements, queue_weights(given.snapshot), simulation.problems)


def queue_weights(snapshot: Snapshot) -> dict[str, float]:
    """The weights of queues by name: of Volcano's queues, and of the ClusterQueues that LocalQueues lead to."""
    weights = {
        obj["metadata"]["name"]: float((obj.get("spec") or {}).get("weight") or 1) for obj in snapshot.of(QUEUES)
    }
    cluster_queues = {obj["metadata"]["name"]: _fair_weight(obj) for obj in snapshot.of(CLUSTER_QUEUES)}
    for obj in snapshot.of(LOCAL_QUEUES):
        weights[obj["metadata"]["name"]] = cluster_queues.get(obj["spec"].get("clusterQueue"), 1.0)
    return weights


def _fair_weight(cluster_queue: Object) -> float:
    text = ((cluster_queue.get("spec") or {}).get("fairSharing") or {}).get("weight")
    try:
        return float(text) if text is not None else 1.0
    except (TypeError, ValueError):
        return 1.0


def output_of(header: ReportHeader, results: Sequence[VariantResult]) -> ExperimentOutput:
    return ExperimentOutput(header, compare(results), results)
