"""What only a batch/v1 Job may say to Kueue's queues: how few of its pods would do, and completions that follow.

Kueue's texts. What is done with it is ``workload.py``'s and ``placing.py``'s; rules for all kinds are ``rules.py``'s.
"""

from __future__ import annotations

from typing import Final

from headgate.jobs import names
from headgate.jobs.builtin import JOB
from headgate.jobs.kind import Object, at, is_suspended, is_told_to_wait
from headgate.jobs.numbers import switch, whole_number
from headgate.jobs.rules import ANNOTATIONS, annotation, topology_problems
from headgate.kube.errors import FieldErrors, forbidden, invalid
from headgate.kube.validation.values import IMMUTABLE

_LEAST_PATH: Final = f"{ANNOTATIONS}[{names.MIN_PARALLELISM}]"
_SYNC_PATH: Final = f"{ANNOTATIONS}[{names.COMPLETIONS_EQUAL_PARALLELISM}]"
_TEMPLATE_PATH: Final = "spec.template.metadata"
_FIXED: Final = "cannot change when partial admission is enabled and the job is not suspended"


def problems_of_new_job(job: Object) -> FieldErrors:
    return _least_problems(job) + _sync_problems(job) + topology_problems(_template(job), _TEMPLATE_PATH)


def problems_of_changed_job(new: Object, old: Object) -> FieldErrors:
    found: FieldErrors = []
    if annotation(new, names.MIN_PARALLELISM) != annotation(old, names.MIN_PARALLELISM):
        found += _least_problems(new)
    if _synced_fields(new) != _synced_fields(old):
        found += _sync_problems(new)
    was_running = not is_told_to_wait(JOB, old)
    if annotation(old, names.MIN_PARALLELISM) is not None and was_running and _parallelism(new) != _parallelism(old):
        found.append(forbidden("spec.parallelism", _FIXED))
    is_running, was_running = not is_suspended(JOB, new), not is_suspended(JOB, old)
    if is_running and was_running and _is_synced(new) != _is_synced(old):
        found.append(forbidden(_SYNC_PATH, f"{IMMUTABLE} while the job is not suspended"))
    return found + topology_problems(_template(new), _TEMPLATE_PATH, _template(old))


def _least_problems(job: Object) -> FieldErrors:
    written = annotation(job, names.MIN_PARALLELISM)
    if written is None:
        return []
    least, most = whole_number(written), JOB.pod_sets[0].count(job)
    if isinstance(least, str):
        return [invalid(_LEAST_PATH, written, least)]
    if not 0 < least < most:
        return [invalid(_LEAST_PATH, least, f"should be between 0 and {most - 1}")]
    return []


def _sync_problems(job: Object) -> FieldErrors:
    written = annotation(job, names.COMPLETIONS_EQUAL_PARALLELISM)
    if written is None:
        return []
    is_on = switch(written)
    if isinstance(is_on, str):
        return [invalid(_SYNC_PATH, written, is_on)]
    found: FieldErrors = []
    if is_on and at(job, ("spec", "completionMode")) in (None, "NonIndexed"):
        found.append(invalid(_SYNC_PATH, written, "should not be enabled for NonIndexed jobs"))
    completions = at(job, ("spec", "completions"))
    if is_on and _parallelism(job) != (1 if completions is None else completions):
        text = f"should be equal to parallelism when {names.COMPLETIONS_EQUAL_PARALLELISM} annotation is true"
        found.append(invalid("spec.completions", completions, text))
    return found


def _synced_fields(job: Object) -> tuple[object, ...]:
    spec = job.get("spec") or {}
    written = annotation(job, names.COMPLETIONS_EQUAL_PARALLELISM)
    return written, spec.get("completionMode"), spec.get("completions"), spec.get("parallelism")


def _is_synced(job: Object) -> bool:
    return switch(annotation(job, names.COMPLETIONS_EQUAL_PARALLELISM) or "false") is True


def _parallelism(job: Object) -> int:
    found = at(job, ("spec", "parallelism"))
    return 1 if found is None else int(found)


def _template(job: Object) -> Object:
    return at(job, ("spec", "template", "metadata")) or {}
