"""The numbers of a result are recomputed from the journal and the trace by slow, obvious code of its own."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import msgspec
import pytest

from headgate.simulate.generator import GeneratorOptions, generate
from headgate.simulate.settings import Settings
from headgate.simulate.simulation import JournalEntry
from headgate.simulate.simulation_result import SimulationResult
from headgate.simulate.trace import TraceJob
from simulated_clusters import any_flavor, kueue_queue, machines, simulated, simulation_input, volcano_queue

CPUS_PER_NODE = 8
PRICE = 0.25
START_S, STOP_S = 3.0, 4.0
WEIGHTS = {"a": 1.0, "b": 3.0}


def settings(*, gates: bool = True) -> Settings:
    document = {
        "gates": gates,
        "startSeconds": START_S,
        "stopSeconds": STOP_S,
        "autoscaler": {
            "model": "cluster-autoscaler",
            "bootSeconds": 90,
            "scaleDownUnneededSeconds": 120,
            "scaleDownDelayAfterAddSeconds": 60,
            "groups": [
                {
                    "name": "pool",
                    "maxSize": 6,
                    "machineTypes": [{"name": "eight", "resources": {"cpu": "8", "memory": "64Gi"}, "price": PRICE}],
                }
            ],
        },
        "prices": {"": PRICE},
    }
    return msgspec.convert(document, Settings)


def jobs() -> list[TraceJob]:
    options = GeneratorOptions(
        jobs=60, days=0.1, queues={"a": 2.0, "b": 1.0}, unit={"cpu": "1"}, max_pod_size=4, max_run=900.0,
        high_priority=0.2,
    )  # fmt: skip
    return [each for each in generate(options, 3) if each.pods <= 3]


class Replay:
    """The state of the cluster from the journal, event by event."""

    def __init__(self, journal: Iterable[JournalEntry], jobs: Iterable[TraceJob]) -> None:
        self.journal = list(journal)
        self.jobs = {job.name: job for job in jobs}
        self.end = self.journal[-1].at

    def pod_intervals(self) -> list[tuple[str, str, float, float]]:
        """Job, node, and from when to when each pod held its node."""
        held, found = dict[str, tuple[str, str, float]](), []
        for each in self.journal:
            if each.what == "bound":
                held[each.name] = each.job, each.node, each.at
            elif each.what == "ended":
                job, node, since = held.pop(each.name)
                found.append((job, node, since, each.at))
            elif each.what in ("preempted", "evicted") and each.name in held:
                job, node, since = held.pop(each.name)
                found.append((job, node, since, each.at + STOP_S))
        return found + [(job, node, since, self.end) for job, node, since in held.values()]

    def node_intervals(self) -> dict[str, tuple[float, float, float, bool]]:
        """From when to when each node existed, when it was ready, and whether it was bought."""
        found: dict[str, tuple[float, float, float, bool]] = {}
        for each in self.journal:
            if each.what == "machine-added":
                found[each.name] = each.at, math.inf, self.end, each.node == "bought"
            elif each.what == "machine-ready":
                found[each.name] = found[each.name][0], each.at, self.end, found[each.name][3]
            elif each.what == "machine-removed":
                found[each.name] = *found[each.name][:2], each.at, found[each.name][3]
        return found

    def waits(self) -> dict[str, float]:
        """The time until as many pods of the job have a node as it has pods, for the first time."""
        placed: dict[str, int] = defaultdict(int)
        found: dict[str, float] = {}
        on_node: set[str] = set()
        leaving: list[tuple[float, str, str]] = []
        for each in self.journal:
            for at, name, job in [item for item in leaving if item[0] <= each.at]:
                leaving.remove((at, name, job))
                placed[job] -= 1
            if each.what == "bound":
                on_node.add(each.name)
                placed[each.job] += 1
                if placed[each.job] == self.jobs[each.job].pods and each.job not in found:
                    found[each.job] = each.at - self.jobs[each.job].submit
            elif each.what in ("preempted", "evicted") and each.name in on_node:
                leaving.append((each.at + STOP_S, each.name, each.job))
        return found

    def completions(self) -> dict[str, float]:
        ended: dict[str, list[float]] = defaultdict(list)
        for each in self.journal:
            if each.what == "ended":
                ended[each.job].append(each.at)
        return {
            name: max(times) - self.jobs[name].submit
            for name, times in ended.items()
            if len(times) == self.jobs[name].pods
        }


def percentile(values: Iterable[float], share: int) -> float:
    ordered = sorted(values)
    return next(value for rank, value in enumerate(ordered, 1) if rank * 100 >= share * len(ordered))


def overlap(start: float, end: float, low: float, high: float) -> float:
    return max(0.0, min(end, high) - max(start, low))


def check(result: SimulationResult, replay: Replay, tolerance_s: float) -> None:
    def close(value: float, wanted: float, by: float = tolerance_s) -> None:
        assert value == pytest.approx(wanted, abs=by, rel=1e-3)

    waits, completions = replay.waits(), replay.completions()
    assert result.jobs.started == len(waits)
    assert result.jobs.ended == len(completions) == len(replay.jobs)
    close(result.waiting.all.mean, sum(waits.values()) / len(waits))
    for share, value in ((50, result.waiting.all.p50), (90, result.waiting.all.p90), (99, result.waiting.all.p99)):
        close(value, percentile(waits.values(), share))
        close(
            {50: result.completion.all.p50, 90: result.completion.all.p90, 99: result.completion.all.p99}[share],
            percentile(completions.values(), share),
        )
    for queue in WEIGHTS:
        mine = [wait for name, wait in waits.items() if replay.jobs[name].queue == queue]
        assert result.waiting.queues[queue].count == len(mine)
        close(result.waiting.queues[queue].p90, percentile(mine, 90))
        for class_ in {job.class_ for job in replay.jobs.values() if job.queue == queue}:
            both = [waits[job.name] for job in replay.jobs.values() if (job.queue, job.class_) == (queue, class_)]
            close(result.waiting.both[f"{queue} / {class_}"].max, max(both))
    slowdowns = [max(1.0, done / max(replay.jobs[name].run, 10.0)) for name, done in completions.items()]
    close(result.slowdown.all.mean, sum(slowdowns) / len(slowdowns), 0.05)

    pods, nodes = replay.pod_intervals(), replay.node_intervals()
    node_s = sum(end - start for start, _, end, _ in nodes.values())
    close(result.machines.node_hours, node_s / 3600, 0.01)
    close(result.machines.cost, node_s / 3600 * PRICE, 0.01)
    busy_s = 0.0
    for name in nodes:
        seconds: list[tuple[float, float]] = sorted((since, until) for _, node, since, until in pods if node == name)
        last = -math.inf
        for since, until in seconds:
            busy_s += max(0.0, until - max(since, last))
            last = max(last, until)
    close(result.machines.idle_node_hours, (node_s - busy_s) / 3600, 0.01)
    assert result.machines.bought == sum(bought for _, _, _, bought in nodes.values())
    used = {node for _, node, _, _ in pods}
    assert result.machines.bought_and_never_used == sum(nodes[name][3] for name in nodes if name not in used)

    last_submit = max(job.submit for job in replay.jobs.values())
    allocated = capacity = 0.0
    by_queue: dict[str, float] = defaultdict(float)
    for name, _, since, until in pods:
        cpus = int(replay.jobs[name].requests["cpu"])
        allocated += cpus * overlap(since, until, 0.0, last_submit)
        by_queue[replay.jobs[name].queue] += cpus * (until - since)
    for _, ready, end, _ in nodes.values():
        capacity += CPUS_PER_NODE * overlap(ready, end, 0.0, last_submit)
    close(result.use["cpu"].utilisation, allocated / capacity, 0.005)
    shares = [by_queue[queue] / weight for queue, weight in WEIGHTS.items()]
    close(result.fairness.usage, sum(shares) ** 2 / (2 * sum(each**2 for each in shares)), 0.005)
    evicted = [each for each in replay.journal if each.what in ("preempted", "evicted")]
    assert result.pods.preempted + result.pods.evicted == len(evicted)
    ended_early = [(since, until - STOP_S) for name, _, since, until in pods if until - since < replay.jobs[name].run]
    lost = sum(max(0.0, until - since - START_S) for since, until in ended_early if until < replay.end - STOP_S)
    close(result.pods.lost_run_hours, lost / 3600, 0.02)
    check_timeline(result, replay, pods, nodes)


def check_timeline(
    result: SimulationResult,
    replay: Replay,
    pods: list[tuple[str, str, float, float]],
    nodes: dict[str, tuple[float, float, float, bool]],
) -> None:
    timeline = result.timeline
    changes = {each.at for each in replay.journal}
    for index, at in enumerate(timeline.at_s[:-1]):
        if any(abs(at - each) < STOP_S + 1 for each in changes):
            continue  # a sample at the moment of a change may show the state before or after it
        there = [(name, node) for name, node, since, until in pods if since <= at < until]
        assert timeline.running_pods[index] == len(there)
        assert timeline.nodes[index] == sum(start <= at < end for start, _, end, _ in nodes.values())
        free = {name: CPUS_PER_NODE for name, (_, ready, end, _) in nodes.items() if ready <= at < end}
        for name, node in there:
            free[node] -= int(replay.jobs[name].requests["cpu"])
        submitted = [job for job in replay.jobs.values() if job.submit <= at]
        total, lost, count = sum(free.values()), 0.0, 0
        for job in submitted:
            cpus = int(job.requests["cpu"])
            count += job.pods
            lost += job.pods * sum(each for each in free.values() if each < cpus)
        wanted = lost / total / count if total and count else 0.0
        assert timeline.fragmentation[index] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("gates", [True, False])
def test_the_result_of_volcanos_queues_is_what_the_journal_says(gates: bool) -> None:
    objects = [
        *machines(2, cpu=CPUS_PER_NODE),
        *(volcano_queue(name, cpu=12, weight=int(WEIGHTS[name])) for name in WEIGHTS),
    ]
    given = simulation_input(objects, settings(gates=gates))
    result, journal = simulated(given, jobs())
    check(result, Replay(journal, jobs()), 0.01)


def test_the_result_of_kueues_queues_is_what_the_journal_says() -> None:
    preemption = {"withinClusterQueue": "LowerPriority"}
    objects = [*machines(2, cpu=CPUS_PER_NODE), any_flavor()]
    for name, weight in WEIGHTS.items():
        objects += kueue_queue(name, cpu=12, preemption=preemption, fairSharing={"weight": str(weight)})
    result, journal = simulated(simulation_input(objects, settings(), "kueue"), jobs())
    check(result, Replay(journal, jobs()), 1.5)
