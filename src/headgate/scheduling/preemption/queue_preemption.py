"""Preemption for a pod that waits for its queue: victims that free both capacity in its queue and a node.

The queue engine (``capacity/engine.py``) reports the pods that may preempt and plans for each of them
(``capacity/preemption/preemption_plan.py``): the missing capacity, the promises to revoke, and the eligible victims.
This module searches for a node: one with free resources, or one from which enough victims can be removed. The queue
counts the capacity of the victims as free when their deletion was requested and not before, so that promises never
exceed capacity. Until then the pod is nominated to the node, so autoscalers add no node for it. The promises of the
plan are revoked first (``scheduling/gates/promise_revocation.py``), then the victims are deleted. Promises are revoked
for groups, too; pods are preempted only for single pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from headgate.capacity.engine import PreemptionPlan, QueueEngine
from headgate.capacity.names import OPT_IN
from headgate.scheduling import pod_conditions
from headgate.scheduling.binding_cycle import Step
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.framework.interface import DryRun, FilterReason, PostFilterNomination, ScheduleResult
from headgate.scheduling.framework.scheduling_cycle import SchedulingCycle
from headgate.scheduling.gates.promise_revocation import PromiseRevocation
from headgate.scheduling.preemption.executor import PreemptionExecutor
from headgate.scheduling.preemption.victim_selection import Victims, pick_one_node, select_victims
from headgate.scheduling.queue.scheduling_queue import SchedulingQueue

_QUEUE_FULL: Final = (FilterReason("its queue would still be full"),)


class QueuePreemption:
    def __init__(
        self,
        queues: QueueEngine,
        queue: SchedulingQueue[PodInfo],
        cluster: Cluster,
        cycles: Mapping[str, SchedulingCycle],
        conditions: pod_conditions.PodConditions,
        executor: PreemptionExecutor,
        promise_revocation: PromiseRevocation,
    ) -> None:
        self._queues = queues
        self._queue = queue
        self._cluster = cluster
        self._cycles = cycles
        self._conditions = conditions
        self._executor = executor
        self._promise_revocation = promise_revocation

    def step(self) -> Iterator[Step]:
        """Begin to revoke promises or to preempt pods for each pod that waits for capacity of its queue and may do
        so."""
        for uid in self._queues.starving():
            queued = self._queue.get(uid)
            if queued is None or self._is_in_progress(uid):
                continue
            plan = self._queues.plan_preemption(uid, may_evict=queued.pod.preemption_policy != "Never")
            # No pod is preempted for a group: which nodes all its pods would get is not known.
            found = self._find_nomination(queued.pod, plan) if plan is not None and plan.victims else None
            if plan is None or (plan.victims and found is None):
                continue
            if plan.promises:
                if found is not None or self._would_keep_grant(queued.pod, plan):
                    yield from self._promise_revocation.begin(uid, plan.promises)
            elif found is not None:
                yield from self._preempt(queued.pod, found)

    def promises_revoked(self, uid: str) -> Iterator[Step]:
        """The stamps of all promises that had to be revoked for this pod are removed: now its victims are preempted, if
        any."""
        queued = self._queue.get(uid)
        if queued is not None and not self._is_preempting(uid):
            may_evict = queued.pod.preemption_policy != "Never"
            plan = self._queues.plan_preemption(
                uid, may_evict=may_evict, already_revoked=self._promise_revocation.pods_without_stamp(uid)
            )
            found = (
                self._find_nomination(queued.pod, plan)
                if plan is not None and plan.victims and not plan.promises
                else None
            )
            if found is not None:
                yield from self._preempt(queued.pod, found)
        if uid not in self._cluster.ongoing_preemptions:
            self._promise_revocation.release(uid)

    def _would_keep_grant(self, pod: PodInfo, plan: PreemptionPlan) -> bool:
        """Whether the pod would keep a grant. A pod that did not opt in keeps it only with a node; without one,
        promises would be revoked for it again and again."""
        if pod.annotations.get(OPT_IN) == "true":
            return True
        is_single_pod = plan.preemptor_uids == (pod.uid,)
        return is_single_pod and isinstance(self._cycles[pod.scheduler_name].decide(pod), ScheduleResult)

    def _preempt(self, pod: PodInfo, found: PostFilterNomination) -> Iterator[Step]:
        self._queue.nominate(pod, found.node_name)
        yield from self._conditions.nominated(pod, found.node_name)
        yield from self._executor.begin(pod, found)

    def _is_in_progress(self, uid: str) -> bool:
        return self._promise_revocation.is_in_progress(uid) or self._is_preempting(uid)

    def _is_preempting(self, uid: str) -> bool:
        """Whether victims of the pod are being deleted or still terminate."""
        preemptions, matrix = self._cluster.ongoing_preemptions, self._cluster.matrix
        return uid in preemptions or any(matrix.home(each) is not None for each in preemptions.victims_of(uid))

    def _find_nomination(self, pod: PodInfo, plan: PreemptionPlan) -> PostFilterNomination | None:
        """A node where the pod fits after the eviction of eligible victims; ``None`` if there is none."""
        if plan.preemptor_uids != (pod.uid,):
            return None
        cycle, budgets, matrix = (
            self._cycles[pod.scheduler_name],
            self._cluster.disruption_budgets,
            self._cluster.matrix,
        )
        by_row: dict[int, list[PodInfo]] = {}
        for uid in plan.alternatives:
            row_of_pod = matrix.home(uid)
            if row_of_pod is not None:
                by_row.setdefault(row_of_pod, []).append(matrix.pods_on(row_of_pod)[uid])
        outcome = cycle.decide(pod)
        if isinstance(outcome, ScheduleResult):
            alternatives = {each.uid: each for pods in by_row.values() for each in pods}
            victims = tuple(alternatives[uid] for uid in plan.victims if uid in alternatives)
            return PostFilterNomination(outcome.node_name, victims) if len(victims) == len(plan.victims) else None
        candidates: dict[str, Victims] = {}
        for row, pods in sorted(by_row.items()):
            name = matrix.node_of(pods[0].uid)
            if name in outcome.resolvable:
                try:
                    with cycle.dry_run(pod, row) as dry_run:
                        found = select_victims(pods, _QueueCapacityDryRun(plan, dry_run), budgets)
                except BaseException:
                    return None  # a plugin failed: the pod's own attempt fails in the same way and reports it
                if isinstance(found, Victims) and found.pods:
                    candidates[name] = found
        if not candidates:
            return None
        chosen = pick_one_node(candidates)
        return PostFilterNomination(chosen, candidates[chosen].pods)


class _QueueCapacityDryRun:
    """A dry run on a node that also checks the queue: the pod fits only if the removed pods free, in their queues, all
    that the plan says is missing."""

    def __init__(self, plan: PreemptionPlan, dry_run: DryRun) -> None:
        self._queues_by_pod = plan.alternatives
        self._missing = dict(plan.missing)
        self._dry_run = dry_run

    def __enter__(self) -> _QueueCapacityDryRun:
        return self

    def __exit__(self, *raised: object) -> None:
        """The wrapped dry run restores the node."""

    def put(self, pod: PodInfo, /) -> None:
        self._count(pod, +1)
        self._dry_run.put(pod)

    def take(self, pod: PodInfo, /) -> None:
        self._count(pod, -1)
        self._dry_run.take(pod)

    def reasons(self) -> tuple[FilterReason, ...]:
        is_full = any(amount > 0 for amount in self._missing.values())
        return _QUEUE_FULL if is_full else self._dry_run.reasons()

    def _count(self, pod: PodInfo, sign: int) -> None:
        """Update the missing amounts after the pod was added to the dry run (+1) or removed (-1)."""
        path = self._queues_by_pod[pod.uid]
        for queue, resource in self._missing:
            if queue in path:
                self._missing[queue, resource] += sign * pod.shape.requests.get(resource, 0)
