"""The admission step of a scheduling pass: queues with capacity admit pods, and the pods' queue gates are removed.

``capacity/`` knows all pods of profiles with queues. :meth:`QueueAdmission.step` asks it for grants, starts the removal
of each pod's gate together with the stamp that proves the grant, and lets the scheduling queue try the pod while the
removal is in progress. A pod without a node is not reported before its removal is confirmed, nor a group before the
removals of its minimum are: an autoscaler would see a shortage too early. With the feature gate off there are no
promises: Headgate's gates are removed at a bounded rate, and pods wait like other pods.
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
from headgate.scheduling.metrics.capacity_queue_metrics import CapacityQueueMetrics
from headgate.scheduling.pod_lifecycle import IN_FLIGHT, PodState
from headgate.scheduling.queue.queued_pod_info import QueuedPodInfo
from headgate.scheduling.queue.scheduling_queue import SchedulingQueue
from headgate.waiting.heap import Heap

WAITING_FOR_QUEUE: Final = "WaitingForQueue"
"""The reason that hides a pod without a gate from autoscalers while its queue has no free capacity."""

RELEASES_PER_S: Final = 100
_REFUSED_BACKOFF: Final = ExponentialBackoff(5.0, 300.0)


class QueueAdmissionSettings(msgspec.Struct, frozen=True):
    """``enabled``: the feature gate QueueAllocationGate. ``day`` returns the time of day, for stamps."""

    enabled: bool = True
    day: Callable[[], float] = lambda: 0.0


ENABLED: Final = QueueAdmissionSettings()


class QueueAdmission:
    """``names``: the schedulers whose pods use queues."""

    def __init__(
        self,
        queues: QueueEngine,
        queue: SchedulingQueue[PodInfo],
        written_conditions: pod_conditions.PodConditions,
        gate_removals: GateRemovals,
        names: Iterable[str],
        settings: QueueAdmissionSettings,
        metrics: CapacityQueueMetrics,
    ) -> None:
        self.queues = queues
        self._queue = queue
        self._conditions = written_conditions
        self._names = frozenset(names)
        self._gate_removals = gate_removals
        self._time_of_day = settings.day
        self._metrics = metrics
        self._enabled = settings.enabled
        self._deferred: dict[str, tuple[str, str]] = {}  # reason and message
        self._refusals: dict[str, int] = {}
        self._removed_stamps: dict[str, str] = {}  # stamps of revoked promises, until the watch shows another one
        self._pending_effects: list[Effect] = []
        self._releasing: Heap[str] = Heap()
        self._release_s = 0.0
        self._must_step_again = False

    # Events of the watch

    def pod_applied(self, pod: PodInfo, now_s: float) -> bool:
        """Returns whether this confirms a removal that was in progress."""
        if pod.scheduler_name not in self._names:
            return False
        task = task_of(pod, enabled=self._enabled)
        self.queues.task_applied(task)
        self._pending_effects += self._remove_stamp(pod, task.stamp)
        if GATE in pod.gates:
            if not self._enabled and pod.annotations.get(OPT_IN) == "true" and len(pod.gates) == 1:
                self._releasing.put(pod.uid, (-pod.priority, pod.created_s, pod.namespace, pod.name))
            return False
        self._releasing.discard(pod.uid)
        is_written = pod.annotations.get(STAMP, "") == self._gate_removals.stamp(pod.uid)
        if self._gate_removals.is_open(pod.uid) and not is_written and not pod.node_name:
            return False
        self._record_unanswered(pod.uid, WriteResult.DONE, now_s)
        return self._gate_removals.observed(pod.uid)

    def _record_unanswered(self, uid: str, result: WriteResult, now_s: float) -> None:
        """The watch shows the outcome of a removal to which no response is outstanding."""
        if self._gate_removals.awaits_retry(uid):
            self._metrics.answered(result, self._gate_removals.ended(uid, now_s))

    def pod_removed(self, uid: str, now_s: float) -> None:
        """The pod will never run again, or never ran."""
        if not self._names:
            return
        self.queues.task_removed(uid)
        self._record_unanswered(uid, WriteResult.GONE, now_s)
        self._gate_removals.forget(uid)
        self._deferred.pop(uid, None)
        self._refusals.pop(uid, None)
        self._removed_stamps.pop(uid, None)
        self._releasing.discard(uid)

    def pod_succeeded(self, pod: PodInfo) -> None:
        """A member that succeeded counts for its gang as long as it exists: otherwise the replacement of a failed
        member would wait for the others for ever."""
        if pod.succeeded and pod.scheduler_name in self._names:
            task = task_of(pod, enabled=self._enabled)
            if task.group:
                self.queues.task_applied(task)

    # The step

    def step(self, now_s: float) -> list[Effect]:
        if not self._names:
            return []
        self._must_step_again = False
        effects, self._pending_effects = self._pending_effects, []
        effects += [*self._gate_removals.due(now_s), *self._release_gates(now_s)]
        grants = self.queues.admit(now_s, self._gate_removals.free_slots)
        for uid in self.queues.withdrawn():
            effects += self._withdrawn(uid)
        for grant in grants:
            for uid in grant.uids:
                effects += self._promise(uid, grant.queue, now_s)
        for uid in self.queues.pods_to_retry():
            effects += self._update_admission(uid, now_s)
        for uid in self.queues.pods_to_reassign():
            effects += self._reassign(uid, now_s)
        return effects

    def _withdrawn(self, uid: str) -> Iterator[Effect]:
        """A promise was revoked: removes its stamp and the nomination of the pod. Its condition follows with those of
        other waiting pods."""
        self._deferred.pop(uid, None)
        queued = self._queue.get(uid)
        if queued is None:
            return
        pod = queued.pod
        yield from self._remove_stamp(pod, read_stamp(pod.annotations.get(STAMP), uid))
        self._queue.nominate(pod, "")
        yield from self._conditions.nominated(pod, "")

    def _remove_stamp(self, pod: PodInfo, stamp: Stamp | None) -> Iterator[Effect]:
        """Removes the stamp of a revoked promise once, as soon as the watch shows it."""
        if stamp is None or not self.queues.is_withdrawn(pod.uid, stamp):
            self._removed_stamps.pop(pod.uid, None)
        elif self._removed_stamps.get(pod.uid) != stamp.at:
            self._removed_stamps[pod.uid] = stamp.at
            yield RemoveStamp(pod, pod.annotations[STAMP])

    def stamp_removed(self, uid: str, stamp: str) -> None:
        """The API server has removed the stamp; a watch event that still shows it is late."""
        read = read_stamp(stamp, uid)
        if read is not None and self._queue.get(uid) is not None:
            self._removed_stamps[uid] = read.at

    def _promise(self, uid: str, queue_name: str, now_s: float) -> Iterator[Effect]:
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
        """The pod may be tried now, or no longer: then it becomes gated, and its condition no longer shows a
        shortage."""
        queued = self._queue.get(uid)
        if queued is None or self.queues.gave_grant_back(uid):
            return
        was_visible = queued.state is not PodState.GATED
        wait_reason = self.queues.peek_wait_reason(uid)
        if wait_reason is None:
            self._queue.event(cluster_events.queue_gate_event(cluster_events.GRANTED, uid), now_s)
            return
        self._queue.activate([uid], now_s)
        if was_visible or self._is_shortage(queued.pod):
            yield from self._hide(queued)

    def _reassign(self, uid: str, now_s: float) -> Iterator[Effect]:
        """The queue or group of the pod has changed: it is tried at once if it may be; otherwise its condition gets the
        present reason."""
        queued = self._queue.get(uid)
        if queued is None:
            return
        was_visible = queued.state is not PodState.GATED
        self._queue.activate([uid], now_s)
        if was_visible or self._is_shortage(queued.pod) or self._conditions.reason(queued.pod) == WAITING_FOR_QUEUE:
            yield from self._hide(queued)

    def _is_shortage(self, pod: PodInfo) -> bool:
        """Whether its condition reports, or will report, that it has no node, or the pod has a nominated node."""
        if pod.uid in self._deferred or self._queue.nominator.node_of(pod.uid) is not None:
            return True
        return self._conditions.reason(pod) in (conditions.UNSCHEDULABLE, conditions.WAITING_FOR_TERMINATING_PODS)

    def _hide(self, queued: QueuedPodInfo[PodInfo]) -> Iterator[Effect]:
        """A pod that must not be tried holds no nominated node and does not look like a shortage."""
        if queued.state is PodState.GATED:
            self.drop_deferred_condition(queued.pod)
            self._queue.nominate(queued.pod, "")
            yield from self._conditions.nominated(queued.pod, "")
            yield from self.waiting_condition(queued.pod)

    def _opted_in(self, pod: PodInfo) -> bool:
        return self._enabled and pod.annotations.get(OPT_IN) == "true"

    def _release_gates(self, now_s: float) -> Iterator[Effect]:
        """Removes gates that the feature had added, after it was switched off."""
        while (
            self._gate_removals.free_slots and self._release_s <= now_s and (uid := self._releasing.pop()) is not None
        ):
            queued = self._queue.get(uid)
            removal = None if queued is None else self._gate_removals.begin(queued.pod, "", now_s)
            if removal is not None:
                self._release_s = max(self._release_s, now_s - 1.0) + 1.0 / RELEASES_PER_S
                yield removal

    def next_deadline_s(self) -> float | None:
        if not self._names:
            return None
        if self._must_step_again or self._pending_effects or self.queues.has_withdrawn:
            return -math.inf
        release_s = self._release_s if self._releasing and self._gate_removals.free_slots else None
        found = (self._gate_removals.next_deadline_s(), self.queues.next_deadline_s(), release_s)
        return min((moment for moment in found if moment is not None), default=None)

    # Results of removals

    def gate_removal_answered(self, uid: str, result: WriteResult, message: str, now_s: float) -> bool:
        """Returns whether the removal is settled; if not, it is repeated later. With the feature off a refused removal
        is repeated, too: no other component removes the gate."""
        if result is WriteResult.REFUSED and not self._enabled:
            result = WriteResult.LATER
        settled = self._gate_removals.answered(uid, result, message, now_s)
        is_over = not self._gate_removals.is_open(uid)
        self._metrics.answered(result, self._gate_removals.ended(uid, now_s) if is_over else None)
        return settled

    def samples(self) -> Iterator[Sample]:
        return self._metrics.samples(self.queues, self._time_of_day()) if self._names else iter(())

    def gate_removal_refused(self, uid: str, message: str, now_s: float) -> list[Effect]:
        """The API server refuses the removal: the queue takes the capacity back, and the pod asks again later."""
        self._refusals[uid] = self._refusals.get(uid, 0) + 1
        self.queues.refused(uid, now_s + _REFUSED_BACKOFF.delay_s(self._refusals[uid]), message)
        queued = self._queue.get(uid)
        return [] if queued is None else list(self.waiting_condition(queued.pod))

    def gate_removal_confirmed(self, uid: str, now_s: float) -> list[Effect]:
        """The gate is removed: writes the deferred condition, unless removals of its group are still in progress."""
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
        deferred = self._deferred.pop(uid, None)
        queued = self._queue.get(uid)
        if (
            deferred is not None
            and queued is not None
            and queued.state is not PodState.GATED
            and queued.state not in IN_FLIGHT
        ):
            reason, message = deferred
            yield from self._conditions.failed(self._ungated(queued.pod), message, reason)

    def _ungated(self, pod: PodInfo) -> PodInfo:
        """The pod as the watch will show it."""
        if GATE not in pod.gates:
            return pod
        left = tuple(each for each in pod.gates if each != GATE)
        return msgspec.structs.replace(pod, gates=left, generation=pod.generation + 1)

    # Reads

    def wait_reason(self, pod: PodInfo) -> QueueWait | None:
        return self.queues.peek_wait_reason(pod.uid) if pod.scheduler_name in self._names else None

    def check_admitted(self, pod: PodInfo) -> QueueWait | None:
        """Why the queue holds a pod that the scheduling queue considers active. If it is the turn of the pod, the next
        step admits it, so there must be a next step."""
        wait_reason = self.queues.wait_reason(pod.uid) if pod.scheduler_name in self._names else None
        self._must_step_again |= wait_reason is not None and wait_reason.why is WaitReason.WAITING_TURN
        return wait_reason

    def group(self, pod: PodInfo) -> str:
        """The PodGroup of the pod; empty for pods without queues."""
        return read_annotations(pod.annotations, pod.uid).group if pod.scheduler_name in self._names else ""

    def gang_attempt(self, pod: PodInfo) -> GangAttempt | None:
        """The pods that are tried together with this one, itself included; ``None`` if it is tried alone."""
        if pod.scheduler_name not in self._names:
            return None
        gang = self.queues.gang_attempt(pod.uid)
        return gang if gang.needs_several_pods else None

    def unplaced(self, pod: PodInfo) -> None:
        """The pod got no node: a promise stays, and a pod without a promise returns its capacity."""
        if pod.scheduler_name in self._names:
            self.queues.unplaced(pod.uid)

    def has_no_node(self, pod: PodInfo, is_so: bool) -> None:
        """Records whether the pod fits on no node and has no nominated node."""
        if pod.scheduler_name in self._names:
            self.queues.set_unplaceable(pod.uid, is_so)

    def drop_deferred_condition(self, pod: PodInfo) -> None:
        """Forgets a condition that was deferred and is outdated."""
        self._deferred.pop(pod.uid, None)

    def defer_condition(self, pod: PodInfo, message: str, reason: str = conditions.UNSCHEDULABLE) -> bool:
        """Defers the condition if gate removals of the pod or its gang are in progress; returns whether it did."""
        self._deferred.pop(pod.uid, None)
        if pod.scheduler_name not in self._names:
            return False
        if not any(map(self._gate_removals.is_open, (pod.uid, *self.queues.minimum(pod.uid)))):
            return False
        self._deferred[pod.uid] = reason, message
        return True

    def deferred_reason(self, uid: str) -> str:
        """The reason of the deferred condition, if there is one."""
        return self._deferred.get(uid, ("", ""))[0]

    def waiting_condition(self, pod: PodInfo) -> Iterator[Effect]:
        """The condition that says why the pod waits for its queue. Its reason is hidden from autoscalers if the pod has
        opted in."""
        wait_reason = self.wait_reason(pod)
        if wait_reason is None or wait_reason.why is WaitReason.WAITING_TURN:
            return
        reason = conditions.UNSCHEDULABLE
        if pod.gates:
            reason = scheduling_gates.SCHEDULING_GATED
        elif self._opted_in(pod):
            reason = WAITING_FOR_QUEUE
        yield from self._conditions.waiting(pod, reason, wait_reason.message)
