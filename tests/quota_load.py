"""The load of Kueue's scheduler benchmark, scaled down, on a virtual clock with ticks of 0.1 s.

The queues of a cohort lend each other everything. Each queue begins with a backlog of medium workloads; large ones
follow one after another, with a small offset from queue to queue. An admitted workload runs for its number of ticks and
then finishes; an evicted one releases its quota at once. In each tick the decider works until it has decided
everything, so the speed of the machine does not matter. ``EngineDecider`` is Headgate's engine; ``real/kueue_load.py``
is Kueue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from headgate.quota.effects import Admit, Effect, Evict
from kueue_builders import START_S, a_cluster_queue, a_local_queue, a_workload
from quota_engine import Api

Object = dict[str, Any]


class Kind(msgspec.Struct, frozen=True):
    """``every``: ticks between two of them; 0 if all are there from the start. Times are in ticks."""

    name: str
    count: int
    every: int
    runs: int
    cpu: int
    priority: int


class Load(msgspec.Struct, frozen=True):
    """``behind``: by how many ticks each queue is behind the one before it."""

    cohorts: int
    queues: int
    quota: int
    behind: int
    kinds: tuple[Kind, ...]

    def queue_names(self) -> list[tuple[str, str]]:
        """Cohort and queue."""
        return [
            (f"cohort{cohort}", f"cohort{cohort}-queue{queue}")
            for cohort in range(self.cohorts)
            for queue in range(self.queues)
        ]

    def objects(self, namespace: str) -> tuple[list[Object], list[Object]]:
        """ClusterQueues and LocalQueues."""
        quota = {"default": {"cpu": (self.quota, 5 * self.quota, None)}}
        preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
        cluster_queues, local_queues = [], []
        for cohort, name in self.queue_names():
            spec = {"cohortName": cohort, "queueingStrategy": "BestEffortFIFO", "preemption": preemption}
            cluster_queues.append(a_cluster_queue(name, quota, **spec))
            local_queues.append(a_local_queue(name, name, namespace))
        return cluster_queues, local_queues

    def arrivals(self, namespace: str) -> dict[int, list[Object]]:
        """Workloads by tick. No two were created in the same second: between equals Kueue decides by chance."""
        found: dict[int, list[tuple[Kind, str, int]]] = {}
        for at, (_, queue) in enumerate(self.queue_names()):
            first = (at % self.queues) * self.behind
            for kind in self.kinds:
                for number in range(kind.count):
                    tick = first + kind.every * (number + 1) if kind.every else 0
                    found.setdefault(tick, []).append((kind, queue, number))
        second = 0
        arrivals: dict[int, list[Object]] = {}
        for tick in sorted(found):
            arrivals[tick] = []
            for kind, queue, number in found[tick]:
                second += 1
                arrivals[tick].append(_workload(kind, queue, number, namespace, second))
        return arrivals


BACKLOG = Load(
    cohorts=1,
    queues=6,
    quota=20,
    behind=1,
    kinds=(Kind("medium", 24, 0, 5, 5, 100), Kind("large", 4, 12, 10, 20, 200)),
)


def _workload(kind: Kind, queue: str, number: int, namespace: str, second: int) -> Object:
    name = f"{queue}-{kind.name}-{number:03}"
    return a_workload(name, cpu=kind.cpu, queue=queue, namespace=namespace, priority=kind.priority, at_s=float(second))


def reserved_at_s(tick: int) -> float:
    """Every tick is a second of its own in the conditions of workloads, later than all creations."""
    return START_S + 100_000 + tick


class Decided(msgspec.Struct, frozen=True):
    """The workloads that got quota, and those that were evicted; by name."""

    admitted: frozenset[str]
    evicted: frozenset[str]


class Decider(Protocol):
    namespace: str

    def define(self, cluster_queues: list[Object], local_queues: list[Object]) -> None: ...

    def act(self, tick: int, submitted: Iterable[Object], finished: Iterable[str], released: Iterable[str]) -> None:
        """This happens at once, as far as the decider can tell."""

    def settle(self, tick: int) -> Decided:
        """What was decided since it was asked last, once there is nothing left to decide."""


class Outcome:
    """The result of a load: the workloads that were admitted and evicted in each tick, by name."""

    def __init__(self) -> None:
        self.admitted: dict[int, Counter[str]] = {}
        self.evicted: dict[int, Counter[str]] = {}
        self.finished: dict[str, int] = {}

    @property
    def ticks(self) -> list[int]:
        return sorted(self.admitted)

    def lasting(self, tick: int) -> tuple[Counter[str], Counter[str]]:
        """Admissions and evictions of a tick by queue and kind, without those of workloads that had both."""
        admitted, evicted = self.admitted[tick], self.evicted[tick]
        both = admitted & evicted
        return _by_kind(admitted - both), _by_kind(evicted - both)

    @property
    def evictions(self) -> int:
        return sum(each.total() for each in self.evicted.values())


def _by_kind(names: Counter[str]) -> Counter[str]:
    return Counter(name.rpartition("-")[0] for name in names.elements())


def run(load: Load, decider: Decider, ticks: int) -> Outcome:
    runs = {kind.name: kind.runs for kind in load.kinds}
    arrivals = load.arrivals(decider.namespace)
    decider.define(*load.objects(decider.namespace))
    outcome = Outcome()
    ends: dict[str, int] = {}
    for tick in range(ticks):
        due = sorted(name for name, end in ends.items() if end == tick)
        submitted = arrivals.get(tick, [])
        if not due and not submitted:
            continue
        for name in due:
            del ends[name]
            outcome.finished[name] = tick
        decider.act(tick, submitted, due, ())
        while True:
            decided = decider.settle(tick)
            outcome.admitted.setdefault(tick, Counter()).update(decided.admitted)
            outcome.evicted.setdefault(tick, Counter()).update(decided.evicted)
            for name in decided.admitted:
                ends[name] = tick + runs[name.split("-")[2]]
            for name in decided.evicted:
                del ends[name]
            if not decided.evicted:
                break
            decider.act(tick, (), (), sorted(decided.evicted))
    return outcome


class EngineDecider:
    namespace = "ns"

    def __init__(self) -> None:
        self.api = Api()

    def define(self, cluster_queues: list[Object], local_queues: list[Object]) -> None:
        for each in cluster_queues:
            self.api.perform(self.api.engine.cluster_queue_applied(each, self.api.now_s))
        for each in local_queues:
            self.api.perform(self.api.engine.local_queue_applied(each, self.api.now_s))

    def act(self, tick: int, submitted: Iterable[Object], finished: Iterable[str], released: Iterable[str]) -> None:
        self.api.now_s = reserved_at_s(tick)
        for name in finished:
            self.api.finish(name)
        for name in released:
            self.api.gone(name)
        for wire in submitted:
            self.api.submit_object(wire)

    def settle(self, tick: int) -> Decided:
        effects: list[Effect] = []
        while self.api.engine.queue_manager.ready():
            effects += self.api.cycle()
        admitted = frozenset(each.key.partition("/")[2] for each in effects if isinstance(each, Admit))
        evicted = frozenset(each.key.partition("/")[2] for each in effects if isinstance(each, Evict))
        return Decided(admitted, evicted)
