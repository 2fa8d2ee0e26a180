"""The Workload of a job: its name, its pod sets from the job's current templates, and its priority.

Everything is read from the job and from priority classes. ``workload_equivalence.py`` compares an existing Workload
with its job; ``job_plan.py`` plans the writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.framework.workload_equivalence import KEPT_METADATA
from headgate.jobs.kinds.job_fields import Object, value_at
from headgate.jobs.kinds.job_kind import JobKind, job_pod_sets, pod_set_problem
from headgate.jobs.names import (
    MAX_EXEC_TIME,
    POD_PRIORITY_CLASSES,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    QUEUE_NAME,
)
from headgate.kube.integers import read_natural
from headgate.kube.lenient_reader import get_path
from headgate.kube.object_meta import controller_reference
from headgate.kube.schema import GroupVersionKind
from headgate.quota.kinds.names import API_VERSION
from headgate.quota.names import ADMISSION_GATED_BY, GROUP, JOB_UID_LABEL, RESOURCE_IN_USE

_MAX_NAME_LENGTH: Final = 253
_HASH_LENGTH: Final = 5


class PriorityClasses(msgspec.Struct, frozen=True):
    """Priority classes by name: Kueue's, and those of pods."""

    of_workloads: Mapping[str, Object] = {}
    of_pods: Mapping[str, Object] = {}


def workload_name(kind: JobKind, job: Object) -> str:
    return workload_name_for(kind.kind, job)


def workload_name_for(kind: GroupVersionKind, job: Object) -> str:
    """A name that is unique for each job, because its hash includes the uid."""
    metadata = job["metadata"]
    identity = f"{kind.kind}\n{kind.group}\n{metadata['name']}\n{metadata['uid']}"
    ending = hashlib.sha1(identity.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]
    return f"{kind.kind.lower()}-{metadata['name']}"[: _MAX_NAME_LENGTH - _HASH_LENGTH - 1] + f"-{ending}"


def queue_of(job: Object) -> str:
    return str(get_path(job, ("metadata", "labels", QUEUE_NAME)) or "")


def prebuilt_name(job: Object) -> str:
    """The name of the Workload that another client creates for the job; empty if there is none."""
    metadata = job["metadata"]
    for where in ("annotations", "labels"):
        name = (metadata.get(where) or {}).get(PREBUILT_WORKLOAD)
        if name:
            return str(name)
    return ""


def max_execution_s(job: Object) -> int | None:
    """The maximum execution time; None if there is no limit."""
    value = get_path(job, ("metadata", "labels", MAX_EXEC_TIME))
    return (read_natural(value) or None) if isinstance(value, str) else None


def pod_sets(kind: JobKind, job: Object) -> list[Object]:
    """The pod sets of the job, made from its templates. Labels that the API server added are left out."""
    found = []
    for each in job_pod_sets(kind, job):
        metadata = _kept_metadata(kind, each.charged.get("metadata"))
        template = {"spec": each.charged.get("spec") or {}, **({} if metadata is None else {"metadata": metadata})}
        optional = {"minCount": each.min_count} if each.min_count is not None and each.min_count < each.count else {}
        found.append({"name": each.name, "count": each.count, "template": template, **optional})
    return found


def _kept_metadata(kind: JobKind, metadata: Object | None) -> Object | None:
    """The labels and annotations of a template without those that the API server added. Empty maps of the user are
    kept, because a stop restores the template from here."""
    if metadata is None:
        return None
    kept = {key: metadata[key] for key in KEPT_METADATA if metadata.get(key) is not None}
    labels = {key: value for key, value in kept.get("labels", {}).items() if key not in kind.managed_labels}
    if labels == kept.get("labels", {}):
        return kept
    del kept["labels"]
    return {"labels": labels, **kept} if labels else kept or None


def priority(kind: JobKind, job: Object, classes: PriorityClasses) -> Object | str:
    """The priority fields of a Workload, or an error text about a missing priority class."""
    of_kind = value_at(job, kind.priority_class) if kind.priority_class else None
    of_templates = (get_path(each.charged, ("spec", "priorityClassName")) for each in job_pod_sets(kind, job))
    return priority_by(job, (of_kind, *of_templates), classes)


def priority_by(job: Object, of_pods: Iterable[str | None], classes: PriorityClasses) -> Object | str:
    """The priority fields of a Workload, or an error text about a missing priority class. The class is that of the
    job's label, otherwise the first one in ``of_pods`` (the class names of its pods), otherwise the default class."""
    name = get_path(job, ("metadata", "labels", PRIORITY_CLASS))
    if name:
        found = classes.of_workloads.get(name)
        if found is None:
            return f'WorkloadPriorityClass "{name}" not found'
        return _priority(found, GROUP, "WorkloadPriorityClass")
    for class_name in of_pods:
        if class_name:
            found = classes.of_pods.get(class_name)
            if found is None:
                return f'PriorityClass "{class_name}" not found'
            return _priority(found, POD_PRIORITY_CLASSES.group, "PriorityClass")
    default = [each for each in classes.of_pods.values() if each.get("globalDefault")]
    if default:
        lowest = min(default, key=lambda each: (each.get("value", 0), each["metadata"]["name"]))
        return _priority(lowest, POD_PRIORITY_CLASSES.group, "PriorityClass")
    return {"priority": 0}


def new_workload(kind: JobKind, job: Object, classes: PriorityClasses, gates: str) -> Object | str:
    """The Workload to create, or an error text that says why it cannot be created yet. ``gates``: its admission
    gates."""
    problem = pod_set_problem(kind, job)
    if problem:
        return problem
    priority_fields = priority(kind, job, classes)
    if isinstance(priority_fields, str):
        return priority_fields
    metadata: Object = {
        "name": workload_name(kind, job),
        "namespace": job["metadata"]["namespace"],
        "labels": {JOB_UID_LABEL: job["metadata"]["uid"]},
        "finalizers": [RESOURCE_IN_USE],
        "ownerReferences": [controller_reference(job, kind.kind)],
        **({"annotations": {ADMISSION_GATED_BY: gates}} if gates else {}),
    }
    spec: Object = {"podSets": pod_sets(kind, job), **priority_fields}
    queue, max_time = queue_of(job), max_execution_s(job)
    if queue:
        spec["queueName"] = queue
    if max_time is not None:
        spec["maximumExecutionTimeSeconds"] = max_time
    return {"apiVersion": API_VERSION, "kind": "Workload", "metadata": metadata, "spec": spec}


def admission_gates_of(obj: Object) -> str:
    """The value of the annotation ``admission-gated-by``: names of gates, separated by commas."""
    return str(get_path(obj, ("metadata", "annotations", ADMISSION_GATED_BY)) or "")


def has_priority(workload: Object, priority_fields: Object) -> bool:
    """Whether the Workload has these priority fields."""
    spec: Mapping[str, Any] = workload.get("spec") or {}
    same = spec.get("priorityClassRef") == priority_fields.get("priorityClassRef")
    return same and (spec.get("priority") or 0) == priority_fields["priority"]


def _priority(found: Object, group: str, kind: str) -> Object:
    reference = {"group": group, "kind": kind, "name": found["metadata"]["name"]}
    return {"priority": found.get("value", 0), "priorityClassRef": reference}
