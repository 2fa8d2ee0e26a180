"""Tests of a job that a job kind contains (*clauses*): conditions, values of fields, and combinations of them.

``kind_reader.py`` reads a clause from a file. :func:`holds` never raises: a clause about a field that has an unexpected
value is false.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from headgate.jobs.kinds.job_fields import Object, Path, value_at
from headgate.jobs.kinds.job_kind import JobOutcome
from headgate.jobs.kinds.number_expressions import elements
from headgate.kube import conditions
from headgate.kube.lenient_reader import find_items

ClauseTest = Literal["positive", "in", "notIn", "absent", "present", "condition", "any", "all"]
ClauseValue = str | int | bool


class JobPredicate(msgspec.Struct, frozen=True):
    """``positive``: the value at ``path`` is ``true`` or a number above zero. ``in``, ``notIn``: there is a value, and
    it is one, or none, of ``values``. ``absent``, ``present``: whether there is a value. ``condition``: the condition
    of this name is True. ``any``, ``all``: of ``clauses``. ``each``: the path of a list or map; the clause is true if
    it is true for one of its elements, in which ``path`` begins."""

    test: ClauseTest
    path: Path = ()
    values: tuple[ClauseValue, ...] = ()
    condition: str = ""
    clauses: tuple[JobPredicate, ...] = ()
    each: Path = ()


def holds(clause: JobPredicate, job: Any) -> bool:
    if clause.each:
        alone = msgspec.structs.replace(clause, each=())
        return any(holds(alone, element) for _, element in elements(value_at(job, clause.each)))
    if clause.test == "condition":
        return conditions.is_true(_conditions(job), clause.condition)
    if clause.test in ("any", "all"):
        found = (holds(each, job) for each in clause.clauses)
        return any(found) if clause.test == "any" else all(found)
    value = value_at(job, clause.path)
    if clause.test in ("absent", "present"):
        return (value is None) == (clause.test == "absent")
    if clause.test == "positive":
        return value is True or (isinstance(value, int) and value > 0)
    is_listed = any(type(value) is type(each) and value == each for each in clause.values)
    return value is not None and is_listed == (clause.test == "in")


def message_of(clause: JobPredicate, job: Object) -> str:
    """The message of the condition that made the clause true; empty if there is none."""
    if clause.test == "condition":
        return str((conditions.find(_conditions(job), clause.condition) or {}).get("message") or "")
    return next((found for each in clause.clauses if holds(each, job) and (found := message_of(each, job))), "")


def any_of(clauses: tuple[JobPredicate, ...]) -> Callable[[Object], bool]:
    return lambda job: any(holds(each, job) for each in clauses)


def outcome_of(
    succeeded: tuple[JobPredicate, ...], failed: tuple[JobPredicate, ...], message: Path
) -> Callable[[Object], JobOutcome | None]:
    """``message``: the path of the message of a job that ended; the message of a condition has precedence."""

    def read(job: Object) -> JobOutcome | None:
        for clauses, succeeds in ((failed, False), (succeeded, True)):
            for each in clauses:
                if holds(each, job):
                    default = "Job finished successfully" if succeeds else "Job failed"
                    written = value_at(job, message) if message else None
                    text = message_of(each, job) or (written if isinstance(written, str) else "")
                    return JobOutcome(succeeds, text or default)
        return None

    return read


def _conditions(job: Any) -> list[Object]:
    return find_items(job, "status", "conditions") if isinstance(job, dict) else []
