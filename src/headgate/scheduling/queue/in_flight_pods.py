"""Pods that are being tried, and the events that happened meanwhile.

A plugin that rejects a pod evaluated the cluster at the start of the attempt. An event since then may be what the pod
needs, and its queueing hints were not registered yet. Events are therefore kept as long as an attempt is in progress
that began before them, and are checked when the attempt fails (``scheduling_queue.py``).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import islice
from typing import Generic

import msgspec

from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.queue.queued_pod_info import P, QueuedPodInfo


# Mutable: the pod may be changed or deleted while it is being tried.
class InFlightPod(msgspec.Struct, Generic[P], eq=False):
    """One attempt. ``began``: the sequence number of the first event after the attempt began. ``latest``: the latest
    known version of the pod. ``gone``: the pod was deleted or bound during the attempt."""

    queued: QueuedPodInfo[P]
    began: int
    latest: P
    gone: bool = False


class InFlightPods(Generic[P]):
    """The attempts in progress, by attempt and not by pod: a pod may be deleted and created again before its last
    attempt has ended."""

    def __init__(self) -> None:
        # An OrderedDict, because a dict finds its first key slowly after many keys before it were removed.
        self._flights: OrderedDict[QueuedPodInfo[P], InFlightPod[P]] = OrderedDict()
        self._events: deque[ClusterEvent] = deque()
        self._first_event = 0

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[InFlightPod[P]]:
        """Oldest first."""
        return iter(self._flights.values())

    def get(self, queued: QueuedPodInfo[P]) -> InFlightPod[P] | None:
        return self._flights.get(queued)

    def begin(self, queued: QueuedPodInfo[P]) -> None:
        self._flights[queued] = InFlightPod(queued, self._first_event + len(self._events), queued.pod)

    def record(self, event: ClusterEvent) -> None:
        """Keeps the event if an attempt is in progress."""
        if self._flights:
            self._events.append(event)

    def events(self) -> Iterator[ClusterEvent]:
        return iter(self._events)

    def since(self, flight: InFlightPod[P]) -> Iterator[ClusterEvent]:
        """The events since the attempt began that may concern this pod."""
        uid = flight.queued.uid
        for event in islice(self._events, flight.began - self._first_event, None):
            if event.target is None or event.target == uid:
                yield event

    def end(self, queued: QueuedPodInfo[P]) -> None:
        """Forgets the attempt, and the events before the oldest attempt that is left."""
        if self._flights.pop(queued, None) is None:
            return
        oldest = next(iter(self._flights.values()), None)
        keep_from = self._first_event + len(self._events) if oldest is None else oldest.began
        while self._first_event < keep_from:
            self._events.popleft()
            self._first_event += 1
