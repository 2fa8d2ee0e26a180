"""Workloads without jobs for Kueue's queues, as the generator of Kueue's own scheduler benchmark makes them.

There are cohorts of queues that lend each other all their quota, and in every queue three classes of Workloads, each
created at its own interval: small ones often, large ones rarely. A class says how long its Workloads run, how much they
request, and their priority. This module has values and objects only; ``running.py`` creates and finishes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from headgate.quota.kinds.names import API_VERSION

Object = dict[str, Any]

FLAVOR: Final = "default"
CLASS: Final = "bench.headgate.dev/class"


class Class(msgspec.Struct, frozen=True):
    """``count`` in each queue, one every ``interval_s``."""

    name: str
    count: int
    interval_s: float
    runtime_s: float
    cpu: int
    priority: int


class Load(msgspec.Struct, frozen=True):
    cohorts: int
    queues: int
    """Queues in each cohort."""
    quota: int
    borrowing: int | None
    classes: tuple[Class, ...]

    @property
    def places(self) -> list[tuple[str, str]]:
        """Cohort and name of every queue; its namespace and its LocalQueue have its name."""
        return [
            (f"cohort-{cohort}", f"queue-{cohort}-{queue}")
            for cohort in range(self.cohorts)
            for queue in range(self.queues)
        ]

    @property
    def total(self) -> int:
        return self.cohorts * self.queues * sum(each.count for each in self.classes)

    @property
    def floor_s(self) -> float:
        """How long the load takes if all quota is always used and all Workloads exist from the beginning."""
        work = self.queues * sum(each.count * each.cpu * each.runtime_s for each in self.classes)
        return work / (self.queues * self.quota)

    def scaled(self, scale: float) -> Load:
        classes = tuple(msgspec.structs.replace(each, count=max(1, round(each.count * scale))) for each in self.classes)
        return msgspec.structs.replace(self, classes=classes)


BASELINE: Final = Load(
    5,
    6,
    20,
    100,
    (
        Class("small", 350, 0.1, 0.2, 1, 50),
        Class("medium", 100, 0.5, 0.5, 5, 100),
        Class("large", 50, 1.2, 1.0, 20, 200),
    ),
)
LARGE_SCALE: Final = Load(
    10,
    100,
    20,
    100,
    (
        Class("small", 35, 0.06, 0.15, 1, 50),
        Class("medium", 11, 0.3, 0.35, 5, 100),
        Class("large", 4, 0.7, 0.7, 20, 200),
    ),
)


def plenty(count: int, queues: int = 30) -> Load:
    """Quota for all Workloads."""
    return Load(1, queues, count, None, (Class("small", count // queues, 0.0, 0.0, 1, 50),))


def cluster_queue(load: Load, cohort: str, name: str) -> Object:
    quota: Object = {"name": "cpu", "nominalQuota": str(load.quota)}
    if load.borrowing is not None:
        quota["borrowingLimit"] = str(load.borrowing)
    group = {"coveredResources": ["cpu"], "flavors": [{"name": FLAVOR, "resources": [quota]}]}
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    spec = {
        "cohortName": cohort,
        "resourceGroups": [group],
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "preemption": preemption,
    }
    return {**_kind("ClusterQueue"), "metadata": {"name": name}, "spec": spec}


def flavor() -> Object:
    return {**_kind("ResourceFlavor"), "metadata": {"name": FLAVOR}, "spec": {}}


def local_queue(name: str) -> Object:
    metadata = {"name": name, "namespace": name}
    return {**_kind("LocalQueue"), "metadata": metadata, "spec": {"clusterQueue": name}}


def workload(one: Class, queue: str, number: int) -> Object:
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": {"cpu": str(one.cpu)}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {
        "queueName": queue,
        "priority": one.priority,
        "podSets": [{"name": "main", "count": 1, "template": template}],
    }
    metadata = {"name": f"{one.name}-{number:05}", "namespace": queue, "labels": {CLASS: one.name}}
    return {**_kind("Workload"), "metadata": metadata, "spec": spec}


def workloads(load: Load) -> Iterator[Object]:
    """All Workloads, class by class, alternating between the queues."""
    for one in load.classes:
        for number in range(one.count):
            for _, queue in load.places:
                yield workload(one, queue, number)


def _kind(name: str) -> Object:
    return {"apiVersion": API_VERSION, "kind": name}
