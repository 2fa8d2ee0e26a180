"""Metrics of scheduling gates: how many pods each gate holds, since when, and how long it held released pods.

The counts are updated with every change of a pod's gates and never by a scan of all pods. A gate can only be set at
creation, so the creation time of a pod is the start of each of its gates and no time is kept per pod; pods of the same
second are counted together. Any client may invent gate names, so a limited number have a series of their own and the
others share the series ``other``. The series of a gate that holds no pod is reused when none is free.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Final

from headgate.kube.metrics import HistogramVec, Sample, exponential_buckets
from headgate.scheduling.cache.pod import PodLike
from headgate.scheduling.framework.plugin_timers import TimerClock
from headgate.waiting.heap import Heap

GATED_PODS: Final = "headgate_gated_pods"
OLDEST: Final = "headgate_oldest_gated_seconds"
WAITS: Final = "headgate_gate_wait_seconds"
OTHER: Final = "other"

_MOST: Final = 100
_GATES_OF_A_POD: Final = 256
_WAIT_BOUNDS_S: Final = exponential_buckets(1.0, 4.0, 11)  # from a second to twelve days


class _Line:
    """The pods under one label, by the second in which they were created."""

    def __init__(self) -> None:
        self.pods = 0
        self._created: Counter[float] = Counter()
        self._seconds: Heap[float] = Heap()

    def add(self, created_s: float) -> None:
        self.pods += 1
        self._created[created_s] += 1
        if self._created[created_s] == 1:
            self._seconds.put(created_s, created_s)

    def drop(self, created_s: float) -> None:
        self.pods -= 1
        self._created[created_s] -= 1
        if not self._created[created_s]:
            del self._created[created_s]
            self._seconds.discard(created_s)

    def oldest_s(self) -> float | None:
        first = self._seconds.first()
        return None if first is None else first[1]


class GateMetrics:
    """``most``: how many gates have a series of their own. ``day``: returns the time of day, the clock of creation
    timestamps, if the time that is passed in is another."""

    def __init__(self, most: int = _MOST, day: TimerClock | None = None) -> None:
        self.waits = HistogramVec(WAITS, _WAIT_BOUNDS_S, ("gate",))
        self._most = most
        self._day = day
        self._lines: dict[str, _Line] = {}
        self._idle: OrderedDict[str, None] = OrderedDict()
        # Gates that hold pods, and their label: it must not change while they do.
        self._labels: dict[str, str] = {}
        self._pods: Counter[str] = Counter()

    def came(self, pod: PodLike) -> None:
        for gate in self._counted(pod):
            self._add(gate, pod.created_s)

    def changed(self, old: PodLike, new: PodLike, now_s: float) -> None:
        if old.gates == new.gates:
            return
        before, after = self._counted(old), self._counted(new)
        for gate in before:
            if gate not in after:
                self.waits.with_label_values(self._labels[gate]).observe(self._age_s(old.created_s, now_s))
                self._drop(gate, old.created_s)
        for gate in after:
            if gate not in before:
                self._add(gate, new.created_s)

    def left(self, pod: PodLike) -> None:
        """The pod is gone or has a node; nobody lifted anything."""
        for gate in self._counted(pod):
            self._drop(gate, pod.created_s)

    def _counted(self, pod: PodLike) -> dict[str, None]:
        """A pod may have any number of gates, of which so many count. Gates only go, so those that follow move up."""
        return dict.fromkeys(pod.gates[:_GATES_OF_A_POD])

    def _age_s(self, created_s: float, now_s: float) -> float:
        """Clocks differ: a pod that was created a moment from now has not waited less than nothing."""
        return max((now_s if self._day is None else self._day()) - created_s, 0.0)

    def _add(self, gate: str, created_s: float) -> None:
        self._line(gate).add(created_s)
        self._pods[gate] += 1

    def _line(self, gate: str) -> _Line:
        label = self._labels.get(gate)
        if label is None:
            label = self._labels[gate] = self._label(gate)
            self._idle.pop(label, None)
            self.waits.with_label_values(label)
        line = self._lines.get(label)
        if line is None:
            line = self._lines[label] = _Line()
        return line

    def _label(self, gate: str) -> str:
        if gate in self._lines:
            return gate
        if len(self._lines) - (OTHER in self._lines) >= self._most:
            if not self._idle:
                return OTHER
            freed, _ = self._idle.popitem(last=False)
            del self._lines[freed]
            self.waits.delete_label_values(freed)
        return gate

    def _drop(self, gate: str, created_s: float) -> None:
        label = self._labels[gate]
        self._lines[label].drop(created_s)
        self._pods[gate] -= 1
        if not self._pods[gate]:
            del self._pods[gate], self._labels[gate]
            if label != OTHER:
                self._idle[label] = None

    def samples(self, now_s: float) -> Iterator[Sample]:
        lines = sorted(self._lines.items())
        for gate, line in lines:
            yield Sample(GATED_PODS, (("gate", gate),), line.pods)
        for gate, line in lines:
            since_s = line.oldest_s()
            yield Sample(OLDEST, (("gate", gate),), 0 if since_s is None else self._age_s(since_s, now_s))
        yield from self.waits.samples()
