"""The snapshot: the objects that exist when a simulation starts, by resource.

Nodes, queues, flavors, namespaces and priority classes are simulated, and pods that are bound already: they hold their
node until the end. Any other kind is refused, so that a result never silently lacks a part of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.jobs.names import POD_PRIORITY_CLASSES
from headgate.kube.api_resources import LIMIT_RANGES, NAMESPACES, NODES, PODS, RUNTIME_CLASSES, APIResource
from headgate.quota.kinds.conversion import convert
from headgate.quota.kinds.names import (
    API_VERSION,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    OLDER_API_VERSION,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
)

Object = dict[str, Any]

KINDS: Final[Mapping[str, APIResource]] = {
    "Namespace": NAMESPACES,
    "Node": NODES,
    "PriorityClass": POD_PRIORITY_CLASSES,
    "LimitRange": LIMIT_RANGES,
    "RuntimeClass": RUNTIME_CLASSES,
    "Queue": QUEUES,
    "PodGroup": POD_GROUPS,
    "ResourceFlavor": RESOURCE_FLAVORS,
    "Cohort": COHORTS,
    "ClusterQueue": CLUSTER_QUEUES,
    "LocalQueue": LOCAL_QUEUES,
    "WorkloadPriorityClass": PRIORITY_CLASSES,
    "Pod": PODS,
}
"""The kinds of a snapshot, in the order in which their objects are created."""
_SERVER_FIELDS: Final = ("resourceVersion", "uid", "managedFields", "selfLink")
_ENDED: Final = ("Succeeded", "Failed")


class SnapshotError(ValueError):
    """An object that cannot be simulated. The text names it and says what to do."""


class CheckedObject(msgspec.Struct, frozen=True):
    """``problem``: why the API server would refuse the object. ``unknown``: its unknown fields, which have no
    effect."""

    problem: str = ""
    unknown: tuple[str, ...] = ()


ObjectCheck = Callable[[APIResource, str, Object], CheckedObject]
"""Gets the resource, the kind and the object."""


def no_check(resource: APIResource, kind: str, obj: Object) -> CheckedObject:
    return CheckedObject()


class LaterChange(msgspec.Struct, frozen=True):
    """An object that is created, changed or removed (``gone``) ``at_s`` seconds after the start."""

    at_s: float
    resource: APIResource
    obj: Object
    gone: bool = False


class Snapshot(msgspec.Struct, frozen=True):
    """``objects``: in the order of creation. ``skipped``: what was left out without a change of the result. ``later``:
    what changes after the start, in order. ``recorded_from_s``: when the recording began from which this snapshot was
    read, in seconds since 1970; ``None`` if it was not recorded. ``unknown``: fields of objects that have no effect,
    each with its object."""

    objects: tuple[tuple[APIResource, Object], ...]
    skipped: tuple[str, ...] = ()
    later: tuple[LaterChange, ...] = ()
    recorded_from_s: float | None = None
    unknown: tuple[str, ...] = ()

    def of(self, resource: APIResource) -> list[Object]:
        return [obj for each, obj in self.objects if each == resource]

    def ever(self, resource: APIResource) -> list[Object]:
        """All versions of objects of this resource, at the start and later."""
        return self.of(resource) + [each.obj for each in self.later if each.resource == resource and not each.gone]


def read_snapshot(documents: Iterable[Any], check: ObjectCheck = no_check) -> Snapshot:
    """``documents``: objects, and Lists of objects. It raises :class:`SnapshotError`."""
    by_kind: dict[str, dict[tuple[str, str], Object]] = {kind: {} for kind in KINDS}
    skipped: list[str] = []
    unknown: list[str] = []
    for obj in _flat(documents):
        kind, name = _kind_and_name(obj)
        status = obj.get("status")
        if kind == "Pod" and isinstance(status, dict) and status.get("phase") in _ENDED:
            skipped.append(f"Pod {name}: it has ended")
            continue
        checked = check(KINDS[kind], kind, _with_namespace(kind, obj)) if kind in KINDS else CheckedObject()
        problem = checked.problem or _find_problem(kind, obj)
        unknown += (f"{kind} {name}: {each}" for each in checked.unknown)
        if problem:
            raise SnapshotError(f"{kind} {name}: {problem}")
        cleaned = cleaned_object(kind, obj)
        key = cleaned["metadata"].get("namespace") or "", cleaned["metadata"]["name"]
        if key in by_kind[kind]:
            raise SnapshotError(f"{kind} {name} is in the snapshot twice")
        by_kind[kind][key] = cleaned
    objects = tuple((KINDS[kind], obj) for kind, each in by_kind.items() for obj in each.values())
    return Snapshot(objects, tuple(skipped), unknown=tuple(unknown))


def _with_namespace(kind: str, obj: Object) -> Object:
    if not KINDS[kind].namespaced or "namespace" in obj["metadata"]:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}


def _flat(documents: Iterable[Any]) -> Iterable[Object]:
    for each in documents:
        if (
            isinstance(each, dict)
            and str(each.get("kind", "")).endswith("List")
            and isinstance(each.get("items"), list)
        ):
            for item in each["items"]:
                yield {"kind": str(each["kind"]).removesuffix("List") or None, **item} if isinstance(item, dict) else {}
        elif each is not None:
            if not isinstance(each, dict):
                raise SnapshotError(f"a document of the snapshot is not an object: {str(each)[:60]!r}")
            yield each


def _kind_and_name(obj: Object) -> tuple[str, str]:
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name or not isinstance(obj.get("kind"), str):
        raise SnapshotError("an object of the snapshot has no kind or no metadata.name")
    return obj["kind"], name


def _find_problem(kind: str, obj: Object) -> str:
    if kind not in KINDS:
        known = ", ".join(KINDS)
        return f"this kind is not simulated; a snapshot has {known}; jobs belong in the trace"
    if kind == "Pod" and not (obj.get("spec") or {}).get("nodeName"):
        return "it has no node; pods that wait belong in the trace"
    if kind == "ClusterQueue":
        return _find_problem_of_cluster_queue(obj.get("spec") or {})
    if kind == "ResourceFlavor" and (obj.get("spec") or {}).get("topologyName"):
        return "spec.topologyName is not simulated: remove it"
    return ""


def _find_problem_of_cluster_queue(spec: Object) -> str:
    for field in ("admissionChecks", "admissionChecksStrategy"):
        if spec.get(field):
            return f"spec.{field} is not simulated: the checks of other controllers are unknown; remove the field"
    return ""


def cleaned_object(kind: str, obj: Object) -> Object:
    """A copy without what the API server writes, in the stored version."""
    if obj.get("apiVersion") == OLDER_API_VERSION:
        obj = convert(obj, API_VERSION)
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SERVER_FIELDS}
    cleaned = {**obj, "metadata": metadata}
    if KINDS[kind].namespaced:
        metadata.setdefault("namespace", "default")
    if kind in ("Queue", "ClusterQueue", "LocalQueue", "Cohort"):
        status = obj.get("status") or {}
        cleaned["status"] = {"state": status["state"]} if kind == "Queue" and "state" in status else {}
    return cleaned
