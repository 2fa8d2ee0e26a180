"""The annotation by which a pod tells what quota it was started with, and a pod as the engine counts it.

A Workload loses its admission when its quota is released, and may be deleted before its pods have ended. So the pod
itself carries the ClusterQueue, the flavors and the reservation. ``jobs/placing.py`` makes the annotation, which is
written when the gate of a pod is lifted or a job is resumed; ``occupancy.py`` counts terminating pods by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.kube import conditions
from headgate.kube.amounts import PODS, units
from headgate.kube.requests import pod_requests
from headgate.kube.termination import LATE_S
from headgate.kube.timestamps import parse_time
from headgate.quota import names
from headgate.quota.cohort import Usage

Object = Mapping[str, Any]

_ENDED: Final = ("Succeeded", "Failed")


class Reservation(msgspec.Struct, frozen=True, rename="camel"):
    """``workload``: its uid. ``reserved_at``: when its quota was reserved, as its condition says; another reservation
    of the same Workload has another time."""

    workload: str
    cluster_queue: str
    local_queue: str
    flavors: Mapping[str, str]
    reserved_at: str = ""


class Occupant(msgspec.Struct, frozen=True):
    """A pod that was started with quota and is on a node. ``name`` and ``local_queue`` with their namespace.
    ``began_s``: when its deletion began; ``until_s``: when it is overdue; both None if it does not terminate."""

    uid: str
    name: str
    workload: str
    reserved_s: float
    local_queue: str
    queue: str
    usage: Usage
    began_s: float | None = None
    until_s: float | None = None


_decode: Final = msgspec.json.Decoder(Reservation).decode


def reservation_text(workload: Object, pod_set: str) -> str:
    """The annotation for the pods of a pod set of an admitted Workload."""
    status = workload.get("status") or {}
    admission = status.get("admission") or {}
    given: Object = next((each for each in admission.get("podSetAssignments") or () if each.get("name") == pod_set), {})
    reserved = conditions.find(status.get("conditions"), names.QUOTA_RESERVED) or {}
    made = Reservation(
        str(workload["metadata"].get("uid", "")),
        str(admission.get("clusterQueue", "")),
        str((workload.get("spec") or {}).get("queueName") or ""),
        {name: str(flavor) for name, flavor in sorted((given.get("flavors") or {}).items())},
        str(reserved.get("lastTransitionTime") or ""),
    )
    return msgspec.json.encode(made).decode()


def read_reservation(pod: Object) -> Reservation | None:
    """None if the pod has none, or none that can be read."""
    text = ((pod.get("metadata") or {}).get("annotations") or {}).get(names.QUOTA_RESERVATION)
    if not isinstance(text, str):
        return None
    try:
        return _decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def read_occupant(pod: Object) -> Occupant | None:
    """None if the pod uses no quota on a node: it was not started with quota, has no node, or has ended."""
    found = read_reservation(pod)
    if found is None:
        return None
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    if not spec.get("nodeName") or status.get("phase") in _ENDED:
        return None
    namespace = metadata.get("namespace", "")
    usage = {
        (flavor, resource): amount
        for resource, flavor in found.flavors.items()
        if (amount := _amount(pod, resource)) > 0
    }
    deleted_s = _seconds(metadata.get("deletionTimestamp"))
    grace_s = metadata.get("deletionGracePeriodSeconds")
    return Occupant(
        metadata.get("uid", ""),
        f"{namespace}/{metadata.get('name', '')}",
        found.workload,
        _seconds(found.reserved_at) or 0.0,
        f"{namespace}/{found.local_queue}",
        found.cluster_queue,
        usage,
        None if deleted_s is None else deleted_s - (grace_s if isinstance(grace_s, int) else 0),
        None if deleted_s is None else deleted_s + LATE_S,
    )


def is_of_reservation(occupant: Occupant, workload: Object) -> bool:
    """Whether the pod was started with the quota that the Workload holds now."""
    reserved = conditions.find((workload.get("status") or {}).get("conditions"), names.QUOTA_RESERVED) or {}
    is_same = workload["metadata"].get("uid") == occupant.workload
    return is_same and _seconds(reserved.get("lastTransitionTime")) == occupant.reserved_s


def _amount(pod: Object, resource: str) -> int:
    if resource == PODS:
        return 1
    found = pod_requests(pod).get(resource)
    return 0 if found is None else units(resource, found)


def _seconds(stamp: Any) -> float | None:
    parsed = parse_time(stamp) if isinstance(stamp, str) else ""
    return None if isinstance(parsed, str) else float(parsed)
