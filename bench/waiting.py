"""The cost of parked pods: an event that wakes none of them, one that wakes one, and the memory of each.

Nine of ten pods are gated, NodeResourcesFit rejected the others, in twenty shapes; pods and hints are those of the
scheduler. Rounds with few and with many parked pods alternate for each event; the result is the median of the CPU time
of many rounds.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import msgspec

from bench import report
from headgate.scheduling.cache.node import read_node
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.framework.cluster_events import ASSIGNED_POD, NODE, ClusterEvent
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.plugins.noderesources.fit import NodeResourcesFit
from headgate.scheduling.plugins.priority_sort import PrioritySort
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from headgate.scheduling.queue.scheduling_queue import SchedulingQueue

FEW: Final = 1_000
MANY: Final = 100_000
SHAPES: Final = 20
RATIO_BAR: Final = 1.2
BYTES_BAR: Final = 2_048
_ROUNDS: Final = 30
_EVENTS: Final = 200


def _wire(number: int, gated: bool) -> dict[str, Any]:
    requests = {"cpu": f"{1 + number // 10 % SHAPES}", "memory": "1Gi"}
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": requests}}]}
    if gated:
        spec["schedulingGates"] = [{"name": "example.com/hold"}]
    named = {"name": f"pod-{number:06}", "namespace": "bench", "uid": f"00000000-0000-0000-0000-{number:012}"}
    return {"metadata": {**named, "labels": {"app": "bench"}, "resourceVersion": str(number)}, "spec": spec}


class Parked:
    """A queue with this number of parked pods, and the memory of each."""

    def __init__(self, count: int) -> None:
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        shapes = ShapeTable()
        self.fit = NodeResourcesFit()
        self.queue: SchedulingQueue[PodInfo] = SchedulingQueue(
            {"default-scheduler": [SchedulingGates()]}, PrioritySort()
        )
        for number in range(count):
            self._park(_wire(number, gated=number % 10 != 0), shapes, float(number))
        gc.collect()
        self.bytes_each = (tracemalloc.get_traced_memory()[0] - before) / count
        tracemalloc.stop()
        pending = self.queue.counters.pending()
        assert pending["gated"] + pending["unschedulable"] == count, pending

    def _park(self, wire: dict[str, Any], shapes: ShapeTable, now_s: float) -> None:
        pod = read_pod(wire, shapes)
        assert isinstance(pod, PodInfo)
        self.queue.add(pod, now_s / 1e6)
        if pod.gates:
            return
        queued = self.queue.pop(now_s / 1e6)
        assert queued is not None
        self.queue.fail(queued, [Rejection(self.fit.name, "no free capacity", self.fit.wakers(pod.shape))], now_s / 1e6)


def _wakes_none(event: ClusterEvent) -> Callable[[Parked], None]:
    def run(parked: Parked) -> None:
        for _ in range(_EVENTS):
            assert parked.queue.event(event, 1.0) == 0

    return run


def _ungates_one(parked: Parked) -> None:
    """A gated pod is added, its gate is removed, and it is deleted."""
    read = read_pod(_wire(999_999, gated=True), ShapeTable())
    assert isinstance(read, PodInfo)
    free = msgspec.structs.replace(read, gates=())
    for _ in range(_EVENTS):
        parked.queue.add(read, 1.0)
        parked.queue.update(free, 1.0)
        parked.queue.delete(read.uid, 1.0)


def _middle_us(parked: tuple[Parked, ...], run: Callable[[Parked], None]) -> list[float]:
    found: list[list[float]] = [[] for _ in parked]
    for _ in range(_ROUNDS):
        for place, each in enumerate(parked):
            began = time.process_time()
            run(each)
            found[place].append(time.process_time() - began)
    return [median(each) / _EVENTS * 1e6 for each in found]


def main() -> None:
    print(f"\n{MANY:,} parked pods against {FEW:,}, {SHAPES} shapes, nine of ten gated")
    parked = (Parked(FEW), Parked(MANY))
    small = read_node({"metadata": {"name": "small"}, "status": {"allocatable": {"cpu": "100m", "pods": "1"}}})
    moves = {
        "a pod gets a node: wakes no pod": _wakes_none(ClusterEvent(ASSIGNED_POD, "Add")),
        "a node comes that is too small for every shape": _wakes_none(ClusterEvent(NODE, "Add", new=small)),
        "a pod comes gated, is freed, goes": _ungates_one,
    }
    rows = []
    for title, run in moves.items():
        few_us, many_us = _middle_us(parked, run)
        ratio = many_us / few_us
        met = f"{ratio:.2f}× (bar ≤ {RATIO_BAR}×{'' if ratio <= RATIO_BAR else ', **missed**'})"
        rows.append([title, f"{few_us:.2f} µs", f"{many_us:.2f} µs", met])
    few, many = (each.bytes_each for each in parked)
    met = f"bar ≤ {BYTES_BAR:,} bytes{'' if many <= BYTES_BAR else ', **missed**'}"
    rows.append(["memory of a parked pod, its decoded self included", f"{few:,.0f} bytes", f"{many:,.0f} bytes", met])
    for row in rows:
        print(f"  {row[0]:52} {row[1]:>12} {row[2]:>12}  {row[3]}")
    heads = ("what", f"{FEW:,} parked", f"{MANY:,} parked", "many / few")
    report.write("parked pods", report.table(heads, rows))
