"""The kinds of jobs that are known: batch/v1 Job."""

from __future__ import annotations

from typing import Final

from headgate.jobs.kind import JobKind, Object, Outcome, PodSetPlace, at
from headgate.jobs.names import COMPLETIONS_EQUAL_PARALLELISM, MIN_PARALLELISM
from headgate.kube import conditions
from headgate.kube.integers import read_natural
from headgate.kube.resource import JOBS
from headgate.kube.schema import GroupVersionKind
from headgate.owners.jobs.indexes import Indexes


def _count(job: Object) -> int:
    """Never more at a time than are wanted at all."""
    spec = job["spec"]
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    count: int = parallelism if completions is None else min(parallelism, completions)
    return count


def _least(job: Object) -> int | None:
    told = at(job, ("metadata", "annotations", MIN_PARALLELISM))
    return (read_natural(told) or None) if isinstance(told, str) else None


def _resized(job: Object, count: int) -> Object:
    spec: Object = {"parallelism": count}
    if at(job, ("metadata", "annotations", COMPLETIONS_EQUAL_PARALLELISM)) == "true":
        spec["completions"] = count
    return {"spec": spec}


def _is_active(job: Object) -> bool:
    return bool(at(job, ("status", "active")))


def _is_ending(job: Object) -> bool:
    return bool(at(job, ("status", "terminating")))


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
    uncounted = len(at(status, ("uncountedTerminatedPods", "succeeded")) or ())
    return (status.get("ready") or 0) + (status.get("succeeded") or 0) + uncounted


def _reclaimable(job: Object) -> dict[str, int]:
    """Fewer are left to do than may run at a time. An index that failed for good is not done again, either; and a job
    that goes by a queue of its own starts nobody any more once one has succeeded."""
    spec, status = job["spec"], job.get("status") or {}
    completions = spec.get("completions")
    done = status.get("succeeded") or 0
    if spec.get("completionMode") == "Indexed":
        told = (status.get("completedIndexes") or "", status.get("failedIndexes") or "")
        done = len(Indexes.parse(",".join(told), completions or 0))
    if not done:
        return {}
    spare = _count(job) - max((spec.get("parallelism", 1) if completions is None else completions) - done, 0)
    return {"main": spare} if spare > 0 else {}


JOB: Final = JobKind(
    integration="batch/job",
    kind=GroupVersionKind("batch", "v1", "Job"),
    resource=JOBS,
    suspend=("spec", "suspend"),
    pod_sets=(PodSetPlace("main", ("spec", "template"), _count, _least, _resized),),
    managed_labels=frozenset(
        {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}
    ),
    is_active=_is_active,
    outcome=_outcome,
    ready=_ready,
    reclaimable=_reclaimable,
    is_ending=_is_ending,
    start_time=("status", "startTime"),
)
BUILTIN: Final = (JOB,)
