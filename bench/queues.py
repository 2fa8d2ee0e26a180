"""The cost of parked pods for the queues: one admission at depth 5 with few and with many, and the memory of each.

A full tree of five levels; pods with twenty different requests wait in its leaves. In each round a running pod is
deleted, and the admission step grants its capacity to another one. Rounds with few and with many parked pods alternate;
the result is the median of the CPU time of many rounds.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from statistics import median
from typing import Any, Final

from bench import report
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.engine import QueueEngine
from headgate.capacity.names import GATE

FEW: Final = 1_000
MANY: Final = 100_000
ASKS: Final = 20
RATIO_BAR: Final = 1.2
BYTES_BAR: Final = 2_048
_LEAVES: Final = 16
_ROUNDS: Final = 30
_ADMISSIONS: Final = 100


def _queue(name: str, parent: str, cpu: int) -> dict[str, Any]:
    # Memory has a high limit: requests that differ only in a resource without a limit would have one shape.
    limits = {"cpu": str(cpu), "memory": "1Pi"}
    spec = {"parent": parent, "capability": limits, "deserved": {"cpu": str(max(cpu // 2, 1))}}
    return {"metadata": {"name": name}, "spec": spec, "status": {"state": "Open"}}


def _task(number: int) -> TaskInfo:
    requests = {"cpu": 1000, "memory": (1 + number // _LEAVES % ASKS) << 30}
    uid = f"00000000-0000-0000-0000-{number:012}"
    leaf = f"leaf-{number % _LEAVES}"
    return TaskInfo(
        uid, "bench", f"pod-{number:06}", requests, created_s=float(number), queue=leaf, opted_in=True, gates=(GATE,)
    )


class Parked:
    """Full queues with this number of parked pods, and the memory of each."""

    def __init__(self, count: int) -> None:
        self.queues = QueueEngine()
        self.queues.namespace_applied({"metadata": {"name": "bench"}})
        for level, parent in enumerate(("root", "level-0", "level-1", "level-2")):
            self.queues.queue_applied(_queue(f"level-{level}", parent, 2 * _LEAVES))
        for leaf in range(_LEAVES):
            self.queues.queue_applied(_queue(f"leaf-{leaf}", "level-3", 2))
        tasks = [_task(number) for number in range(count)]
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for task in tasks:
            self.queues.task_applied(task)
        gc.collect()
        self.bytes_each = (tracemalloc.get_traced_memory()[0] - before) / count
        tracemalloc.stop()
        self.next = count
        self.granted = [uid for grant in self.queues.admit(0.0, count) for uid in grant.uids]

    def admit_one(self) -> None:
        """A pod ends, another one is created and parked, and the next pod gets the capacity."""
        self.queues.task_removed(self.granted.pop(0))
        self.queues.task_applied(_task(self.next))
        self.next += 1
        for grant in self.queues.admit(1.0, 10):
            self.granted += grant.uids


def _seconds_each(parked: Parked) -> float:
    started = time.process_time()
    for _ in range(_ADMISSIONS):
        parked.admit_one()
    return (time.process_time() - started) / _ADMISSIONS


def main() -> None:
    print(f"\none admission at depth 5, {MANY:,} parked pods against {FEW:,}, {ASKS} kinds of ask")
    parked = (Parked(FEW), Parked(MANY))
    gc.disable()
    rounds = [[_seconds_each(each) for each in parked] for _ in range(_ROUNDS)]
    gc.enable()
    middle = [median(each) for each in zip(*rounds, strict=True)]
    ratio, size = median(many / few for few, many in rounds), parked[1].bytes_each
    rows = [
        [
            "a pod goes, one comes and parks, the next is granted",
            *(f"{each * 1e6:.0f} µs" for each in middle),
            f"{ratio:.2f}× (bar ≤ {RATIO_BAR}×{'' if ratio <= RATIO_BAR else ', **missed**'})",
        ],
        [
            "memory of a parked pod in the queues",
            *(f"{each.bytes_each:,.0f} bytes" for each in parked),
            f"bar ≤ {BYTES_BAR:,} bytes{'' if size <= BYTES_BAR else ', **missed**'}",
        ],
    ]
    for row in rows:
        print(f"  {row[0]:52} {row[1]:>12} {row[2]:>12}  {row[3]}")
    heads = ("what", f"{FEW:,} parked", f"{MANY:,} parked", "many / few")
    report.write("queue admission", report.table(heads, rows))
