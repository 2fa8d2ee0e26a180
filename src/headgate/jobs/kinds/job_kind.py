"""A job kind as data: paths of fields, and small pure functions where a path is not enough.

The controller has no code for particular kinds; a new built-in kind is an entry in ``batch_job.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headgate.jobs.names import STOPPING
from headgate.kube.api_resources import APIResource
from headgate.kube.lenient_reader import get_path
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]
Path = tuple[str, ...]


class JobOutcome(msgspec.Struct, frozen=True):
    succeeded: bool
    message: str


def _all_needed(job: Object) -> int | None:
    return None


def _no_resize_patch(job: Object, count: int) -> Object:
    return {}


def _no_problem(job: Object) -> str:
    return ""


def _no_terminating_pods(job: Object) -> bool:
    return False


class PodSetSource(msgspec.Struct, frozen=True):
    """One pod set of a job: the path of its template, and its parallelism. ``least``: the minimum count for a start;
    None if all are needed. ``resized``: a merge patch of the job for another count. ``problem``: why the pods of a job
    cannot be counted; empty if they can."""

    name: str
    template: Path
    count: Callable[[Object], int]
    min_count: Callable[[Object], int | None] = _all_needed
    resize_patch: Callable[[Object, int], Object] = _no_resize_patch
    problem: Callable[[Object], str] = _no_problem


class JobKind(msgspec.Struct, frozen=True):
    """``integration``: its name in Kueue's configuration. ``managed_labels``: template labels that the server sets and
    not the user. ``is_active``: whether pods may still use the quota. ``ready``: how many pods are ready or have
    succeeded. ``is_ending``: whether the job has terminating pods."""

    integration: str
    kind: GroupVersionKind
    resource: APIResource
    suspend: Path
    pod_sets: tuple[PodSetSource, ...]
    managed_labels: frozenset[str]
    is_active: Callable[[Object], bool]
    outcome: Callable[[Object], JobOutcome | None]
    ready: Callable[[Object], int]
    reclaimable: Callable[[Object], dict[str, int]]
    """How many pods of each pod set are no longer needed."""
    has_terminating_pods: Callable[[Object], bool] = _no_terminating_pods
    start_time: Path = ()
    """The field that must be removed from a suspended job before its template can be changed; empty if none."""


def pod_set_sources(kind: JobKind, job: Object) -> list[PodSetSource]:
    """The pod sets of a job. A role without a template has no pods."""
    return [each for each in kind.pod_sets if get_path(job, each.template) is not None]


def pod_set_problem(kind: JobKind, job: Object) -> str:
    """Why no Workload can be created for a job; empty if one can."""
    found = next((problem for each in kind.pod_sets if (problem := each.problem(job))), "")
    if found or pod_set_sources(kind, job):
        return found
    return f"the job has no pod template: {', '.join('.'.join(each.template) for each in kind.pod_sets)}"


def patch_at(path: Path, value: Any) -> Object:
    """A merge patch that sets one path."""
    for step in reversed(path):
        value = {step: value}
    found: Object = value
    return found


def has_suspend_set(kind: JobKind, job: Object) -> bool:
    return get_path(job, kind.suspend) is True


def is_stopping(job: Object) -> bool:
    return bool(get_path(job, ("metadata", "annotations", STOPPING)) == "true")


def is_suspended(kind: JobKind, job: Object) -> bool:
    """Whether the job is suspended and its templates are restored."""
    return has_suspend_set(kind, job) and not is_stopping(job)
