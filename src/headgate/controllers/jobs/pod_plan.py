"""Which pods of a Job to create or delete, and how long to wait first. One pass deletes or creates, never both.

If there are too many active pods, the least advanced ones are deleted first: pods without a node before pods with one,
pending before running, not ready before ready, those that became ready last, those that restarted most often, and the
youngest; equal pods in the order of their names. Only one pod works on an index: a pod with a duplicate index or an
index out of range is always deleted.
``backoff.py`` computes the wait, ``job_reconciler.py`` performs the plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.jobs import backoff
from headgate.controllers.jobs.indexes import NONE, CompletionIndexes
from headgate.controllers.jobs.job_pods import UNKNOWN, JobPod, sidecars
from headgate.controllers.jobs.pod_summary import JobPodSummary
from headgate.controllers.jobs.spec import JobSpec
from headgate.controllers.ownership import pods

Object = dict[str, Any]
DeletionRank = tuple[bool, int, bool, float, int, int, float, str]

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def deletion_rank(member: JobPod) -> DeletionRank:
    """The pod with the smallest rank is deleted first."""
    pod = member.pod
    return (
        bool((pod.get("spec") or {}).get("nodeName")),
        _PHASES.get(member.phase, 0),
        member.is_ready,
        _youngest_first(pods.ready_since_s(pod)) if member.is_ready else 0.0,
        *_restarts(pod),
        _youngest_first(pods.seconds(pod["metadata"].get("creationTimestamp"))),
        member.name,
    )


def _youngest_first(time_s: float | None) -> float:
    return -math.inf if time_s is None else -time_s


def _restarts(pod: Object) -> tuple[int, int]:
    """The highest restart count of its containers, and of its sidecars; negative, so that more comes first."""
    status = pod.get("status") or {}
    sidecar_names = sidecars(pod)
    initial = (each for each in status.get("initContainerStatuses") or () if each.get("name") in sidecar_names)
    lists = (status.get("containerStatuses") or (), initial)
    most, most_of_sidecars = (max((each.get("restartCount", 0) for each in statuses), default=0) for statuses in lists)
    return -most, -most_of_sidecars


MAX_AT_ONCE: Final = 500


class JobPodPlan(msgspec.Struct, frozen=True):
    deletes: tuple[JobPod, ...] = ()
    creates: tuple[int, ...] = ()
    """The index of each pod to create; :data:`UNKNOWN` if the job is not indexed."""
    wait_s: float | None = None
    """When more pods may be created: the back-off after a failure."""
    has_more: bool = False
    """There is more to do than one pass does."""


def plan_pods(
    spec: JobSpec, summary: JobPodSummary, members: Iterable[JobPod], record: backoff.BackoffRecord, now_s: float
) -> JobPodPlan:
    if spec.is_suspended:
        return JobPodPlan(deletes=tuple(_pods_to_delete(spec, summary.active, len(summary.active))))
    desired = _desired_active(spec, summary)
    deletes = tuple(_pods_to_delete(spec, summary.active, max(0, len(summary.active) - desired)))
    if deletes:
        return JobPodPlan(deletes=deletes[:MAX_AT_ONCE], has_more=len(deletes) > MAX_AT_ONCE)
    terminating = summary.terminating if spec.replaces_only_failed else 0
    missing = desired - terminating - len(summary.active)
    if missing <= 0:
        return JobPodPlan()
    if spec.backoff_limit_per_index is None:
        wait_s = backoff.wait_s(record, now_s)
        if wait_s > 0:
            return JobPodPlan(wait_s=wait_s)
    batch = min(missing, MAX_AT_ONCE)
    if not spec.is_indexed:
        return JobPodPlan(creates=(UNKNOWN,) * batch, has_more=missing > batch)
    pending = _unavailable_indexes(spec, summary, members).absent(batch, spec.indexes)
    waits_s = {index: backoff.index_wait_s(summary.awaiting_replacement.get(index), now_s) for index in pending}
    creates = tuple(index for index in pending if waits_s[index] == 0)
    waits = [wait_s for wait_s in waits_s.values() if wait_s > 0]
    return JobPodPlan(creates=creates, wait_s=min(waits, default=None), has_more=missing > batch and bool(creates))


def _desired_active(spec: JobSpec, summary: JobPodSummary) -> int:
    if spec.completions is None:
        return len(summary.active) if summary.succeeded > 0 else spec.parallelism
    return max(0, min(spec.completions - summary.succeeded, spec.parallelism))


def _unavailable_indexes(spec: JobSpec, summary: JobPodSummary, members: Iterable[JobPod]) -> CompletionIndexes:
    """Indexes that need no pod: they have completed or failed, or have a pod."""
    taken = {each.index for each in summary.active}
    if spec.replaces_only_failed:
        taken.update(each.index for each in members if each.is_terminating)
    taken.discard(UNKNOWN)
    return summary.completed | CompletionIndexes.of(taken) | (summary.failed_indexes or NONE)


def _pods_to_delete(spec: JobSpec, active: Iterable[JobPod], at_least: int) -> list[JobPod]:
    """The active pods to delete: those with a duplicate or invalid index, then the lowest ranks."""
    deletes: list[JobPod] = []
    kept = list(active)
    if spec.is_indexed:
        deletes, kept = _without_duplicates(spec, kept)
    missing = at_least - len(deletes)
    return deletes + sorted(kept, key=deletion_rank)[:missing] if missing > 0 else deletes


def _without_duplicates(spec: JobSpec, active: list[JobPod]) -> tuple[list[JobPod], list[JobPod]]:
    """The pods to delete and the pods to keep: for each index the most advanced one."""
    deletes = [each for each in active if not each.is_valid(spec)]
    kept: dict[int, JobPod] = {}
    for each in active:
        if each.is_valid(spec):
            other = kept.get(each.index)
            if other is not None:
                each, other = (each, other) if deletion_rank(other) < deletion_rank(each) else (other, each)
                deletes.append(other)
            kept[each.index] = each
    return deletes, list(kept.values())
