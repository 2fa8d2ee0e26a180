"""Metrics of scheduling gates: how many pods each gate holds, since when, and how long it held released pods.

The counts are updated with every change of a pod's gates and never by a scan of all pods. A gate can only be set at
creation, so the creation time of a pod is the start of each of its gates and no time is kept per pod; pods of the same
second are counted together. Any client may invent gate names, so a limited number have a series of their own and the
others share the series ``other``. When the limit is reached, the series of the gate that has had no pod for the longest
time is deleted.
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

_MAX_GATES: Final = 100
_MAX_GATES_PER_POD: Final = 256
_WAIT_BOUNDS_S: Final = exponential_buckets(1.0, 4.0, 11)  # from a second to twelve days


class _GateCounts:
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

    def remove(self, created_s: float) -> None:
        self.pods -= 1
        self._created[created_s] -= 1
        if not self._created[created_s]:
            del self._created[created_s]
            self._seconds.discard(created_s)

    def oldest_s(self) -> float | None:
        first = self._seconds.first()
        return None if first is None else first[1]


class GateMetrics:
    """``max_gates``: how many gates have a series of their own. ``wall_clock``: the clock of creation timestamps, if
    ``now_s`` is of another clock."""

    def __init__(self, max_gates: int = _MAX_GATES, wall_clock: TimerClock | None = None) -> None:
        self.waits = HistogramVec(WAITS, _WAIT_BOUNDS_S, ("gate",))
        self._max_gates = max_gates
        self._wall_clock = wall_clock
        self._counts: dict[str, _GateCounts] = {}
        self._unused: OrderedDict[str, None] = OrderedDict()
        """Gates that have a series and no pods, the longest unused first."""
        # Gates of pods, and their label: it must not change while a pod has the gate.
        self._labels: dict[str, str] = {}
        self._pods: Counter[str] = Counter()

    def pod_added(self, pod: PodLike) -> None:
        for gate in self._counted(pod):
            self._add(gate, pod.created_s)

    def pod_changed(self, old: PodLike, new: PodLike, now_s: float) -> None:
        if old.gates == new.gates:
            return
        before, after = self._counted(old), self._counted(new)
        for gate in before:
            if gate not in after:
                self.waits.with_label_values(self._labels[gate]).observe(self._age_s(old.created_s, now_s))
                self._remove(gate, old.created_s)
        for gate in after:
            if gate not in before:
                self._add(gate, new.created_s)

    def pod_removed(self, pod: PodLike) -> None:
        """The pod was deleted or has a node; no gate was removed."""
        for gate in self._counted(pod):
            self._remove(gate, pod.created_s)

    def _counted(self, pod: PodLike) -> dict[str, None]:
        """The gates that are counted: only the first ones, because a pod may have any number. Gates are only removed,
        so later gates take their positions."""
        return dict.fromkeys(pod.gates[:_MAX_GATES_PER_POD])

    def _age_s(self, created_s: float, now_s: float) -> float:
        """Never negative: clocks differ, so a creation time may be in the future."""
        return max((now_s if self._wall_clock is None else self._wall_clock()) - created_s, 0.0)

    def _add(self, gate: str, created_s: float) -> None:
        self._counts_of(gate).add(created_s)
        self._pods[gate] += 1

    def _counts_of(self, gate: str) -> _GateCounts:
        label = self._labels.get(gate)
        if label is None:
            label = self._labels[gate] = self._label(gate)
            self._unused.pop(label, None)
            self.waits.with_label_values(label)
        counts = self._counts.get(label)
        if counts is None:
            counts = self._counts[label] = _GateCounts()
        return counts

    def _label(self, gate: str) -> str:
        if gate in self._counts:
            return gate
        if len(self._counts) - (OTHER in self._counts) >= self._max_gates:
            if not self._unused:
                return OTHER
            freed, _ = self._unused.popitem(last=False)
            del self._counts[freed]
            self.waits.delete_label_values(freed)
        return gate

    def _remove(self, gate: str, created_s: float) -> None:
        label = self._labels[gate]
        self._counts[label].remove(created_s)
        self._pods[gate] -= 1
        if not self._pods[gate]:
            del self._pods[gate], self._labels[gate]
            if label != OTHER:
                self._unused[label] = None

    def samples(self, now_s: float) -> Iterator[Sample]:
        by_label = sorted(self._counts.items())
        for gate, counts in by_label:
            yield Sample(GATED_PODS, (("gate", gate),), counts.pods)
        for gate, counts in by_label:
            since_s = counts.oldest_s()
            yield Sample(OLDEST, (("gate", gate),), 0 if since_s is None else self._age_s(since_s, now_s))
        yield from self.waits.samples()
