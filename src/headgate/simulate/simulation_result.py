"""The result of one simulation as data: what the JSON output has, and what reports and comparisons read.

:data:`FIGURES` are the single numbers by which variants are compared. ``docs/simulate.md`` defines each of them.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from headgate.kube.pod_resources import is_huge_page
from headgate.kube.resource_amounts import CPU, EPHEMERAL_STORAGE, MEMORY
from headgate.simulate.measurements import JobTimes, Measurements
from headgate.simulate.statistics import Percentiles, jain, nearest_rank, percentiles

_HOUR_S: Final = 3600.0
_MILLI: Final = 1000
_IN_BYTES: Final = frozenset({MEMORY, EPHEMERAL_STORAGE})
_CURVE_POINTS: Final = 200


class Grouped(msgspec.Struct, frozen=True):
    """One figure of jobs: of all jobs, by queue, by class, and by both (``queue / class``)."""

    all: Percentiles
    queues: Mapping[str, Percentiles]
    classes: Mapping[str, Percentiles]
    both: Mapping[str, Percentiles]


class JobCounts(msgspec.Struct, frozen=True):
    submitted: int
    started: int
    ended: int


class PodCounts(msgspec.Struct, frozen=True, rename="camel"):
    bound: int
    ended: int
    preempted: int
    evicted: int
    admissions: int
    lost_run_hours: float


class ResourceUse(msgspec.Struct, frozen=True, rename="camel"):
    """``utilisation``: allocated amount times time, divided by capacity times time, until the last submission.
    ``unit``: of both sums, such as ``cpu-hours``; ``byte-hours`` of memory and storage."""

    unit: str
    utilisation: float
    allocated_hours: float
    capacity_hours: float


class MachineUse(msgspec.Struct, frozen=True, rename="camel"):
    node_hours: float
    idle_node_hours: float
    cost: float
    bought: int
    bought_and_never_used: int
    by_type: Mapping[str, Mapping[str, float]]
    cost_by_queue: Mapping[str, float]


class Fairness(msgspec.Struct, frozen=True):
    """Jain's index over queues. ``usage``: of the dominant share of the capacity divided by the queue's weight;
    ``slowdown``: of the mean bounded slowdown."""

    usage: float
    slowdown: float


class Timeline(msgspec.Struct, frozen=True, rename="camel"):
    """Values at the times ``at_s``, in seconds after the start. ``queues``: allocated amounts of ``resource``;
    ``waiting``: jobs, by queue."""

    resource: str
    at_s: tuple[float, ...]
    waiting_jobs: tuple[int, ...]
    running_pods: tuple[int, ...]
    nodes: tuple[int, ...]
    capacity: tuple[float, ...]
    allocated: tuple[float, ...]
    fragmentation: tuple[float, ...]
    queues: Mapping[str, tuple[float, ...]]
    waiting: Mapping[str, tuple[int, ...]]


class SimulationResult(msgspec.Struct, frozen=True, rename="camel"):
    duration_seconds: float
    jobs: JobCounts
    pods: PodCounts
    waiting: Grouped
    completion: Grouped
    slowdown: Grouped
    use: Mapping[str, ResourceUse]
    machines: MachineUse
    fragmentation: float
    fairness: Fairness
    waiting_curve: tuple[float, ...]
    """Values of the waiting time at equal steps of the share of jobs."""
    timeline: Timeline
    problems: tuple[str, ...]


def result_of(measured: Measurements, weights: Mapping[str, float], problems: Iterable[str]) -> SimulationResult:
    """``weights``: of queues; 1 for queues that are not listed."""
    times = measured.times
    waits = sorted(wait for each in times.values() for wait in each.waits)
    samples = measured.samples
    slowdown = _grouped(times, lambda each: each.slowdowns)
    return SimulationResult(
        duration_seconds=round(measured.end_s - measured.start_s, 3),
        jobs=JobCounts(measured.submitted.total(), len(waits), sum(len(each.completions) for each in times.values())),
        pods=PodCounts(
            measured.pods_bound,
            measured.pods_ended,
            measured.preemptions,
            measured.evictions,
            measured.admissions,
            round(measured.lost_run_s / _HOUR_S, 6),
        ),
        waiting=_grouped(times, lambda each: each.waits),
        completion=_grouped(times, lambda each: each.completions),
        slowdown=slowdown,
        use={
            name: _use(name, measured.allocated_until_last_arrival[index], measured.capacity_until_last_arrival[index])
            for index, name in enumerate(measured.resources)
        },
        machines=_machines(measured),
        fragmentation=round(math.fsum(each.fragmentation for each in samples) / max(len(samples), 1), 6),
        fairness=Fairness(_usage_fairness(measured, weights), jain([each.mean for each in slowdown.queues.values()])),
        waiting_curve=_curve(waits),
        timeline=_timeline(measured),
        problems=tuple(problems),
    )


def _grouped(times: Mapping[tuple[str, str], JobTimes], part: Callable[[JobTimes], Sequence[float]]) -> Grouped:
    everything = array("d")
    queues: dict[str, array[float]] = {}
    classes: dict[str, array[float]] = {}
    both: dict[str, Percentiles] = {}
    for (queue, class_), each in sorted(times.items()):
        values = part(each)
        everything.extend(values)
        queues.setdefault(queue, array("d")).extend(values)
        classes.setdefault(class_, array("d")).extend(values)
        both[f"{queue} / {class_}"] = percentiles(values)
    return Grouped(
        percentiles(everything),
        {name: percentiles(values) for name, values in sorted(queues.items())},
        {name: percentiles(values) for name, values in sorted(classes.items())},
        both,
    )


def _use(resource: str, allocated: float, capacity: float) -> ResourceUse:
    unit_s = _HOUR_S * (_MILLI if resource == CPU else 1)
    return ResourceUse(
        f"{'byte' if resource in _IN_BYTES or is_huge_page(resource) else resource}-hours",
        round(allocated / capacity, 6) if capacity else 0.0,
        round(allocated / unit_s, 3),
        round(capacity / unit_s, 3),
    )


def _machines(measured: Measurements) -> MachineUse:
    main = measured.resources.index(measured.main)
    areas = {name: each.allocated[main].area_at(measured.end_s) for name, each in sorted(measured.queues.items())}
    total = math.fsum(areas.values())
    return MachineUse(
        node_hours=round(measured.node_s / _HOUR_S, 6),
        idle_node_hours=round(measured.idle_node_s / _HOUR_S, 6),
        cost=round(measured.cost, 6),
        bought=measured.bought,
        bought_and_never_used=measured.bought_unused,
        by_type={
            name or "(no type)": {
                "nodeHours": round(node_s / _HOUR_S, 6),
                "idleNodeHours": round(idle_s / _HOUR_S, 6),
                "cost": round(cost, 6),
            }
            for name, (node_s, idle_s, cost) in sorted(measured.by_type.items())
        },
        cost_by_queue={name: round(measured.cost * area / total, 6) for name, area in areas.items()} if total else {},
    )


def _usage_fairness(measured: Measurements, weights: Mapping[str, float]) -> float:
    capacity = [each.area_at(measured.end_s) for each in measured.capacity]
    shares = []
    for name, each in sorted(measured.queues.items()):
        if not any(queue == name for queue, _ in measured.submitted):
            continue
        used = [area.area_at(measured.end_s) for area in each.allocated]
        dominant = max((mine / all_ for mine, all_ in zip(used, capacity, strict=True) if all_), default=0.0)
        shares.append(dominant / (weights.get(name) or 1.0))
    return jain(shares)


def _curve(waits: Sequence[float]) -> tuple[float, ...]:
    if not waits:
        return ()
    return tuple(nearest_rank(waits, step / _CURVE_POINTS) for step in range(1, _CURVE_POINTS + 1))


def _timeline(measured: Measurements) -> Timeline:
    samples, names = measured.samples, sorted(measured.queues)
    return Timeline(
        measured.main,
        tuple(each.at_s for each in samples),
        tuple(each.waiting_jobs for each in samples),
        tuple(each.running_pods for each in samples),
        tuple(each.nodes for each in samples),
        tuple(each.capacity for each in samples),
        tuple(each.allocated for each in samples),
        tuple(each.fragmentation for each in samples),
        {name: tuple(each.queues.get(name, (0.0, 0))[0] for each in samples) for name in names},
        {name: tuple(each.queues.get(name, (0.0, 0))[1] for each in samples) for name in names},
    )


class Figure(msgspec.Struct, frozen=True):
    """A number of a result. ``better``: which direction is better."""

    name: str
    unit: Literal["s", "", "h", "money", "%"]
    better: Literal["lower", "higher", ""]
    read: Callable[[SimulationResult], float]


FIGURES: Final = (
    Figure("waiting p50", "s", "lower", lambda each: each.waiting.all.p50),
    Figure("waiting p90", "s", "lower", lambda each: each.waiting.all.p90),
    Figure("waiting p99", "s", "lower", lambda each: each.waiting.all.p99),
    Figure("waiting mean", "s", "lower", lambda each: each.waiting.all.mean),
    Figure("completion mean", "s", "lower", lambda each: each.completion.all.mean),
    Figure("completion p99", "s", "lower", lambda each: each.completion.all.p99),
    Figure("slowdown mean", "", "lower", lambda each: each.slowdown.all.mean),
    Figure("jobs ended", "", "higher", lambda each: float(each.jobs.ended)),
    Figure("makespan", "s", "lower", lambda each: each.duration_seconds),
    Figure("utilisation", "%", "higher", lambda each: 100 * each.use[each.timeline.resource].utilisation),
    Figure("fragmentation", "%", "lower", lambda each: 100 * each.fragmentation),
    Figure("fairness of usage", "", "higher", lambda each: each.fairness.usage),
    Figure("fairness of slowdown", "", "higher", lambda each: each.fairness.slowdown),
    Figure("preemptions", "", "lower", lambda each: float(each.pods.preempted + each.pods.evicted)),
    Figure("lost run time", "h", "lower", lambda each: each.pods.lost_run_hours),
    Figure("node-hours", "h", "lower", lambda each: each.machines.node_hours),
    Figure("idle node-hours", "h", "lower", lambda each: each.machines.idle_node_hours),
    Figure("cost", "money", "lower", lambda each: each.machines.cost),
    Figure("machines bought", "", "", lambda each: float(each.machines.bought)),
    Figure("machines bought and never used", "", "lower", lambda each: float(each.machines.bought_and_never_used)),
)
