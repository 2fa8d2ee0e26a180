"""Questions to a job of a kind that came in a file: a path that says something, a word at a path, a condition.

``custom.py`` reads them, ``JobKind`` asks them. An object that has something else at a path than was said there answers
no, and nothing raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headgate.jobs.kind import Object, Path, at
from headgate.kube import conditions


class When(msgspec.Struct, frozen=True):
    """One of two: a condition that is True; or a path with a number above zero, ``true``, or one of the words."""

    condition: str = ""
    path: Path = ()
    words: tuple[str, ...] = ()

    def is_so(self, job: Object) -> bool:
        if self.condition:
            return conditions.is_true(_conditions(job), self.condition)
        found = at(job, self.path)
        if self.words:
            return found in self.words
        return found is True or (isinstance(found, int) and found > 0)

    def message(self, job: Object) -> str:
        if not self.condition:
            return ""
        return str((conditions.find(_conditions(job), self.condition) or {}).get("message") or "")


def any_of(clauses: tuple[When, ...]) -> Callable[[Object], bool]:
    return lambda job: any(each.is_so(job) for each in clauses)


def always(count: int) -> Callable[[Object], int]:
    return lambda job: count


def number_at(path: Path, otherwise: int) -> Callable[[Object], int]:
    def read(job: Object) -> int:
        found = at(job, path)
        return found if _is_number(found) else otherwise

    return read


def template_problem(template: Path, replicas: Path) -> Callable[[Object], str]:
    """Why the pods of a role cannot be counted: pods that are not counted would run around their quota."""

    def find(job: Object) -> str:
        for path in (template, replicas):
            blocked = _not_a_map(job, path[:-1])
            if blocked:
                return f"{blocked} is not a map, so {'.'.join(path)} cannot be read: a path leads through maps only"
        found, count = at(job, template), at(job, replicas)
        if found is None:
            return ""
        if (
            not isinstance(found, dict)
            or not isinstance(found.get("spec"), dict)
            or not found["spec"].get("containers")
        ):
            return f"{'.'.join(template)} is not a pod template with containers: write one, or leave it out"
        if replicas and count is not None and not _is_number(count):
            return f"{'.'.join(replicas)} is {count!r}, which is not a number of pods"
        return ""

    return find


def _not_a_map(job: Object, path: Path) -> str:
    """The first part of the path that is there and is not a map."""
    for depth in range(1, len(path) + 1):
        found = at(job, path[:depth])
        if found is not None and not isinstance(found, dict):
            return ".".join(path[:depth])
    return ""


def least_at(path: Path) -> Callable[[Object], int | None]:
    def read(job: Object) -> int | None:
        found = at(job, path)
        return found if _is_number(found) and found > 0 else None

    return read


def _conditions(job: Object) -> list[Object]:
    found = at(job, ("status", "conditions"))
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _is_number(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and found >= 0
