"""A pod as the scheduler uses it: a frozen value with only the fields that the scheduler and its plugins read.

:func:`read_pod` decodes a pod, or returns a text that says why it cannot. What the pod requires of a node is its shape
(``scheduling/cache/pod_shape.py``), which all pods with equal requirements share. A pod that is being resized in place
counts with the larger of its requests and its allocation. :class:`PodLike` and :class:`ShapeLike` are the fields that
the scheduling queue reads; tests and other engines implement them with their own types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from sys import intern
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

from headgate.kube import conditions, scheduling_gates
from headgate.kube.pods.requests import spec_during_resize
from headgate.kube.timestamps import parse_time
from headgate.scheduling.cache.pod_shape import PodShape, ShapeTable


class ShapeLike(Protocol):
    """What all pods with an equal specification share; equal shapes are the same object."""

    @property
    def requests(self) -> Mapping[str, int]: ...

    @property
    def tolerations(self) -> Sequence[Any]: ...


class PodLike(Protocol):
    @property
    def uid(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def scheduler_name(self) -> str: ...

    @property
    def priority(self) -> int: ...

    @property
    def created_s(self) -> float: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations that a plugin named; see ``scheduling/framework/interface.py``."""

    @property
    def gates(self) -> tuple[str, ...]: ...

    @property
    def node_name(self) -> str: ...

    @property
    def nominated_node(self) -> str: ...

    @property
    def shape(self) -> ShapeLike: ...


TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
NO_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType({})
_SELECTING_OWNERS: Final = frozenset(
    {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}
)
GRACE_S: Final = 30.0
_CONTAINER_STATUSES: Final = ("containerStatuses", "initContainerStatuses")


class PodScheduledCondition(msgspec.Struct, frozen=True, gc=False):
    """The fields of the ``PodScheduled`` condition that the scheduler compares with what it would write."""

    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


