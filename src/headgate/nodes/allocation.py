"""What a kubelet has allocated to the containers of a pod, next to the requests in the pod's spec (KEP-1287).

A resize changes the spec; the kubelet applies it when its node has the capacity, and until then the pod keeps its
allocation. The container statuses are the only record of it, so a restarted kubelet reads it there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from headgate.nodes.pod_admission import AdmitRejection, Counts, check

Object = dict[str, Any]
Allocation = tuple[bytes, ...]
"""``resources`` of each container, then of each init container, as JSON. Equal allocations are one object."""

DEFERRED = "Deferred"
INFEASIBLE = "Infeasible"
PENDING = "PodResizePending"

_LISTS = (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))


class PendingResize(msgspec.Struct, frozen=True):
    """The condition ``PodResizePending``. ``since_s``: since when it has had this reason."""

    reason: str
    message: str
    since_s: float
    probed_s: float


def desired(spec: Object) -> Allocation:
    """The resources that the spec requests."""
    return _shared(tuple(_encode(each.get("resources")) for field, _ in _LISTS for each in spec.get(field) or ()))


def reported(spec: Object, status: Object) -> Allocation | None:
    """The resources that the status reports as allocated; None if a container has none in the status."""
    found: list[bytes] = []
    for field, statuses in _LISTS:
        resources = {each.get("name"): each.get("resources") for each in status.get(statuses) or ()}
        for container in spec.get(field) or ():
            listed = resources.get(container["name"])
            if listed is None:
                return None
            found.append(_encode(listed))
    return _shared(tuple(found))


def with_resources(spec: Object, allocation: Allocation) -> Object:
    """The spec with the allocated resources instead of the requested ones."""
    rest = iter(allocation)
    listed = {
        field: [{**each, "resources": decode(next(rest))} for each in spec[field]]
        for field, _ in _LISTS
        if spec.get(field)
    }
    return {**spec, **listed}


def decode(resources: bytes) -> Object:
    found: Object = msgspec.json.decode(resources)
    return found


def check_resize(requests: Counts, used: Counts, pods: int, allocatable: Counts) -> AdmitRejection | None:
    """Whether the node has the capacity for the resize. ``used`` and ``pods`` are those of the other pods."""
    for name in ("memory", "cpu"):
        requested, capacity = requests.get(name, 0), allocatable.get(name, 0)
        if requested > capacity:
            text = f"Node didn't have enough capacity: {name}, requested: {requested}, capacity: {capacity}"
            return AdmitRejection(INFEASIBLE, text)
    rejection = check(requests, used, pods, allocatable)
    return None if rejection is None else AdmitRejection(DEFERRED, rejection.message)


def _encode(resources: Object | None) -> bytes:
    return msgspec.json.encode(resources or {}, order="deterministic")


@lru_cache(maxsize=10_000)
def _shared(allocation: Allocation) -> Allocation:
    return allocation
