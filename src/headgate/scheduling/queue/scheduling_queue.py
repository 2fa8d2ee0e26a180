"""The scheduling queue: which pod is tried next, and which events make the others active again.

A pod is *active* (may be tried), in *backoff* (failed recently), *unschedulable* (a plugin rejected it), *gated* (a
PreEnqueue plugin rejected it) or *in flight* (being tried). Unschedulable and gated pods are in the parking lot and
cost nothing until an event that one of their rejections registered. PreEnqueue plugins run when a pod enters active or
backoff, not while it stays there. ``scheduling/schedule_one.py`` tries pods; ``runtime/scheduler/`` watches and writes.
Differences from kube-scheduler's queue: exact counters (``queue_counters.py``), and gated pods whose time-out has
passed are checked once per time-out, not twice a minute.
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
from headgate.scheduling.queue.active_queue import ActiveQueue, SubQueue
from headgate.scheduling.queue.backoff_queue import BackoffQueue, PodBackoff
from headgate.scheduling.queue.in_flight_pods import InFlightPod, InFlightPods
from headgate.scheduling.queue.nominator import Nominator
from headgate.scheduling.queue.pre_enqueue import PreEnqueueRunner
from headgate.scheduling.queue.queue_counters import POD_POPPED, QueueCounters
from headgate.scheduling.queue.queued_pod_info import P, PodQueueState, QueuedPodInfo
from headgate.scheduling.queue.sort_keys import QueueSortKeys
from headgate.waiting.parking_lot import ParkingInfo, ParkingLot
from headgate.waiting.queueing_hints import any_event_matches

LEAST_WAIT_S: Final = 0.1
"""A parked pod is looked at again after so long at the earliest, unless an event wakes it: a plugin that always waits
for a moment just ahead must not keep the scheduler busy with nothing else."""

_PARKED: Final = (PodQueueState.UNSCHEDULABLE, PodQueueState.GATED)
_BACKING_OFF: Final = (PodQueueState.BACKOFF, PodQueueState.ERROR_BACKOFF)
_NEW: Final = (cluster_events.POD_ADD, cluster_events.POD_UPDATE)


class QueueSettings(msgspec.Struct, frozen=True):
    """As in KubeSchedulerConfiguration. ``pop_from_backoff``: an idle scheduler does not wait for back-offs to end."""

    initial_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    unschedulable_limit_s: float = 300.0
    pop_from_backoff: bool = True


DEFAULTS: Final = QueueSettings()


class SchedulingQueue(Generic[P]):
    """``pre_enqueue``: the plugins of each profile, by scheduler name, in call order. ``lanes``: by scheduler name, the
    sub-queues of active pods that are not ordered by ``sort``."""

    def __init__(
        self,
        pre_enqueue: Mapping[str, Sequence[PreEnqueuePlugin]],
        sort: QueueSortPlugin,
        settings: QueueSettings = DEFAULTS,
        owned: GateOwnership = cluster_events.no_gate_owned,
        metrics: SchedulerMetrics | None = None,
        lanes: Mapping[str, SubQueue] | None = None,
    ) -> None:
        metrics = metrics or SchedulerMetrics()
        self.nominator: Nominator[P] = Nominator()
        self.counters = QueueCounters()
        self.gate_metrics = metrics.gates
        self._gatekeeper = PreEnqueueRunner(pre_enqueue, metrics.timers)
        self._order = QueueSortKeys(sort, metrics.plugin_failures)
        self._settings = settings
        self._owned = owned
        self._rule = PodBackoff(settings.initial_backoff_s, settings.max_backoff_s, settings.pop_from_backoff)
        self._pods: dict[str, QueuedPodInfo[P]] = {}
        self._active = ActiveQueue(lanes)
        self._backoff = BackoffQueue(self._rule)
        self._lot: ParkingLot[str, tuple[Rejection, ...]] = ParkingLot()
        self._in_flight: InFlightPods[P] = InFlightPods()
        self._newly_held: dict[str, None] = {}

    # What is known

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> QueuedPodInfo[P] | None:
        return self._pods.get(uid)

    def pods(self) -> Iterator[QueuedPodInfo[P]]:
        return iter(self._pods.values())

    def why(self, uid: str) -> ParkingInfo[tuple[Rejection, ...]] | None:
        """Why a parked pod waits. A gating plugin is asked for its words anew: it may have lost one of its reasons."""
        why = self._lot.info(uid)
        queued = self._pods.get(uid)
        if why is None or queued is None or queued.gating is None:
            return why
        asked = self._gatekeeper.run(queued.pod, queued.gating)
        return why if asked is None else msgspec.structs.replace(why, reason=(asked,))

    def newly_gated(self) -> list[str]:
        """The pods that PreEnqueue plugins hold for another reason than before, since this was last asked."""
        found, self._newly_held = self._newly_held, {}
        return list(found)

    def samples(self) -> Iterator[Sample]:
        in_flight = Counter(event.label for event in self._in_flight.events())
        in_flight[POD_POPPED] = len(self._in_flight)
        return self.counters.samples(in_flight)

    def next_deadline_s(self) -> float | None:
        """When ``flush`` has something to do, unless something happens before."""
        found = (self._backoff.next_deadline_s(), self._lot.next_deadline_s())
        return min((moment for moment in found if moment is not None), default=None)

    # What comes in

    def add(self, pod: P, now_s: float) -> None:
        self._appeared(pod, cluster_events.POD_ADD, now_s)

    def update(self, pod: P, now_s: float, *, is_own_write: bool = False) -> None:
        """A pod that is on its way to a node (assumed) must not come here: it would be taken for a new one.
        ``is_own_write``: only what the scheduler wrote itself is other than before. The pod does not wake by that."""
        self._appeared(pod, cluster_events.POD_UPDATE, now_s, is_own_write=is_own_write)

    def delete(self, uid: str, now_s: float, *, bound: bool = False) -> None:
        """The pod is gone, or (``bound``) has a node. One that is being tried just does not come back."""
        self.nominator.forget(uid)
        queued = self._pods.pop(uid, None)
        if queued is None:
            return
        flight = self._in_flight.get(queued)
        latest = queued.pod if flight is None else flight.latest
        if flight is not None:
            flight.gone = True
        else:
            self._move(queued, None)
            self._let_go(queued)
        self.gate_metrics.pod_removed(latest)
        if not bound:
            self._promise_ended(latest, now_s)

    def event(self, event: ClusterEvent, now_s: float, only: Callable[[P], bool] | None = None) -> int:
        """Something happened; how many pods it moved to where they may be tried."""
        woken = self._lot.all_units() if event.for_everyone else self._lot.wake(event)
        moved = 0
        for uid in woken:
            queued = self._pods[uid]
            if only is None or only(queued.pod):
                moved += self._requeue(queued, event.label, now_s, skip_backoff=self._hurries(queued, event))
        self._in_flight.record(event)
        return moved

    # Trying

    def pop(self, now_s: float) -> QueuedPodInfo[P] | None:
        """The next pod to try, of all that may be tried by now; whoever takes it says ``fail`` or ``done``."""
        self.flush(now_s)
        uid = self._active.pop()
        if uid is None and self._settings.pop_from_backoff:
            uid = self._backoff.first_rejected()
            if uid is not None:
                self.counters.came_into(PodQueueState.ACTIVE, cluster_events.POP_FROM_BACKOFF)
        if uid is None:
            return None
        return self._set_out(self._pods[uid])

    def take(self, uid: str) -> QueuedPodInfo[P] | None:
        """One that is tried together with another, from wherever it waits; nothing if it must not be tried now."""
        queued = self._pods.get(uid)
        if queued is None or queued.state in (PodQueueState.GATED, PodQueueState.IN_FLIGHT):
            return None
        return self._set_out(queued)

    def _set_out(self, queued: QueuedPodInfo[P]) -> QueuedPodInfo[P]:
        queued.attempts += 1
        self._let_go(queued)
        queued.gating = None
        self._move(queued, PodQueueState.IN_FLIGHT)
        self._in_flight.begin(queued)
        return queued

    def fail(self, queued: QueuedPodInfo[P], rejections: Sequence[Rejection], now_s: float) -> PodQueueState | None:
        """The attempt came to nothing, for these reasons or (none) by error; where the pod waits now, if it does."""
        flight = self._in_flight.get(queued)
        if flight is None:
            return None
        happened = [] if flight.gone else list(self._in_flight.since(flight))
        self._in_flight.end(queued)
        if flight.gone:
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
            self._hold(queued, rejection.plugin)
        helped = [event for event in happened if _helps(queued, event)]
        if helped or not rejections:
            hurry = any(self._hurries(queued, event) for event in helped)
            self._requeue(queued, cluster_events.SCHEDULE_ATTEMPT_FAILURE, now_s, skip_backoff=hurry)
        else:
            self._park(queued, cluster_events.SCHEDULE_ATTEMPT_FAILURE, now_s)
        return queued.state

    def hold(self, queued: QueuedPodInfo[P], rejection: Rejection, now_s: float) -> None:
        """It must not be tried yet after all: that was no attempt."""
        flight = self._in_flight.get(queued)
        if flight is None:
            return
        self._in_flight.end(queued)
        if flight.gone:
            return
        queued.pod = flight.latest
        queued.attempts -= 1
        queued.gating = rejection
        self._hold(queued, rejection.plugin)
        self._park(queued, cluster_events.SCHEDULE_ATTEMPT_FAILURE, now_s)

    def done(self, queued: QueuedPodInfo[P]) -> None:
        """The pod has its node, or needs none any more."""
        flight = self._in_flight.get(queued)
        if flight is None:
            return
        self._in_flight.end(queued)
        if not flight.gone:
            self.nominator.forget(queued.uid)
            self.gate_metrics.pod_removed(flight.latest)
            del self._pods[queued.uid]

    def in_flight(self) -> Iterator[InFlightPod[P]]:
        return iter(self._in_flight)

    def activate(self, uids: Iterable[str], now_s: float) -> int:
        """Somebody knows that these can be tried now; those being tried come back at once if they fail."""
        moved = 0
        for uid in uids:
            queued = self._pods.get(uid)
            if queued is None or queued.state is PodQueueState.ACTIVE:
                continue
            if queued.state is PodQueueState.IN_FLIGHT:
                self._in_flight.record(cluster_events.force_activate(uid))
            else:
                moved += self._to_active(queued, cluster_events.FORCE_ACTIVATE, now_s)
        return moved

    def flush(self, now_s: float) -> int:
        """Moves pods whose backoff or time-out is over; returns how many became active."""
        moved = 0
        for uid in self._backoff.over(now_s):
            moved += self._to_active(self._pods[uid], cluster_events.BACKOFF_COMPLETE, now_s)
        for uid in self._lot.due(now_s):
            moved += self._requeue(self._pods[uid], cluster_events.UNSCHEDULABLE_TIMEOUT.label, now_s)
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
            self._to_active(queued, label, now_s)
            return
        flight = self._in_flight.get(queued)
        old = queued.pod if flight is None else flight.latest
        if pod is old:
            return
        self.gate_metrics.pod_changed(old, pod, now_s)
        happened = [] if is_own_write else cluster_events.pod_update_events(old, pod, self._owned)
        if flight is not None:
            flight.latest = pod
            for event in happened:
                self._in_flight.record(event)
        else:
            queued.pod = pod
            self.nominator.updated(old, pod)
            self._changed_in_place(queued, happened, now_s)
        if old.nominated_node and old.nominated_node != pod.nominated_node:
            self._promise_ended(old, now_s)

    def _changed_in_place(self, queued: QueuedPodInfo[P], happened: Sequence[ClusterEvent], now_s: float) -> None:
        """Only a parked pod may go on by a change of its own; others just keep their order."""
        if queued.state is PodQueueState.ACTIVE:
            self._active.put(queued.pod.scheduler_name, queued.uid, self._key(queued))
        elif queued.state in _BACKING_OFF:
            self._backoff.put(queued, self._key(queued), by_error=queued.state is PodQueueState.ERROR_BACKOFF)
        else:
            self._lot.reorder(queued.uid, self._key(queued))
        for event in happened:
            for _ in self._lot.wake(event):
                self._requeue(queued, event.label, now_s, skip_backoff=self._hurries(queued, event))
                return

    def _promise_ended(self, pod: P, now_s: float) -> None:
        """Pods of no higher priority counted it as if it ran on its node: to them it is as if it went away."""
        if pod.nominated_node:
            freed = ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.DELETE, old=pod)
            self.event(freed, now_s, lambda waiting: waiting.priority <= pod.priority)

    # Steps from place to place

    def _requeue(self, queued: QueuedPodInfo[P], label: str, now_s: float, *, skip_backoff: bool = False) -> bool:
        if not skip_backoff and self._rule.waits(queued, now_s):
            return self._to_backoff(queued, label, now_s)
        return self._to_active(queued, label, now_s)

    def _to_active(self, queued: QueuedPodInfo[P], label: str, now_s: float) -> bool:
        passed = self._settings.pop_from_backoff and queued.state in _BACKING_OFF
        if not passed and self._gated(queued, label, now_s):
            return False
        if queued.initial_attempt_s is None:
            queued.initial_attempt_s = now_s
        self._move(queued, PodQueueState.ACTIVE, label)
        self._active.put(queued.pod.scheduler_name, queued.uid, self._key(queued))
        if label in _NEW:
            self.nominator.nominate(queued.pod, queued.pod.nominated_node)
        return True

    def _to_backoff(self, queued: QueuedPodInfo[P], label: str, now_s: float) -> bool:
        # Whoever waits here may be popped early, and must be free to.
        if self._settings.pop_from_backoff and self._gated(queued, label, now_s):
            return False
        by_error = not queued.rejectors
        self._move(queued, PodQueueState.ERROR_BACKOFF if by_error else PodQueueState.BACKOFF, label)
        self._backoff.put(queued, self._key(queued), by_error=by_error)
        return True

    def _gated(self, queued: QueuedPodInfo[P], label: str, now_s: float) -> bool:
        before = queued.gating
        queued.gating = self._gatekeeper.run(queued.pod, before) or self._order.failure(queued.pod, queued.since_s)
        if queued.gating is None:
            return False
        if before is None or (before.plugin, before.reason) != (queued.gating.plugin, queued.gating.reason):
            self._newly_held[queued.uid] = None
        self._hold(queued, queued.gating.plugin)
        self._park(queued, label, now_s)
        return True

    def _park(self, queued: QueuedPodInfo[P], label: str, now_s: float) -> None:
        gating = queued.gating
        where = PodQueueState.UNSCHEDULABLE if gating is None else PodQueueState.GATED
        reasons = queued.rejections if gating is None else (gating,)
        wakers = reasons[0].wakers if len(reasons) == 1 else tuple(w for each in reasons for w in each.wakers)
        waits = [max(each.look_again_s, LEAST_WAIT_S) for each in reasons if each.look_again_s is not None]
        if any(each.expires for each in reasons):
            waits.append(self._settings.unschedulable_limit_s)
        if queued.state is not where:
            self._move(queued, where, label)
        until_s = now_s + min(waits) if waits else None
        self._lot.park(queued.uid, reasons, wakers, self._key(queued), until_s)

    def _move(self, queued: QueuedPodInfo[P], where: PodQueueState | None, label: str = "") -> None:
        """Out of where it is; into the new place it is put by the caller."""
        if queued.state is PodQueueState.ACTIVE:
            self._active.discard(queued.pod.scheduler_name, queued.uid)
        elif queued.state in _BACKING_OFF:
            self._backoff.discard(queued.uid)
        elif queued.state in _PARKED:
            self._lot.release(queued.uid)
        self.counters.moved(queued.state, where)
        if where is not None and label:
            self.counters.came_into(where, label)
        queued.state = where

    def _hold(self, queued: QueuedPodInfo[P], plugin: str) -> None:
        if plugin not in queued.rejectors:
            queued.rejectors = (*queued.rejectors, plugin)
            self.counters.rejected(plugin, queued.pod.scheduler_name)

    def _let_go(self, queued: QueuedPodInfo[P]) -> None:
        self.counters.cleared(queued.rejectors, queued.pod.scheduler_name)
        queued.rejectors = ()
        queued.rejections = ()

    def _hurries(self, queued: QueuedPodInfo[P], event: ClusterEvent) -> bool:
        """A pending plugin that gets what it waited for owes its pod no wait."""
        return not event.for_everyone and any(
            each.pending and any_event_matches(each.wakers, event) for each in queued.rejections
        )

    def _key(self, queued: QueuedPodInfo[P]) -> tuple[Any, ...]:
        return self._order.key(queued.pod, queued.since_s)


def _helps(queued: QueuedPodInfo[Any], event: ClusterEvent) -> bool:
    return event.for_everyone or any(any_event_matches(each.wakers, event) for each in queued.rejections)
