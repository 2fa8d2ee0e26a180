"""A kind of job as data: where it says what, and small pure functions for what no path can tell.

The controller knows no kind by name; another one is another row of ``builtin.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headgate.jobs.names import STOPPING
from headgate.kube.resource import Resource
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]
Path = tuple[str, ...]


class Outcome(msgspec.Struct, frozen=True):
    succeeded: bool
    message: str


def _all(job: Object) -> int | None:
    return None


def _no_other(job: Object, count: int) -> Object:
    return {}


def _no_problem(job: Object) -> str:
    return ""


def _none_end(job: Object) -> bool:
    return False


class PodSetPlace(msgspec.Struct, frozen=True):
    """Pods of one sort: where their template is, and how many run at a time. ``least``: how many are enough to start;
    None if all are needed. ``resized``: a merge patch of the job that lets so many run. ``problem``: why the pods of a
    job cannot be counted; empty if they can."""

    name: str
    template: Path
    count: Callable[[Object], int]
    least: Callable[[Object], int | None] = _all
    resized: Callable[[Object, int], Object] = _no_other
    problem: Callable[[Object], str] = _no_problem


class JobKind(msgspec.Struct, frozen=True):
    """``integration``: what Kueue's settings call it. ``managed_labels``: labels that the server puts on templates,
    which are not the user's. ``is_active``: whether pods may still use what was given. ``ready``: how many pods are
    ready or have done their work. ``is_ending``: whether pods that were told to end have not ended yet."""

    integration: str
    kind: GroupVersionKind
    resource: Resource
    suspend: Path
    pod_sets: tuple[PodSetPlace, ...]
    managed_labels: frozenset[str]
    is_active: Callable[[Object], bool]
    outcome: Callable[[Object], Outcome | None]
    ready: Callable[[Object], int]
    reclaimable: Callable[[Object], dict[str, int]]
    """How many pods of each pod set will not be needed again."""
    is_ending: Callable[[Object], bool] = _none_end
    start_time: Path = ()
    """What must be taken off a suspended job before its template may be changed; empty: nothing."""


def at(obj: Object, path: Path) -> Any:
    found: Any = obj
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def places_of(kind: JobKind, job: Object) -> list[PodSetPlace]:
    """The pod sets that a job has. A role may be optional: where there is no template there are no pods."""
    return [each for each in kind.pod_sets if at(job, each.template) is not None]


def pod_set_problem(kind: JobKind, job: Object) -> str:
    """Why no Workload can be made of a job; empty if one can."""
    found = next((problem for each in kind.pod_sets if (problem := each.problem(job))), "")
    if found or places_of(kind, job):
        return found
    return f"the job has no pod template: {', '.join('.'.join(each.template) for each in kind.pod_sets)}"


def put(path: Path, value: Any) -> Object:
    """A merge patch that sets one path."""
    for step in reversed(path):
        value = {step: value}
    found: Object = value
    return found


def is_told_to_wait(kind: JobKind, job: Object) -> bool:
    return at(job, kind.suspend) is True


def is_stopping(job: Object) -> bool:
    return bool(at(job, ("metadata", "annotations", STOPPING)) == "true")


def is_suspended(kind: JobKind, job: Object) -> bool:
    """Told to wait, and again what its user wrote."""
    return is_told_to_wait(kind, job) and not is_stopping(job)
