"""The counts of a Job's pods, including finished pods that the status does not contain yet.

``completion.py`` and ``pod_plan.py`` decide from these counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from headgate.controllers.jobs import policies
from headgate.controllers.jobs.counting import TerminatedPodCounts
from headgate.controllers.jobs.indexes import NONE, CompletionIndexes
from headgate.controllers.jobs.job_pods import JobPod
from headgate.controllers.jobs.spec import JobSpec

Object = dict[str, Any]


class JobPodSummary(msgspec.Struct, frozen=True):
    active: tuple[JobPod, ...]
    ready: int
    terminating: int
    new_succeeded: tuple[JobPod, ...]
    """Pods that have ended and are not in the status yet."""
    new_failed: tuple[JobPod, ...]
    succeeded: int
    failed: int
    """Without those that the failure policy ignores."""
    counted_indexes: CompletionIndexes = NONE
    """The completed indexes in the status."""
    completed: CompletionIndexes = NONE
    failed_indexes: CompletionIndexes | None = None
    """``None``: the job has no limit per index."""
    awaiting_replacement: Mapping[int, JobPod] = msgspec.field(default_factory=dict)
    """By index: the last failed pod of an index that waits for its next pod."""


def summarize_pods(
    spec: JobSpec, status: Mapping[str, Any], counts: TerminatedPodCounts, members: Collection[JobPod]
) -> JobPodSummary:
    active = tuple(each for each in members if each.is_active)
    tracked = [each for each in members if each.is_tracked and not each.is_active and each.is_valid(spec)]
    succeeded, failed = frozenset(counts.uncounted_succeeded), frozenset(counts.uncounted_failed)
    new_succeeded = tuple(each for each in tracked if each.phase == "Succeeded" and each.uid not in succeeded)
    new_failed = tuple(each for each in tracked if each.has_failed(spec) and each.uid not in failed)
    counting = sum(policies.match_failure_policy(spec.failure_rules, each).counts for each in new_failed)
    summary = JobPodSummary(
        active,
        sum(each.is_ready for each in active),
        sum(each.is_terminating for each in members if each.is_being_deleted),
        new_succeeded,
        new_failed,
        counts.succeeded + len(new_succeeded) + len(succeeded),
        counts.failed + counting + len(failed),
    )
    return _with_indexes(summary, spec, status, tracked) if spec.is_indexed else summary


def _with_indexes(
    summary: JobPodSummary, spec: JobSpec, status: Mapping[str, Any], tracked: list[JobPod]
) -> JobPodSummary:
    counted = CompletionIndexes.parse(status.get("completedIndexes") or "", spec.indexes)
    completed = counted | CompletionIndexes.of({each.index for each in tracked if each.phase == "Succeeded"})
    failed = awaiting = None
    if spec.backoff_limit_per_index is not None:
        before = CompletionIndexes.parse(status.get("failedIndexes") or "", spec.indexes)
        failed = before | CompletionIndexes.of({each.index for each in tracked if _ends_its_index(spec, each)})
        awaiting = _awaiting_replacement(spec, tracked, completed, failed, {each.index for each in summary.active})
    return msgspec.structs.replace(
        summary,
        succeeded=len(completed),
        counted_indexes=counted,
        completed=completed,
        failed_indexes=failed,
        awaiting_replacement=awaiting or {},
    )


def _ends_its_index(spec: JobSpec, member: JobPod) -> bool:
    if not member.has_failed(spec):
        return False
    match = policies.match_failure_policy(spec.failure_rules, member)
    if match.action == policies.FAIL_INDEX:
        return True
    return match.counts and member.failures_before >= (spec.backoff_limit_per_index or 0)


def _awaiting_replacement(
    spec: JobSpec,
    tracked: Iterable[JobPod],
    completed: CompletionIndexes,
    failed: CompletionIndexes,
    active: Collection[int],
) -> dict[int, JobPod]:
    awaiting: dict[int, JobPod] = {}
    for each in tracked:
        if not each.has_failed(spec) or each.index in active or each.index in completed or each.index in failed:
            continue
        other = awaiting.get(each.index)
        if other is None or (_failures_of(other) <= _failures_of(each) and other.finished_s <= each.finished_s):
            awaiting[each.index] = each
    return awaiting


def _failures_of(member: JobPod) -> int:
    return member.failures_before + member.ignored_before
