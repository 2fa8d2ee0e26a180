"""Counters of the scheduling queue, under the names and labels of kube-scheduler's metrics.

The counters are updated with every step and equal a recount after each: a deleted pod is subtracted, and a pod that is
checked again and stays adds nothing (kube-scheduler v1.35.8 drifts in both cases: k/k#120395 and k/k#139331).
``scheduling/metrics/scheduler_metrics.py`` exports them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headgate.kube.metrics import Sample
from headgate.scheduling.pod_lifecycle import PodState

POD_POPPED: Final = "PodPopped"

# Where pods are, as pending_pods says it; and the queue they came into, as queue_incoming_pods_total does.
_PENDING: Final[Mapping[PodState, str]] = {
    PodState.ACTIVE: "active",
    PodState.BACKOFF: "backoff",
    PodState.ERROR_BACKOFF: "backoff",
    PodState.UNSCHEDULABLE: "unschedulable",
    PodState.GATED: "gated",
}
_INCOMING: Final[Mapping[PodState, str]] = {**_PENDING, PodState.GATED: "unschedulable"}


class QueueCounters:
    def __init__(self) -> None:
        self._pending: Counter[str] = Counter()
        self._incoming: Counter[tuple[str, str]] = Counter()
        self._held: Counter[tuple[str, str]] = Counter()

    def moved(self, old: PodState | None, new: PodState | None) -> None:
        """``None``: not in the queue."""
        for where, by in ((old, -1), (new, 1)):
            name = None if where is None else _PENDING.get(where)
            if name is not None:
                self._pending[name] += by

    def came_into(self, where: PodState, label: str) -> None:
        self._incoming[_INCOMING[where], label] += 1

    def rejected(self, plugin: str, profile: str) -> None:
        self._held[plugin, profile] += 1

    def cleared(self, plugins: Iterable[str], profile: str) -> None:
        for plugin in plugins:
            self._held[plugin, profile] -= 1
            if not self._held[plugin, profile]:
                del self._held[plugin, profile]

    def pending(self) -> dict[str, int]:
        return {name: self._pending[name] for name in dict.fromkeys(_PENDING.values())}

    def incoming(self) -> dict[tuple[str, str], int]:
        """By queue and event."""
        return dict(self._incoming)

    def unschedulable(self) -> dict[tuple[str, str], int]:
        """By plugin and profile: pods that the plugin rejected and that were not tried since."""
        return dict(self._held)

    def samples(self, in_flight: Mapping[str, int]) -> Iterator[Sample]:
        for queue, value in self.pending().items():
            yield Sample("scheduler_pending_pods", (("queue", queue),), value)
        for (queue, event), value in sorted(self._incoming.items()):
            yield Sample("scheduler_queue_incoming_pods_total", (("event", event), ("queue", queue)), value)
        for (plugin, profile), value in sorted(self._held.items()):
            yield Sample("scheduler_unschedulable_pods", (("plugin", plugin), ("profile", profile)), value)
        for event, value in sorted(in_flight.items()):
            yield Sample("scheduler_inflight_events", (("event", event),), value)
