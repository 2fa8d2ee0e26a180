"""Executes a preemption: requests the deletion of the victims and clears nominations of pods of lower priority.

The plugin ``DefaultPreemption`` or ``queue_preemption.py`` chooses the node and the victims.
:meth:`PreemptionExecutor.begin` turns this nomination into effects: one :class:`Preempt` for the victims to delete.
Victims that wait for Permit are rejected at once; victims that already terminate are left alone. Pods of lower priority
that were nominated to the same node lose the nomination. Until all deletions were requested, the PreEnqueue method of
``DefaultPreemption`` holds the preemptor (``scheduling/cluster/ongoing_preemptions.py``). If a deletion fails, the
preemptor is tried again at once, and after further failures with a delay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from headgate.kube.backoff import ExponentialBackoff
from headgate.scheduling import pod_conditions
from headgate.scheduling.binding_cycle import BindingCycles, Step
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.framework.effects import Effect, Preempt
from headgate.scheduling.framework.interface import PostFilterNomination
from headgate.scheduling.queue.scheduling_queue import SchedulingQueue
from headgate.waiting.heap import DeadlineHeap

_PLUGIN: Final = "DefaultPreemption"
_BACKOFF: Final = ExponentialBackoff(1.0, 10.0)


class PreemptionExecutor:
    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue[PodInfo],
        binding_cycles: BindingCycles,
        conditions: pod_conditions.PodConditions,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._binding_cycles = binding_cycles
        self._conditions = conditions
        self._failures: dict[str, int] = {}
        self._retries: DeadlineHeap[str] = DeadlineHeap()
        self._victim_deadlines_s: dict[str, float] = {}

    def begin(self, pod: PodInfo, nomination: PostFilterNomination) -> Iterator[Step]:
        """Begin to delete the victims, and clear the nominations of pods with a lower priority to the node. A victim
        that waits in Permit is rejected and not deleted."""
        for each in self._queue.nominator.on_node(nomination.node_name):
            if each.priority < pod.priority:
                self._queue.nominate(each, "")
                yield from self._conditions.nominated(each, "")
        to_delete: list[PodInfo] = []
        for victim in nomination.victims:
            if victim.deleting:
                continue
            rejection = self._binding_cycles.reject(victim.uid, _PLUGIN, "preempted")
            if rejection is None:
                to_delete.append(victim)
            else:
                yield rejection
                yield pod_conditions.preempted_event(victim, pod, nomination.node_name)
        if to_delete:
            self._cluster.ongoing_preemptions.begin(pod.uid, [each.uid for each in to_delete])
            yield Preempt(pod, nomination.node_name, tuple(to_delete))

    def ended(self, effect: Preempt, deleted: Collection[str], *, ok: bool, now_s: float) -> list[Effect]:
        """The deletions of a :class:`Preempt` were requested, or failed. ``deleted``: the uids of the victims that
        existed and whose deletion was requested; ``ok``: whether no request failed."""
        uid = effect.pod.uid
        if not ok and self._queue.get(uid) is not None:
            self._schedule_retry(uid, now_s)
        else:
            self._failures.pop(uid, None)
            victims = self._cluster.ongoing_preemptions.end(uid)
            if not any(self._cluster.matrix.home(each) is not None for each in victims):
                # The victims are gone already: the event that would have woken the pod came while it was held.
                self._queue.activate([uid], now_s)
            elif self._queue.get(uid) is not None:
                self._cluster.ongoing_preemptions.victims_deleted(uid, deleted)
                if effect.pod.scheduler_name in self._cluster.victim_rules:
                    deadline_s = now_s + max(each.grace_s for each in effect.victims)
                    self._victim_deadlines_s[uid] = deadline_s
                    self._retries.put(uid, deadline_s)
                    # If the pod only needed quota, which is free now, no event of a node would wake it.
                    self._queue.activate([uid], now_s)
        return [
            pod_conditions.preempted_event(each, effect.pod, effect.node_name)
            for each in effect.victims
            if each.uid in deleted
        ]

    def awaits_victims(self, pod: PodInfo, now_s: float) -> bool:
        """Whether a pod of a profile with queues waits for victims within their grace period: autoscalers must not add
        a node for it. It is tried again when the grace period is over."""
        preemptions, matrix = self._cluster.ongoing_preemptions, self._cluster.matrix
        if pod.scheduler_name not in self._cluster.victim_rules:
            return False
        if pod.uid in preemptions:
            return True
        until_s = self._victim_deadlines_s.get(pod.uid, now_s)
        return until_s > now_s and any(matrix.home(each) is not None for each in preemptions.victims_of(pod.uid))

    def _schedule_retry(self, uid: str, now_s: float) -> None:
        before = self._failures.get(uid, 0)
        self._failures[uid] = before + 1
        self._retries.put(uid, now_s + _BACKOFF.delay_s(before))
        self.retry_due(now_s)

    def retry_due(self, now_s: float) -> None:
        """Activate preemptors whose preemption failed when their back-off is over; until then they are held."""
        for uid in self._retries.due(now_s):
            self._cluster.ongoing_preemptions.end(uid)
            self._queue.activate([uid], now_s)

    def next_deadline_s(self) -> float | None:
        return self._retries.next_deadline_s()

    def forget(self, uid: str) -> None:
        """The pod was deleted or has a node."""
        self._cluster.ongoing_preemptions.forget(uid)
        self._victim_deadlines_s.pop(uid, None)
        self._failures.pop(uid, None)
        if uid in self._retries:
            self._retries.discard(uid)
            self._cluster.ongoing_preemptions.end(uid)
