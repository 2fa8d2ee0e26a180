"""The scheduler: receives API objects and results of writes, decides, and returns effects (writes and Events).

Unscheduled pods of its profiles go to the scheduling queue, nodes and their pods to the node matrix, other objects to
the event handlers of the cluster; each of these may wake waiting pods with events. :meth:`Scheduler.step` lets the
queues admit pods, tries active pods and returns effects. The caller performs the effects and reports their results by
:meth:`Scheduler.bound`, :meth:`Scheduler.gate_removed`, :meth:`Scheduler.stamp_removed`, :meth:`Scheduler.prepared` and
:meth:`Scheduler.preempted`. ``schedule_one.py`` handles attempts and results. The scheduler does no I/O:
``runtime/scheduler/`` watches, writes and provides the time. All state can be rebuilt from the API, so a restarted
process begins with an empty scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.conf import DEFAULTS as SETTINGS
from headgate.capacity.engine import QueueEngine
from headgate.kube import conditions
from headgate.kube.api_resources import APIResource
from headgate.kube.metrics import Sample
from headgate.scheduling import pod_conditions
from headgate.scheduling.binding_cycle import BindingCycles
from headgate.scheduling.cache.node import NodeInfo, read_node
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.cluster.victim_rules import QueueVictimRule
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.effects import Effect, Preempt, WriteResult
from headgate.scheduling.framework.framework import Framework
from headgate.scheduling.framework.interface import ErrorRejection, Rejection
from headgate.scheduling.framework.plugin_timers import BIND, PERMIT
from headgate.scheduling.framework.scheduling_cycle import SchedulingCycle
from headgate.scheduling.gates.capacity_objects import CapacityObjectHandler
from headgate.scheduling.gates.gate_removals import GateRemovals
from headgate.scheduling.gates.promise_revocation import PromiseRevocation
from headgate.scheduling.gates.queue_admission import ENABLED, QueueAdmission, QueueAdmissionSettings
from headgate.scheduling.gates.queue_plugins import QueuePluginRunner
from headgate.scheduling.gates.reservation_leases import ReservationLeases
from headgate.scheduling.metrics.scheduler_metrics import GATED_EVENTS_WITHHELD, SchedulerMetrics
from headgate.scheduling.plugins.default_preemption import DefaultPreemption
from headgate.scheduling.plugins.queue_allocation import QueueAllocation
from headgate.scheduling.plugins.registry import IN_TREE_PLUGINS, PluginFactory
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from headgate.scheduling.pod_lifecycle import PodState
from headgate.scheduling.preemption.executor import PreemptionExecutor
from headgate.scheduling.preemption.queue_preemption import QueuePreemption
from headgate.scheduling.profile import new_framework, with_queue_allocation
from headgate.scheduling.queue.scheduling_queue import QueueSettings, SchedulingQueue
from headgate.scheduling.schedule_one import SchedulingAttempts

Object = Mapping[str, Any]

_NOTICE_AFTER_S: Final = 1.0
"""How long a pod without a gate waits for its queue before the reason is written to its condition."""
_CLOCK_SKEW_S: Final = 0.5
"""A deletion timestamp is converted to the scheduler's clock: two conversions may differ by this much."""
_NOT_REPORTED: Final = (SchedulingGates.name, DefaultPreemption.name)
"""Plugins whose rejections need no condition of the scheduler: the API server sets the condition of pods with
scheduling gates, and the nominated node shows that a pod waits for victims."""
_READ_ERRORS: Final = (AttributeError, KeyError, TypeError, ValueError)


