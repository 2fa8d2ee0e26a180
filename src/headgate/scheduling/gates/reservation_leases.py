"""Leases in the scheduler (feature gate ``ReservationLease``): renews them while a node is on its way, ends the others.

The queue engine says which leases have ended (``capacity/grants/leases.py``). The lease of a pod is renewed if the pod
has a nominated node or is being bound, or if an autoscaler adds a node for it (``autoscaler_signs.py``). Otherwise its
stamp is removed (``promise_revocation.py``), and its capacity goes to the next pods when that is confirmed. Then the
pod waits for its queue: its condition has the reason ``WaitingForQueue``, which autoscalers ignore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from headgate.capacity.engine import QueueEngine, WaitReason
from headgate.kube.api_resources import EVENTS, APIResource
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.effects import Effect, EmitPodEvent, RemoveStamp
from headgate.scheduling.gates.autoscaler_signs import (
    NODE_CLAIMS,
    PROVISIONING_S,
    WATCHES,
    LeaseWatch,
    StartingMachines,
    read_sign,
)
from headgate.scheduling.gates.promise_revocation import PromiseRevocation
from headgate.scheduling.metrics.capacity_queue_metrics import CapacityQueueMetrics
from headgate.scheduling.pod_lifecycle import IN_FLIGHT
from headgate.scheduling.queue.queued_pod_info import QueuedPodInfo
from headgate.scheduling.queue.scheduling_queue import SchedulingQueue

Object = Mapping[str, Any]

_LAPSED: Final = WaitReason.LAPSED.value


class ReservationLeases:
    """``time_of_day`` returns the seconds since 1970."""

    def __init__(
        self,
        queues: QueueEngine,
        queue: SchedulingQueue[PodInfo],
        revocation: PromiseRevocation,
        metrics: CapacityQueueMetrics,
        time_of_day: Callable[[], float],
    ) -> None:
        self._queues = queues
        self._queue = queue
        self._revocation = revocation
        self._metrics = metrics
        self._time_of_day = time_of_day
        self._is_enabled = queues.has_leases
        self._machines = StartingMachines()

    @property
    def watches(self) -> Sequence[LeaseWatch]:
        """The objects that leases need, besides those of the scheduler; none if the feature gate is off."""
        return WATCHES if self._is_enabled else ()

    def object_applied(self, resource: APIResource, obj: Object, now_s: float) -> None:
        if resource == EVENTS:
            sign = read_sign(obj)
            if sign is not None:
                # A sign of the past, which a new watch shows, counts from its own time.
                age_s = max(self._time_of_day() - sign.at_s, 0.0)
                self._queues.renew_lease(sign.uid, now_s - age_s, PROVISIONING_S)
        elif resource == NODE_CLAIMS:
            self._machines.applied(obj)
        else:
            self._queues.priority_class_applied(obj)

    def object_removed(self, resource: APIResource, name: str) -> None:
        if resource == NODE_CLAIMS:
            self._machines.removed(name)
        elif resource != EVENTS:
            self._queues.priority_class_removed(name)

    def step(self, now_s: float) -> list[Effect]:
        """Begins and ends leases."""
        if not self._is_enabled:
            return []
        time_of_day_s = self._time_of_day()
        self._queues.update_leases(now_s, time_of_day_s)
        effects: list[Effect] = []
        for uids in self._queues.expired_leases(now_s):
            queued = [self._queue.get(uid) for uid in uids]
            is_served = any(each is None or self._is_served(each) for each in queued)
            removals = [] if is_served else list(self._revocation.begin_lapse(uids, time_of_day_s))
            if not removals:
                for uid in uids:
                    self._queues.renew_lease(uid, now_s)
            effects += [*removals, *self._lapse_events(removals)]
        return effects

    def _lapse_events(self, removals: Sequence[RemoveStamp]) -> Iterator[Effect]:
        for removal in removals:
            pod = removal.pod
            self._metrics.lapsed(self._queues.queue_of(pod.uid))
            wait = self._queues.peek_wait_reason(pod.uid)
            if wait is not None:
                yield EmitPodEvent(pod, "Normal", _LAPSED, "Scheduling", wait.message)

    def _is_served(self, queued: QueuedPodInfo[PodInfo]) -> bool:
        """Whether a node is on its way for the pod."""
        pod = queued.pod
        if queued.state in IN_FLIGHT or pod.nominated_node or self._queue.nominator.node_of(pod.uid) is not None:
            return True
        return self._machines.may_serve(pod)
