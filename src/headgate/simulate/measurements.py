"""What a simulation measures: waiting, completion, use of machines, preemptions, cost, and a timeline.

The simulation reports what happens (:meth:`Measurements.pod_bound` and others). Sums over time are kept as areas under
steps, so that an event costs the same however long the simulation is. Of a finished job only numbers stay: its waiting
and completion time, by queue and class. ``simulation_result.py`` turns the measurements into the output.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import msgspec
import numpy as np

from headgate.kube import conditions
from headgate.kube.resource_amounts import CPU, MEMORY, read_amounts
from headgate.simulate.prices import INSTANCE_TYPE, is_gpu, price_of

Object = dict[str, Any]
Amounts = Mapping[str, int]

_MAX_SAMPLES: Final = 480
_MAX_SHAPES: Final = 32
BOUNDED_RUN_S: Final = 10.0
"""Slowdown is bounded: a job that runs for a second and waits for a minute should not count as sixty."""


class SteppedArea:
    """A value that changes in steps, and the area under it."""

    __slots__ = ("area", "since_s", "value")

    def __init__(self, now_s: float) -> None:
        self.value = 0.0
        self.area = 0.0
        self.since_s = now_s

    def add(self, delta: float, now_s: float) -> None:
        self.area += self.value * (now_s - self.since_s)
        self.value += delta
        self.since_s = now_s

    def area_at(self, now_s: float) -> float:
        return self.area + self.value * (now_s - self.since_s)


class JobTimes:
    """The times of all finished and started jobs of one queue and class."""

    __slots__ = ("completions", "slowdowns", "waits")

    def __init__(self) -> None:
        self.waits = array("d")
        self.completions = array("d")
        self.slowdowns = array("d")


class MachineRecord:
    """A node from its creation to its removal. ``capacity``: what it has while it is Ready."""

    __slots__ = ("busy", "capacity", "created_s", "is_bought", "pods", "price", "row", "type", "used")

    def __init__(self, row: int, type_: str, price: float, created_s: float, *, is_bought: bool) -> None:
        self.row = row
        self.type = type_
        self.price = price
        self.created_s = created_s
        self.is_bought = is_bought
        self.capacity: tuple[int, ...] = ()
        self.used = False
        self.pods = 0
        self.busy = SteppedArea(created_s)
        """1 while at least one pod is on the node."""


class TimelineSample(msgspec.Struct, frozen=True):
    """The state at one time. ``queues``: by queue, the allocated amount of the main resource and the waiting jobs."""

    at_s: float
    waiting_jobs: int
    running_pods: int
    nodes: int
    capacity: float
    allocated: float
    fragmentation: float
    queues: Mapping[str, tuple[float, int]]


class QueueUse:
    """Allocated amounts of one queue."""

    __slots__ = ("allocated", "waiting")

    def __init__(self, count: int, now_s: float) -> None:
        self.allocated = [SteppedArea(now_s) for _ in range(count)]
        self.waiting = 0


class Measurements:
    """``main``: the resource of the timeline and of the fragmentation: GPUs if the machines have any, otherwise CPU."""

    def __init__(self, resources: Sequence[str], prices: Mapping[str, float], start_s: float, sample_s: float) -> None:
        self.resources = tuple(resources)
        gpus = [name for name in self.resources if is_gpu(name)]
        self.main = gpus[0] if gpus else CPU
        self._main = self.resources.index(self.main)
        self._prices = prices
        self.start_s = start_s
        self.last_arrival_s = start_s
        self.end_s = start_s
        self.sample_s = sample_s
        self.times: dict[tuple[str, str], JobTimes] = {}
        self.submitted: Counter[tuple[str, str]] = Counter()
        self.capacity = [SteppedArea(start_s) for _ in self.resources]
        self.allocated = [SteppedArea(start_s) for _ in self.resources]
        self.capacity_until_last_arrival: list[float] = []
        self.allocated_until_last_arrival: list[float] = []
        self.queues: dict[str, QueueUse] = {}
        self.machines: dict[str, MachineRecord] = {}
        self.node_s = 0.0
        self.idle_node_s = 0.0
        self.cost = 0.0
        self.bought = 0
        self.bought_unused = 0
        self.by_type: dict[str, list[float]] = {}
        self.preemptions = 0
        self.evictions = 0
        self.lost_run_s = 0.0
        self.admissions = 0
        self.pods_bound = 0
        self.pods_ended = 0
        self.running_pods = 0
        self.waiting_jobs = 0
        self.samples: list[TimelineSample] = []
        self._free = np.zeros((64, len(self.resources)), dtype=np.int64)
        self._free_rows: list[int] = list(range(63, -1, -1))
        self._shapes: Counter[tuple[int, ...]] = Counter()

    # Jobs

    def job_submitted(self, queue: str, class_: str, pods: int, vector: tuple[int, ...], now_s: float) -> None:
        self.submitted[queue, class_] += 1
        self._use_of(queue, now_s).waiting += 1
        self.waiting_jobs += 1
        self._shapes[vector] += pods

    def arrivals_ended(self, now_s: float) -> None:
        """The last job was submitted: the use of machines is measured until here, without the drain."""
        self.last_arrival_s = now_s
        self.capacity_until_last_arrival = [each.area_at(now_s) for each in self.capacity]
        self.allocated_until_last_arrival = [each.area_at(now_s) for each in self.allocated]

    def job_started(self, queue: str, class_: str, wait_s: float) -> None:
        """All pods of the job have a node for the first time."""
        self._times_of(queue, class_).waits.append(round(wait_s, 3))
        self.queues[queue].waiting -= 1
        self.waiting_jobs -= 1

    def job_ended(self, queue: str, class_: str, completion_s: float, run_s: float) -> None:
        times = self._times_of(queue, class_)
        times.completions.append(round(completion_s, 3))
        times.slowdowns.append(round(max(1.0, completion_s / max(run_s, BOUNDED_RUN_S)), 6))

    def _times_of(self, queue: str, class_: str) -> JobTimes:
        found = self.times.get((queue, class_))
        if found is None:
            found = self.times[queue, class_] = JobTimes()
        return found

    def _use_of(self, queue: str, now_s: float) -> QueueUse:
        found = self.queues.get(queue)
        if found is None:
            found = self.queues[queue] = QueueUse(len(self.resources), self.start_s)
        return found

    # Pods

    def vector_of(self, requests: Amounts) -> tuple[int, ...]:
        return tuple(requests.get(name, 0) for name in self.resources)

    def pod_bound(self, queue: str, node: str, vector: tuple[int, ...], now_s: float) -> None:
        self.pods_bound += 1
        self.running_pods += 1
        self._allocate(queue, node, vector, 1, now_s)

    def pod_gone(self, queue: str, node: str, vector: tuple[int, ...], now_s: float) -> None:
        """The pod has left its node."""
        self.running_pods -= 1
        self._allocate(queue, node, vector, -1, now_s)

    def _allocate(self, queue: str, node: str, vector: tuple[int, ...], sign: int, now_s: float) -> None:
        of_queue, machine = self._use_of(queue, now_s).allocated, self.machines.get(node)
        for index, amount in enumerate(vector):
            if amount:
                self.allocated[index].add(sign * amount, now_s)
                of_queue[index].add(sign * amount, now_s)
        if machine is None:
            return
        self._free[machine.row] -= np.multiply(vector, sign)
        machine.pods += sign
        if sign > 0:
            machine.used = True
            if machine.pods == 1:
                machine.busy.add(1, now_s)
        elif not machine.pods:
            machine.busy.add(-1, now_s)

    # Machines

    def machine_added(self, node: Object, now_s: float, *, is_bought: bool) -> None:
        """A node exists and costs money from now on. Its capacity counts when it is Ready."""
        metadata = node["metadata"]
        labels, capacity = metadata.get("labels") or {}, amounts_of(node)
        if not self._free_rows:
            size = len(self._free)
            self._free = np.vstack([self._free, np.zeros_like(self._free)])
            self._free_rows = list(range(2 * size - 1, size - 1, -1))
        type_ = labels.get(INSTANCE_TYPE, "")
        price = price_of(labels, capacity, self._prices)
        row = self._free_rows.pop()
        self.machines[metadata["name"]] = MachineRecord(row, type_, price, now_s, is_bought=is_bought)
        self.bought += is_bought

    def machine_ready(self, node: Object, now_s: float) -> None:
        self._set_capacity(self.machines[node["metadata"]["name"]], self.vector_of(amounts_of(node)), now_s)

    def machine_changed(self, node: Object, now_s: float) -> None:
        """The capacity of the node changed, or whether it is Ready."""
        is_ready = conditions.is_true((node.get("status") or {}).get("conditions"), "Ready")
        vector = self.vector_of(amounts_of(node)) if is_ready else ()
        self._set_capacity(self.machines[node["metadata"]["name"]], vector, now_s)

    def _set_capacity(self, machine: MachineRecord, vector: tuple[int, ...], now_s: float) -> None:
        for index, (amount, before) in enumerate(zip_longest(vector, machine.capacity, fillvalue=0)):
            if amount != before:
                self.capacity[index].add(amount - before, now_s)
                self._free[machine.row, index] += amount - before
        machine.capacity = vector

    def machine_removed(self, node: Object, now_s: float) -> None:
        machine = self.machines.pop(node["metadata"]["name"])
        self._set_capacity(machine, (), now_s)
        self._free[machine.row] = 0
        self._free_rows.append(machine.row)
        self._bill(machine, now_s)

    def _bill(self, machine: MachineRecord, now_s: float) -> None:
        duration_s = now_s - machine.created_s
        idle_s = duration_s - machine.busy.area_at(now_s)
        cost = duration_s / 3600 * machine.price
        self.node_s += duration_s
        self.idle_node_s += idle_s
        self.cost += cost
        self.bought_unused += machine.is_bought and not machine.used
        of_type = self.by_type.setdefault(machine.type, [0.0, 0.0, 0.0])
        for index, amount in enumerate((duration_s, idle_s, cost)):
            of_type[index] += amount

    def ended(self, now_s: float) -> None:
        """The simulation is over: bills the machines that still exist."""
        self.end_s = now_s
        for name in sorted(self.machines):
            self._bill(self.machines[name], now_s)

    # Timeline

    def sample(self, now_s: float) -> None:
        main = self._main
        self.samples.append(
            TimelineSample(
                round(now_s - self.start_s, 3),
                self.waiting_jobs,
                self.running_pods,
                len(self.machines),
                self.capacity[main].value,
                self.allocated[main].value,
                self.fragmentation(),
                {name: (each.allocated[main].value, each.waiting) for name, each in self.queues.items()},
            )
        )
        if len(self.samples) > _MAX_SAMPLES:
            self.samples = self.samples[::2]
            self.sample_s *= 2

    def fragmentation(self) -> float:
        """The share of the free main resource on nodes that a pod does not fit on, for the mean pod of all jobs that
        were submitted so far and that request the resource (FGD, Weng et al. 2023)."""
        main = self._main
        free = self._free[:, main]
        total = int(free.sum())
        shapes = [(vector, count) for vector, count in self._shapes.most_common(_MAX_SHAPES) if vector[main]]
        if not total or not shapes:
            return 0.0
        lost = 0.0
        for vector, count in shapes:
            fits = (self._free >= vector).all(axis=1)
            lost += count * int(free[~fits].sum())
        return round(lost / total / sum(count for _, count in shapes), 6)


def amounts_of(node: Object) -> dict[str, int]:
    """The allocatable amounts of a node, or its capacity, in units."""
    status = node.get("status") or {}
    amounts = read_amounts(status.get("allocatable") or status.get("capacity") or {}, "status.allocatable")
    return {} if isinstance(amounts, str) else amounts


def measured_resources(names: Sequence[str]) -> tuple[str, ...]:
    """CPU, memory, and extended resources such as GPUs."""
    return (CPU, MEMORY, *sorted({name for name in names if "/" in name}))
