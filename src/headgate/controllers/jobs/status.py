"""The status of a Job to write: counts, index lists, conditions. The stored status is never changed in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.controllers.jobs.completion import FINAL_CONDITIONS, FinishedCondition
from headgate.controllers.jobs.counting import TerminatedPodCounts
from headgate.controllers.jobs.indexes import CompletionIndexes
from headgate.controllers.jobs.spec import JobSpec
from headgate.kube import conditions

Object = dict[str, Any]

_FINISHED: Final = ("Complete", "Failed")
_SUSPENDED: Final = "Suspended"


class LivePodCounts(msgspec.Struct, frozen=True):
    """The numbers of pods after this reconcile."""

    active: int
    ready: int
    terminating: int


def finish(job: Object) -> Object | None:
    """The condition Complete or Failed; None if the job has not finished."""
    for each in (job.get("status") or {}).get("conditions") or ():
        if each.get("type") in _FINISHED and each.get("status") == "True":
            return dict(each)
    return None


def is_finished(job: Object) -> bool:
    return finish(job) is not None


def with_numbers(status: Mapping[str, Any], live_counts: LivePodCounts) -> Object:
    numbers = {"ready": live_counts.ready, "terminating": live_counts.terminating}
    return _without_zeros({**status, **numbers, "active": live_counts.active})


def with_terminated(
    status: Mapping[str, Any],
    spec: JobSpec,
    counts: TerminatedPodCounts,
    completed: CompletionIndexes,
    failed: CompletionIndexes | None,
) -> Object:
    uncounted = {"succeeded": list(counts.uncounted_succeeded), "failed": list(counts.uncounted_failed)}
    changed: Object = {
        **status,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "uncountedTerminatedPods": {outcome: uids for outcome, uids in uncounted.items() if uids},
    }
    if spec.is_indexed:
        changed["succeeded"] = len(completed)
        changed["completedIndexes"] = str(completed)
        changed.pop("failedIndexes", None)
        if failed is not None:
            changed["failedIndexes"] = str(failed)
    return _without_zeros(changed)


def with_suspension(status: Mapping[str, Any], spec: JobSpec, now: str, *, clears_start: bool = False) -> Object:
    """Records that the job was suspended or resumed. A resumed job gets a new start time.

    ``clears_start``: a suspended job loses its start time (KEP-5440).
    """
    reason, text = ("JobSuspended", "Job suspended") if spec.is_suspended else ("JobResumed", "Job resumed")
    known = status.get("conditions") or []
    changed = _with_condition(known, _SUSPENDED, "True" if spec.is_suspended else "False", reason, text, now)
    if changed is known:
        return dict(status)
    kept = {key: value for key, value in status.items() if key != "startTime" or not clears_start}
    return {**kept, "conditions": changed, **({} if spec.is_suspended else {"startTime": now})}


def suspension(status: Mapping[str, Any]) -> str | None:
    """The status of the condition Suspended; None if there is none."""
    found = conditions.find(status.get("conditions"), _SUSPENDED)
    return None if found is None else str(found.get("status"))


def with_target(status: Mapping[str, Any], finished: FinishedCondition, now: str) -> Object:
    known = status.get("conditions") or []
    if conditions.is_true(known, finished.target):
        return dict(status)
    return {
        **status,
        "conditions": [*known, _condition(finished.target, "True", finished.reason, finished.message, now)],
    }


def with_final_condition(status: Mapping[str, Any], finished: FinishedCondition, now: str) -> Object:
    reason = FINAL_CONDITIONS[finished.target]
    updated = _with_condition(status.get("conditions") or [], reason, "True", finished.reason, finished.message, now)
    return {**status, "conditions": updated, **({} if finished.is_failure else {"completionTime": now})}


def _with_condition(known: list[Object], type_: str, status: str, reason: str, message: str, now: str) -> list[Object]:
    """Sets the condition; returns the same list if nothing changes. A condition that was never true is not added as
    false."""
    before = conditions.find(known, type_)
    if before is None:
        return known if status == "False" else [*known, _condition(type_, status, reason, message, now)]
    if (before.get("status"), before.get("reason"), before.get("message")) == (status, reason, message):
        return known
    new = _condition(type_, status, reason, message, now)
    return [new if each is before else each for each in known]


def _condition(type_: str, status: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": type_,
        "status": status,
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


# The API omits these fields if they are zero or empty; it keeps ``ready`` and ``terminating``.
_OMITTED: Final = {"active": 0, "succeeded": 0, "failed": 0, "completedIndexes": ""}


def _without_zeros(status: Object) -> Object:
    return {key: value for key, value in status.items() if key not in _OMITTED or _OMITTED[key] != value}
