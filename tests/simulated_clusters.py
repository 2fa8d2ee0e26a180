"""Builders of small simulations: nodes, queues of Volcano and Kueue, jobs, and the engines of ``headgate simulate``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headgate.cli.configuration.simulated import VariantInput, make_input
from headgate.cli.wiring.scheduler import installed_plugins
from headgate.simulate.experiment import queue_weights
from headgate.simulate.job_objects import Queueing
from headgate.simulate.settings import Settings
from headgate.simulate.simulation import JournalEntry, Simulation, SimulationInput
from headgate.simulate.simulation_result import SimulationResult, result_of
from headgate.simulate.snapshot import read_snapshot
from headgate.simulate.trace import TraceJob

Object = dict[str, Any]

KUEUE = "kueue.x-k8s.io/v1beta2"


def machines(count: int, cpu: int = 4, **more: str) -> list[Object]:
    capacity = {"cpu": str(cpu), "memory": "64Gi", "pods": "110", **more}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number}", "labels": {"kubernetes.io/hostname": f"node-{number}"}},
            "status": {"capacity": capacity},
        }
        for number in range(count)
    ]


def volcano_queue(name: str, cpu: int | None = None, **spec: Any) -> Object:
    limits = {} if cpu is None else {"capability": {"cpu": str(cpu)}}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, **limits, **spec},
    }


def kueue_queue(name: str, cpu: int, **spec: Any) -> list[Object]:
    """A ClusterQueue and a LocalQueue of the same name; both use the flavor ``any``."""
    quota = [{"name": "cpu", "nominalQuota": str(cpu)}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": quota}]}]
    queue = {"namespaceSelector": {}, "resourceGroups": groups, **spec}
    return [
        {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": queue},
        {
            "apiVersion": KUEUE,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"clusterQueue": name},
        },
    ]


def any_flavor() -> Object:
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": {}}


def traced(name: str, submit: float, run: float, cpu: int = 1, queue: str = "q", **more: Any) -> TraceJob:
    return TraceJob(submit=submit, run=run, queue=queue, requests={"cpu": str(cpu)}, name=name, **more)


def simulation_input(
    objects: Iterable[Object],
    settings: Settings | None = None,
    queueing: Queueing = "volcano",
    end_s: float | None = None,
) -> SimulationInput:
    plugins = installed_plugins(lambda problem: None)
    made = make_input(settings or Settings(), read_snapshot(objects), queueing, plugins, Path(), end_s)
    assert isinstance(made, VariantInput), made
    return made.given


def simulated(given: SimulationInput, jobs: Iterable[TraceJob]) -> tuple[SimulationResult, list[JournalEntry]]:
    journal: list[JournalEntry] = []
    simulation = Simulation(given, journal.append)
    simulation.run(jobs)
    return result_of(simulation.measurements, queue_weights(given.snapshot), simulation.problems), journal


def names_of(journal: Iterable[JournalEntry], what: str) -> list[str]:
    return [each.name for each in journal if each.what == what]
