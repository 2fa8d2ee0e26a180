"""Functions for controllers that own pods: phase, readiness and availability of a pod, and a new pod from a template.
Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from headgate.kube import conditions, names
from headgate.kube.object_meta import controller_reference
from headgate.kube.schema import GroupVersionKind
from headgate.kube.timestamps import parse_time

Object = dict[str, Any]

FIELDS: Final = frozenset(
    {
        "metadata.generateName",
        "metadata.labels",
        "metadata.annotations",
        "metadata.ownerReferences",
        "metadata.finalizers",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "spec.nodeName",
        "status.phase",
        "status.reason",
        "status.conditions",
    }
)
"""The pod fields that all owners of pods need; a kind may add others."""

_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_MAX_PREFIX: Final = 63 - 5


def phase_of(pod: Object) -> str:
    phase: str = (pod.get("status") or {}).get("phase", "")
    return phase


def is_finished(pod: Object) -> bool:
    return phase_of(pod) in _FINISHED


def is_active(pod: Object) -> bool:
    """Whether the pod is neither finished nor terminating. A pod that this controller has just deleted may still be
    active here; :class:`OwnershipCache` knows these deletions before the watch delivers them."""
    return not is_finished(pod) and "deletionTimestamp" not in pod["metadata"]


def is_ready(pod: Object) -> bool:
    return conditions.is_true(_conditions(pod), conditions.POD_READY)


def ready_since_s(pod: Object) -> float | None:
    """When the pod became ready; None if it is not ready."""
    found = conditions.find(_conditions(pod), conditions.POD_READY)
    if found is None or found.get("status") != "True":
        return None
    return seconds(found.get("lastTransitionTime"))


def available_at_s(pod: Object, min_ready_s: float) -> float:
    """The time from which the pod is available, that is, has been ready for ``min_ready_s``; infinity if it is not
    ready."""
    since_s = ready_since_s(pod)
    if since_s is None:
        return math.inf
    return since_s + min_ready_s if min_ready_s > 0 else 0.0


def is_available(pod: Object, min_ready_s: float, now_s: float) -> bool:
    return available_at_s(pod, min_ready_s) <= now_s


def waits_in_queue(pod: Object) -> bool:
    """Whether the pod is gated or waits for its queue, so that the scheduler has not tried to place it yet."""
    found = conditions.find(_conditions(pod), conditions.POD_SCHEDULED)
    return found is not None and found.get("status") == "False" and found.get("reason") in _QUEUE_REASONS


_QUEUE_REASONS: Final = frozenset({"SchedulingGated", "WaitingForQueue"})


def pod_from_template(
    template: Object,
    owner: Object,
    kind: GroupVersionKind,
    name: str,
    *,
    prefix: str = "",
    finalizers: tuple[str, ...] = (),
) -> Object:
    """The pod of a template, controlled by ``owner``. ``prefix``: its ``generateName``.

    Labels, annotations and the top level of the spec are copies, so that changes do not affect the template.
    """
    meta: Mapping[str, Any] = template.get("metadata") or {}
    metadata: Object = {
        "name": name,
        "generateName": prefix,
        "namespace": owner["metadata"]["namespace"],
        "labels": dict(meta.get("labels") or {}),
        "annotations": dict(meta.get("annotations") or {}),
        "ownerReferences": [controller_reference(owner, kind)],
        "finalizers": [*(meta.get("finalizers") or ()), *finalizers],
    }
    set_metadata = {key: value for key, value in metadata.items() if value}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": set_metadata, "spec": dict(template.get("spec") or {})}


def prefix_of(owner_name: str) -> str:
    """The prefix of the names of an owner's pods: its name with a dash, or without the dash if a name with it would be
    invalid."""
    prefix = f"{owner_name}-"
    return owner_name if names.name_is_dns_subdomain(prefix, prefix=True) else prefix


def generated_name(prefix: str, suffix: str) -> str:
    """A name as the API server generates it: a long prefix is truncated."""
    return prefix[:_MAX_PREFIX] + suffix


def object_reference(obj: Object, kind: GroupVersionKind) -> Object:
    """An object reference for events."""
    metadata = obj["metadata"]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata.get("resourceVersion", ""),
    }


def seconds(stamp: str | None) -> float | None:
    value = parse_time(stamp) if stamp else None
    return None if value is None or isinstance(value, str) else float(value)


def _conditions(pod: Object) -> list[conditions.Condition] | None:
    found: list[conditions.Condition] | None = (pod.get("status") or {}).get("conditions")
    return found
