"""The Job that a CronJob creates for one scheduled time, and the finished Jobs to delete. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.controllers.jobs.status import finish
from headgate.controllers.ownership.pods import object_reference, seconds
from headgate.kube.cron import Zone
from headgate.kube.object_meta import controller_reference
from headgate.kube.schema import GroupVersionKind
from headgate.kube.timestamps import format_time

Object = dict[str, Any]

CRON_JOB: Final = GroupVersionKind("batch", "v1", "CronJob")
JOB: Final = GroupVersionKind("batch", "v1", "Job")
SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
# The history limit for each final condition of a Job.
_LIMITS: Final = {"Complete": "successfulJobsHistoryLimit", "Failed": "failedJobsHistoryLimit"}


def name_of(cron: Object, due_s: int) -> str:
    """The name of the Job for a scheduled minute. It is deterministic, so that no minute gets two Jobs."""
    return f"{cron['metadata']['name']}-{due_s // 60}"


def job_from(cron: Object, due_s: int, zone: Zone) -> Object:
    template = cron["spec"].get("jobTemplate") or {}
    template_metadata = template.get("metadata") or {}
    metadata: Object = {
        "name": name_of(cron, due_s),
        "annotations": {**(template_metadata.get("annotations") or {}), SCHEDULED_AT: local_time(due_s, zone)},
        "ownerReferences": [controller_reference(cron, CRON_JOB)],
    }
    if template_metadata.get("labels"):
        metadata["labels"] = dict(template_metadata["labels"])
    return {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": metadata, "spec": template.get("spec") or {}}


def local_time(at_s: int, zone: Zone) -> str:
    """The local time in that zone, with its offset from UTC."""
    offset_s = zone(at_s)
    shown = format_time(at_s + offset_s)
    if not offset_s:
        return shown
    hours, minutes = divmod(abs(offset_s) // 60, 60)
    return f"{shown.removesuffix('Z')}{'-' if offset_s < 0 else '+'}{hours:02}:{minutes:02}"


def finished_type(job: Object) -> str | None:
    """``Complete`` or ``Failed``; None while the Job has not finished."""
    condition = finish(job)
    return None if condition is None else str(condition["type"])


def reference_to(job: Object) -> Object:
    """The entry of the Job in ``status.active``."""
    return object_reference(job, JOB)


def beyond_history_limits(spec: Mapping[str, Any], jobs: Iterable[Object]) -> list[Object]:
    """Finished Jobs beyond the history limits, oldest first. Jobs that never started count as the youngest."""
    ended: dict[str, list[Object]] = {condition_type: [] for condition_type in _LIMITS}
    for job in jobs:
        condition_type = finished_type(job)
        if condition_type is not None:
            ended[condition_type].append(job)
    beyond: list[Object] = []
    for condition_type, limit in _LIMITS.items():
        kept = spec.get(limit)
        excess = 0 if kept is None else len(ended[condition_type]) - kept
        if excess > 0:
            beyond += sorted(ended[condition_type], key=_age)[:excess]
    return beyond


def _age(job: Object) -> tuple[bool, float, str]:
    started_s = seconds((job.get("status") or {}).get("startTime"))
    return started_s is None, started_s or 0.0, job["metadata"]["name"]
