"""A job kind as data: paths of fields, and small pure functions where a path is not enough.

The controller has no code for particular kinds. A new built-in kind is an entry of ``BUILTIN_KINDS``
(``batch_job.py``), and its integration name is in ``FRAMEWORKS`` (``jobs/settings.py``).
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
    """How a job or a pod group ended."""

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
    """How one pod set is read from a job. ``template``: the path of the pod template. The functions receive the job:
    ``count`` returns the number of pods that run at the same time; ``min_count`` the number that is enough for a start
    (partial admission), None if all are needed; ``resize_patch`` a merge patch of the job for another count;
    ``problem`` why the pods cannot be counted, empty if they can."""

    name: str
    template: Path
    count: Callable[[Object], int]
    min_count: Callable[[Object], int | None] = _all_needed
    resize_patch: Callable[[Object, int], Object] = _no_resize_patch
    problem: Callable[[Object], str] = _no_problem


class JobKind(msgspec.Struct, frozen=True):
    """``integration``: its name in Kueue's configuration. ``suspend``: the path of the field that suspends the job.
    ``managed_labels``: template labels that the server sets and not the user. The functions receive the job:
    ``is_active`` returns whether pods may still use the quota; ``outcome`` how the job ended, None if it has not;
    ``ready`` how many pods are ready or have succeeded; ``has_terminating_pods`` whether pods of the job terminate."""

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


def kubectl_names(kind: JobKind) -> tuple[str, ...]:
    """The names of the kind in kubectl."""
    singular, plural, group = kind.kind.kind.lower(), kind.resource.plural, kind.kind.group
    return singular, plural, f"{singular}.{group}", f"{plural}.{group}"


def pod_set_sources(kind: JobKind, job: Object) -> list[PodSetSource]:
    """The pod sets of a job. A pod set whose template is missing in the job has no pods and is left out."""
    return [each for each in kind.pod_sets if get_path(job, each.template) is not None]


def pod_set_problem(kind: JobKind, job: Object) -> str:
    """Why no Workload can be created for a job; empty if one can."""
    found = next((problem for each in kind.pod_sets if (problem := each.problem(job))), "")
    if found or pod_set_sources(kind, job):
        return found
    return f"the job has no pod template: {', '.join('.'.join(each.template) for each in kind.pod_sets)}"


def patch_at(path: Path, value: Any) -> Object:
    """A merge patch that sets the field at this path."""
    for name in reversed(path):
        value = {name: value}
    found: Object = value
    return found


def has_suspend_set(kind: JobKind, job: Object) -> bool:
    """Whether the field that suspends the job is true."""
    return get_path(job, kind.suspend) is True


def is_stopping(job: Object) -> bool:
    """Whether the job has the annotation ``STOPPING``: it was suspended, and its templates are not restored yet."""
    return bool(get_path(job, ("metadata", "annotations", STOPPING)) == "true")


def is_suspended(kind: JobKind, job: Object) -> bool:
    """Whether the job is suspended and its templates are restored."""
    return has_suspend_set(kind, job) and not is_stopping(job)
