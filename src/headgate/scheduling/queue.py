"""The scheduling queue: which pod is tried next, and what must happen before the others are.

A pod is *active* (may be tried), in *backoff* (failed a moment ago), *unschedulable* (a plugin turned it away), *gated*
(a PreEnqueue plugin says it may not be tried yet) or *in flight* (being tried). The unschedulable and the gated are
parked, and cost nothing until an event comes up that one of their rejections named. PreEnqueue plugins are asked on the
way into active or backoff, never again inside: a pod that may be tried stays so. Not here: trying a pod (``cycle.py``),
watching and writing (``control/scheduler/``). After kube-scheduler's queue; differences are improvements of its
counting (``counters.py``), and that gated pods whose time is up are looked at again once per limit, not twice a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic

import msgspec

from headgate.kube.exposition import Sample
from headgate.scheduling import events
from headgate.scheduling.backoff import BackoffQueue, BackoffRule
from headgate.scheduling.contract import PreEnqueue, QueueSort, Rejection
from headgate.scheduling.counters import POD_POPPED, Counters
from headgate.scheduling.events import Event, Owned
from headgate.scheduling.gatekeeper import Gatekeeper
from headgate.scheduling.inflight import Flight, InFlight
from headgate.scheduling.lanes import Lane, Lanes
from headgate.scheduling.metrics import Metrics
from headgate.scheduling.nominations import Nominations
from headgate.scheduling.order_keys import OrderKeys
from headgate.scheduling.queued import P, Queued, Where
from headgate.waiting.lot import ParkingLot, Why
from headgate.waiting.waker import stirred

LEAST_WAIT_S: Final = 0.1
"""A parked pod is looked at again after so long at the earliest, unless an event wakes it: a plugin that always waits
for a moment just ahead must not keep the scheduler busy with nothing else."""

_PARKED: Final = (Where.UNSCHEDULABLE, Where.GATED)
_BACKING_OFF: Final = (Where.BACKOFF, Where.ERROR_BACKOFF)
_NEW: Final = (events.POD_ADD, events.POD_UPDATE)


class QueueSettings(msgspec.Struct, frozen=True):
    """As in KubeSchedulerConfiguration. ``pop_from_backoff``: an idle scheduler does not wait for backoffs to end."""

    initial_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    unschedulable_limit_s: float = 300.0
    pop_from_backoff: bool = True


DEFAULTS: Final = QueueSettings()


class SchedulingQueue(Generic[P]):
    """``pre_enqueue``: the plugins of each profile, by scheduler name, in the order in which they are asked. ``lanes``:
    by scheduler name, where pods wait for their turn that are not ordered by ``sort``."""

    def __init__(
        self,
        pre_enqueue: Mapping[str, Sequence[PreEnqueue]],
        sort: QueueSort,
        settings: QueueSettings = DEFAULTS,
        owned: Owned = events.nobody_owns,
        metrics: Metrics | None = None,
        lanes: Mapping[str, Lane] | None = None,
    ) -> None:
        metrics = metrics or Metrics()
        self.nominations: Nominations[P] = Nominations()
        self.counters = Counters()
        self.gate_waits = metrics.gates
        self._gatekeeper = Gatekeeper(pre_enqueue, metrics.watch)
        self._order = OrderKeys(sort, metrics.plugin_failures)
        self._settings = settings
        self._owned = owned
        self._rule = BackoffRule(settings.initial_backoff_s, settings.max_backoff_s, settings.pop_from_backoff)
        self._pods: dict[str, Queued[P]] = {}
        self._active = Lanes(lanes)
        self._backoff = BackoffQueue(self._rule)
        self._lot: ParkingLot[str, tuple[Rejection, ...]] = ParkingLot()
        self._in_flight: InFlight[P] = InFlight()
        self._newly_held: dict[str, None] = {}

    # What is known

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> Queued[P] | None:
        return self._pods.get(uid)

    def pods(self) -> Iterator[Queued[P]]:
        return iter(self._pods.values())

    def why(self, uid: str) -> Why[tuple[Rejection, ...]] | None:
        """Why a parked pod waits. A gating plugin is asked for its words anew: it may have lost one of its reasons."""
        why = self._lot.why(uid)
        queued = self._pods.get(uid)
        if why is None or queued is None or queued.gating is None:
            return why
        asked = self._gatekeeper.ask(queued.pod, queued.gating)
        return why if asked is None else msgspec.structs.replace(why, reason=(asked,))

    def newly_held(self) -> list[str]:
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
        self._appeared(pod, events.POD_ADD, now_s)

    def update(self, pod: P, now_s: float, *, is_own_write: bool = False) -> None:
        """A pod that is on its way to a node (assumed) must not come here: it would be taken for a new one.
        ``is_own_write``: only what the scheduler wrote itself is other than before. The pod does not wake by that."""
        self._appeared(pod, events.POD_UPDATE, now_s, is_own_write=is_own_write)

    def delete(self, uid: str, now_s: float, *, bound: bool = False) -> None:
        """The pod is gone, or (``bound``) has a node. One that is being tried just does not come back."""
        self.nominations.forget(uid)
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
        self.gate_waits.left(latest)
        if not bound:
            self._promise_ended(latest, now_s)

    def event(self, event: Event, now_s: float, only: Callable[[P], bool] | None = None) -> int:
        """Something happened; how many pods it moved to where they may be tried."""
        woken = self._lot.everyone() if event.for_everyone else self._lot.wake(event)
        moved = 0
        for uid in woken:
            queued = self._pods[uid]
            if only is None or only(queued.pod):
                moved += self._requeue(queued, event.label, now_s, skip_backoff=self._hurries(queued, event))
        self._in_flight.record(event)
        return moved

    # Trying

    def pop(self, now_s: float) -> Queued[P] | None:
        """The next pod to try, of all that may be tried by now; whoever takes it says ``fail`` or ``done``."""
        self.flush(now_s)
        uid = self._active.pop()
        if uid is None and self._settings.pop_from_backoff:
            uid = self._backoff.first_rejected()
            if uid is not None:
                self.counters.came_into(Where.ACTIVE, events.POP_FROM_BACKOFF)
        if uid is None:
            return None
        return self._set_out(self._pods[uid])

    def take(self, uid: str) -> Queued[P] | None:
        """One that is tried together with another, from wherever it waits; nothing if it must not be tried now."""
        queued = self._pods.get(uid)
        if queued is None or queued.where in (Where.GATED, Where.IN_FLIGHT):
            return None
        return self._set_out(queued)

    def _set_out(self, queued: Queued[P]) -> Queued[P]:
        queued.attempts += 1
        self._let_go(queued)
        queued.gating = None
        self._move(queued, Where.IN_FLIGHT)
        self._in_flight.begin(queued)
        return queued

    def fail(self, queued: Queued[P], rejections: Sequence[Rejection], now_s: float) -> Where | None:
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
            self._requeue(queued, events.SCHEDULE_ATTEMPT_FAILURE, now_s, skip_backoff=hurry)
        else:
            self._park(queued, events.SCHEDULE_ATTEMPT_FAILURE, now_s)
        return queued.where

    def hold(self, queued: Queued[P], rejection: Rejection, now_s: float) -> None:
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
        self._park(queued, events.SCHEDULE_ATTEMPT_FAILURE, now_s)

    def done(self, queued: Queued[P]) -> None:
        """The pod has its node, or needs none any more."""
        flight = self._in_flight.get(queued)
        if flight is None:
            return
        self._in_flight.end(queued)
        if not flight.gone:
            self.nominations.forget(queued.uid)
            self.gate_waits.left(flight.latest)
            del self._pods[queued.uid]

    def in_flight(self) -> Iterator[Flight[P]]:
        return iter(self._in_flight)

    def activate(self, uids: Iterable[str], now_s: float) -> int:
        """Somebody knows that these can be tried now; those being tried come back at once if they fail."""
        moved = 0
        for uid in uids:
            queued = self._pods.get(uid)
            if queued is None or queued.where is Where.ACTIVE:
                continue
            if queued.where is Where.IN_FLIGHT:
                self._in_flight.record(events.force_activate(uid))
            else:
                moved += self._to_active(queued, events.FORCE_ACTIVATE, now_s)
        return moved

    def flush(self, now_s: float) -> int:
        """Moves those whose backoff, or whose longest wait, is over; how many may be tried now that could not."""
        moved = 0
        for uid in self._backoff.over(now_s):
            moved += self._to_active(self._pods[uid], events.BACKOFF_COMPLETE, now_s)
        for uid in self._lot.due(now_s):
            moved += self._requeue(self._pods[uid], events.UNSCHEDULABLE_TIMEOUT.label, now_s)
        return moved

    def nominate(self, pod: P, node: str) -> None:
        """Promise a pod a node, or (empty) take the promise back; who is gone is promised nothing."""
        if pod.uid in self._pods:
            self.nominations.promise(pod, node)

    # Pods that appear or change

    def _appeared(self, pod: P, label: str, now_s: float, *, is_own_write: bool = False) -> None:
        queued = self._pods.get(pod.uid)
        if queued is None:
            queued = self._pods[pod.uid] = Queued(pod, now_s)
            self.gate_waits.came(pod)
            self._to_active(queued, label, now_s)
            return
        flight = self._in_flight.get(queued)
        old = queued.pod if flight is None else flight.latest
        if pod is old:
            return
        self.gate_waits.changed(old, pod, now_s)
        happened = [] if is_own_write else events.of_pod_update(old, pod, self._owned)
        if flight is not None:
            flight.latest = pod
            for event in happened:
                self._in_flight.record(event)
        else:
            queued.pod = pod
            self.nominations.updated(old, pod)
            self._changed_in_place(queued, happened, now_s)
        if old.nominated_node and old.nominated_node != pod.nominated_node:
            self._promise_ended(old, now_s)

    def _changed_in_place(self, queued: Queued[P], happened: Sequence[Event], now_s: float) -> None:
        """Only a parked pod may go on by a change of its own; others just keep their order."""
        if queued.where is Where.ACTIVE:
            self._active.put(queued.pod.scheduler_name, queued.uid, self._key(queued))
        elif queued.where in _BACKING_OFF:
            self._backoff.put(queued, self._key(queued), by_error=queued.where is Where.ERROR_BACKOFF)
        else:
            self._lot.reorder(queued.uid, self._key(queued))
        for event in happened:
            for _ in self._lot.wake(event):
                self._requeue(queued, event.label, now_s, skip_backoff=self._hurries(queued, event))
                return

    def _promise_ended(self, pod: P, now_s: float) -> None:
        """Pods of no higher priority counted it as if it ran on its node: to them it is as if it went away."""
        if pod.nominated_node:
            freed = Event(events.ASSIGNED_POD, events.DELETE, old=pod)
            self.event(freed, now_s, lambda waiting: waiting.priority <= pod.priority)

    # Steps from place to place

    def _requeue(self, queued: Queued[P], label: str, now_s: float, *, skip_backoff: bool = False) -> bool:
        if not skip_backoff and self._rule.waits(queued, now_s):
            return self._to_backoff(queued, label, now_s)
        return self._to_active(queued, label, now_s)

    def _to_active(self, queued: Queued[P], label: str, now_s: float) -> bool:
        passed = self._settings.pop_from_backoff and queued.where in _BACKING_OFF
        if not passed and self._gated(queued, label, now_s):
            return False
        if queued.initial_attempt_s is None:
            queued.initial_attempt_s = now_s
        self._move(queued, Where.ACTIVE, label)
        self._active.put(queued.pod.scheduler_name, queued.uid, self._key(queued))
        if label in _NEW:
            self.nominations.promise(queued.pod, queued.pod.nominated_node)
        return True

    def _to_backoff(self, queued: Queued[P], label: str, now_s: float) -> bool:
        # Whoever waits here may be popped early, and must be free to.
        if self._settings.pop_from_backoff and self._gated(queued, label, now_s):
            return False
        by_error = not queued.rejectors
        self._move(queued, Where.ERROR_BACKOFF if by_error else Where.BACKOFF, label)
        self._backoff.put(queued, self._key(queued), by_error=by_error)
        return True

    def _gated(self, queued: Queued[P], label: str, now_s: float) -> bool:
        before = queued.gating
        queued.gating = self._gatekeeper.ask(queued.pod, before) or self._order.failure(queued.pod, queued.since_s)
        if queued.gating is None:
            return False
        if before is None or (before.plugin, before.reason) != (queued.gating.plugin, queued.gating.reason):
            self._newly_held[queued.uid] = None
        self._hold(queued, queued.gating.plugin)
        self._park(queued, label, now_s)
        return True

    def _park(self, queued: Queued[P], label: str, now_s: float) -> None:
        gating = queued.gating
        where = Where.UNSCHEDULABLE if gating is None else Where.GATED
        reasons = queued.rejections if gating is None else (gating,)
        wakers = reasons[0].wakers if len(reasons) == 1 else tuple(w for each in reasons for w in each.wakers)
        waits = [max(each.look_again_s, LEAST_WAIT_S) for each in reasons if each.look_again_s is not None]
        if any(each.expires for each in reasons):
            waits.append(self._settings.unschedulable_limit_s)
        if queued.where is not where:
            self._move(queued, where, label)
        until_s = now_s + min(waits) if waits else None
        self._lot.park(queued.uid, reasons, wakers, self._key(queued), until_s)

    def _move(self, queued: Queued[P], where: Where | None, label: str = "") -> None:
        """Out of where it is; into the new place it is put by the caller."""
        if queued.where is Where.ACTIVE:
            self._active.discard(queued.pod.scheduler_name, queued.uid)
        elif queued.where in _BACKING_OFF:
            self._backoff.discard(queued.uid)
        elif queued.where in _PARKED:
            self._lot.release(queued.uid)
        self.counters.moved(queued.where, where)
        if where is not None and label:
            self.counters.came_into(where, label)
        queued.where = where

    def _hold(self, queued: Queued[P], plugin: str) -> None:
        if plugin not in queued.rejectors:
            queued.rejectors = (*queued.rejectors, plugin)
            self.counters.held(plugin, queued.pod.scheduler_name)

    def _let_go(self, queued: Queued[P]) -> None:
        self.counters.let_go(queued.rejectors, queued.pod.scheduler_name)
        queued.rejectors = ()
        queued.rejections = ()

    def _hurries(self, queued: Queued[P], event: Event) -> bool:
        """A pending plugin that gets what it waited for owes its pod no wait."""
        return not event.for_everyone and any(
            each.pending and stirred(each.wakers, event) for each in queued.rejections
        )

    def _key(self, queued: Queued[P]) -> tuple[Any, ...]:
        return self._order.key(queued.pod, queued.since_s)


def _helps(queued: Queued[Any], event: Event) -> bool:
    return event.for_everyone or any(stirred(each.wakers, event) for each in queued.rejections)