class Scheduler:
    """``report`` receives messages for the log. An exception of one of the ``factories`` reports invalid plugin
    arguments; the caller catches it. Profiles with queues share one queue engine (``capacity/engine.py``) with the
    settings of the first such profile."""

    def __init__(
        self,
        configuration: KubeSchedulerConfiguration,
        factories: Mapping[str, PluginFactory] = IN_TREE_PLUGINS,
        report: Callable[[str], None] = lambda problem: None,
        metrics: SchedulerMetrics | None = None,
        queueing: QueueAdmissionSettings = ENABLED,
        waiting_labels: Collection[str] = (),
        *,
        all_profiles_wait: bool = False,
        gated_events_per_hour: int = pod_conditions.GATED_EVENTS_PER_HOUR,
    ) -> None:
        """Pods of queue profiles, pods with a label in ``waiting_labels`` and, with ``all_profiles_wait``, all other
        pods wait for terminating pods before they are reported as Unschedulable. ``gated_events_per_hour``: the maximum
        number of Events per hour about scheduling gates of pods.
        """
        self.metrics = metrics or SchedulerMetrics()
        self._time_of_day = queueing.time_of_day
        queue_confs = {each.name: each.queues for each in configuration.profiles if each.queues is not None}
        names = [each.name for each in configuration.profiles]
        timers = self.metrics.timers("")
        self.cluster = Cluster(
            waiting_labels=waiting_labels, waiting_schedulers=names if all_profiles_wait else queue_confs, timers=timers
        )
        self.frameworks: dict[str, Framework] = {}
        queue_plugins: dict[str, Any] = {}
        for profile in configuration.profiles:
            framework = new_framework(profile, self.cluster, factories, queue_plugins)
            queue_plugins |= {each.name: each for each in framework.queue_plugins}
            self.frameworks[profile.name] = framework
        self._queue_plugins: QueuePluginRunner | None = None
        if queue_plugins:
            self._queue_plugins = QueuePluginRunner(tuple(queue_plugins.values()), self.metrics.timers(""))
        queues = QueueEngine(next(iter(queue_confs.values()), SETTINGS), self._queue_plugins)
        gate_removals = GateRemovals()
        allocation = QueueAllocation(queues, gate_removals, enabled=queueing.enabled)
        for name in queue_confs:
            self.frameworks[name] = with_queue_allocation(self.frameworks[name], allocation)
            self.cluster.victim_rules[name] = QueueVictimRule(queues)
        if queue_confs:
            self.cluster.add_event_handler(CapacityObjectHandler(queues), needed=True)
        handlers = {id(each): each for framework in self.frameworks.values() for each in framework.event_handlers}
        for handler in handlers.values():
            self.cluster.add_event_handler(handler)
        self.annotations = frozenset(name for framework in self.frameworks.values() for name in framework.annotations)
        first = next(iter(self.frameworks.values()))
        settings = QueueSettings(float(configuration.pod_initial_backoff_s), float(configuration.pod_max_backoff_s))
        self.queue: SchedulingQueue[PodInfo] = SchedulingQueue(
            {name: framework.pre_enqueue for name, framework in self.frameworks.items()},
            first.queue_sort,
            settings,
            allocation.owns if queue_confs else cluster_events.no_gate_owned,
            self.metrics,
            dict.fromkeys(queue_confs, queues.new_granted_pod_queue()),
        )
        cycles = {
            profile.name: SchedulingCycle(
                self.cluster.matrix,
                self.frameworks[profile.name].cycle_plugins,
                _profile_or_default(profile.percentage_of_nodes_to_score, configuration.percentage_of_nodes_to_score),
                self.queue.nominator,
                self.metrics.timers(profile.name),
            )
            for profile in configuration.profiles
        }
        self.bindings = BindingCycles(self.metrics)
        self._conditions = pod_conditions.PodConditions()
        self.queues = queues
        self.queue_profiles = frozenset(queue_confs)
        self._queue_admission = QueueAdmission(
            queues,
            self.queue,
            self._conditions,
            gate_removals,
            queue_confs,
            queueing,
            self.metrics.queues,
            self._queue_plugins,
        )
        self._preemption_executor = PreemptionExecutor(self.cluster, self.queue, self.bindings, self._conditions)
        self._attempts = SchedulingAttempts(
            self.frameworks,
            cycles,
            self.cluster,
            self.queue,
            self.bindings,
            self._conditions,
            self._queue_admission,
            self._preemption_executor,
            self.metrics,
        )
        self._promise_revocation = PromiseRevocation(queues, self.queue, gate_removals, has_queues=bool(queue_confs))
        self.leases = ReservationLeases(
            queues, self.queue, self._promise_revocation, self.metrics.queues, queueing.time_of_day
        )
        self._queue_preemption = QueuePreemption(
            queues,
            self.queue,
            self.cluster,
            cycles,
            self._conditions,
            self._preemption_executor,
            self._promise_revocation,
        )
        self._gated_notices = pod_conditions.GatedPodNotices()
        self._waiting_notices = pod_conditions.GatedPodNotices(_NOTICE_AFTER_S)
        self._unbound_notices = pod_conditions.GatedPodNotices()
        self._gated_event_limit = pod_conditions.EventRateLimit(gated_events_per_hour)
        self._shapes = ShapeTable()
        self._nodes: dict[str, tuple[Object, NodeInfo]] = {}
        self._pending_effects: list[Effect] = []  # effects of events, which the next step returns
        self._report = report

    # Events of watches

    def pod_applied(self, obj: Object, now_s: float) -> None:
        pod = read_pod(obj, self._shapes, self.annotations)
        if isinstance(pod, str):
            self._report(pod)
        elif pod.terminal:
            self.pod_removed(pod.uid, now_s)
            self._queue_admission.pod_succeeded(pod)
        elif pod.node_name:
            self._pod_assigned(pod, now_s)
        elif pod.deleting:
            self.pod_removed(pod.uid, now_s)
        elif pod.scheduler_name in self.frameworks:
            self._pod_pending(pod, now_s)

    def pod_removed(self, uid: str, now_s: float) -> None:
        """The pod was deleted, or has ended."""
        matrix = self.cluster.matrix
        self._conditions.forget(uid)
        self._preemption_executor.forget(uid)
        self.cluster.terminating_pods.removed(uid)
        self._pending_effects += self._attempts.pod_observed(uid, now_s)
        self._attempts.member_removed(uid)
        self._pending_effects += self._promises_revoked(self._promise_revocation.forget(uid), now_s)
        self._queue_admission.pod_removed(uid, now_s)
        self.queue.delete(uid, now_s)
        row = matrix.home(uid)
        old = None if row is None else matrix.pods_on(row)[uid]
        matrix.pod_removed(uid)
        if old is not None:
            self._attempts.node_changed(old.node_name, now_s)
            self._publish([ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.DELETE, old=old)], now_s)

    def _pod_assigned(self, pod: PodInfo, now_s: float) -> None:
        matrix = self.cluster.matrix
        self._conditions.forget(pod.uid)
        self._preemption_executor.forget(pod.uid)
        self._pending_effects += self._attempts.pod_observed(pod.uid, now_s, pod.node_name)
        self._pending_effects += self._promises_revoked(self._promise_revocation.forget(pod.uid), now_s)
        self._queue_admission.pod_applied(pod, now_s)
        self.queue.delete(pod.uid, now_s, bound=True)
        row = matrix.home(pod.uid)
        old = None if row is None else matrix.pods_on(row)[pod.uid]
        was_assumed = matrix.is_assumed(pod.uid)
        matrix.pod_applied(pod)
        if old is None or (not was_assumed and old.shape is not pod.shape):
            self._attempts.node_changed(pod.node_name, now_s)  # another client bound it, or it was resized
        if pod.gone_by_s is not None:
            self._pod_terminating(pod, now_s + pod.gone_by_s - self._time_of_day(), now_s)
        events = [ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.ADD, new=pod)]
        if old is not None and old.node_name != pod.node_name:
            events.insert(0, ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.DELETE, old=old))
        elif old is not None and not was_assumed:
            events = cluster_events.pod_update_events(old, pod)
        self._publish(events, now_s)

    def _pod_terminating(self, pod: PodInfo, until_s: float, now_s: float) -> None:
        terminating_pods = self.cluster.terminating_pods
        before_s = terminating_pods.until_s(pod.uid)
        terminating_pods.applied(pod, until_s)
        after_s = terminating_pods.until_s(pod.uid)
        if before_s is None:
            self._attempts.pod_terminating(pod, now_s)
        elif after_s is not None and after_s < before_s - _CLOCK_SKEW_S:
            self._attempts.node_changed(pod.node_name, now_s)

    def _pod_pending(self, pod: PodInfo, now_s: float) -> None:
        shows_own_write = self._conditions.seen(pod)
        known = self.queue.get(pod.uid)
        if known is None and self.cluster.matrix.node_of(pod.uid):
            return  # a late event: the pod was bound in the meantime
        confirmed = self._queue_admission.pod_applied(pod, now_s)
        if known is None:
            self.queue.add(pod, now_s)
            (self._gated_notices if pod.gates else self._waiting_notices).waits(pod.uid, now_s)
        else:
            before = known.pod
            is_own_write = shows_own_write and pod_conditions.differ_only_in_own_writes(before, pod)
            self.queue.update(pod, now_s, is_own_write=is_own_write)
            if before.gates != pod.gates:
                self._pending_effects += self._update_waiting_condition(pod.uid)
            if before.shape.requests != pod.shape.requests and pod.scheduler_name not in self.queue_profiles:
                self._attempts.resized(pod, now_s)
        if confirmed:
            self._pending_effects += self._attempts.ungated(pod.uid, now_s)

    def node_applied(self, obj: Object, now_s: float) -> None:
        name = obj["metadata"]["name"]
        node = read_node(obj)
        before = self._nodes.pop(name, None)
        if isinstance(node, str):
            self._report(f"node {name} is left out: {node}")
            self.cluster.matrix.node_refused(name, node)
            self._attempts.node_changed(name, now_s)
            return
        self._nodes[name] = (obj, node)
        self.cluster.matrix.node_applied(node)
        events = (
            [ClusterEvent(cluster_events.NODE, cluster_events.ADD)]
            if before is None
            else cluster_events.node_update_events(before[0], obj)
        )
        old = None if before is None else before[1]
        if old is not None and old != node:
            self._attempts.node_changed(name, now_s)
        self._publish([msgspec.structs.replace(event, old=old, new=node) for event in events], now_s)

    def node_removed(self, name: str, now_s: float) -> None:
        self.cluster.matrix.node_removed(name)
        before = self._nodes.pop(name, None)
        self._attempts.node_changed(name, now_s)
        if before is not None:
            self._publish([ClusterEvent(cluster_events.NODE, cluster_events.DELETE, old=before[1])], now_s)

    def object_applied(self, resource: APIResource, obj: Object, now_s: float) -> None:
        try:
            events = self.cluster.applied(resource, obj)
        except _READ_ERRORS as error:
            metadata = obj.get("metadata") or {}
            named = f"{resource.plural} {metadata.get('namespace') or ''}/{metadata.get('name')}"
            self._report(f"{named} is left out, since it cannot be read: {error!r}")
            return
        self._log_problems(now_s)
        self._publish(events, now_s)

    def object_removed(self, resource: APIResource, namespace: str, name: str, now_s: float) -> None:
        events = self.cluster.removed(resource, namespace, name)
        self._log_problems(now_s)
        self._publish(events, now_s)

    def _publish(self, events: Iterable[ClusterEvent], now_s: float) -> None:
        """Wakes the pods in the queue and in binding cycles that wait for these events."""
        for event in events:
            if self._queue_plugins is not None:
                self._queue_plugins.event_happened(event)
            self.queue.event(event, now_s)
            self._pending_effects += self._attempts.run_steps(self.bindings.event_happened(event, now_s), now_s)

    # Steps

    def step(self, now_s: float, max_pods: int, is_enough: Callable[[], bool] = lambda: False) -> list[Effect]:
        """Tries up to ``max_pods`` pods, and returns all effects. It stops earlier if no pod is active, or if
        ``is_enough`` is true after a pod."""
        effects, self._pending_effects = self._pending_effects, []
        for uid in self.queue.newly_gated():
            queued = self.queue.get(uid)
            if self._gating_rejection(uid) is not None or (
                queued is not None and self._conditions.gating_plugin(queued.pod)
            ):
                self._waiting_notices.waits(uid, now_s)
        effects += self.leases.step(now_s)
        effects += self._queue_admission.step(now_s)
        self._attempts.retry_groups(now_s)
        effects += self._due_effects(now_s)
        for _ in range(max_pods):
            queued = self.queue.pop(now_s)
            if queued is None:
                break
            effects += self._attempts.attempt(queued, now_s)
            if is_enough():
                break
        if self.queue_profiles:
            # After the attempts: capacity that a pod without a node returns to its queue needs no preemption.
            effects += self._attempts.run_steps(self._queue_preemption.step(), now_s)
        for uid in self.bindings.newly_waiting():
            self._unbound_notices.waits(uid, now_s)
        self._log_problems(now_s)
        return effects

    def _log_problems(self, now_s: float) -> None:
        """Logs slow and failing plugins."""
        for problem in (*self.metrics.slow_calls.messages(), *self.metrics.plugin_failures.messages(now_s)):
            self._report(problem)

    def next_deadline_s(self) -> float | None:
        """When :meth:`step` has work to do, if no event happens before."""
        waits = (self.queue, self.bindings, self._preemption_executor, self._queue_admission, self._promise_revocation)
        notices = (self._gated_notices.next_s(), self._waiting_notices.next_s(), self._unbound_notices.next_s())
        found = (*(each.next_deadline_s() for each in waits), *notices)
        return min((moment for moment in found if moment is not None), default=None)

    def _due_effects(self, now_s: float) -> list[Effect]:
        self._preemption_executor.retry_due(now_s)
        effects: list[Effect] = [*self._promise_revocation.due(now_s)]
        effects += self._attempts.run_steps(self.bindings.due(now_s), now_s)
        for notices in (self._gated_notices, self._waiting_notices):
            for uid in notices.due(now_s):
                notice_effects = self._notice_gated(uid, now_s)
                if notice_effects:
                    notices.emitted(now_s)
                effects += notice_effects
        for uid in self._unbound_notices.due(now_s):
            notice_effects = self._notice_unbound(uid)
            if notice_effects:
                self._unbound_notices.emitted(now_s)
            effects += notice_effects
        return effects

    def _update_waiting_condition(self, uid: str) -> list[Effect]:
        """The gates of the pod changed while it waits for its queue: updates the reason in its condition."""
        queued = self.queue.get(uid)
        if queued is None or queued.state is not PodState.GATED or queued.gating is None:
            return []
        return (
            list(self._queue_admission.waiting_condition(queued.pod))
            if queued.gating.plugin == QueueAllocation.name
            else []
        )

    def _notice_gated(self, uid: str, now_s: float) -> list[Effect]:
        """The condition or Event of a pod that has been gated for longer than the notice period."""
        queued = self.queue.get(uid)
        if queued is None or queued.state is not PodState.GATED or queued.gating is None:
            return []
        if queued.gating.plugin == QueueAllocation.name:
            return list(self._queue_admission.waiting_condition(queued.pod))
        rejection = self._gating_rejection(uid)
        if rejection is not None:
            return self._gated_condition(queued.pod, rejection)
        if not queued.pod.gates or not self._gated_event_limit.take(now_s):
            return []
        return [pod_conditions.gated_event(queued.pod)]

    def _notice_unbound(self, uid: str) -> list[Effect]:
        """The condition of a pod that has a node and is not bound after the notice period."""
        binder = self.bindings.take_unconfirmed(uid)
        if binder:
            return self._not_bound_by(binder, uid)
        queued, waiting = self.queue.get(uid), self.bindings.waiting(uid)
        if waiting is None or queued is None:
            return []
        why = conditions.WAITING_ON_PERMIT if waiting.point == PERMIT else conditions.WAITING_ON_PRE_BIND
        message = conditions.plugin_message(waiting.plugin, waiting.text, waiting.point)
        return list(self._conditions.waiting_for_plugin(queued.pod, why, message))

    def _not_bound_by(self, plugin: str, uid: str) -> list[Effect]:
        """The API server accepted what a Bind plugin wrote, and the pod is not on a node."""
        matrix = self.cluster.matrix
        row = matrix.home(uid)
        if row is None or not matrix.is_assumed(uid):
            return []
        pod = matrix.pods_on(row)[uid]
        text = (
            f"its write was accepted {pod_conditions.GATED_S:g} s ago, and the pod is not bound to {matrix.name(row)}"
        )
        message = conditions.plugin_message(plugin, text, BIND)
        self._report(f"pod {pod.key} is not bound: {message}")
        return list(self._conditions.waiting_for_plugin(pod, conditions.SCHEDULER_ERROR, message))

    def _gating_rejection(self, uid: str) -> Rejection | None:
        """The rejection of the PreEnqueue plugin that gates the pod, if the scheduler has to report it."""
        queued = self.queue.get(uid)
        gating = None if queued is None or queued.state is not PodState.GATED else queued.gating
        if gating is None or gating.plugin in (*_NOT_REPORTED, QueueAllocation.name):
            return None
        return gating

    def _gated_condition(self, pod: PodInfo, rejection: Rejection) -> list[Effect]:
        is_error = isinstance(rejection, ErrorRejection)
        return list(self._conditions.held(pod, rejection.plugin, rejection.reason, is_error=is_error))

    # Results of effects

    def bound(self, uid: str, result: WriteResult, message: str, now_s: float) -> list[Effect]:
        effects = self._attempts.bound(uid, result, message, now_s)
        self._log_problems(now_s)
        return effects

    def gate_removed(self, uid: str, result: WriteResult, message: str, now_s: float) -> list[Effect]:
        """The API server has answered the removal of the queue gate."""
        if result is WriteResult.GONE:
            self._queue_admission.gate_removal_answered(uid, result, message, now_s)
            self.pod_removed(uid, now_s)
            return []
        return self._attempts.gate_removed(uid, result, message, now_s)

    def stamp_removed(self, uid: str, stamp: str, result: WriteResult, now_s: float) -> list[Effect]:
        """The API server has answered the removal of a stamp."""
        if result is WriteResult.GONE:
            self.pod_removed(uid, now_s)
            return []
        if result in (WriteResult.DONE, WriteResult.TAKEN):
            self._queue_admission.stamp_removed(uid, stamp)
        return self._promises_revoked(self._promise_revocation.answered(uid, stamp, result, now_s), now_s)

    def _promises_revoked(self, preemptor_uid: str, now_s: float) -> list[Effect]:
        return (
            self._attempts.run_steps(self._queue_preemption.promises_revoked(preemptor_uid), now_s)
            if preemptor_uid
            else []
        )

    def prepared(self, uid: str, problem: str, now_s: float) -> list[Effect]:
        """The writes of a PreBind plugin are done, or (``problem``) failed."""
        return self._attempts.prepared(uid, problem, now_s)

    def preempted(self, done: Preempt, deleted_uids: Collection[str], now_s: float, *, ok: bool) -> list[Effect]:
        """Victims were deleted (see :meth:`PreemptionExecutor.ended`): the capacity that they hold in their queue is
        free at once."""
        if self.queue_profiles:
            for uid in deleted_uids:
                self.queues.evicted(uid)
        self._promise_revocation.release(done.pod.uid)
        return self._preemption_executor.ended(done, deleted_uids, ok=ok, now_s=now_s)

    # Metrics

    def metrics_exposition(self, now_s: float) -> bytes:
        """All metrics, in Prometheus' text format."""
        matrix = self.cluster.matrix
        sizes = {"nodes": matrix.count, "pods": matrix.pod_count, "assumed_pods": len(matrix.assumed())}
        cache = (Sample("scheduler_cache_size", (("type", each),), size) for each, size in sizes.items())
        withheld = Sample(GATED_EVENTS_WITHHELD, (), self._gated_event_limit.withheld)
        return self.metrics.exposition(
            now_s, (*self.queue.samples(), *cache, *self._queue_admission.samples(), withheld)
        )


def _profile_or_default(of_profile: int | None, default: int) -> int:
    return default if of_profile is None else of_profile
