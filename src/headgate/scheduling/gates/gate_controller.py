"""The gate controller: queue admission for pods that another scheduler binds. It removes queue gates and binds nothing.

It receives pods, Queues, PodGroups and namespaces, and returns effects (:meth:`GateController.step`). The queue engine
(``capacity/engine.py``) counts the pods on nodes, whichever scheduler bound them, and reserves capacity for gated pods
in queue order. Whether a node fits is left to the other scheduler: its ``Unschedulable`` then means a shortage of
nodes. From the removal of its gate on, a pod may be bound at any time, so its promise is never revoked; it ends when
the pod has a node or is deleted.

That scheduler does not wait for terminating pods. So a promised pod keeps its gate until it fits in the limits of its
queue beside them (``capacity/grants/delayed_starts.py``), or until they are overdue. All state can be rebuilt from the
API. ``runtime/gates/runner.py`` performs the effects; ``queue_admission.py`` is the counterpart for pods that
``scheduling/scheduler.py`` binds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.capacity.api.stamp import Stamp, write_stamp
from headgate.capacity.api.task import ANNOTATIONS
from headgate.capacity.conf import DEFAULTS, SchedulerConf
from headgate.capacity.engine import Grant, QueueEngine, WaitReason
from headgate.capacity.names import GATE, OPT_IN, STAMP
from headgate.kube import scheduling_gates
from headgate.kube.api_resources import APIResource
from headgate.kube.backoff import ExponentialBackoff
from headgate.kube.metrics import exposition_text
from headgate.kube.pods.termination import MAX_TERMINATION_WAIT_S, OVERDUE_AFTER_S
from headgate.kube.timestamps import format_micro_time
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.cluster.event_handlers import ResourceEventHandlers
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.effects import Effect, WriteResult
from headgate.scheduling.framework.interface import ResourceEventHandler
from headgate.scheduling.framework.plugin_timers import TimerClock
from headgate.scheduling.gates.capacity_objects import CapacityObjectHandler, counts_in_queue, leaves_capacity, task_of
from headgate.scheduling.gates.gate_removals import GateRemovals
from headgate.scheduling.gates.queue_admission import HELD_NOTICE_S, REMOVALS_PER_S
from headgate.scheduling.gates.queue_plugins import QueuePluginRunner
from headgate.scheduling.metrics.capacity_queue_metrics import FAMILIES, CapacityQueueMetrics
from headgate.scheduling.metrics.scheduler_metrics import SchedulerMetrics
from headgate.scheduling.pod_conditions import GatedPodNotices, PodConditions
from headgate.waiting.heap import DeadlineHeap, Heap

Object = Mapping[str, Any]

_DELAY_NOTICE_S: Final = 1.0
"""How long a start is delayed before the reason is written to the condition of the pod."""
_REFUSED_BACKOFF: Final = ExponentialBackoff(5.0, 300.0)


class GateSettings(msgspec.Struct, frozen=True):
    """``enabled``: the feature gate QueueAllocationGate; if it is off, the queue gates of all pods are removed.
    ``delays_starts``: the feature gate StartAfterTerminatingPods. ``max_wait_s``: how long a terminating pod delays
    other pods at most, whatever its grace period. ``time_of_day`` returns the seconds since 1970. ``timer_clock`` times
    plugins; its origin does not matter."""

    time_of_day: Callable[[], float]
    enabled: bool = True
    delays_starts: bool = True
    max_wait_s: float = MAX_TERMINATION_WAIT_S
    conf: SchedulerConf = DEFAULTS
    timer_clock: TimerClock | None = None


class GateController:
    """``scheduler_names``: the values of ``spec.schedulerName`` whose pods are counted and ungated. ``report`` receives
    messages for the log. ``plugins``: queue plugins of other packages, in order; with the feature gate off they are not
    called."""

    def __init__(
        self,
        scheduler_names: Iterable[str],
        settings: GateSettings,
        report: Callable[[str], None] = lambda problem: None,
        plugins: Sequence[Any] = (),
    ) -> None:
        self.scheduler_names = frozenset(scheduler_names)
        plugins = plugins if settings.enabled else ()
        self._plugin_metrics = SchedulerMetrics(settings.timer_clock)
        timers = self._plugin_metrics.timers("")
        self._plugins = QueuePluginRunner(plugins, timers) if plugins else None
        self._annotations = ANNOTATIONS.union(*(getattr(each, "annotations", ()) for each in plugins))
        self.queues = QueueEngine(settings.conf, self._plugins)
        self._settings = settings
        self._report = report
        self.event_handlers = ResourceEventHandlers(timers)
        self.event_handlers.add(CapacityObjectHandler(self.queues), needed=True)
        for each in plugins:
            if isinstance(each, ResourceEventHandler):
                self.event_handlers.add(each)
        self._gate_removals = GateRemovals()
        self._conditions = PodConditions()
        self._metrics = CapacityQueueMetrics()
        self._shapes = ShapeTable()
        self._pods: dict[str, PodInfo] = {}  # pods without a node that wait for their queue, or have a promise
        self._stamps: dict[str, str] = {}  # of promised pods, until the removal of their gate begins
        self._leaving: DeadlineHeap[str] = DeadlineHeap()  # terminating pods, by the time when they are overdue
        self._left_behind: set[str] = set()  # terminating pods that are overdue
        self._refusals: dict[str, int] = {}  # how often the removal of a gate was refused
        self._waiting_notices = GatedPodNotices()
        self._delay_notices = GatedPodNotices(_DELAY_NOTICE_S)
        self._hold_notices = GatedPodNotices(HELD_NOTICE_S)
        self._gates_to_remove: Heap[str] = Heap()  # with the feature gate off
        self._next_removal_s = 0.0
        self._must_step_again = False

    # Events of watches

    @property
    def watched(self) -> Mapping[APIResource, Collection[str]]:
        """The resources that the controller and its plugins read, with their fields; no fields mean all."""
        return self.event_handlers.watched()

    def object_applied(self, resource: APIResource, obj: Object) -> None:
        self._publish(self.event_handlers.applied(resource, obj))

    def object_removed(self, resource: APIResource, namespace: str, name: str) -> None:
        self._publish(self.event_handlers.removed(resource, namespace, name))

    def _publish(self, events: Iterable[ClusterEvent]) -> None:
        """Plugins are asked again about units that wait for these events."""
        for event in events:
            if self._plugins is not None:
                self._plugins.event_happened(event)

    def pod_applied(self, obj: Object, now_s: float) -> None:
        pod = read_pod(obj, self._shapes, self._annotations)
        if isinstance(pod, str):
            self._report(pod)
        elif pod.scheduler_name not in self.scheduler_names:
            return
        elif pod.terminal or (pod.deleting and not pod.node_name):
            self.pod_removed(pod.uid, now_s)
            task = task_of(pod, enabled=self._settings.enabled)
            if pod.succeeded and task.group:
                self.queues.task_applied(task)  # it counts for the minimum of its gang as long as it exists
        elif not counts_in_queue(pod, enabled=self._settings.enabled):
            self._pod_without_queue(pod, now_s)
        elif pod.node_name:
            self._pod_on_node(pod, now_s)
        else:
            self._pod_waiting(pod, now_s)

    def pod_removed(self, uid: str, now_s: float) -> None:
        """The pod was deleted, or has ended."""
        self.queues.task_removed(uid)
        if self._plugins is not None:
            self._plugins.pod_removed(uid)
        self._leaving.discard(uid)
        self._left_behind.discard(uid)
        self._forget_waiting(uid, WriteResult.GONE, now_s)

    def _forget_waiting(self, uid: str, result: WriteResult, now_s: float) -> None:
        if self._gate_removals.awaits_retry(uid):
            self._metrics.answered(result, self._gate_removals.ended(uid, now_s))
        self._gate_removals.forget(uid)
        self._gates_to_remove.discard(uid)
        self._conditions.forget(uid)
        for kept in (self._pods, self._stamps, self._refusals):
            kept.pop(uid, None)

    def _pod_without_queue(self, pod: PodInfo, now_s: float) -> None:
        """A pod without a node that neither opted in nor has the queue gate; with the feature gate off, any pod
        without a node."""
        if pod.uid in self._pods and GATE not in pod.gates:
            self.pod_removed(pod.uid, now_s)  # it opted out, or the removal of its gate is confirmed
        if GATE in pod.gates and pod.annotations.get(OPT_IN) == "true" and len(pod.gates) == 1:
            self._pods[pod.uid] = pod
            self._gates_to_remove.put(pod.uid, (-pod.priority, pod.created_s, pod.namespace, pod.name))

    def _task_applied(self, pod: PodInfo) -> None:
        is_changed = self._plugins is not None and self._plugins.pod_applied(pod)
        self.queues.task_applied(task_of(pod, enabled=self._settings.enabled))
        if is_changed:
            self.queues.reorder(pod.uid)

    def _pod_on_node(self, pod: PodInfo, now_s: float) -> None:
        self._task_applied(pod)
        self._forget_waiting(pod.uid, WriteResult.DONE, now_s)
        if not leaves_capacity(pod) or not self._settings.delays_starts or pod.uid in self._left_behind:
            return
        # The maximum wait begins when this process first sees that the pod terminates.
        latest_s = self._leaving.key_of(pod.uid) or now_s + self._settings.max_wait_s + OVERDUE_AFTER_S
        until_s = now_s + (pod.gone_by_s or 0.0) - self._settings.time_of_day() + OVERDUE_AFTER_S
        self._leaving.put(pod.uid, min(until_s, latest_s))
        self.queues.set_leaving(pod.uid, leaving=True)

    def _pod_waiting(self, pod: PodInfo, now_s: float) -> None:
        """A pod without a node that waits for its queue, or has a promise."""
        uid, is_new = pod.uid, pod.uid not in self._pods
        self._pods[uid] = pod
        self._conditions.seen(pod)
        self._task_applied(pod)
        if GATE in pod.gates:
            if is_new:
                self._waiting_notices.waits(uid, now_s)
            if pod.annotations.get(OPT_IN) != "true" and uid in self._stamps:
                del self._stamps[uid]
                self.queues.revoke(uid, "its promise was revoked: it no longer opts in")
            return
        if self._gate_removals.is_awaited(uid, pod.annotations.get(STAMP, "")):
            return  # another client has removed the gate; the stamp is still to be written
        if self._gate_removals.awaits_retry(uid):
            self._metrics.answered(WriteResult.DONE, self._gate_removals.ended(uid, now_s))
        self._gate_removals.observed(uid)
        if pod.annotations.get(STAMP):
            self.queues.commit(uid)

    # The step

    def step(self, now_s: float) -> list[Effect]:
        """One admission step: capacity is reserved for waiting pods, and the gates of pods that may start are
        removed."""
        effects: list[Effect] = [*self._gate_removals.due(now_s)]
        if not self._settings.enabled:
            return [*effects, *self._remove_leftover_gates(now_s)]
        for uid in self._leaving.due(now_s):
            self._left_behind.add(uid)
            self.queues.set_leaving(uid, leaving=False)
        free_slots = self._gate_removals.free_slots
        grants = self.queues.admit(now_s, free_slots, self._settings.time_of_day())
        self._must_step_again = bool(grants) and sum(len(each.uids) for each in grants) >= free_slots
        for uid in self.queues.revoked_pods():
            self._stamps.pop(uid, None)
            self._waiting_notices.waits(uid, now_s)
        for grant in grants:
            effects += self._granted(grant, now_s)
        for uids in self.queues.pods_to_start(now_s, self._gate_removals.free_slots):
            effects += self._start(uids, now_s)
        for uid in self.queues.pods_to_reassign():
            self._waiting_notices.waits(uid, now_s)
        self.queues.pods_to_retry()  # which pods may be tried concerns only a scheduler
        for uid in self.queues.changed_holds():
            self._hold_notices.waits(uid, now_s)
        for notices in (self._waiting_notices, self._delay_notices, self._hold_notices):
            for uid in notices.due(now_s):
                found = list(self._waiting_condition(uid))
                if found:
                    notices.emitted(now_s)
                effects += found
        metrics = self._plugin_metrics
        for problem in (*metrics.slow_calls.messages(), *metrics.plugin_failures.messages(now_s)):
            self._report(problem)
        return effects

    def _granted(self, grant: Grant, now_s: float) -> Iterator[Effect]:
        """Fixes the stamps of the pods. Their gates are removed at once, or when terminating pods have left."""
        time_of_day_s = self._settings.time_of_day()
        pods = [self._pods[uid] for uid in grant.uids if uid in self._pods]
        for pod in pods:
            stamp = Stamp(pod.uid, grant.queue, pod.shape.requests, format_micro_time(time_of_day_s))
            self.queues.stamped(pod.uid, stamp, is_sent=False)
            self._stamps[pod.uid] = write_stamp(stamp)
            self._metrics.admitted(grant.queue, time_of_day_s - pod.created_s)
        if not self._settings.delays_starts or not any(map(self._keeps_gate, pods)):
            yield from self._start(grant.uids, now_s)
            return
        self.queues.delay_start(grant.uids, now_s + self._settings.max_wait_s + OVERDUE_AFTER_S)
        for pod in pods:
            self._delay_notices.waits(pod.uid, now_s)

    def _keeps_gate(self, pod: PodInfo) -> bool:
        """Whether the pod has the queue gate, and its removal has not begun."""
        uid = pod.uid
        return GATE in pod.gates and not self._gate_removals.is_open(uid) and not self._gate_removals.is_confirmed(uid)

    def _start(self, uids: Iterable[str], now_s: float) -> Iterator[Effect]:
        """Removes the gates of pods that hold promises."""
        for uid in uids:
            pod, stamp = self._pods.get(uid), self._stamps.pop(uid, "")
            if pod is None or not stamp:
                continue
            self.queues.commit(uid)
            removal = self._gate_removals.begin(pod, stamp, now_s)
            if removal is not None:
                yield removal

    def _remove_leftover_gates(self, now_s: float) -> Iterator[Effect]:
        """Removes queue gates, at a limited rate, after the feature was switched off."""
        while (
            self._gate_removals.free_slots
            and self._next_removal_s <= now_s
            and (uid := self._gates_to_remove.pop()) is not None
        ):
            removal = self._gate_removals.begin(self._pods[uid], "", now_s)
            if removal is not None:
                self._next_removal_s = max(self._next_removal_s, now_s - 1.0) + 1.0 / REMOVALS_PER_S
                yield removal

    def _waiting_condition(self, uid: str) -> Iterator[Effect]:
        """The condition that says why a gated pod waits. The condition of a pod without gates belongs to the other
        scheduler."""
        pod = self._pods.get(uid)
        wait = None if pod is None or GATE not in pod.gates else self.queues.peek_wait_reason(uid)
        if pod is not None and wait is not None and wait.why is not WaitReason.WAITING_TURN:
            yield from self._conditions.waiting(pod, scheduling_gates.SCHEDULING_GATED, wait.message)

    def next_deadline_s(self) -> float | None:
        """When :meth:`step` has work to do, if no event happens before."""
        if self._must_step_again or self.queues.has_revoked_pods:
            return -math.inf
        removal_s = self._next_removal_s if self._gates_to_remove and self._gate_removals.free_slots else None
        found = (
            self._gate_removals.next_deadline_s(),
            self.queues.next_deadline_s(),
            self._leaving.next_deadline_s(),
            self._waiting_notices.next_s(),
            self._delay_notices.next_s(),
            self._hold_notices.next_s(),
            removal_s,
        )
        return min((moment for moment in found if moment is not None), default=None)

    # Results of effects

    def gate_removed(self, uid: str, result: WriteResult, message: str, now_s: float) -> list[Effect]:
        """The API server has answered the removal of a gate. If it refuses, the promise ends, and the pod waits for a
        grant again after a back-off. With the feature gate off a refused removal is repeated."""
        if result is WriteResult.REFUSED and not self._settings.enabled:
            result = WriteResult.LATER
        is_known = self._gate_removals.answered(uid, result, message, now_s)
        is_over = not self._gate_removals.is_open(uid)
        self._metrics.answered(result, self._gate_removals.ended(uid, now_s) if is_over else None)
        if result is WriteResult.GONE:
            self.pod_removed(uid, now_s)
        elif is_known and result is WriteResult.DONE:
            self._refusals.pop(uid, None)
        elif is_known:
            self._refusals[uid] = self._refusals.get(uid, 0) + 1
            until_s = now_s + _REFUSED_BACKOFF.delay_s(self._refusals[uid])
            self.queues.refused(uid, until_s, message, is_gate_removed=self._gate_removals.is_confirmed(uid))
            return list(self._waiting_condition(uid))
        return []

    def condition_conflicted(self, uid: str, now_s: float) -> None:
        """A condition was not written, because another client had written the pod. It is decided again later."""
        self._conditions.forget(uid)
        self._waiting_notices.waits(uid, now_s)

    # Metrics

    def metrics_exposition(self) -> bytes:
        """The metrics of queues, in Prometheus' text format."""
        return exposition_text(FAMILIES, self._metrics.samples(self.queues, self._settings.time_of_day()))
