"""Validation for batch/v1 Jobs only, with Kueue's messages.

It validates the annotations for partial admission: ``job-min-parallelism``, and ``job-completions-equal-parallelism``,
with which the completions are changed together with the parallelism. ``jobs/kinds/batch_job.py`` applies these
annotations; ``job_validation.py`` has the rules for all kinds.
"""

from __future__ import annotations

from typing import Final

from headgate.jobs import names
from headgate.jobs.framework.go_values import parse_go_bool, parse_go_int
from headgate.jobs.kinds.batch_job import JOB, parallel_pods
from headgate.jobs.kinds.job_fields import Object
from headgate.jobs.kinds.job_kind import has_suspend_set, is_suspended
from headgate.jobs.validation.job_validation import ANNOTATIONS, annotation, validate_topology
from headgate.kube.field_errors import FieldErrors, forbidden, invalid
from headgate.kube.lenient_reader import get_path
from headgate.kube.validation.values import IMMUTABLE

_MIN_PARALLELISM_PATH: Final = f"{ANNOTATIONS}[{names.MIN_PARALLELISM}]"
_SYNC_PATH: Final = f"{ANNOTATIONS}[{names.COMPLETIONS_EQUAL_PARALLELISM}]"
_TEMPLATE_PATH: Final = "spec.template.metadata"
_PARALLELISM_FIXED: Final = "cannot change when partial admission is enabled and the job is not suspended"


def validate_new_job(job: Object) -> FieldErrors:
    return (
        _min_parallelism_problems(job)
        + _sync_problems(job)
        + validate_topology(_template_metadata(job), _TEMPLATE_PATH)
    )


def validate_job_update(new: Object, old: Object) -> FieldErrors:
    found: FieldErrors = []
    if annotation(new, names.MIN_PARALLELISM) != annotation(old, names.MIN_PARALLELISM):
        found += _min_parallelism_problems(new)
    if _synced_fields(new) != _synced_fields(old):
        found += _sync_problems(new)
    has_min_parallelism = annotation(old, names.MIN_PARALLELISM) is not None
    if has_min_parallelism and not has_suspend_set(JOB, old) and _parallelism(new) != _parallelism(old):
        found.append(forbidden("spec.parallelism", _PARALLELISM_FIXED))
    is_started, was_started = not is_suspended(JOB, new), not is_suspended(JOB, old)
    if is_started and was_started and _is_synced(new) != _is_synced(old):
        found.append(forbidden(_SYNC_PATH, f"{IMMUTABLE} while the job is not suspended"))
    return found + validate_topology(_template_metadata(new), _TEMPLATE_PATH, _template_metadata(old))


def _min_parallelism_problems(job: Object) -> FieldErrors:
    value = annotation(job, names.MIN_PARALLELISM)
    if value is None:
        return []
    min_count, count = parse_go_int(value), parallel_pods(job)
    if isinstance(min_count, str):
        return [invalid(_MIN_PARALLELISM_PATH, value, min_count)]
    if not 0 < min_count < count:
        return [invalid(_MIN_PARALLELISM_PATH, min_count, f"should be between 0 and {count - 1}")]
    return []


def _sync_problems(job: Object) -> FieldErrors:
    value = annotation(job, names.COMPLETIONS_EQUAL_PARALLELISM)
    if value is None:
        return []
    is_on = parse_go_bool(value)
    if isinstance(is_on, str):
        return [invalid(_SYNC_PATH, value, is_on)]
    found: FieldErrors = []
    if is_on and get_path(job, ("spec", "completionMode")) in (None, "NonIndexed"):
        found.append(invalid(_SYNC_PATH, value, "should not be enabled for NonIndexed jobs"))
    completions = get_path(job, ("spec", "completions"))
    if is_on and _parallelism(job) != (1 if completions is None else completions):
        text = f"should be equal to parallelism when {names.COMPLETIONS_EQUAL_PARALLELISM} annotation is true"
        found.append(invalid("spec.completions", completions, text))
    return found


def _synced_fields(job: Object) -> tuple[object, ...]:
    """The fields that ``_sync_problems`` reads."""
    spec = job.get("spec") or {}
    value = annotation(job, names.COMPLETIONS_EQUAL_PARALLELISM)
    return value, spec.get("completionMode"), spec.get("completions"), spec.get("parallelism")


def _is_synced(job: Object) -> bool:
    """Whether the completions of the job are changed together with its parallelism."""
    return parse_go_bool(annotation(job, names.COMPLETIONS_EQUAL_PARALLELISM) or "false") is True


def _parallelism(job: Object) -> int:
    found = get_path(job, ("spec", "parallelism"))
    return 1 if found is None else int(found)


def _template_metadata(job: Object) -> Object:
    return get_path(job, ("spec", "template", "metadata")) or {}
