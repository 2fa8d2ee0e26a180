"""Counters of the scheduling queue, under the names and labels of kube-scheduler's metrics.

The counters are exact after each step: a deleted pod is subtracted, and a pod that is checked again and stays gated
adds nothing (the counters of kube-scheduler v1.35.8 drift in both cases: k/k#120395 and k/k#139331).
``scheduling/metrics/scheduler_metrics.py`` exports them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headgate.kube.metrics import Sample
from headgate.scheduling.pod_lifecycle import PodState

POD_POPPED: Final = "PodPopped"

# The label "queue" of scheduler_pending_pods, and of scheduler_queue_incoming_pods_total.
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
        self._rejected: Counter[tuple[str, str]] = Counter()

    def moved(self, old: PodState | None, new: PodState | None) -> None:
        """A pod changed its state. ``None``: not in the queue."""
        for state, sign in ((old, -1), (new, 1)):
            name = None if state is None else _PENDING.get(state)
            if name is not None:
                self._pending[name] += sign

    def entered(self, state: PodState, label: str) -> None:
        self._incoming[_INCOMING[state], label] += 1

    def rejected(self, plugin: str, profile: str) -> None:
        self._rejected[plugin, profile] += 1

    def cleared(self, plugins: Iterable[str], profile: str) -> None:
        """A pod that these plugins rejected is tried again or deleted."""
        for plugin in plugins:
            self._rejected[plugin, profile] -= 1
            if not self._rejected[plugin, profile]:
                del self._rejected[plugin, profile]

    def pending(self) -> dict[str, int]:
        return {name: self._pending[name] for name in dict.fromkeys(_PENDING.values())}

    def incoming(self) -> dict[tuple[str, str], int]:
        """By queue and event."""
        return dict(self._incoming)

    def unschedulable(self) -> dict[tuple[str, str], int]:
        """By plugin and profile: pods that the plugin rejected and that were not tried since."""
        return dict(self._rejected)

    def samples(self, in_flight: Mapping[str, int]) -> Iterator[Sample]:
        for queue, value in self.pending().items():
            yield Sample("scheduler_pending_pods", (("queue", queue),), value)
        for (queue, event), value in sorted(self._incoming.items()):
            yield Sample("scheduler_queue_incoming_pods_total", (("event", event), ("queue", queue)), value)
        for (plugin, profile), value in sorted(self._rejected.items()):
            yield Sample("scheduler_unschedulable_pods", (("plugin", plugin), ("profile", profile)), value)
        for event, value in sorted(in_flight.items()):
            yield Sample("scheduler_inflight_events", (("event", event),), value)
