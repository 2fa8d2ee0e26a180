"""Whether a Workload still matches its job.

A server may store less of a pod template than was sent, because a schema drops unknown fields. Fields that affect quota
and placement are never dropped and must be equal; of the other fields, those that were stored must match.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.kinds.job_kind import JobKind, Object, pod_set_sources
from headgate.kube.lenient_reader import get_path
from headgate.kube.quantity import Quantity, parse

KEPT: Final = ("labels", "annotations")
"""The metadata of a template that a pod set keeps."""
_DECISIVE: Final = (
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


def equals_pod_sets(workload: Object, wanted: list[Object]) -> bool:
    """Whether the Workload has exactly these pod sets."""
    known = get_path(workload, ("spec", "podSets")) or []
    return [_compared_fields(each) for each in known] == [_compared_fields(each) for each in wanted]


def is_equivalent_as_stored(workload: Object, wanted: list[Object]) -> bool:
    """Whether the stored fields match these pod sets, and those that affect quota are equal."""
    known = get_path(workload, ("spec", "podSets")) or []
    return len(known) == len(wanted) and all(map(_is_stored_part, known, wanted))


def digest(pod_sets: list[Object]) -> str:
    return hashlib.sha256(msgspec.json.encode(pod_sets, order="deterministic")).hexdigest()


def has_counts(kind: JobKind, workload: Object, job: Object) -> bool:
    """Whether a running job has the admitted number of pods."""
    known = {each.get("name"): each for each in get_path(workload, ("spec", "podSets")) or ()}
    assignments = {
        each.get("name"): each for each in get_path(workload, ("status", "admission", "podSetAssignments")) or ()
    }
    for source in pod_set_sources(kind, job):
        pods = known.pop(source.name, {})
        count = pods.get("count")
        if pods.get("minCount") is not None:
            count = assignments.get(source.name, {}).get("count", count)
        if count != source.count(job):
            return False
    return not known


def _compared_fields(pods: Object) -> tuple[Any, ...]:
    template = pods.get("template") or {}
    metadata = {key: (template.get("metadata") or {}).get(key) or {} for key in KEPT}
    return *_numbers(pods), metadata, template.get("spec")


def _numbers(pods: Object) -> tuple[Any, ...]:
    return pods.get("name", "main"), pods.get("count"), pods.get("minCount")


def _is_stored_part(known: Object, wanted: Object) -> bool:
    if _numbers(known) != _numbers(wanted):
        return False
    stored, sent = ((each.get("template") or {}).get("spec") or {} for each in (known, wanted))
    if any((stored.get(field) or None) != (sent.get(field) or None) for field in _DECISIVE):
        return False
    if not _same_amounts(stored.get("resources"), sent.get("resources")):
        return False
    for field in _CONTAINERS:
        some, others = stored.get(field) or [], sent.get(field) or []
        if len(some) != len(others):
            return False
        for part, other in zip(some, others, strict=True):
            if not _same_amounts(part.get("resources"), other.get("resources")) or not _is_part(
                {**part, "resources": None}, other
            ):
                return False
    return _is_part({**stored, "resources": None, **dict.fromkeys(_CONTAINERS)}, sent)


def _same_amounts(part: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    some, others = part or {}, other or {}
    return all(_amounts(some.get(field)) == _amounts(others.get(field)) for field in ("requests", "limits"))


def _amounts(amounts: Mapping[str, Any] | None) -> dict[str, Any]:
    read = {name: parse(value) for name, value in (amounts or {}).items()}
    return {name: each.nano if isinstance(each, Quantity) else (amounts or {})[name] for name, each in read.items()}


def _is_part(part: Any, whole: Any) -> bool:
    """Whether everything that ``one`` says is said by ``whole``; nothing, and what is empty, says nothing."""
    if isinstance(part, dict):
        fields = whole if isinstance(whole, dict) else {}
        return all(_is_part(value, fields.get(key)) for key, value in part.items())
    if isinstance(part, list) and part:
        return isinstance(whole, list) and len(part) == len(whole) and all(map(_is_part, part, whole))
    return part in (None, [], "") or bool(part == whole)
