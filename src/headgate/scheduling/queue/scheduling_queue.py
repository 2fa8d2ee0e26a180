"""The scheduling queue: which pod is tried next, and which events make the others active again.

``scheduling/pod_lifecycle.py`` has the states of a pod and the transitions. Unschedulable and gated pods are in the
parking lot (``waiting/parking_lot.py``) and cost nothing until an event for which one of their rejections is
registered. PreEnqueue plugins run when a pod enters active or backoff, not while it stays there.
``scheduling/schedule_one.py`` tries pods; ``runtime/scheduler/`` watches and writes. Differences from kube-scheduler's
queue: the counters are exact (``queue_counters.py``), and gated pods whose time-out has passed are checked once per
time-out, not twice a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic

import msgspec

from headgate.kube.metrics import Sample
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.cluster_events import ClusterEvent, GateOwnership
from headgate.scheduling.framework.interface import PreEnqueuePlugin, QueueSortPlugin, Rejection
from headgate.scheduling.metrics.scheduler_metrics import SchedulerMetrics
from headgate.scheduling.pod_lifecycle import BACKING_OFF, IN_FLIGHT, PARKED, Guard, PodEvent, PodState, next_state
from headgate.scheduling.queue.active_queue import ActiveQueue, SubQueue
from headgate.scheduling.queue.backoff_queue import BackoffQueue, PodBackoff
from headgate.scheduling.queue.in_flight_pods import InFlightPod, InFlightPods
from headgate.scheduling.queue.nominator import Nominator
from headgate.scheduling.queue.pre_enqueue import PreEnqueueRunner
from headgate.scheduling.queue.queue_counters import POD_POPPED, QueueCounters
from headgate.scheduling.queue.queued_pod_info import P, QueuedPodInfo
from headgate.scheduling.queue.sort_keys import QueueSortKeys
from headgate.waiting.parking_lot import ParkingInfo, ParkingLot
from headgate.waiting.queueing_hints import any_event_matches

MIN_WAIT_S: Final = 0.1
"""The shortest time-out of a parked pod: a plugin that asks for a shorter one again and again must not keep the
scheduler busy."""

_NEW: Final = (cluster_events.POD_ADD, cluster_events.POD_UPDATE)


class QueueSettings(msgspec.Struct, frozen=True):
    """As in KubeSchedulerConfiguration. ``unschedulable_limit_s``: after this time an unschedulable pod is retried
    without an event. ``pop_from_backoff``: if no pod is active, pods are tried before their back-off is over."""

    initial_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    unschedulable_limit_s: float = 300.0
    pop_from_backoff: bool = True


DEFAULTS: Final = QueueSettings()


class SchedulingQueue(Generic[P]):
    """``pre_enqueue``: the plugins of each profile, by scheduler name, in call order. ``sub_queues``: for the scheduler
    names whose active pods are not ordered by ``sort``, the queue that orders them. ``owned`` returns whether a
    built-in plugin removes a scheduling gate."""

    def __init__(
        self,
        pre_enqueue: Mapping[str, Sequence[PreEnqueuePlugin]],
        sort: QueueSortPlugin,
        settings: QueueSettings = DEFAULTS,
        owned: GateOwnership = cluster_events.no_gate_owned,
        metrics: SchedulerMetrics | None = None,
        sub_queues: Mapping[str, SubQueue] | None = None,
    ) -> None:
        metrics = metrics or SchedulerMetrics()
        self.nominator: Nominator[P] = Nominator()
        self.counters = QueueCounters()
        self.gate_metrics = metrics.gates
        self._pre_enqueue = PreEnqueueRunner(pre_enqueue, metrics.timers)
        self._order = QueueSortKeys(sort, metrics.plugin_failures)
        self._settings = settings
        self._owned = owned
        self._pod_backoff = PodBackoff(settings.initial_backoff_s, settings.max_backoff_s, settings.pop_from_backoff)
        self._pods: dict[str, QueuedPodInfo[P]] = {}
        self._active = ActiveQueue(sub_queues)
        self._backoff = BackoffQueue(self._pod_backoff)
        self._parking_lot: ParkingLot[str, tuple[Rejection, ...]] = ParkingLot()
        self._in_flight: InFlightPods[P] = InFlightPods()
        self._newly_gated: dict[str, None] = {}

    # Reads

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> QueuedPodInfo[P] | None:
        return self._pods.get(uid)

    def pods(self) -> Iterator[QueuedPodInfo[P]]:
        return iter(self._pods.values())

    def why(self, uid: str) -> ParkingInfo[tuple[Rejection, ...]] | None:
        """Why a parked pod waits. For a gated pod the PreEnqueue plugins run again, because the reason may have
        changed."""
        why = self._parking_lot.info(uid)
        queued = self._pods.get(uid)
        if why is None or queued is None or queued.gating is None:
            return why
        rejection = self._pre_enqueue.run(queued.pod, queued.gating)
        return why if rejection is None else msgspec.structs.replace(why, reason=(rejection,))

    def newly_gated(self) -> list[str]:
        """The pods that PreEnqueue plugins reject for another reason than before, since the last call."""
        found, self._newly_gated = self._newly_gated, {}
        return list(found)

    def samples(self) -> Iterator[Sample]:
        in_flight = Counter(event.label for event in self._in_flight.events())
        in_flight[POD_POPPED] = len(self._in_flight)
        return self.counters.samples(in_flight)

    def next_deadline_s(self) -> float | None:
        """When ``requeue_due`` has work to do, if no event happens before."""
        found = (self._backoff.next_deadline_s(), self._parking_lot.next_deadline_s())
        return min((moment for moment in found if moment is not None), default=None)

    # Events

    def add(self, pod: P, now_s: float) -> None:
        self._appeared(pod, cluster_events.POD_ADD, now_s)

    def update(self, pod: P, now_s: float, *, is_own_write: bool = False) -> None:
        """A pod without a node changed. The caller must not pass an assumed pod: it would count as new.
        ``is_own_write``: only fields that the scheduler wrote itself have changed, which wakes no pod."""
        self._appeared(pod, cluster_events.POD_UPDATE, now_s, is_own_write=is_own_write)

    def delete(self, uid: str, now_s: float, *, bound: bool = False) -> None:
        """The pod was deleted, or (``bound``) has a node. A pod in flight does not return to the queue."""
        self.nominator.forget(uid)
        queued = self._pods.pop(uid, None)
        if queued is None:
            return
        flight = self._in_flight.get(queued)
        latest = queued.pod if flight is None else flight.latest
        if flight is not None:
            flight.gone = True
        else:
            self._move(queued, PodEvent.DELETED)
            self._clear_rejections(queued)
        self.gate_metrics.pod_removed(latest)
        if not bound:
            self._nomination_ended(latest, now_s)

    def event(self, event: ClusterEvent, now_s: float, only: Callable[[P], bool] | None = None) -> int:
        """Wakes the pods that the event may make schedulable; returns how many of them may be tried. ``only``: if
        given, only pods for which it returns true are woken."""
        woken = self._parking_lot.all_units() if event.for_everyone else self._parking_lot.wake(event)
        moved = 0
        for uid in woken:
            queued = self._pods[uid]
            if only is None or only(queued.pod):
                skip_backoff = self._skips_backoff(queued, event)
                moved += self._requeue(queued, PodEvent.WOKEN, event.label, now_s, skip_backoff=skip_backoff)
        self._in_flight.record(event)
        return moved

    # Attempts

    def pop(self, now_s: float) -> QueuedPodInfo[P] | None:
        """The next pod to try; the caller ends the attempt with ``fail``, ``hold`` or ``done``."""
        self.requeue_due(now_s)
        uid = self._active.pop()
        if uid is None and self._settings.pop_from_backoff:
            uid = self._backoff.first_rejected()
            if uid is not None:
                self.counters.entered(PodState.ACTIVE, cluster_events.POP_FROM_BACKOFF)
        if uid is None:
            return None
        return self._begin_attempt(self._pods[uid], PodEvent.POPPED)

    def take(self, uid: str) -> QueuedPodInfo[P] | None:
        """A pod that is tried together with another, in any state in the queue; ``None`` if it must not be tried."""
        queued = self._pods.get(uid)
        if queued is None or queued.state is PodState.GATED or queued.state in IN_FLIGHT:
            return None
        return self._begin_attempt(queued, PodEvent.TAKEN)

    def _begin_attempt(self, queued: QueuedPodInfo[P], event: PodEvent) -> QueuedPodInfo[P]:
        queued.attempts += 1
        self._clear_rejections(queued)
        queued.gating = None
        self._move(queued, event)
        self._in_flight.begin(queued)
        return queued

    def fail(self, queued: QueuedPodInfo[P], rejections: Sequence[Rejection], now_s: float) -> PodState | None:
        """Ends an attempt without a node: plugins rejected the pod, or (no rejections) an error occurred. Returns the
        new state; ``None`` if the pod was deleted or has a node."""
        flight = self._in_flight.get(queued)
        if flight is None:
            return None
        events = [] if flight.gone else list(self._in_flight.since(flight))
        self._in_flight.end(queued)
        if flight.gone:
            self._move(queued, PodEvent.ENDED)
            return None
        queued.pod = flight.latest
        queued.since_s = now_s
        queued.backoff_until_s = None
        queued.rejections = tuple(rejections)
        if rejections:
            queued.unschedulable_count += 1
            queued.consecutive_errors = 0
        else:
            queued.consecutive_errors += 1
        for rejection in rejections:
            self._add_rejector(queued, rejection.plugin)
        label = cluster_events.SCHEDULE_ATTEMPT_FAILURE
        matching = [event for event in events if _matches(queued, event)]
        if rejections and not matching:
            self._move(queued, PodEvent.REJECTED, Guard.NOTHING_HELPS, label)
            self._park(queued, now_s)
        else:
            skip_backoff = any(self._skips_backoff(queued, event) for event in matching)
            event = PodEvent.REJECTED if rejections else PodEvent.FAILED
            self._requeue(queued, event, label, now_s, skip_backoff=skip_backoff)
        return queued.state

    def hold(self, queued: QueuedPodInfo[P], rejection: Rejection, now_s: float) -> None:
        """Ends an attempt of a pod whose queue has revoked the grant: the pod becomes gated. This does not count as an
        attempt."""
        flight = self._in_flight.get(queued)
        if flight is None:
            return
        self._in_flight.end(queued)
        if flight.gone:
            self._move(queued, PodEvent.ENDED)
            return
        queued.pod = flight.latest
        queued.attempts -= 1
        queued.gating = rejection
        self._add_rejector(queued, rejection.plugin)
        self._move(queued, PodEvent.HELD, label=cluster_events.SCHEDULE_ATTEMPT_FAILURE)
        self._park(queued, now_s)

    def done(self, queued: QueuedPodInfo[P]) -> None:
        """The pod is bound, or was deleted."""
        flight = self._in_flight.get(queued)
        if flight is None:
            return
        self._in_flight.end(queued)
        self._move(queued, PodEvent.ENDED)
        if not flight.gone:
            self.nominator.forget(queued.uid)
            self.gate_metrics.pod_removed(flight.latest)
            del self._pods[queued.uid]

    def in_flight(self) -> Iterator[InFlightPod[P]]:
        return iter(self._in_flight)

    def activate(self, uids: Iterable[str], now_s: float) -> int:
        """Makes these pods active without back-off, because another component requests it. A pod in flight is tried
        again if it fails."""
        moved = 0
        label = cluster_events.FORCE_ACTIVATE
        for uid in uids:
            queued = self._pods.get(uid)
            if queued is None or queued.state is PodState.ACTIVE:
                continue
            if queued.state in IN_FLIGHT:
                self._in_flight.record(cluster_events.force_activate(uid))
            else:
                moved += self._requeue(queued, PodEvent.ACTIVATED, label, now_s, skip_backoff=True)
        return moved

    def requeue_due(self, now_s: float) -> int:
        """Moves pods whose backoff or time-out is over; returns how many became active."""
        moved = 0
        for uid in self._backoff.over(now_s):
            label = cluster_events.BACKOFF_COMPLETE
            moved += self._requeue(self._pods[uid], PodEvent.BACKOFF_OVER, label, now_s, skip_backoff=True)
        for uid in self._parking_lot.due(now_s):
            label = cluster_events.UNSCHEDULABLE_TIMEOUT.label
            moved += self._requeue(self._pods[uid], PodEvent.WOKEN, label, now_s)
        return moved

    def nominate(self, pod: P, node: str) -> None:
        """Nominates a pod to a node, or (empty) clears its nomination; an unknown pod is ignored."""
        if pod.uid in self._pods:
            self.nominator.nominate(pod, node)

    # Pods that appear or change

    def _appeared(self, pod: P, label: str, now_s: float, *, is_own_write: bool = False) -> None:
        queued = self._pods.get(pod.uid)
        if queued is None:
            queued = self._pods[pod.uid] = QueuedPodInfo(pod, now_s)
            self.gate_metrics.pod_added(pod)
            self._requeue(queued, PodEvent.ADDED, label, now_s, skip_backoff=True)
            return
        flight = self._in_flight.get(queued)
        old = queued.pod if flight is None else flight.latest
        if pod is old:
            return
        self.gate_metrics.pod_changed(old, pod, now_s)
        events = [] if is_own_write else cluster_events.pod_update_events(old, pod, self._owned)
        if flight is not None:
            flight.latest = pod
            for event in events:
                self._in_flight.record(event)
        else:
            queued.pod = pod
            self.nominator.updated(old, pod)
            self._changed_in_place(queued, events, now_s)
        if old.nominated_node and old.nominated_node != pod.nominated_node:
            self._nomination_ended(old, now_s)

    def _changed_in_place(self, queued: QueuedPodInfo[P], events: Sequence[ClusterEvent], now_s: float) -> None:
        """An update of a pod changes its state only if it is parked; a pod in another queue gets its new sort key
        there."""
        if queued.state is PodState.ACTIVE:
            self._active.put(queued.pod.scheduler_name, queued.uid, self._key(queued))
        elif queued.state in BACKING_OFF:
            self._backoff.put(queued, self._key(queued), by_error=queued.state is PodState.ERROR_BACKOFF)
        else:
            self._parking_lot.reorder(queued.uid, self._key(queued))
        for event in events:
            for _ in self._parking_lot.wake(event):
                skip_backoff = self._skips_backoff(queued, event)
                self._requeue(queued, PodEvent.WOKEN, event.label, now_s, skip_backoff=skip_backoff)
                return

    def _nomination_ended(self, pod: P, now_s: float) -> None:
        """Wakes pods of the same or lower priority as if the pod was deleted: filters counted it on its nominated
        node."""
        if pod.nominated_node:
            freed = ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.DELETE, old=pod)
            self.event(freed, now_s, lambda waiting: waiting.priority <= pod.priority)

    # Transitions

    def _requeue(
        self, queued: QueuedPodInfo[P], event: PodEvent, label: str, now_s: float, *, skip_backoff: bool = False
    ) -> bool:
        """Moves the pod to active or backoff, or to gated if a PreEnqueue plugin rejects it. Returns whether it may be
        tried, now or after its back-off. ``label``: the event, as the metrics name it."""
        guard = self._guard(queued, now_s, skip_backoff=skip_backoff)
        state = self._move(queued, event, guard, label)
        if state is PodState.ACTIVE:
            if queued.initial_attempt_s is None:
                queued.initial_attempt_s = now_s
            self._active.put(queued.pod.scheduler_name, queued.uid, self._key(queued))
            if label in _NEW:
                self.nominator.nominate(queued.pod, queued.pod.nominated_node)
        elif state in BACKING_OFF:
            self._backoff.put(queued, self._key(queued), by_error=state is PodState.ERROR_BACKOFF)
        else:
            self._park(queued, now_s)
        return state is not PodState.GATED

    def _guard(self, queued: QueuedPodInfo[P], now_s: float, *, skip_backoff: bool) -> Guard:
        """PreEnqueue plugins run once before an attempt: before the pod enters backoff if pods may be popped from
        there, otherwise before it enters active."""
        backs_off = not skip_backoff and self._pod_backoff.waits(queued, now_s)
        if self._settings.pop_from_backoff:
            runs_pre_enqueue = queued.state not in BACKING_OFF
        else:
            runs_pre_enqueue = not backs_off
        if runs_pre_enqueue and self._is_gated(queued):
            return Guard.PRE_ENQUEUE_REJECTS
        return Guard.BACKOFF_LASTS if backs_off else Guard.READY

    def _is_gated(self, queued: QueuedPodInfo[P]) -> bool:
        before = queued.gating
        queued.gating = self._pre_enqueue.run(queued.pod, before) or self._order.failure(queued.pod, queued.since_s)
        if queued.gating is None:
            return False
        if before is None or (before.plugin, before.reason) != (queued.gating.plugin, queued.gating.reason):
            self._newly_gated[queued.uid] = None
        self._add_rejector(queued, queued.gating.plugin)
        return True

    def _park(self, queued: QueuedPodInfo[P], now_s: float) -> None:
        """Put the pod into the parking lot, with the events and the time after which it is retried."""
        rejections = queued.rejections if queued.gating is None else (queued.gating,)
        wakers = (
            rejections[0].wakers
            if len(rejections) == 1
            else tuple(waker for each in rejections for waker in each.wakers)
        )
        timeouts_s = [max(each.look_again_s, MIN_WAIT_S) for each in rejections if each.look_again_s is not None]
        if any(each.expires for each in rejections):
            timeouts_s.append(self._settings.unschedulable_limit_s)
        until_s = now_s + min(timeouts_s) if timeouts_s else None
        self._parking_lot.park(queued.uid, rejections, wakers, self._key(queued), until_s)

    def _move(
        self, queued: QueuedPodInfo[P], event: PodEvent, guard: Guard = Guard.ALWAYS, label: str = ""
    ) -> PodState | None:
        """Changes the state and removes the pod from the queue of its old state; the caller adds it to that of the new
        one. A pod that stays gated stays in the parking lot."""
        old, new = queued.state, next_state(queued.state, event, guard)
        if new is old:
            return new
        if old is PodState.ACTIVE:
            self._active.discard(queued.pod.scheduler_name, queued.uid)
        elif old in BACKING_OFF:
            self._backoff.discard(queued.uid)
        elif old in PARKED:
            self._parking_lot.release(queued.uid)
        self.counters.moved(old, new)
        if new is not None and label:
            self.counters.entered(new, label)
        queued.state = new
        return new

    def _add_rejector(self, queued: QueuedPodInfo[P], plugin: str) -> None:
        if plugin not in queued.rejectors:
            queued.rejectors = (*queued.rejectors, plugin)
            self.counters.rejected(plugin, queued.pod.scheduler_name)

    def _clear_rejections(self, queued: QueuedPodInfo[P]) -> None:
        self.counters.cleared(queued.rejectors, queued.pod.scheduler_name)
        queued.rejectors = ()
        queued.rejections = ()

    def _skips_backoff(self, queued: QueuedPodInfo[P], event: ClusterEvent) -> bool:
        """Whether the event is what a plugin with a ``pending`` rejection waited for: then the pod has no back-off."""
        return not event.for_everyone and any(
            each.pending and any_event_matches(each.wakers, event) for each in queued.rejections
        )

    def _key(self, queued: QueuedPodInfo[P]) -> tuple[Any, ...]:
        return self._order.key(queued.pod, queued.since_s)


def _matches(queued: QueuedPodInfo[Any], event: ClusterEvent) -> bool:
    return event.for_everyone or any(any_event_matches(each.wakers, event) for each in queued.rejections)
