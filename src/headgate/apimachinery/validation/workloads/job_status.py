"""Validation of a Job's status: a finished job stays finished, counters do not decrease, times are consistent.

Most rules apply only to changed fields, so that an invalid stored status does not block other writes; each entry of
``_RULES`` has the changes that trigger its rule. External job controllers (``spec.managedBy``) write this status, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from headgate.apimachinery.validation.workloads.completion_indexes import InvalidIndexes, count_indexes, first_overlap
from headgate.apimachinery.validation.workloads.job_values import uncounted_terminated_pods
from headgate.kube.field_errors import OMITTED, FieldError, FieldErrors, duplicate, invalid, required
from headgate.kube.timestamps import parse_time
from headgate.kube.validation.go_values import go_named_string
from headgate.kube.validation.object_meta import validate_object_meta_update
from headgate.kube.validation.values import IMMUTABLE, validate_nonnegative

Object = dict[str, Any]


class _JobView:
    """A job with the values that the rules use. ``true`` and ``false``: the types of conditions with that status."""

    def __init__(self, job: Object) -> None:
        self.spec: Final[Object] = job["spec"]
        self.status: Final[Object] = job.get("status") or {}
        self.true: Final = {
            each.get("type") for each in self.status.get("conditions") or () if each.get("status") == "True"
        }
        self.false: Final = {
            each.get("type") for each in self.status.get("conditions") or () if each.get("status") == "False"
        }

    @property
    def finished(self) -> bool:
        return bool(self.true & {"Complete", "Failed"})

    @property
    def indexed(self) -> bool:
        return self.spec.get("completionMode") == "Indexed"

    def number(self, field: str) -> int:
        return self.status.get(field) or 0

    def uncounted(self) -> Object:
        return self.status.get("uncountedTerminatedPods") or {}


def _conditions_error(text: str) -> FieldError:
    return invalid("status.conditions", OMITTED, text)


def _validate_counters(job: _JobView) -> FieldErrors:
    errors: FieldErrors = []
    for field in ("active", "succeeded", "failed"):
        errors += validate_nonnegative(job.number(field), f"status.{field}")
    for field in ("ready", "terminating"):
        if field in job.status:
            errors += validate_nonnegative(job.status[field], f"status.{field}")
    seen: set[str] = set()
    for outcome in ("succeeded", "failed"):
        for i, uid in enumerate(job.uncounted().get(outcome) or ()):
            path = f"status.uncountedTerminatedPods.{outcome}[{i}]"
            if not uid:
                errors.append(invalid(path, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(path, uid))
            seen.add(uid)
    return errors


def _never_both(first: str, second: str) -> Callable[[_JobView], Iterator[FieldError]]:
    def rule(job: _JobView) -> Iterator[FieldError]:
        if {first, second} <= job.true:
            yield _conditions_error(f"cannot set {first}=True and {second}=true conditions")

    return rule


def _completion_time_only_if_complete(job: _JobView) -> Iterator[FieldError]:
    time = job.status.get("completionTime")
    if time is not None and "Complete" not in job.true:
        text = "cannot set completionTime when there is no Complete=True condition"
        yield invalid("status.completionTime", go_named_string(time), text)


def _complete_has_completion_time(job: _JobView) -> Iterator[FieldError]:
    if job.status.get("completionTime") is None and "Complete" in job.true:
        yield required("status.completionTime", "completionTime is required for Complete jobs")


def _completion_after_start(job: _JobView) -> Iterator[FieldError]:
    start, end = job.status.get("startTime"), job.status.get("completionTime")
    if start is not None and end is not None and _seconds(end) < _seconds(start):
        yield invalid("status.completionTime", go_named_string(end), "must be equal to or after `startTime`")


def _seconds(time: str) -> float:
    parsed = parse_time(time)
    return 0.0 if isinstance(parsed, str) else parsed


def _needs(outcome: str, target: str) -> Callable[[_JobView], Iterator[FieldError]]:
    def rule(job: _JobView) -> Iterator[FieldError]:
        if outcome in job.true and target not in job.true:
            yield _conditions_error(f"cannot set {outcome}=True condition without the {target}=true condition")

    return rule


def _finished_has_no_active(job: _JobView) -> Iterator[FieldError]:
    if job.number("active") > 0 and job.finished:
        yield invalid("status.active", job.number("active"), "active>0 is invalid for finished job")


def _finished_has_start_time(job: _JobView) -> Iterator[FieldError]:
    if job.status.get("startTime") is None and job.finished:
        yield required("status.startTime", "startTime is required for finished job")


def _finished_has_no_uncounted(job: _JobView) -> Iterator[FieldError]:
    pods = job.uncounted()
    if job.finished and (pods.get("failed") or pods.get("succeeded")):
        value = uncounted_terminated_pods(pods)
        yield invalid("status.uncountedTerminatedPods", value, "must be empty for finished job")


def _completed_indexes_parse(job: _JobView) -> Iterator[FieldError]:
    text = job.status.get("completedIndexes", "")
    if "completions" in job.spec:
        count_result = count_indexes(text, job.spec["completions"])
        if isinstance(count_result, InvalidIndexes):
            yield invalid("status.completedIndexes", text, f"error parsing completedIndexes: {count_result.text}")


def _failed_indexes_parse(job: _JobView) -> Iterator[FieldError]:
    text = job.status.get("failedIndexes")
    if "completions" in job.spec and "backoffLimitPerIndex" in job.spec and text is not None:
        count_result = count_indexes(text, job.spec["completions"])
        if isinstance(count_result, InvalidIndexes):
            yield invalid(
                "status.failedIndexes", go_named_string(text), f"error parsing failedIndexes: {count_result.text}"
            )


def _completed_indexes_only_if_indexed(job: _JobView) -> Iterator[FieldError]:
    text = job.status.get("completedIndexes", "")
    if text and not job.indexed:
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid("status.completedIndexes", text, detail)


def _failed_indexes_only_with_limit(job: _JobView) -> Iterator[FieldError]:
    text = job.status.get("failedIndexes")
    if text is not None and "backoffLimitPerIndex" not in job.spec:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", text, detail)


def _indexes_do_not_overlap(job: _JobView) -> Iterator[FieldError]:
    failed = job.status.get("failedIndexes")
    if "completions" not in job.spec or failed is None:
        return
    overlap = first_overlap(job.status.get("completedIndexes", ""), failed, job.spec["completions"])
    if overlap is not None:
        text = f"failedIndexes and completedIndexes overlap at index: {overlap}"
        yield invalid("status.failedIndexes", failed, text)


def _finished_has_no_terminating(job: _JobView) -> Iterator[FieldError]:
    if job.number("terminating") > 0 and job.finished:
        yield invalid("status.terminating", job.number("terminating"), "terminating>0 is invalid for finished job")


def _ready_within_active(job: _JobView) -> Iterator[FieldError]:
    if "ready" in job.status and job.number("ready") > job.number("active"):
        yield invalid("status.ready", job.number("ready"), "cannot set more ready pods than active")


def _success_policy_needs_criteria(job: _JobView) -> Iterator[FieldError]:
    if "successPolicy" in job.spec and "Complete" in job.true and "SuccessCriteriaMet" not in job.true:
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        yield _conditions_error(text)


# Each rule with the changes that trigger it; a rule without changes applies to every write.
_RULES: Final[tuple[tuple[Callable[[_JobView], Iterator[FieldError]], frozenset[str]], ...]] = (
    (_never_both("Complete", "Failed"), frozenset({"Complete", "Failed"})),
    (_never_both("Complete", "FailureTarget"), frozenset({"Complete", "FailureTarget"})),
    (_completion_time_only_if_complete, frozenset({"Complete", "completionTime"})),
    (_complete_has_completion_time, frozenset({"Complete", "completionTime"})),
    (_completion_after_start, frozenset({"startTime", "completionTime"})),
    (_needs("Failed", "FailureTarget"), frozenset({"Failed", "failedIndexes"})),
    (_needs("Complete", "SuccessCriteriaMet"), frozenset({"Complete", "SuccessCriteriaMet"})),
    (_finished_has_no_active, frozenset({"finished", "active"})),
    (_finished_has_start_time, frozenset({"finished if started", "startTime if started"})),
    (_finished_has_no_uncounted, frozenset({"finished", "uncountedTerminatedPods"})),
    (_completed_indexes_parse, frozenset({"completedIndexes"})),
    (_failed_indexes_parse, frozenset({"failedIndexes"})),
    (_completed_indexes_only_if_indexed, frozenset({"completedIndexes"})),
    (_failed_indexes_only_with_limit, frozenset({"failedIndexes"})),
    (_indexes_do_not_overlap, frozenset({"failedIndexes", "completedIndexes"})),
    (_finished_has_no_terminating, frozenset({"finished", "terminating"})),
    (_ready_within_active, frozenset({"ready", "active"})),
    (_never_both("SuccessCriteriaMet", "Failed"), frozenset()),
    (_never_both("SuccessCriteriaMet", "FailureTarget"), frozenset()),
    (_success_policy_needs_criteria, frozenset()),
)

_WATCHED_CONDITIONS: Final = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")
_WATCHED_FIELDS: Final = (
    "completedIndexes",
    "failedIndexes",
    "active",
    "startTime",
    "completionTime",
    "uncountedTerminatedPods",
    "ready",
    "terminating",
)


def _changes(new: _JobView, old: _JobView) -> set[str]:
    """The conditions and fields that differ, under the names that ``_RULES`` uses."""
    changed = {each for each in _WATCHED_CONDITIONS if (each in new.true) != (each in old.true)}
    changed |= {each for each in _WATCHED_FIELDS if (new.status.get(each) or None) != (old.status.get(each) or None)}
    if new.finished != old.finished:
        changed.add("finished")
    # A suspended job with zero completions finishes without starting.
    if not (new.spec.get("suspend") and new.spec.get("completions") == 0):
        changed |= {f"{each} if started" for each in ("finished", "startTime") if each in changed}
    return changed


def validate_job_status_update(new_job: Object, old_job: Object) -> FieldErrors:
    new, old = _JobView(new_job), _JobView(old_job)
    changed = _changes(new, old)
    errors = validate_object_meta_update(new_job["metadata"], old_job["metadata"])
    errors += _validate_counters(new)
    for rule, triggers in _RULES:
        if not triggers or triggers & changed:
            errors += rule(new)
    return errors + list(_transitions(new, old))


def _transitions(new: _JobView, old: _JobView) -> Iterator[FieldError]:
    """Errors of changes that are never allowed, such as a finished job that is not finished any more."""
    for condition in ("Failed", "Complete", "FailureTarget"):
        if condition in old.true and condition not in new.true:
            yield _conditions_error(f"cannot disable the terminal {condition}=True condition")
    if new.number("failed") < old.number("failed"):
        yield invalid("status.failed", new.number("failed"), "cannot decrease the failed counter")
    # Indexed jobs whose completions follow their parallelism may be scaled down.
    elastic = new.indexed and new.spec.get("completions") == new.spec.get("parallelism")
    if not elastic and new.number("succeeded") < old.number("succeeded"):
        yield invalid("status.succeeded", new.number("succeeded"), "cannot decrease the succeeded counter")
    end, old_end = new.status.get("completionTime"), old.status.get("completionTime")
    if end is not None and old_end is not None and end != old_end:
        yield invalid("status.completionTime", go_named_string(end), IMMUTABLE)
    resuming = "Suspended" in old.true and "Suspended" in new.false
    start, old_start = new.status.get("startTime"), old.status.get("startTime")
    if old_start is not None and start != old_start and not resuming and not new.spec.get("suspend"):
        yield required("status.startTime", "startTime cannot be removed for unsuspended job")
    if "SuccessCriteriaMet" in old.true and "SuccessCriteriaMet" not in new.true:
        yield _conditions_error("cannot disable the SuccessCriteriaMet=True condition")
    if "Complete" in old.true and "SuccessCriteriaMet" in new.true - old.true:
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield _conditions_error(text)
