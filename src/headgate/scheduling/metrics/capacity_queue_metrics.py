"""Metrics of queues: their usage, the waiting pods, and gate removals.

Amounts are read from the queue engine (``capacity/engine.py``) on each scrape; only grants and responses to gate
removals are counted as they happen. Volcano's metric names are exported beside Headgate's, for existing dashboards. The
samples of a deleted queue are removed. Pods may request any resource, so a limited number of resources of a queue have
samples of their own, and the others are added up as ``other``.
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
_WITHOUT_NODE: Final = "headgate_queue_pods_without_node"
_LAPSES: Final = "headgate_queue_lapsed_promises_total"
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
_OTHER: Final = "other"
_MAX_RESOURCES: Final = 50
_RESULTS: Final = (WriteResult.DONE, WriteResult.GONE, WriteResult.REFUSED, WriteResult.LATER, WriteResult.UNKNOWN)
"""They count from zero, so that a rate shows the first one, too."""
_VOLCANO_LABELS: Final = {**dict.fromkeys(_UNITS.values(), ("queue_name",)), _SCALAR: ("queue_name", "resource")}

FAMILIES: Final[Mapping[str, MetricFamily]] = {
    _GATED: MetricFamily(
        "gauge", "Pods that wait for the queue or a descendant, or for gates of other controllers.", ("queue",)
    ),
    _ADMITTED: MetricFamily("counter", "Pods that the queue admitted.", ("queue",)),
    _RESERVED: MetricFamily(
        "gauge", "What is promised to pods that have no node yet, cpu in thousandths.", ("queue", "resource")
    ),
    _TERMINATING: MetricFamily(
        "gauge", "What terminating pods still use, beside what is allocated; cpu in thousandths.", ("queue", "resource")
    ),
    _WAITS: MetricFamily("summary", "Time from a pod's creation until its queue admitted it.", ("queue",)),
    _OLDEST: MetricFamily("gauge", "Age of the oldest pod or PodGroup that waits in the queue itself.", ("queue",)),
    _WITHOUT_NODE: MetricFamily(
        "gauge", "Pods of the queue or a descendant that were promised capacity and have no node.", ("queue",)
    ),
    _LAPSES: MetricFamily("counter", "Promises of the queue that lapsed, because no node was found.", ("queue",)),
    _REMOVALS: MetricFamily("counter", "Responses to removals of the queue gate, by result.", ("result",)),
    _REMOVAL_S: MetricFamily(
        "histogram", "Time from the promise of capacity to a pod until the API server answered the removal of its gate."
    ),
    **{
        f"volcano_queue_{what}_{unit}": MetricFamily("gauge", help, labels)
        for what, help in _PER_QUEUE.items()
        for unit, labels in _VOLCANO_LABELS.items()
    },
    "volcano_queue_share": MetricFamily(
        "gauge",
        "The largest ratio of allocated and reserved to deserved capacity, over all resources.",
        ("queue_name",),
    ),
    "volcano_queue_weight": MetricFamily("gauge", "The weight in the spec of the queue.", ("queue_name",)),
    "volcano_queue_overused": MetricFamily("gauge", "1 if the queue uses more than it deserves.", ("queue_name",)),
}


class CapacityQueueMetrics:
    def __init__(self) -> None:
        self._admitted: Counter[str] = Counter()
        self._waited_s: dict[str, float] = {}
        self._lapsed: Counter[str] = Counter()
        self._results: Counter[str] = Counter({each.value: 0 for each in _RESULTS})
        self._removals = HistogramVec(_REMOVAL_S, exponential_buckets(0.001, 2, 18))

    def admitted(self, queue: str, waited_s: float) -> None:
        """The queue granted capacity to a pod, which was created ``waited_s`` seconds ago."""
        self._admitted[queue] += 1
        self._waited_s[queue] = self._waited_s.get(queue, 0.0) + max(waited_s, 0.0)

    def lapsed(self, queue: str) -> None:
        """A promise of the queue lapsed."""
        self._lapsed[queue] += 1

    def answered(self, result: WriteResult, took_s: float | None) -> None:
        """A response to the removal of a gate arrived. ``took_s``: the duration of the removal, if it is over;
        otherwise ``None``."""
        self._results[result.value] += 1
        if took_s is not None:
            self._removals.with_label_values().observe(took_s)

    def samples(self, queues: QueueEngine, wall_time_s: float) -> Iterator[Sample]:
        names = queues.queue_names()
        for deleted in self._admitted.keys() - set(names):
            del self._admitted[deleted]
            self._waited_s.pop(deleted, None)
        for deleted in self._lapsed.keys() - set(names):
            del self._lapsed[deleted]
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
        yield Sample(_WITHOUT_NODE, label, usage.pods_without_node)
        if queues.has_leases:
            yield Sample(_LAPSES, label, self._lapsed[name])
        oldest_s = queues.oldest_waiting_s(name)
        yield Sample(_OLDEST, label, 0 if oldest_s is None else max(wall_time_s - oldest_s, 0.0))
        for resource, amount in _limited(usage.reserved):
            yield Sample(_RESERVED, (*label, ("resource", resource)), amount)
        for resource, amount in _limited(usage.terminating):
            yield Sample(_TERMINATING, (*label, ("resource", resource)), amount)
        yield from _volcano_samples(name, usage, limits)


def _volcano_samples(name: str, usage: QueueUsage, limits: QueueLimits) -> Iterator[Sample]:
    label = (("queue_name", name),)
    amounts = {
        "allocated": usage.allocated,
        "request": _sum_amounts(usage.allocated, usage.reserved, usage.waiting_amounts),
        "deserved": limits.deserved,
        "inqueue": usage.inqueue,
        "capacity": limits.stated,
        "real_capacity": limits.capability,
    }
    for what, each in amounts.items():
        for resource, amount in _limited(each):
            if resource in _UNITS:
                yield Sample(f"volcano_queue_{what}_{_UNITS[resource]}", label, amount)
            else:
                yield Sample(f"volcano_queue_{what}_{_SCALAR}", (*label, ("resource", resource)), amount)
    yield Sample("volcano_queue_share", label, usage.share)
    yield Sample("volcano_queue_weight", label, limits.weight)
    yield Sample("volcano_queue_overused", label, int(usage.share > 1))


def _limited(amounts: Mapping[str, int]) -> list[tuple[str, int]]:
    """In the order of their names, and not too many: cpu and memory always, then the first others."""
    listed = sorted(amounts.items())
    if len(listed) <= _MAX_RESOURCES:
        return listed
    listed.sort(key=lambda item: item[0] not in _UNITS)
    return [*sorted(listed[:_MAX_RESOURCES]), (_OTHER, sum(amount for _, amount in listed[_MAX_RESOURCES:]))]


def _sum_amounts(*amounts: Mapping[str, int]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in amounts:
        total.update(each)
    return dict(total)
