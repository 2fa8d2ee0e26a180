"""Scheduling attempts: tries one pod or one group, and handles each response until the pods are bound or wait.

A pod gets a node and enters the binding cycle (``binding_cycle.py``), or it waits and its condition gets the reasons;
the pods of a group get their nodes together or wait together. Responses to effects arrive here and lead to the next
effects. When the binding of a pod fails, its capacity is free again, so other pods are woken as if the pod was deleted.
``scheduler.py`` decides when pods are tried and passes in API objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from headgate.capacity.engine import GangAttempt
from headgate.kube import conditions
from headgate.kube.timestamps import format_time
from headgate.scheduling import pod_conditions
from headgate.scheduling.binding_cycle import BindingCycle, BindingCycles, BindingFailure, Step
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.cluster.terminating_pods import WAITING_FOR_TERMINATING_PODS, NodeAfterTermination
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.effects import Effect, WriteResult
from headgate.scheduling.framework.framework import Framework
from headgate.scheduling.framework.interface import Rejection, ScheduleResult, Unplaced
from headgate.scheduling.framework.scheduling_cycle import SchedulingCycle
from headgate.scheduling.gates.queue_admission import QueueAdmission
from headgate.scheduling.metrics.scheduler_metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics
from headgate.scheduling.plugins.queue_allocation import QueueAllocation
from headgate.scheduling.preemption.executor import PreemptionExecutor
from headgate.scheduling.queue.queued_pod_info import QueuedPodInfo
from headgate.scheduling.queue.scheduling_queue import SchedulingQueue
from headgate.scheduling.schedule_pod_group import (
    GroupNominatedNodes,
    GroupNomination,
    GroupPlacement,
    nominate_group,
    schedule_group,
)

_GATES: Final = "SchedulingGates"
_TERMINATING_PODS: Final = "TerminatingPods"
_UNGATED: Final = cluster_events.on(cluster_events.UNSCHEDULABLE_POD, cluster_events.POD_GATES_ELIMINATED)
_GROUP_NOT_READY: Final = Rejection("Gang", "not all pods of its group may be tried now")
# After these results the pod may be bound: its capacity stays in use until the watch shows its node, or a repeated
# binding has a certain result. If a repeated binding is not written, an earlier one may still have been.
_MAY_BE_BOUND: Final = (WriteResult.UNKNOWN, WriteResult.TAKEN)
_NOT_WRITTEN: Final = (WriteResult.LATER, WriteResult.REFUSED)


class SchedulingAttempts:
    """Methods named after an event (``bound``, ``prepared``, ``resized``) handle that event."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        cycles: Mapping[str, SchedulingCycle],
        cluster: Cluster,
        queue: SchedulingQueue[PodInfo],
        bindings: BindingCycles,
        conditions: pod_conditions.PodConditions,
        queue_admission: QueueAdmission,
        preemption_executor: PreemptionExecutor,
        metrics: SchedulerMetrics,
    ) -> None:
        self._frameworks = frameworks
        self._cycles = cycles
        self._cluster = cluster
        self._queue = queue
        self._bindings = bindings
        self._conditions = conditions
        self._queue_admission = queue_admission
        self._preemption_executor = preemption_executor
        self._metrics = metrics
        self._shrunk_groups: dict[tuple[str, str], None] = {}  # groups that a pod left since the last step

    def attempt(self, queued: QueuedPodInfo[PodInfo], now_s: float) -> list[Effect]:
        pod = queued.pod
        if self._bindings.get(pod.uid) is not None:
            # The pod was deleted and created again while its binding is in progress: the binding has to end first.
            self._queue.fail(queued, (), now_s)
            return []
        wait_reason = self._queue_admission.check_admitted(pod)
        if wait_reason is not None:
            self._queue.hold(queued, QueueAllocation.rejection(wait_reason), now_s)
            return []
        gang = self._queue_admission.gang_attempt(pod)
        if gang is not None:
            return self._attempt_group(queued, gang, now_s)
        clock = self._metrics.clock
        began_s = clock()
        outcome = self._cycles[pod.scheduler_name].place(
            pod, lambda found: self._wait_for_terminating_pods(pod, found, now_s)
        )
        took_s = clock() - began_s
        self._metrics.decided(took_s)
        if isinstance(outcome, ScheduleResult):
            self._conditions.forget(pod.uid)  # a pod with a node needs no condition about nodes
            begun = self._bindings.begin(queued, self._frameworks[pod.scheduler_name], outcome.node_name, now_s)
            return self.run_steps(begun, now_s) + self._recheck_lower_priority(pod, outcome.node_name, now_s)
        self._metrics.attempted(ERROR if outcome.is_error else UNSCHEDULABLE, pod.scheduler_name, took_s)
        if outcome.nominated is not None:
            self._metrics.preempted(len(outcome.nominated.victims))
        return self._unplaced(queued, outcome, now_s)

    def _wait_for_terminating_pods(self, pod: PodInfo, unplaced: Unplaced, now_s: float) -> Unplaced | None:
        """Nominates the pod to a node that has capacity after terminating pods, if pods of its profile wait for
        that."""
        node = self._cluster.terminating_pods.find_node(pod, self._cycles[pod.scheduler_name], now_s)
        if node is None:
            return None
        return _with_nomination(unplaced, node.node_name, _nomination_text(node), node.until_s - now_s)

    def _attempt_group(self, queued: QueuedPodInfo[PodInfo], gang: GangAttempt, now_s: float) -> list[Effect]:
        """Tries the members of a group one after another, until enough of them have nodes; otherwise none gets one."""
        taken: dict[str, QueuedPodInfo[PodInfo]] = {}

        def members() -> Iterator[PodInfo]:
            for uid in gang.uids:
                each = queued if uid == queued.uid else self._queue.take(uid)
                if each is not None:
                    taken[uid] = each
                    yield each.pod

        member_pods, name, clock = members(), queued.pod.scheduler_name, self._metrics.clock
        nominations = GroupNominatedNodes(self._queue.nominator, gang.uids)
        began_s = clock()
        outcome = schedule_group(self._cycles[name], member_pods, gang, nominations)
        if not isinstance(outcome, GroupPlacement):
            for _ in member_pods:  # the remaining members are not tried and wait with the others
                pass
        waiting = None
        if isinstance(outcome, Unplaced) and outcome.rejections and not outcome.is_error:
            pods = [each.pod for each in taken.values()]
            waiting = nominate_group(self._cycles[name], self._cluster.terminating_pods, pods, gang, nominations, now_s)
        nominations.restore()
        took_s = (clock() - began_s) / max(len(taken), 1)
        effects: list[Effect] = []
        if isinstance(outcome, GroupPlacement):
            for uid, node_name in outcome.nodes.items():
                self._metrics.decided(took_s)
                self._conditions.forget(uid)
                begun = self._bindings.begin(taken[uid], self._frameworks[name], node_name, now_s)
                effects += self.run_steps(begun, now_s) + self._recheck_lower_priority(taken[uid].pod, node_name, now_s)
            others = [each for each in {**taken, queued.uid: queued}.values() if each.uid not in outcome.nodes]
            return effects + [effect for each in others for effect in self._attempt_alone(each, now_s)]
        for each in taken.values():
            if outcome is None:
                # Some members must not be tried now. When they may be, these are tried again with them.
                self._queue.fail(each, (_GROUP_NOT_READY,), now_s)
                effects += self._stop_waiting(each.pod)
            else:
                self._metrics.decided(took_s)
                self._metrics.attempted(ERROR if outcome.is_error else UNSCHEDULABLE, name, took_s)
                found = outcome if waiting is None else _member_result(each.uid, outcome, waiting, now_s)
                effects += self._unplaced(each, found, now_s)
        return effects

    def _stop_waiting(self, pod: PodInfo) -> list[Effect]:
        """Too few members of the group may be tried: clears the nomination, so that other pods can use the node."""
        if not self._waits_for_termination(pod):
            return []
        self._queue.nominate(pod, "")
        cleared = self._conditions.nominated(pod, "")
        return [*cleared, *self._conditions.waiting(pod, conditions.WAITING_FOR_QUEUE, _GROUP_NOT_READY.reason)]

    def _attempt_alone(self, queued: QueuedPodInfo[PodInfo], now_s: float) -> list[Effect]:
        """Tries a member alone: its group has enough members without it."""
        if self._queue_admission.gang_attempt(queued.pod) is not None:
            self._queue.fail(queued, (_GROUP_NOT_READY,), now_s)
            return []
        return self.attempt(queued, now_s)

    def _unplaced(self, queued: QueuedPodInfo[PodInfo], outcome: Unplaced, now_s: float) -> list[Effect]:
        rejections = () if outcome.is_error else outcome.rejections
        effects: list[Effect] = []
        nominated_node = outcome.promise
        if outcome.nominated is not None:
            effects = self.run_steps(self._preemption_executor.begin(queued.pod, outcome.nominated), now_s)
        elif outcome.awaits_room:
            effects = self._recheck_lower_priority(queued.pod, outcome.promise or "", now_s)
        elif nominated_node is None and self._waits_for_termination(queued.pod):
            nominated_node = ""  # no terminating pod ends in time: the nomination is cleared
        reason = conditions.SCHEDULER_ERROR if outcome.is_error else conditions.UNSCHEDULABLE
        reason = WAITING_FOR_TERMINATING_PODS if outcome.awaits_room else reason
        return effects + self._failed(queued, outcome.message, rejections, now_s, nominated_node, reason)

    def _waits_for_termination(self, pod: PodInfo) -> bool:
        """Whether the last attempt found that the pod fits after terminating pods. The condition may not be written
        yet."""
        return WAITING_FOR_TERMINATING_PODS in (
            self._conditions.reason(pod),
            self._queue_admission.deferred_reason(pod.uid),
        )

    def _recheck_lower_priority(self, pod: PodInfo, node_name: str, now_s: float) -> list[Effect]:
        """Tries pods of lower priority again that wait for capacity on the node: this pod was placed without regard to
        them."""
        effects: list[Effect] = []
        for each in self._queue.nominator.on_node(node_name):
            if each.priority < pod.priority and self._waits_for_termination(each):
                self._queue.nominate(each, "")
                effects += self._conditions.nominated(each, "")
                self._queue.activate([each.uid], now_s)
        return effects

    def _failed(
        self,
        queued: QueuedPodInfo[PodInfo],
        message: str,
        rejections: Sequence[Rejection],
        now_s: float,
        nominated_node: str | None = "",
        reason: str = "",
    ) -> list[Effect]:
        """The attempt failed: the pod goes back to the queue, and its condition and an Event say why.
        ``nominated_node``: the new nominated node, empty for none; ``None`` keeps the present one. ``reason``: the
        reason of the condition; by default Unschedulable, or SchedulerError if there are no rejections."""
        self._queue_admission.unplaced(queued.pod)
        if self._queue.fail(queued, rejections, now_s) is None:
            return []  # the pod is gone, or has a node
        pod = queued.pod
        if nominated_node is not None:
            self._queue.nominate(pod, nominated_node)
        reason = reason or (conditions.UNSCHEDULABLE if rejections else conditions.SCHEDULER_ERROR)
        is_shortage = reason == conditions.UNSCHEDULABLE
        awaits_victims = is_shortage and self._preemption_executor.awaits_victims(pod, now_s)
        if awaits_victims:
            self._queue_admission.drop_deferred_condition(pod)
        is_deferrable = is_shortage or reason == WAITING_FOR_TERMINATING_PODS
        too_early = awaits_victims or (is_deferrable and self._queue_admission.defer_condition(pod, message, reason))
        is_nominated = self._queue.nominator.node_of(pod.uid) is not None
        self._queue_admission.set_unplaceable(pod, is_shortage and not awaits_victims and not is_nominated)
        # The response may have confirmed the removal of the gate before the watch shows it.
        ungated = self._queue_admission.with_confirmed_removal(pod)
        effects = self._conditions.failed(ungated, message, reason, nominated_node=nominated_node, too_early=too_early)
        return [*effects, pod_conditions.failed_event(pod, message)]

    def run_steps(self, steps: Iterable[Step], now_s: float) -> list[Effect]:
        """The effects among these steps of binding cycles. A failed cycle is handled: the pod waits again, and its
        capacity is free."""
        effects: list[Effect] = []
        for step in steps:
            if isinstance(step, BindingFailure):
                freed = self._forget_assumed(step.cycle.pod.uid)
                self._record_failure(step.cycle, UNSCHEDULABLE if step.rejections else ERROR, now_s)
                effects += self._failed(step.cycle.queued, step.message, step.rejections, now_s)
                self._capacity_freed(freed, now_s)
            else:
                effects.append(step)
        return effects

    def _forget_assumed(self, uid: str) -> PodInfo | None:
        """Removes an assumed pod from the node matrix; returns it if it was there."""
        matrix = self._cluster.matrix
        if not matrix.is_assumed(uid):
            return None
        row = matrix.home(uid)
        pod = None if row is None else matrix.pods_on(row)[uid]
        matrix.forget(uid)
        return pod

    def _capacity_freed(self, pod: PodInfo | None, now_s: float) -> None:
        """Wakes other pods as if this pod was deleted."""
        if pod is not None:
            event = ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.DELETE, old=pod)
            self._queue.event(event, now_s, lambda waiting: waiting.uid != pod.uid)

    # Results of effects

    def gate_removed(self, uid: str, result: WriteResult, message: str, now_s: float) -> list[Effect]:
        """The response to the removal of the queue gate has arrived."""
        if not self._queue_admission.gate_removal_answered(uid, result, message, now_s):
            return []
        if result is WriteResult.DONE:
            return self.ungated(uid, now_s)
        effects = self.run_steps(
            self._bindings.event_happened(cluster_events.queue_gate_event(cluster_events.GATE_REMOVED, uid), now_s),
            now_s,
        )
        return effects + self._queue_admission.gate_removal_refused(uid, message, now_s)

    def ungated(self, uid: str, now_s: float) -> list[Effect]:
        """The removal is confirmed: the binding that waited for it continues, or the deferred condition is written."""
        removal_event = cluster_events.queue_gate_event(cluster_events.GATE_REMOVED, uid)
        effects = self.run_steps(self._bindings.event_happened(removal_event, now_s), now_s)
        return effects + self._queue_admission.gate_removal_confirmed(uid, now_s)

    def prepared(self, uid: str, problem: str, now_s: float) -> list[Effect]:
        cycle = self._bindings.get(uid)
        return [] if cycle is None else self.run_steps(self._bindings.prepared(cycle, problem, now_s), now_s)

    def bound(self, uid: str, result: WriteResult, message: str, now_s: float) -> list[Effect]:
        cycle = self._bindings.get(uid)
        if cycle is None:
            return []
        if result in _MAY_BE_BOUND or (cycle.retries and result in _NOT_WRITTEN):
            if self._queue.get(uid) is cycle.queued:
                self._bindings.retry_later(cycle, now_s)
                return []
            # The watch event came before the response and showed the pod's node.
            is_on_node = self._cluster.matrix.node_of(uid) == cycle.node_name
            result = WriteResult.DONE if is_on_node else WriteResult.GONE
        written = self._bindings.end(cycle, is_bound=result is WriteResult.DONE)
        if result is WriteResult.DONE:
            self._record_success(cycle, now_s)
            self._queue.done(cycle.queued)
            self._conditions.forget(uid)
            self._bindings.written(cycle)
            return [*written, pod_conditions.scheduled_event(cycle.pod, cycle.node_name)]
        self._record_failure(cycle, ERROR, now_s)
        freed = self._forget_assumed(uid)
        effects = self._not_bound(cycle, result, message, now_s)
        self._capacity_freed(freed, now_s)
        return effects

    def _not_bound(self, cycle: BindingCycle, result: WriteResult, message: str, now_s: float) -> list[Effect]:
        if result is WriteResult.GONE:
            self._queue.done(cycle.queued)
            return []
        if result is WriteResult.GATED:
            # Only the removal of its gates can make the pod bindable, so it is not retried after a time.
            self._queue.fail(cycle.queued, (Rejection(_GATES, message, _UNGATED, expires=False),), now_s)
            self._queue.nominate(cycle.pod, "")
            return list(self._conditions.nominated(cycle.queued.pod, ""))
        by = f'running Bind plugin "{cycle.binder}": ' if cycle.binder else ""
        return self._failed(cycle.queued, f"binding rejected: {by}{message}", (), now_s)

    # Events of the watch

    def pod_observed(self, uid: str, now_s: float, node_name: str = "") -> list[Effect]:
        """The watch shows the pod on a node, or deleted: its binding cycle ends, unless a response is outstanding."""
        ended = self._bindings.observed(uid, node_name)
        if ended is None:
            return []
        cycle, written = ended
        self._queue.done(cycle.queued)
        if cycle.node_name != node_name:
            self._record_failure(cycle, ERROR, now_s)
            return []
        self._record_success(cycle, now_s)
        return [*written, pod_conditions.scheduled_event(cycle.pod, node_name)]

    def node_changed(self, node_name: str, now_s: float) -> None:
        """The node, or the deadline of a terminating pod on it, changed: pods that wait for it are tried again."""
        self._activate_waiting(self._queue.nominator.on_node(node_name), now_s)

    def resized(self, pod: PodInfo, now_s: float) -> None:
        """A pod without a node has other requests than before: the node that it waits for may be too small."""
        self._activate_waiting([pod], now_s)

    def member_removed(self, uid: str) -> None:
        """A member of a group was deleted: without it the group may not reach its minimum. The next step tries the
        other members again (:meth:`retry_groups`)."""
        queued = self._queue.get(uid)
        group = "" if queued is None else self._queue_admission.group(queued.pod)
        if queued is not None and group:
            self._shrunk_groups[queued.pod.namespace, group] = None

    def retry_groups(self, now_s: float) -> None:
        groups, self._shrunk_groups = self._shrunk_groups, {}
        for namespace, name in groups:
            queued = [self._queue.get(uid) for uid in self._queue_admission.queues.members(namespace, name)]
            self._activate_waiting([each.pod for each in queued if each is not None], now_s)

    def _activate_waiting(self, pods: Iterable[PodInfo], now_s: float) -> None:
        waiting = [each.uid for each in pods if self._waits_for_termination(each)]
        self._queue.activate(waiting, now_s)

    def pod_terminating(self, pod: PodInfo, now_s: float) -> None:
        """A pod begins to terminate: pods that wait for terminating pods are tried again, unless they have a nominated
        node."""
        terminating_pods = self._cluster.terminating_pods
        if pod.is_daemon or not terminating_pods.has_waiters:
            return
        event = ClusterEvent(cluster_events.ASSIGNED_POD, cluster_events.DELETE, old=pod)
        self._queue.event(
            event,
            now_s,
            lambda each: (
                terminating_pods.waits_for_termination(each)
                and self._conditions.reason(each) != WAITING_FOR_TERMINATING_PODS
            ),
        )

    # Metrics

    def _record_success(self, cycle: BindingCycle, now_s: float) -> None:
        queued = cycle.queued
        self._metrics.attempted(SCHEDULED, cycle.pod.scheduler_name, now_s - cycle.since_s)
        if queued.initial_attempt_s is not None:
            self._metrics.placed(queued.attempts, now_s - queued.initial_attempt_s)

    def _record_failure(self, cycle: BindingCycle, result: str, now_s: float) -> None:
        self._metrics.attempted(result, cycle.pod.scheduler_name, now_s - cycle.since_s)


