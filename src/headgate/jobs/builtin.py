"""The kinds of jobs that are known: batch/v1 Job."""

from __future__ import annotations

from typing import Final

from headgate.jobs.kind import JobKind, Object, Outcome, PodSetPlace, at
from headgate.kube import conditions
from headgate.kube.resource import JOBS
from headgate.kube.schema import GroupVersionKind


def _count(job: Object) -> int:
    """Never more at a time than are wanted at all."""
    spec = job["spec"]
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    count: int = parallelism if completions is None else min(parallelism, completions)
    return count


def _is_active(job: Object) -> bool:
    return bool(at(job, ("status", "active")))


def _outcome(job: Object) -> Outcome | None:
    told = at(job, ("status", "conditions"))
    for type_, succeeded in (("Complete", True), ("Failed", False)):
        found = conditions.find(told, type_)
        if found is not None and found.get("status") == "True":
            otherwise = "Job finished successfully" if succeeded else "Job failed"
            return Outcome(succeeded, found.get("message") or otherwise)
    return None


def _ready(job: Object) -> int:
    status = job.get("status") or {}
    return (status.get("ready") or 0) + (status.get("succeeded") or 0)


def _reclaimable(job: Object) -> dict[str, int]:
    """Fewer are left to do than may run at a time."""
    completions = job["spec"].get("completions")
    if completions is None:
        return {}
    spare = _count(job) - max(completions - (at(job, ("status", "succeeded")) or 0), 0)
    return {"main": spare} if spare > 0 else {}


JOB: Final = JobKind(
    kind=GroupVersionKind("batch", "v1", "Job"),
    resource=JOBS,
    suspend=("spec", "suspend"),
    pod_sets=(PodSetPlace("main", ("spec", "template"), _count),),
    managed_labels=frozenset(
        {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}
    ),
    is_active=_is_active,
    outcome=_outcome,
    ready=_ready,
    reclaimable=_reclaimable,
    start_time=("status", "startTime"),
)
BUILTIN: Final = (JOB,)
