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
"""What a pod set tells of a template's metadata."""
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
    """Whether it asks for these, field by field."""
    known = get_path(workload, ("spec", "podSets")) or []
    return [_of_interest(each) for each in known] == [_of_interest(each) for each in wanted]


def is_equivalent_as_stored(workload: Object, wanted: list[Object]) -> bool:
    """Whether it asks for these as far as it tells, and for the same quota."""
    known = get_path(workload, ("spec", "podSets")) or []
    return len(known) == len(wanted) and all(map(_keeps, known, wanted))


def digest(pod_sets: list[Object]) -> str:
    return hashlib.sha256(msgspec.json.encode(pod_sets, order="deterministic")).hexdigest()


def has_counts(kind: JobKind, workload: Object, job: Object) -> bool:
    """Whether a job that runs has as many pods as were admitted."""
    known = {each.get("name"): each for each in get_path(workload, ("spec", "podSets")) or ()}
    given = {each.get("name"): each for each in get_path(workload, ("status", "admission", "podSetAssignments")) or ()}
    for place in pod_set_sources(kind, job):
        pods = known.pop(place.name, {})
        count = pods.get("count")
        if pods.get("minCount") is not None:
            count = given.get(place.name, {}).get("count", count)
        if count != place.count(job):
            return False
    return not known


def _of_interest(pods: Object) -> tuple[Any, ...]:
    template = pods.get("template") or {}
    metadata = {key: (template.get("metadata") or {}).get(key) or {} for key in KEPT}
    return *_numbers(pods), metadata, template.get("spec")


def _numbers(pods: Object) -> tuple[Any, ...]:
    return pods.get("name", "main"), pods.get("count"), pods.get("minCount")


def _keeps(known: Object, wanted: Object) -> bool:
    if _numbers(known) != _numbers(wanted):
        return False
    mine, theirs = ((each.get("template") or {}).get("spec") or {} for each in (known, wanted))
    if any((mine.get(field) or None) != (theirs.get(field) or None) for field in _DECISIVE):
        return False
    if not _same_amounts(mine.get("resources"), theirs.get("resources")):
        return False
    for field in _CONTAINERS:
        some, others = mine.get(field) or [], theirs.get(field) or []
        if len(some) != len(others):
            return False
        for one, other in zip(some, others, strict=True):
            if not _same_amounts(one.get("resources"), other.get("resources")) or not _is_part(
                {**one, "resources": None}, other
            ):
                return False
    return _is_part({**mine, "resources": None, **dict.fromkeys(_CONTAINERS)}, theirs)


def _same_amounts(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    some, others = one or {}, other or {}
    return all(_amounts(some.get(field)) == _amounts(others.get(field)) for field in ("requests", "limits"))


def _amounts(told: Mapping[str, Any] | None) -> dict[str, Any]:
    read = {name: parse(value) for name, value in (told or {}).items()}
    return {name: each.nano if isinstance(each, Quantity) else (told or {})[name] for name, each in read.items()}


def _is_part(one: Any, whole: Any) -> bool:
    """Whether everything that ``one`` says is said by ``whole``; nothing, and what is empty, says nothing."""
    if isinstance(one, dict):
        there = whole if isinstance(whole, dict) else {}
        return all(_is_part(value, there.get(key)) for key, value in one.items())
    if isinstance(one, list) and one:
        return isinstance(whole, list) and len(one) == len(whole) and all(map(_is_part, one, whole))
    return one in (None, [], "") or bool(one == whole)
