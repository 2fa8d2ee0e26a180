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
    """The condition that says that it is over."""
    for each in (job.get("status") or {}).get("conditions") or ():
        if each.get("type") in _FINISHED and each.get("status") == "True":
            return dict(each)
    return None


def is_finished(job: Object) -> bool:
    return finish(job) is not None


def with_numbers(status: Mapping[str, Any], standing: LivePodCounts) -> Object:
    numbers = {"ready": standing.ready, "terminating": standing.terminating}
    return _without_nothing({**status, **numbers, "active": standing.active})


def with_terminated(
    status: Mapping[str, Any],
    spec: JobSpec,
    tally: TerminatedPodCounts,
    completed: CompletionIndexes,
    failed: CompletionIndexes | None,
) -> Object:
    uncounted = {"succeeded": list(tally.uncounted_succeeded), "failed": list(tally.uncounted_failed)}
    changed: Object = {
        **status,
        "succeeded": tally.succeeded,
        "failed": tally.failed,
        "uncountedTerminatedPods": {outcome: uids for outcome, uids in uncounted.items() if uids},
    }
    if spec.is_indexed:
        changed["succeeded"] = len(completed)
        changed["completedIndexes"] = str(completed)
        changed.pop("failedIndexes", None)
        if failed is not None:
            changed["failedIndexes"] = str(failed)
    return _without_nothing(changed)


def with_suspension(status: Mapping[str, Any], spec: JobSpec, now: str, *, clears_start: bool = False) -> Object:
    """Suspended or resumed, if that is news; time begins again when a job is resumed.

    ``clears_start``: a suspended job has not started, whatever it did before (KEP-5440).
    """
    word, text = ("JobSuspended", "Job suspended") if spec.is_suspended else ("JobResumed", "Job resumed")
    told = status.get("conditions") or []
    changed = _with_condition(told, _SUSPENDED, "True" if spec.is_suspended else "False", word, text, now)
    if changed is told:
        return dict(status)
    kept = {key: value for key, value in status.items() if key != "startTime" or not clears_start}
    return {**kept, "conditions": changed, **({} if spec.is_suspended else {"startTime": now})}


def suspension(status: Mapping[str, Any]) -> str | None:
    """What is told about it: ``True``, ``False``, or nothing."""
    told = conditions.find(status.get("conditions"), _SUSPENDED)
    return None if told is None else str(told.get("status"))


def with_target(status: Mapping[str, Any], ending: FinishedCondition, now: str) -> Object:
    told = status.get("conditions") or []
    if conditions.is_true(told, ending.target):
        return dict(status)
    return {**status, "conditions": [*told, _condition(ending.target, "True", ending.reason, ending.message, now)]}


def with_final_condition(status: Mapping[str, Any], ending: FinishedCondition, now: str) -> Object:
    word = FINAL_CONDITIONS[ending.target]
    told = _with_condition(status.get("conditions") or [], word, "True", ending.reason, ending.message, now)
    return {**status, "conditions": told, **({} if ending.is_failure else {"completionTime": now})}


def _with_condition(told: list[Object], type_: str, status: str, reason: str, message: str, now: str) -> list[Object]:
    """With this condition; the very same list if it says so already. What never was true is not told to be false."""
    before = conditions.find(told, type_)
    if before is None:
        return told if status == "False" else [*told, _condition(type_, status, reason, message, now)]
    if (before.get("status"), before.get("reason"), before.get("message")) == (status, reason, message):
        return told
    new = _condition(type_, status, reason, message, now)
    return [new if each is before else each for each in told]


def _condition(type_: str, status: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": type_,
        "status": status,
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


# The API leaves these out when there is nothing to say; ``ready`` and ``terminating`` it keeps.
_LEFT_OUT: Final = {"active": 0, "succeeded": 0, "failed": 0, "completedIndexes": ""}


def _without_nothing(status: Object) -> Object:
    return {key: value for key, value in status.items() if key not in _LEFT_OUT or _LEFT_OUT[key] != value}
