"""Whether the pod sets of a Workload still match its job.

The API server may store fewer fields of a pod template than Headgate sent, because it drops fields that are not in its
schema. Fields that affect quota and placement are never dropped and must be equal. Of the other fields, those that were
stored must be equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.kinds.job_fields import Object
from headgate.jobs.kinds.job_kind import JobKind, job_pod_sets
from headgate.kube.lenient_reader import get_path
from headgate.kube.quantity import Quantity, parse

KEPT_METADATA: Final = ("labels", "annotations")
"""The metadata of a template that a pod set keeps."""
_COMPARED_EXACTLY: Final = (  # fields that affect quota or placement
    "tolerations",
    "nodeSelector",
    "affinity",
    "priorityClassName",
    "runtimeClassName",
    "overhead",
    "resourceClaims",
    "schedulingGates",
)
_CONTAINERS: Final = ("initContainers", "containers")


def equals_pod_sets(workload: Object, desired: list[Object]) -> bool:
    """Whether the Workload has exactly these pod sets."""
    current = get_path(workload, ("spec", "podSets")) or []
    return [_compared_fields(each) for each in current] == [_compared_fields(each) for each in desired]


def matches_stored_fields(workload: Object, desired: list[Object]) -> bool:
    """Whether the Workload has these pod sets, except for fields that the API server did not store."""
    current = get_path(workload, ("spec", "podSets")) or []
    return len(current) == len(desired) and all(map(_matches_stored_pod_set, current, desired))


def digest(pod_sets: list[Object]) -> str:
    """A hash of the pod sets."""
    return hashlib.sha256(msgspec.json.encode(pod_sets, order="deterministic")).hexdigest()


def has_admitted_counts(kind: JobKind, workload: Object, job: Object) -> bool:
    """Whether a running job has the admitted number of pods."""
    current = {each.get("name"): each for each in get_path(workload, ("spec", "podSets")) or ()}
    assignments = {
        each.get("name"): each for each in get_path(workload, ("status", "admission", "podSetAssignments")) or ()
    }
    for pod_set in job_pod_sets(kind, job):
        pods = current.pop(pod_set.name, {})
        count = pods.get("count")
        if pods.get("minCount") is not None:
            count = assignments.get(pod_set.name, {}).get("count", count)
        if count != pod_set.count:
            return False
    return not current


def _compared_fields(pods: Object) -> tuple[Any, ...]:
    template = pods.get("template") or {}
    metadata = {key: (template.get("metadata") or {}).get(key) or {} for key in KEPT_METADATA}
    return *_name_and_counts(pods), metadata, template.get("spec")


def _name_and_counts(pods: Object) -> tuple[Any, ...]:
    return pods.get("name", "main"), pods.get("count"), pods.get("minCount")


def _matches_stored_pod_set(current: Object, desired: Object) -> bool:
    if _name_and_counts(current) != _name_and_counts(desired):
        return False
    stored, sent = ((each.get("template") or {}).get("spec") or {} for each in (current, desired))
    if any((stored.get(field) or None) != (sent.get(field) or None) for field in _COMPARED_EXACTLY):
        return False
    if not _has_same_amounts(stored.get("resources"), sent.get("resources")):
        return False
    for field in _CONTAINERS:
        stored_containers, sent_containers = stored.get(field) or [], sent.get(field) or []
        if len(stored_containers) != len(sent_containers):
            return False
        for part, other in zip(stored_containers, sent_containers, strict=True):
            if not _has_same_amounts(part.get("resources"), other.get("resources")) or not _is_part(
                {**part, "resources": None}, other
            ):
                return False
    return _is_part({**stored, "resources": None, **dict.fromkeys(_CONTAINERS)}, sent)


def _has_same_amounts(stored: Mapping[str, Any] | None, sent: Mapping[str, Any] | None) -> bool:
    """Whether two ``resources`` fields have equal requests and limits; ``1`` and ``1000m`` are equal."""
    return all(
        _amounts((stored or {}).get(field)) == _amounts((sent or {}).get(field)) for field in ("requests", "limits")
    )


def _amounts(amounts: Mapping[str, Any] | None) -> dict[str, Any]:
    read = {name: parse(value) for name, value in (amounts or {}).items()}
    return {name: each.nano if isinstance(each, Quantity) else (amounts or {})[name] for name, each in read.items()}


def _is_part(part: Any, whole: Any) -> bool:
    """Whether every field of ``part`` that is not empty has the same value in ``whole``."""
    if isinstance(part, dict):
        fields = whole if isinstance(whole, dict) else {}
        return all(_is_part(value, fields.get(key)) for key, value in part.items())
    if isinstance(part, list) and part:
        return isinstance(whole, list) and len(part) == len(whole) and all(map(_is_part, part, whole))
    return part in (None, [], "") or bool(part == whole)
