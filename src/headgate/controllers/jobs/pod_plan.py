"""Which pods of a Job to create or delete, and how long to wait first. One pass deletes or creates, never both.

Of too many active pods, the least advanced is deleted first: without a node before with one, pending before running,
not ready before ready, ready for a short time before long, often restarted before seldom, young before old; equal pods
by name. One pod works on an index at a time: a pod with a duplicate index or an index out of range is always deleted.
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
    """The smallest goes first."""
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
    """Of its containers, and of its sidecars: the most that any of them has, negative so that more comes first."""
    status = pod.get("status") or {}
    beside = sidecars(pod)
    initial = (each for each in status.get("initContainerStatuses") or () if each.get("name") in beside)
    lists = (status.get("containerStatuses") or (), initial)
    most, most_beside = (max((each.get("restartCount", 0) for each in statuses), default=0) for statuses in lists)
    return -most, -most_beside


MOST_AT_ONCE: Final = 500


class JobPodPlan(msgspec.Struct, frozen=True):
    deletes: tuple[JobPod, ...] = ()
    creates: tuple[int, ...] = ()
    """The index of each pod to make; :data:`UNKNOWN` for a job that has none."""
    wait_s: float | None = None
    """More may be made then: something failed a short while ago."""
    is_cut: bool = False
    """There is more to do than fits at once."""


def plan_pods(
    spec: JobSpec, sums: JobPodSummary, members: Iterable[JobPod], record: backoff.BackoffRecord, now_s: float
) -> JobPodPlan:
    if spec.is_suspended:
        return JobPodPlan(deletes=tuple(_least(spec, sums.active, len(sums.active))))
    wanted = _wanted_active(spec, sums)
    ends = tuple(_least(spec, sums.active, max(0, len(sums.active) - wanted)))
    if ends:
        return JobPodPlan(deletes=ends[:MOST_AT_ONCE], is_cut=len(ends) > MOST_AT_ONCE)
    going = sums.terminating if spec.replaces_only_failed else 0
    missing = wanted - going - len(sums.active)
    if missing <= 0:
        return JobPodPlan()
    if spec.backoff_limit_per_index is None:
        wait_s = backoff.wait_s(record, now_s)
        if wait_s > 0:
            return JobPodPlan(wait_s=wait_s)
    at_once = min(missing, MOST_AT_ONCE)
    if not spec.is_indexed:
        return JobPodPlan(creates=(UNKNOWN,) * at_once, is_cut=missing > at_once)
    pending = _taken(spec, sums, members).absent(at_once, spec.indexes)
    waits_s = {index: backoff.index_wait_s(sums.held.get(index), now_s) for index in pending}
    makes = tuple(index for index in pending if waits_s[index] == 0)
    later = [wait_s for wait_s in waits_s.values() if wait_s > 0]
    return JobPodPlan(creates=makes, wait_s=min(later, default=None), is_cut=missing > at_once and bool(makes))


def _wanted_active(spec: JobSpec, sums: JobPodSummary) -> int:
    if spec.completions is None:
        return len(sums.active) if sums.succeeded > 0 else spec.parallelism
    return max(0, min(spec.completions - sums.succeeded, spec.parallelism))


def _taken(spec: JobSpec, sums: JobPodSummary, members: Iterable[JobPod]) -> CompletionIndexes:
    """Indexes that need no pod: they have ended, or have one."""
    taken = {each.index for each in sums.active}
    if spec.replaces_only_failed:
        taken.update(each.index for each in members if each.is_terminating)
    taken.discard(UNKNOWN)
    return sums.completed | CompletionIndexes.of(taken) | (sums.failed_indexes or NONE)


def _least(spec: JobSpec, active: Iterable[JobPod], at_least: int) -> list[JobPod]:
    """The active pods to end: those with the same or no index, then the least until there are enough."""
    ends: list[JobPod] = []
    kept = list(active)
    if spec.is_indexed:
        ends, kept = _without_doubles(spec, kept)
    missing = at_least - len(ends)
    return ends + sorted(kept, key=deletion_rank)[:missing] if missing > 0 else ends


def _without_doubles(spec: JobSpec, active: list[JobPod]) -> tuple[list[JobPod], list[JobPod]]:
    """Who has to go, and who stays: of each index the pod that is furthest."""
    ends = [each for each in active if not each.is_valid(spec)]
    kept: dict[int, JobPod] = {}
    for each in active:
        if each.is_valid(spec):
            other = kept.get(each.index)
            if other is not None:
                each, other = (each, other) if deletion_rank(other) < deletion_rank(each) else (other, each)
                ends.append(other)
            kept[each.index] = each
    return ends, list(kept.values())
