"""Whether a Job has finished, and why.

A decision that the status already has is not changed. A new failure takes precedence over a new success.

A job finishes in two steps: the *target* condition (``FailureTarget``, ``SuccessCriteriaMet``) as soon as it is known,
the final condition (``Failed``, ``Complete``) when every pod has ended and been counted. ``status.py`` writes the
conditions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.controllers.jobs import policies
from headgate.controllers.jobs.job_pods import JobPod
from headgate.controllers.jobs.pod_summary import JobPodSummary
from headgate.controllers.jobs.spec import JobSpec
from headgate.kube import conditions

Object = dict[str, Any]

SUCCESS: Final = "SuccessCriteriaMet"
FAILURE: Final = "FailureTarget"
FINAL_CONDITIONS: Final = {SUCCESS: "Complete", FAILURE: "Failed"}


class FinishedCondition(msgspec.Struct, frozen=True):
    target: str
    reason: str
    message: str

    @property
    def is_failure(self) -> bool:
        return self.target == FAILURE


COMPLETE: Final = FinishedCondition(SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods")
_BACKOFF: Final = FinishedCondition(FAILURE, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_DEADLINE: Final = FinishedCondition(FAILURE, "DeadlineExceeded", "Job was active longer than specified deadline")
_TOO_MANY_INDEXES: Final = FinishedCondition(
    FAILURE, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
_FAILED_INDEXES: Final = FinishedCondition(FAILURE, "FailedIndexes", "Job has failed indexes")


def decide(
    spec: JobSpec,
    status: Mapping[str, Any],
    members: Collection[JobPod],
    summary: JobPodSummary,
    deadline_left_s: float | None,
) -> FinishedCondition | None:
    """Why the job has finished; None if it has not. The controller calls it before it creates or deletes pods, and
    :func:`is_complete` afterwards."""
    return next(_finished_conditions(spec, status, members, summary, deadline_left_s), None)


def _finished_conditions(
    spec: JobSpec,
    status: Mapping[str, Any],
    members: Collection[JobPod],
    summary: JobPodSummary,
    deadline_left_s: float | None,
) -> Iterator[FinishedCondition]:
    """In the order of precedence. Only the first is used."""
    for target in (SUCCESS, FAILURE):
        found = conditions.find(status.get("conditions"), target)
        if found is not None and found.get("status") == "True":
            yield FinishedCondition(target, found.get("reason", ""), found.get("message", ""))
    for each in members if spec.failure_rules is not None else ():
        if each.has_failed(spec) and (message := policies.match_failure_policy(spec.failure_rules, each).message):
            yield FinishedCondition(FAILURE, "PodFailurePolicy", message)
    if summary.failed > spec.backoff_limit or _restarted_too_often(spec, members):
        yield _BACKOFF
    if deadline_left_s is not None and deadline_left_s <= 0:
        yield _DEADLINE
    failed = 0 if summary.failed_indexes is None else len(summary.failed_indexes)
    if failed > 0 and spec.max_failed_indexes is not None and failed > spec.max_failed_indexes:
        yield _TOO_MANY_INDEXES
    if failed > 0 and failed + len(summary.completed) >= spec.indexes:
        yield _FAILED_INDEXES
    if spec.is_indexed and (met := policies.met_success_policy(spec.success_rules, spec.indexes, summary.completed)):
        yield FinishedCondition(SUCCESS, "SuccessPolicy", met)


def is_complete(spec: JobSpec, summary: JobPodSummary, active: int) -> bool:
    """Whether enough pods have succeeded and none is active. Without ``completions`` one success is enough."""
    needed = 1 if spec.completions is None else spec.completions
    return active == 0 and summary.succeeded >= needed


def deadline_left_s(spec: JobSpec, start_s: float | None, now_s: float) -> float | None:
    """The rest of ``activeDeadlineSeconds``; None if there is no limit or the job is suspended."""
    if spec.active_deadline_s is None or start_s is None or spec.is_suspended:
        return None
    return start_s + spec.active_deadline_s - now_s


def _restarted_too_often(spec: JobSpec, members: Collection[JobPod]) -> bool:
    if not spec.restarts_containers:
        return False
    restarts = sum(each.restarts for each in members if each.phase in ("Running", "Pending"))
    return restarts >= max(spec.backoff_limit, 1)
