"""Metrics of queues: their usage, the waiting pods, and gate removals.

Amounts are read from the ledger on each scrape; only grants and responses are counted as they happen. Volcano's metric
names are exported beside Headgate's for existing dashboards. The samples of a deleted queue are removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from headgate.capacity.engine import QueueEngine, QueueLimits, QueueUsage
from headgate.kube.metrics import HistogramVec, MetricFamily, Sample, exponential_buckets
from headgate.kube.resource_amounts import CPU, MEMORY
from headgate.scheduling.framework.effects import WriteResult

_GATED: Final = "headgate_queue_gated_pods"
_ADMITTED: Final = "headgate_queue_admitted_pods_total"
_RESERVED: Final = "headgate_queue_reserved"
_TERMINATING: Final = "headgate_queue_terminating"
_WAITS: Final = "headgate_queue_wait_seconds"
_OLDEST: Final = "headgate_queue_oldest_waiting_seconds"
_REMOVALS: Final = "headgate_gate_removals_total"
_REMOVAL_S: Final = "headgate_gate_removal_duration_seconds"
_PER_QUEUE: Final = {
    "allocated": "What pods on nodes use.",
    "request": "What pods on nodes use and waiting pods request.",
    "deserved": "What the queue deserves when other queues need more, too.",
    "inqueue": "What admitted groups still need for their minimum.",
    "capacity": "The capability in the spec of the queue.",
    "real_capacity": "The effective capability, limited by ancestors and by guarantees of siblings.",
}
_UNITS: Final = {CPU: "milli_cpu", MEMORY: "memory_bytes"}
_SCALAR: Final = "scalar_resources"

FAMILIES: Final[Mapping[str, MetricFamily]] = {
    _GATED: MetricFamily("gauge", "Pods that wait for their queue, or for gates of other controllers."),
    _ADMITTED: MetricFamily("counter", "Pods that the queue admitted."),
    _RESERVED: MetricFamily("gauge", "What is promised to pods that have no node yet, cpu in thousandths."),
    _TERMINATING: MetricFamily("gauge", "What terminating pods still use on their nodes, cpu in thousandths."),
    _WAITS: MetricFamily("summary", "From a pod's creation until its queue admitted it."),
    _OLDEST: MetricFamily("gauge", "Age of the oldest job that waits for its queue."),
    _REMOVALS: MetricFamily("counter", "Answers to removals of the queue's gate, by result."),
    _REMOVAL_S: MetricFamily(
        "histogram", "From when capacity was promised to a pod until the removal of its gate was answered."
    ),
    **{
        f"volcano_queue_{what}_{unit}": MetricFamily("gauge", help)
        for what, help in _PER_QUEUE.items()
        for unit in (*_UNITS.values(), _SCALAR)
    },
    "volcano_queue_share": MetricFamily(
        "gauge", "How much of what it deserves a queue uses, on its scarcest resource."
    ),
    "volcano_queue_weight": MetricFamily("gauge", "The weight that the queue states."),
    "volcano_queue_overused": MetricFamily("gauge", "1 if the queue uses more than it deserves."),
}


class CapacityQueueMetrics:
    def __init__(self) -> None:
        self._admitted: Counter[str] = Counter()
        self._waited_s: dict[str, float] = {}
        self._results: Counter[str] = Counter()
        self._removals = HistogramVec(_REMOVAL_S, exponential_buckets(0.001, 2, 18))

    def admitted(self, queue: str, waited_s: float) -> None:
        self._admitted[queue] += 1
        self._waited_s[queue] = self._waited_s.get(queue, 0.0) + max(waited_s, 0.0)

    def answered(self, result: WriteResult, took_s: float | None) -> None:
        """``took_s``: the duration of a removal that this response completes; otherwise ``None``."""
        self._results[result.value] += 1
        if took_s is not None:
            self._removals.with_label_values().observe(took_s)

    def samples(self, queues: QueueEngine, wall_time_s: float) -> Iterator[Sample]:
        names = queues.queue_names()
        for deleted in self._admitted.keys() - set(names):
            del self._admitted[deleted]
            self._waited_s.pop(deleted, None)
        for name in names:
            yield from self._queue_samples(name, queues, wall_time_s)
        for result, count in sorted(self._results.items()):
            yield Sample(_REMOVALS, (("result", result),), count)
        yield from self._removals.samples()

    def _queue_samples(self, name: str, queues: QueueEngine, wall_time_s: float) -> Iterator[Sample]:
        usage, limits = queues.usage(name), queues.limits(name)
        label = (("queue", name),)
        yield Sample(_GATED, label, usage.waiting)
        yield Sample(_ADMITTED, label, self._admitted[name])
        yield Sample(f"{_WAITS}_sum", label, self._waited_s.get(name, 0.0))
        yield Sample(f"{_WAITS}_count", label, self._admitted[name])
        oldest_s = queues.oldest_waiting_s(name)
        yield Sample(_OLDEST, label, 0 if oldest_s is None else max(wall_time_s - oldest_s, 0.0))
        for resource, amount in sorted(usage.reserved.items()):
            yield Sample(_RESERVED, (*label, ("resource", resource)), amount)
        for resource, amount in sorted(usage.terminating.items()):
            yield Sample(_TERMINATING, (*label, ("resource", resource)), amount)
        yield from _volcano_samples(name, usage, limits)


def _volcano_samples(name: str, usage: QueueUsage, limits: QueueLimits) -> Iterator[Sample]:
    label = (("queue_name", name),)
    amounts = {
        "allocated": usage.allocated,
        "request": _sum(usage.allocated, usage.reserved, usage.wanted),
        "deserved": limits.deserved,
        "inqueue": usage.inqueue,
        "capacity": limits.stated,
        "real_capacity": limits.capability,
    }
    for what, each in amounts.items():
        for resource, amount in sorted(each.items()):
            if resource in _UNITS:
                yield Sample(f"volcano_queue_{what}_{_UNITS[resource]}", label, amount)
            else:
                yield Sample(f"volcano_queue_{what}_{_SCALAR}", (*label, ("resource", resource)), amount)
    yield Sample("volcano_queue_share", label, usage.share)
    yield Sample("volcano_queue_weight", label, limits.weight)
    yield Sample("volcano_queue_overused", label, int(usage.share > 1))


def _sum(*amounts: Mapping[str, int]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in amounts:
        total.update(each)
    return dict(total)