def _nomination_text(node: NodeAfterTermination) -> str:
    by = "" if node.last.gone_by_s is None else f" by {format_time(node.last.gone_by_s)}"
    return f"Node {node.node_name} will have capacity when pods that terminate there are gone{by}."


def _with_nomination(unplaced: Unplaced, node_name: str, text: str, look_again_s: float) -> Unplaced:
    message = f"{unplaced.message} {text}"
    rejection = Rejection(_TERMINATING_PODS, message, look_again_s=look_again_s)
    return msgspec.structs.replace(
        unplaced,
        message=message,
        rejections=(*unplaced.rejections, rejection),
        promise=node_name,
        awaits_room=True,
    )


def _member_result(uid: str, outcome: Unplaced, waiting: GroupNomination, now_s: float) -> Unplaced:
    """The result for one member of a group that waits for terminating pods. The group is tried again when the first
    terminating pod is overdue. A member that would get no node even after all of them, and that the group does not
    need, is reported as unschedulable."""
    node_name, node_after_termination = waiting.nodes.get(uid), waiting.after_termination.get(uid)
    if node_name is None:
        return waiting.unplaced[uid]
    kept = f"Node {node_name} is kept for it until terminating pods have left capacity for the rest of its group."
    text = kept if node_after_termination is None else _nomination_text(node_after_termination)
    return _with_nomination(outcome, node_name, text, waiting.until_s - now_s)
