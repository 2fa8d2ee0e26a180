"""The admission step of the scheduler: queues with capacity admit pods, and the pods' queue gates are removed.

The queue engine (``capacity/engine.py``) knows all pods of profiles with queues. :meth:`QueueAdmission.step` asks it
for grants, starts one patch per granted pod that removes the queue gate and writes the stamp (the record of the grant),
and lets the scheduling queue try the pod while the patch is in progress. A pod that fits no node is reported as
Unschedulable only after the removal of its gate is confirmed, and the pods of a group only after the removals for the
group's minimum are confirmed: otherwise an autoscaler would add a node too early. If the feature gate
QueueAllocationGate is off, there are no promises: queue gates are removed at a bounded rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from headgate.capacity.api.stamp import Stamp, read_stamp, write_stamp
from headgate.capacity.api.task import read_annotations
from headgate.capacity.engine import GangAttempt, QueueEngine, QueueWait, WaitReason
from headgate.capacity.names import GATE, OPT_IN, STAMP
from headgate.kube import conditions, scheduling_gates
from headgate.kube.backoff import ExponentialBackoff
from headgate.kube.metrics import Sample
from headgate.kube.timestamps import format_micro_time
from headgate.scheduling import pod_conditions
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.effects import Effect, RemoveStamp, WriteResult
from headgate.scheduling.gates.capacity_objects import task_of
from headgate.scheduling.gates.gate_removals import GateRemovals
from headgate.scheduling.gates.queue_plugins import QueuePluginRunner
from headgate.scheduling.metrics.capacity_queue_metrics import CapacityQueueMetrics
from headgate.scheduling.pod_lifecycle import IN_FLIGHT, PodState
from headgate.scheduling.queue.queued_pod_info import QueuedPodInfo
from headgate.scheduling.queue.scheduling_queue import SchedulingQueue
from headgate.waiting.heap import Heap

HELD_NOTICE_S: Final = 1.0
"""How long a plugin of another package holds a pod before that is reported."""
REMOVALS_PER_S: Final = 100
"""How many queue gates are removed per second after the feature was switched off."""
_REFUSED_BACKOFF: Final = ExponentialBackoff(5.0, 300.0)


class QueueAdmissionSettings(msgspec.Struct, frozen=True):
    """``enabled``: the feature gate QueueAllocationGate. ``time_of_day`` returns the seconds since 1970, for stamps."""

    enabled: bool = True
    time_of_day: Callable[[], float] = lambda: 0.0


ENABLED: Final = QueueAdmissionSettings()


class QueueAdmission:
    """``scheduler_names``: the schedulers whose pods use queues. ``plugins``: queue plugins of other packages."""

    def __init__(
        self,
        queues: QueueEngine,
        queue: SchedulingQueue[PodInfo],
        written_conditions: pod_conditions.PodConditions,
        gate_removals: GateRemovals,
        scheduler_names: Iterable[str],
        settings: QueueAdmissionSettings,
        metrics: CapacityQueueMetrics,
        plugins: QueuePluginRunner | None = None,
    ) -> None:
        self.queues = queues
        self._plugins = plugins
        self._queue = queue
        self._conditions = written_conditions
        self._scheduler_names = frozenset(scheduler_names)
        self._gate_removals = gate_removals
        self._time_of_day = settings.time_of_day
        self._metrics = metrics
        self._enabled = settings.enabled
        # Conditions to write when the gate is removed: reason and message.
        self._deferred_conditions: dict[str, tuple[str, str]] = {}
        self._refusals: dict[str, int] = {}  # how often the removal of a gate was refused
        self._removed_stamps: dict[str, str] = {}  # stamps of revoked promises, until the watch shows another one
        self._pending_effects: list[Effect] = []
        self._gates_to_remove: Heap[str] = Heap()
        self._next_removal_s = 0.0
        self._must_step_again = False
        self._hold_notices = pod_conditions.GatedPodNotices(HELD_NOTICE_S)
        self._reported_plugins: dict[str, str] = {}  # the plugin in the last Event about a held pod

    # Events of the watch

    def pod_applied(self, pod: PodInfo, now_s: float) -> bool:
        """The watch shows the pod. Returns whether that confirms an open removal of its gate."""
        if pod.scheduler_name not in self._scheduler_names:
            return False
        task = task_of(pod, enabled=self._enabled)
        is_changed = self._plugins is not None and self._plugins.pod_applied(pod)
        self.queues.task_applied(task)
        if is_changed:
            self.queues.reorder(pod.uid)
        self._pending_effects += self._remove_stamp(pod, task.stamp)
        if GATE in pod.gates:
            if not self._enabled and pod.annotations.get(OPT_IN) == "true" and len(pod.gates) == 1:
                self._gates_to_remove.put(pod.uid, (-pod.priority, pod.created_s, pod.namespace, pod.name))
            return False
        self._gates_to_remove.discard(pod.uid)
        if self._gate_removals.is_awaited(pod.uid, pod.annotations.get(STAMP, "")) and not pod.node_name:
            return False
        self._record_unanswered(pod.uid, WriteResult.DONE, now_s)
        return self._gate_removals.observed(pod.uid)

    def _record_unanswered(self, uid: str, result: WriteResult, now_s: float) -> None:
        """The watch shows the outcome of a gate removal that is not in progress now, but waits for a retry: record it
        in the metrics."""
        if self._gate_removals.awaits_retry(uid):
            self._metrics.answered(result, self._gate_removals.ended(uid, now_s))

    def pod_removed(self, uid: str, now_s: float) -> None:
        """The pod was deleted, or has ended."""
        if not self._scheduler_names:
            return
        self.queues.task_removed(uid)
        if self._plugins is not None:
            self._plugins.pod_removed(uid)
            self._reported_plugins.pop(uid, None)
        self._record_unanswered(uid, WriteResult.GONE, now_s)
        self._gate_removals.forget(uid)
        self._deferred_conditions.pop(uid, None)
        self._refusals.pop(uid, None)
        self._removed_stamps.pop(uid, None)
        self._gates_to_remove.discard(uid)

    def pod_succeeded(self, pod: PodInfo) -> None:
        """The pod ended. If it succeeded, it counts for the minimum of its gang as long as it exists: otherwise the
        replacement of a failed member would wait for members that have already done their work."""
        if pod.succeeded and pod.scheduler_name in self._scheduler_names:
            task = task_of(pod, enabled=self._enabled)
            if task.group:
                self.queues.task_applied(task)

    # The step

    def step(self, now_s: float) -> list[Effect]:
        if not self._scheduler_names:
            return []
        self._must_step_again = False
        effects, self._pending_effects = self._pending_effects, []
        effects += [*self._gate_removals.due(now_s), *self._remove_leftover_gates(now_s)]
        grants = self.queues.admit(now_s, self._gate_removals.free_slots, self._time_of_day())
        for uid in self.queues.revoked_pods():
            effects += self._promise_revoked(uid)
        for grant in grants:
            for uid in grant.uids:
                effects += self._grant(uid, grant.queue, now_s)
        for uid in self.queues.pods_to_retry():
            effects += self._update_admission(uid, now_s)
        for uid in self.queues.pods_to_reassign():
            effects += self._reassign(uid, now_s)
        for uid in self.queues.changed_holds():
            self._hold_notices.waits(uid, now_s)
        for uid in self._hold_notices.due(now_s):
            notice_effects = list(self._report_hold(uid))
            if notice_effects:
                self._hold_notices.emitted(now_s)
            effects += notice_effects
        return effects

    def _report_hold(self, uid: str) -> Iterator[Effect]:
        """A plugin began to hold the pod a while ago, or holds it no more: updates the reason in its condition, and
        emits an Event if it is another plugin than before."""
        queued = self._queue.get(uid)
        wait_reason = None if queued is None else self.wait_reason(queued.pod)
        if queued is None or wait_reason is None or wait_reason.why is not WaitReason.PLUGIN or self._plugins is None:
            self._reported_plugins.pop(uid, None)
        else:
            plugin, _ = conditions.parse_plugin_message(wait_reason.message) or ("", "")
            is_error = self._plugins.is_error(uid)
            reason = conditions.SCHEDULER_ERROR if is_error else conditions.QUEUE_ADMISSION_REJECTED
            if self._reported_plugins.get(uid) != plugin:
                self._reported_plugins[uid] = plugin
                once = bool(queued.pod.gates)
                yield pod_conditions.held_event(queued.pod, reason, wait_reason.message, once=once)
        if queued is not None and queued.state is PodState.GATED:
            yield from self.waiting_condition(queued.pod)

    def _promise_revoked(self, uid: str) -> Iterator[Effect]:
        """A promise was revoked: clears the nomination of the pod, updates the reason in its condition, and removes its
        stamp if the API still shows it."""
        self._deferred_conditions.pop(uid, None)
        queued = self._queue.get(uid)
        if queued is None:
            return
        pod = queued.pod
        yield from self._remove_stamp(pod, read_stamp(pod.annotations.get(STAMP), uid))
        self._queue.nominate(pod, "")
        yield from self._conditions.nominated(pod, "")
        if queued.state is PodState.GATED:
            yield from self.waiting_condition(pod)

    def _remove_stamp(self, pod: PodInfo, stamp: Stamp | None) -> Iterator[Effect]:
        """Removes the stamp of a revoked promise once, as soon as the watch shows it."""
        if stamp is None or not self.queues.is_revoked_stamp(pod.uid, stamp):
            self._removed_stamps.pop(pod.uid, None)
        elif self._removed_stamps.get(pod.uid) != stamp.at:
            self._removed_stamps[pod.uid] = stamp.at
            yield RemoveStamp(pod, pod.annotations[STAMP])

    def stamp_removed(self, uid: str, stamp: str) -> None:
        """The API server has removed the stamp; a watch event that still shows it is late."""
        read = read_stamp(stamp, uid)
        if read is not None and self._queue.get(uid) is not None:
            self._removed_stamps[uid] = read.at

    def _grant(self, uid: str, queue_name: str, now_s: float) -> Iterator[Effect]:
        """The queue granted the pod its requests: fixes the stamp and starts the removal of the gate."""
        queued = self._queue.get(uid)
        if queued is None:
            return
        pod = queued.pod
        self._metrics.admitted(queue_name, self._time_of_day() - pod.created_s)
        if not self._opted_in(pod):
            return
        stamp = Stamp(uid, queue_name, pod.shape.requests, format_micro_time(self._time_of_day()))
        self.queues.stamped(uid, stamp)
        removal = self._gate_removals.begin(pod, write_stamp(stamp), now_s)
        if removal is not None:
            yield removal

    def _update_admission(self, uid: str, now_s: float) -> Iterator[Effect]:
        """The pod may be tried now, or no longer: then it becomes gated, and its condition no longer says that it fits
        no node."""
        queued = self._queue.get(uid)
        if queued is None or self.queues.has_returned_grant(uid):
            return
        was_tryable = queued.state is not PodState.GATED
        wait_reason = self.queues.peek_wait_reason(uid)
        if wait_reason is None:
            self._queue.event(cluster_events.queue_gate_event(cluster_events.GRANTED, uid), now_s)
            return
        self._queue.activate([uid], now_s)
        if was_tryable or self._is_shortage(queued.pod):
            yield from self._clear_shortage(queued)

    def _reassign(self, uid: str, now_s: float) -> Iterator[Effect]:
        """The queue or group of the pod has changed: it is tried at once if it may be; otherwise its condition gets the
        present reason."""
        queued = self._queue.get(uid)
        if queued is None:
            return
        was_tryable = queued.state is not PodState.GATED
        self._queue.activate([uid], now_s)
        waits_for_queue = self._conditions.reason(queued.pod) == conditions.WAITING_FOR_QUEUE
        if was_tryable or waits_for_queue or self._is_shortage(queued.pod):
            yield from self._clear_shortage(queued)

    def _is_shortage(self, pod: PodInfo) -> bool:
        """Whether its condition says, or will say, that it fits no node, or whether the pod has a nominated node."""
        if pod.uid in self._deferred_conditions or self._queue.nominator.node_of(pod.uid) is not None:
            return True
        return self._conditions.reason(pod) in (conditions.UNSCHEDULABLE, conditions.WAITING_FOR_TERMINATING_PODS)

    def _clear_shortage(self, queued: QueuedPodInfo[PodInfo]) -> Iterator[Effect]:
        """Clears the nomination of a pod that must not be tried, and replaces a condition that says that it fits no
        node."""
        if queued.state is PodState.GATED:
            self.drop_deferred_condition(queued.pod)
            self._queue.nominate(queued.pod, "")
            yield from self._conditions.nominated(queued.pod, "")
            yield from self.waiting_condition(queued.pod)

    def _opted_in(self, pod: PodInfo) -> bool:
        return self._enabled and pod.annotations.get(OPT_IN) == "true"

    def _remove_leftover_gates(self, now_s: float) -> Iterator[Effect]:
        """Removes queue gates that pods still have after the feature was switched off."""
        while (
            self._gate_removals.free_slots
            and self._next_removal_s <= now_s
            and (uid := self._gates_to_remove.pop()) is not None
        ):
            queued = self._queue.get(uid)
            removal = None if queued is None else self._gate_removals.begin(queued.pod, "", now_s)
            if removal is not None:
                self._next_removal_s = max(self._next_removal_s, now_s - 1.0) + 1.0 / REMOVALS_PER_S
                yield removal

    def next_deadline_s(self) -> float | None:
        if not self._scheduler_names:
            return None
        if self._must_step_again or self._pending_effects or self.queues.has_revoked_pods:
            return -math.inf
        removal_s = self._next_removal_s if self._gates_to_remove and self._gate_removals.free_slots else None
        notice_s = self._hold_notices.next_s()
        found = (self._gate_removals.next_deadline_s(), self.queues.next_deadline_s(), removal_s, notice_s)
        return min((moment for moment in found if moment is not None), default=None)

    # Results of removals

    def gate_removal_answered(self, uid: str, result: WriteResult, message: str, now_s: float) -> bool:
        """The response to the removal of a gate has arrived. Returns whether the outcome is known; if not, the removal
        is repeated later. With the feature gate off a refused removal is repeated, too, because no other component
        removes the gate."""
        if result is WriteResult.REFUSED and not self._enabled:
            result = WriteResult.LATER
        is_known = self._gate_removals.answered(uid, result, message, now_s)
        is_over = not self._gate_removals.is_open(uid)
        self._metrics.answered(result, self._gate_removals.ended(uid, now_s) if is_over else None)
        return is_known

    def samples(self) -> Iterator[Sample]:
        return self._metrics.samples(self.queues, self._time_of_day()) if self._scheduler_names else iter(())

    def gate_removal_refused(self, uid: str, message: str, now_s: float) -> list[Effect]:
        """The API server refuses the removal: the promise ends, and the pod waits for a grant again after a
        back-off."""
        self._refusals[uid] = self._refusals.get(uid, 0) + 1
        until_s = now_s + _REFUSED_BACKOFF.delay_s(self._refusals[uid])
        self.queues.refused(uid, until_s, message, is_gate_removed=self._gate_removals.is_confirmed(uid))
        queued = self._queue.get(uid)
        return [] if queued is None else list(self.waiting_condition(queued.pod))

    def gate_removal_confirmed(self, uid: str, now_s: float) -> list[Effect]:
        """The gate of the pod is removed: writes the deferred conditions of the pod and its group, unless removals for
        the minimum of the group are still in progress."""
        self._refusals.pop(uid, None)
        if not self._enabled:
            self._queue.activate([uid], now_s)
        minimum = self.queues.minimum(uid)
        if any(map(self._gate_removals.is_open, minimum)):
            return []
        uids = dict.fromkeys((uid, *minimum, *self.queues.gang_attempt(uid).uids))
        return [
            effect for each in uids if not self._gate_removals.is_open(each) for effect in self._report_deferred(each)
        ]

    def _report_deferred(self, uid: str) -> Iterator[Effect]:
        deferred = self._deferred_conditions.pop(uid, None)
        queued = self._queue.get(uid)
        if (
            deferred is not None
            and queued is not None
            and queued.state is not PodState.GATED
            and queued.state not in IN_FLIGHT
        ):
            reason, message = deferred
            yield from self._conditions.failed(_ungated(queued.pod), message, reason)

    def with_confirmed_removal(self, pod: PodInfo) -> PodInfo:
        """The pod as the watch will show it: without the queue gate, if a response has confirmed its removal."""
        return _ungated(pod) if self._gate_removals.is_confirmed(pod.uid) else pod

    # Reads

    def wait_reason(self, pod: PodInfo) -> QueueWait | None:
        return self.queues.peek_wait_reason(pod.uid) if pod.scheduler_name in self._scheduler_names else None

    def check_admitted(self, pod: PodInfo) -> QueueWait | None:
        """Why the queue does not admit a pod that is active in the scheduling queue; None if it does. If the queue has
        capacity for the pod, the next step admits it, so the caller must run one soon."""
        wait_reason = self.queues.wait_reason(pod.uid) if pod.scheduler_name in self._scheduler_names else None
        self._must_step_again |= wait_reason is not None and wait_reason.why is WaitReason.WAITING_TURN
        return wait_reason

    def group(self, pod: PodInfo) -> str:
        """The PodGroup of the pod; empty for pods without queues."""
        return read_annotations(pod.annotations, pod.uid).group if pod.scheduler_name in self._scheduler_names else ""

    def gang_attempt(self, pod: PodInfo) -> GangAttempt | None:
        """The pods that are tried together with this one, itself included; ``None`` if it is tried alone."""
        if pod.scheduler_name not in self._scheduler_names:
            return None
        gang = self.queues.gang_attempt(pod.uid)
        return gang if gang.needs_several_pods else None

    def unplaced(self, pod: PodInfo) -> None:
        """The pod got no node: its promise stays, but a tentative grant is returned to the queue."""
        if pod.scheduler_name in self._scheduler_names:
            self.queues.unplaced(pod.uid)

    def set_unplaceable(self, pod: PodInfo, is_unplaceable: bool) -> None:
        """Records whether the pod fits on no node and has no nominated node."""
        if pod.scheduler_name in self._scheduler_names:
            self.queues.set_unplaceable(pod.uid, is_unplaceable)

    def drop_deferred_condition(self, pod: PodInfo) -> None:
        """Forgets a condition that was deferred and is outdated."""
        self._deferred_conditions.pop(pod.uid, None)

    def defer_condition(self, pod: PodInfo, message: str, reason: str = conditions.UNSCHEDULABLE) -> bool:
        """Defers the condition if gate removals of the pod or its gang are in progress; returns whether it did."""
        self._deferred_conditions.pop(pod.uid, None)
        if pod.scheduler_name not in self._scheduler_names:
            return False
        if not any(map(self._gate_removals.is_open, (pod.uid, *self.queues.minimum(pod.uid)))):
            return False
        self._deferred_conditions[pod.uid] = reason, message
        return True

    def deferred_reason(self, uid: str) -> str:
        """The reason of the deferred condition, if there is one."""
        return self._deferred_conditions.get(uid, ("", ""))[0]

    def waiting_condition(self, pod: PodInfo) -> Iterator[Effect]:
        """The condition that says why the pod waits for its queue. If the pod has opted in, autoscalers ignore its
        reason."""
        wait_reason = self.wait_reason(pod)
        if wait_reason is None or wait_reason.why is WaitReason.WAITING_TURN:
            return
        reason = conditions.UNSCHEDULABLE
        if pod.gates:
            reason = scheduling_gates.SCHEDULING_GATED
        elif self._plugins is not None and self._plugins.is_error(pod.uid):
            reason = conditions.SCHEDULER_ERROR
        elif wait_reason.why is WaitReason.PLUGIN or self._opted_in(pod):
            reason = conditions.WAITING_FOR_QUEUE
        yield from self._conditions.waiting(pod, reason, wait_reason.message)


def _ungated(pod: PodInfo) -> PodInfo:
    """The pod after the removal of the queue gate."""
    if GATE not in pod.gates:
        return pod
    other_gates = tuple(each for each in pod.gates if each != GATE)
    return msgspec.structs.replace(pod, gates=other_gates, generation=pod.generation + 1)
