"""How finished pods become numbers in the status: each exactly once, also across restarts.

The uid of a finished pod is first written to ``uncountedTerminatedPods``; only then its finalizer may be removed; and
only when the finalizer is gone the uid is replaced by an increment of ``succeeded`` or ``failed``. At every moment a
pod is therefore tracked, recorded, or counted. Successes of an Indexed job are recorded by index, which cannot be
counted twice. ``job_reconciler.py`` performs the steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, Final

import msgspec

from headgate.controllers.jobs import policies
from headgate.controllers.jobs.indexes import NONE, CompletionIndexes
from headgate.controllers.jobs.job_pods import JobPod
from headgate.controllers.jobs.spec import JobSpec

Object = dict[str, Any]

MAX_AT_ONCE: Final = 500
"""How many pods one pass counts. With this limit the uids in a status take less than about 20 KB."""


class TerminatedPodCounts(msgspec.Struct, frozen=True):
    succeeded: int = 0
    failed: int = 0
    uncounted_succeeded: tuple[str, ...] = ()
    uncounted_failed: tuple[str, ...] = ()

    @property
    def uncounted(self) -> int:
        return len(self.uncounted_succeeded) + len(self.uncounted_failed)

    def after_removal(self, tracked: Set[str]) -> TerminatedPodCounts:
        """Replaces the uids of pods that lost their finalizer by increments of the counts."""
        succeeded = tuple(uid for uid in self.uncounted_succeeded if uid in tracked)
        failed = tuple(uid for uid in self.uncounted_failed if uid in tracked)
        return TerminatedPodCounts(
            self.succeeded + len(self.uncounted_succeeded) - len(succeeded),
            self.failed + len(self.uncounted_failed) - len(failed),
            succeeded,
            failed,
        )


def read_counts(status: Mapping[str, Any]) -> TerminatedPodCounts:
    uncounted = status.get("uncountedTerminatedPods") or {}
    return TerminatedPodCounts(
        status.get("succeeded") or 0,
        status.get("failed") or 0,
        tuple(uncounted.get("succeeded") or ()),
        tuple(uncounted.get("failed") or ()),
    )


class FinalizerRemovalPolicy(msgspec.Struct, frozen=True):
    """When the finalizer of a pod may be removed although the pod has not ended."""

    all_pods: bool = False
    """The job has finished, or is being deleted."""
    as_failed: bool = False
    """Pods that have not ended count as failed."""
    awaiting_replacement: frozenset[str] = frozenset()
    """Uids of failed pods that stay until they are replaced, because they record the failures of their index."""


class CountingResult(msgspec.Struct, frozen=True):
    counts: TerminatedPodCounts
    succeeded_indexes: CompletionIndexes
    released: tuple[JobPod, ...]
    """Pods whose finalizer may be removed when the counts are written."""
    has_more: bool
    """There may be more pods than one pass counts."""


def count(
    spec: JobSpec,
    counts: TerminatedPodCounts,
    counted: CompletionIndexes,
    members: Collection[JobPod],
    removal_policy: FinalizerRemovalPolicy,
) -> CountingResult:
    """Adds the uids of finished pods to the counts. ``counts``: without the uids of pods that have lost the finalizer.
    ``counted``: the succeeded indexes that the status already has."""
    succeeded, failed = list(counts.uncounted_succeeded), list(counts.uncounted_failed)
    known_succeeded, known_failed = frozenset(succeeded), frozenset(failed)
    indexes: list[int] = []
    released: list[JobPod] = []
    for member in _in_order(
        spec, (each for each in members if each.is_tracked and _may_remove(spec, each, removal_policy))
    ):
        released.append(member)
        if member.phase == "Succeeded" and member.uid not in known_failed:
            if not spec.is_indexed:
                if member.uid not in known_succeeded:
                    succeeded.append(member.uid)
            elif member.is_valid(spec) and member.index not in counted:
                indexes.append(member.index)
        elif member.has_failed(spec) or removal_policy.as_failed:
            is_new = member.uid not in known_failed and member.is_valid(spec)
            if is_new and policies.match_failure_policy(spec.failure_rules, member).counts:
                failed.append(member.uid)
        if len(indexes) + len(succeeded) + len(failed) >= MAX_AT_ONCE:
            break
    new_counts = TerminatedPodCounts(counts.succeeded, counts.failed, tuple(succeeded), tuple(failed))
    has_more = len(indexes) + len(succeeded) + len(failed) >= MAX_AT_ONCE
    return CountingResult(new_counts, CompletionIndexes.of(indexes) if indexes else NONE, tuple(released), has_more)


def _in_order(spec: JobSpec, members: Iterable[JobPod]) -> list[JobPod]:
    return sorted(members, key=lambda each: (each.index if spec.is_indexed else 0, each.name))


def _may_remove(spec: JobSpec, member: JobPod, removal_policy: FinalizerRemovalPolicy) -> bool:
    if removal_policy.all_pods or member.phase == "Succeeded":
        return True
    return not member.is_active and member.has_failed(spec) and member.uid not in removal_policy.awaiting_replacement
