"""The built-in job kind: batch/v1 Job."""

from __future__ import annotations

from typing import Final

from headgate.controllers.jobs.indexes import CompletionIndexes
from headgate.jobs.kinds.job_fields import JobPath, Object
from headgate.jobs.kinds.job_kind import HoldField, JobKind, JobOutcome, JobPodSet, JobPodSets
from headgate.jobs.names import COMPLETIONS_EQUAL_PARALLELISM, MIN_PARALLELISM
from headgate.kube import conditions
from headgate.kube.api_resources import JOBS
from headgate.kube.integers import read_natural
from headgate.kube.lenient_reader import get_path
from headgate.kube.schema import GroupVersionKind

_TEMPLATE: Final = ("spec", "template")


def parallel_pods(job: Object) -> int:
    """The parallelism, limited by the completions."""
    spec = job["spec"]
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    count: int = parallelism if completions is None else min(parallelism, completions)
    return count


def _min_count(job: Object) -> int | None:
    value = get_path(job, ("metadata", "annotations", MIN_PARALLELISM))
    return (read_natural(value) or None) if isinstance(value, str) else None


def _pod_sets(job: Object) -> JobPodSets:
    template = get_path(job, _TEMPLATE)
    if template is None:
        return JobPodSets((), "the job has no pod template: spec.template")
    counts: tuple[JobPath, ...] = (("spec", "parallelism"),)
    if get_path(job, ("metadata", "annotations", COMPLETIONS_EQUAL_PARALLELISM)) == "true":
        counts += (("spec", "completions"),)
    return JobPodSets((JobPodSet("main", _TEMPLATE, template, parallel_pods(job), _min_count(job), counts),))


def _is_active(job: Object) -> bool:
    return bool(get_path(job, ("status", "active")))


def _has_terminating_pods(job: Object) -> bool:
    return bool(get_path(job, ("status", "terminating")))


def _outcome(job: Object) -> JobOutcome | None:
    listed = get_path(job, ("status", "conditions"))
    for type_, succeeded in (("Complete", True), ("Failed", False)):
        found = conditions.find(listed, type_)
        if found is not None and found.get("status") == "True":
            default = "Job finished successfully" if succeeded else "Job failed"
            return JobOutcome(succeeded, found.get("message") or default)
    return None


def _ready(job: Object) -> int:
    status = job.get("status") or {}
    uncounted = len(get_path(status, ("uncountedTerminatedPods", "succeeded")) or ())
    return (status.get("ready") or 0) + (status.get("succeeded") or 0) + uncounted


def _reclaimable(job: Object) -> dict[str, int]:
    """Pods that are no longer needed, because fewer completions are left than the parallelism. The pod of a failed
    index is not started again. A job without completions (a work queue) starts no pod after the first success."""
    spec, status = job["spec"], job.get("status") or {}
    completions = spec.get("completions")
    done = status.get("succeeded") or 0
    if spec.get("completionMode") == "Indexed":
        indexes = (status.get("completedIndexes") or "", status.get("failedIndexes") or "")
        done = len(CompletionIndexes.parse(",".join(indexes), completions or 0))
    if not done:
        return {}
    spare = parallel_pods(job) - max((spec.get("parallelism", 1) if completions is None else completions) - done, 0)
    return {"main": spare} if spare > 0 else {}


JOB: Final = JobKind(
    integration="batch/job",
    kind=GroupVersionKind("batch", "v1", "Job"),
    resource=JOBS,
    hold=HoldField(("spec", "suspend")),
    pod_sets=_pod_sets,
    managed_labels=frozenset(
        {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}
    ),
    is_active=_is_active,
    outcome=_outcome,
    ready=_ready,
    reclaimable=_reclaimable,
    has_terminating_pods=_has_terminating_pods,
    start_time=("status", "startTime"),
)
BUILTIN_KINDS: Final = (JOB,)