class PodInfo(msgspec.Struct, frozen=True, gc=False):
    """``revision``: ``metadata.resourceVersion``. ``gates``: the names of its scheduling gates. ``deleting``: it has a
    deletion timestamp. ``terminal``: its phase is Succeeded or Failed. ``scheduled``: its ``PodScheduled`` condition.
    ``started_s``: ``status.startTime``."""

    uid: str
    namespace: str
    name: str
    shape: PodShape
    revision: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    priority_class: str = ""
    created_s: float = 0.0
    gates: tuple[str, ...] = ()
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=lambda: NO_ANNOTATIONS)
    node_name: str = ""
    nominated_node: str = ""
    deleting: bool = False
    terminal: bool = False
    succeeded: bool = False
    generation: int = 0
    scheduled: PodScheduledCondition | None = None
    preemption_policy: str = ""
    started_s: float | None = None
    disruption: str = ""
    """The reason of its condition ``DisruptionTarget``; empty if that is not True."""
    owner: tuple[str, str] | None = None
    """Kind and name of the controlling ReplicationController, ReplicaSet or StatefulSet, or ``None``."""
    grace_s: float = GRACE_S
    """``spec.terminationGracePeriodSeconds``."""
    is_daemon: bool = False
    """Whether a DaemonSet controls it: then the next pod of that DaemonSet takes its place on the node."""
    gone_by_s: float | None = None
    """``metadata.deletionTimestamp`` in seconds since 1970, or ``None``."""
    run_time_limit_s: int | None = None
    """``spec.activeDeadlineSeconds``."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def read_pod(obj: Mapping[str, Any], shapes: ShapeTable, annotations: Collection[str] = ()) -> PodInfo | str:
    """The pod, or a text that says why it cannot be read. ``annotations``: the names of the annotations that plugins
    read; others are dropped."""
    try:
        return _read(obj, shapes, annotations)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        named = obj.get("metadata") if isinstance(obj.get("metadata"), dict) else {}
        return f"pod {(named or {}).get('namespace')}/{(named or {}).get('name')} cannot be read: {error!r}"


def _read(obj: Mapping[str, Any], shapes: ShapeTable, annotations: Collection[str]) -> PodInfo:
    metadata = obj["metadata"]
    spec = obj.get("spec") or {}
    status = obj.get("status") or {}
    namespace = intern(metadata.get("namespace") or "")
    labels = {intern(name): intern(value) for name, value in (metadata.get("labels") or {}).items()}
    effective_spec = (
        spec_during_resize(obj, "requests") if any(status.get(each) for each in _CONTAINER_STATUSES) else spec
    )
    created = parse_time(metadata.get("creationTimestamp") or "")
    gone_by = parse_time(metadata.get("deletionTimestamp") or "")
    return PodInfo(
        uid=metadata["uid"],
        namespace=namespace,
        name=metadata["name"],
        shape=shapes.intern(effective_spec, namespace, labels),
        revision=metadata.get("resourceVersion") or "",
        scheduler_name=intern(spec.get("schedulerName") or "default-scheduler"),
        priority=spec.get("priority") or 0,
        priority_class=intern(spec.get("priorityClassName") or ""),
        created_s=0.0 if isinstance(created, str) else float(created),
        gates=tuple(map(intern, scheduling_gates.gate_names(obj))),
        labels=MappingProxyType(labels),  # external plugins receive the pod
        annotations=_select_annotations(metadata.get("annotations"), annotations),
        node_name=intern(spec.get("nodeName") or ""),
        nominated_node=status.get("nominatedNodeName") or "",
        deleting=metadata.get("deletionTimestamp") is not None,
        terminal=status.get("phase") in TERMINAL_PHASES,
        succeeded=status.get("phase") == "Succeeded",
        generation=metadata.get("generation") or 0,
        scheduled=_read_scheduled(status.get("conditions")),
        preemption_policy=intern(spec.get("preemptionPolicy") or ""),
        started_s=_read_started(status.get("startTime")),
        disruption=_read_disruption(status.get("conditions")),
        owner=_read_owner(metadata.get("ownerReferences") or ()),
        grace_s=GRACE_S if (grace_s := spec.get("terminationGracePeriodSeconds")) is None else float(grace_s),
        is_daemon=_is_daemon(metadata.get("ownerReferences") or ()),
        gone_by_s=None if isinstance(gone_by, str) else float(gone_by),
        run_time_limit_s=None if (limit_s := spec.get("activeDeadlineSeconds")) is None else int(limit_s),
    )


def _read_owner(references: Iterable[Mapping[str, Any]]) -> tuple[str, str] | None:
    for each in references:
        if each.get("controller"):
            is_known = (each.get("apiVersion"), each.get("kind")) in _SELECTING_OWNERS
            return (intern(each["kind"]), intern(each["name"])) if is_known else None
    return None


def _is_daemon(references: Iterable[Mapping[str, Any]]) -> bool:
    return any(each.get("controller") and each.get("kind") == "DaemonSet" for each in references)


def _select_annotations(annotations: Mapping[str, str] | None, wanted: Collection[str]) -> Mapping[str, str]:
    if not annotations or not wanted:
        return NO_ANNOTATIONS
    found = {name: annotations[name] for name in wanted if name in annotations}
    return MappingProxyType(found) if found else NO_ANNOTATIONS


def _read_scheduled(listed: list[conditions.Condition] | None) -> PodScheduledCondition | None:
    found = conditions.find(listed, conditions.POD_SCHEDULED)
    if found is None:
        return None
    return PodScheduledCondition(
        intern(found.get("status") or ""),
        intern(found.get("reason") or ""),
        intern(found.get("message") or ""),
        found.get("observedGeneration") or 0,
    )


def _read_started(time: str | None) -> float | None:
    found = parse_time(time or "")
    return None if isinstance(found, str) else float(found)


def _read_disruption(listed: list[conditions.Condition] | None) -> str:
    found = conditions.find(listed, conditions.DISRUPTION_TARGET)
    return intern(found.get("reason") or "") if found is not None and found.get("status") == "True" else ""
