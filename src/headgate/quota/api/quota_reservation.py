"""The annotation with which a pod records the quota it was started with, and the values that the ledgers count.

A Workload loses its admission when its quota is released, and it may be deleted before its pods have ended. Each pod
therefore records the Workload, the ClusterQueue, the flavors and the time of the reservation.
``jobs/framework/pod_set_info.py`` makes the annotation, which is written when a pod's gate is removed or a job is
resumed. ``quota/cache/quota_ledger.py`` counts workloads with quota (:class:`QuotaHolder`);
``quota/cache/occupancy.py`` also counts terminating pods (:class:`QuotaPod`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.kube import conditions
from headgate.kube.object_meta import controller_of
from headgate.kube.pods.requests import pod_requests
from headgate.kube.pods.termination import MAX_TERMINATION_WAIT_S, OVERDUE_AFTER_S
from headgate.kube.resource_amounts import PODS, units
from headgate.kube.timestamps import parse_time
from headgate.quota import names
from headgate.quota.api.resource_groups import Usage

Object = Mapping[str, Any]

SKEW_S: Final = 10.0
"""The allowed clock skew between the API server, which sets deletion times, and the process that sets reservation
times."""
_ENDED: Final = ("Succeeded", "Failed")


class QuotaReservation(msgspec.Struct, frozen=True, rename="camel"):
    """``workload``: its uid. ``reserved_at``: when its quota was reserved, from its condition; another reservation of
    the same Workload has another time."""

    workload: str
    cluster_queue: str
    local_queue: str
    flavors: Mapping[str, str]
    reserved_at: str = ""


class QuotaPod(msgspec.Struct, frozen=True):
    """A pod that was started with quota and is on a node. ``name`` and ``local_queue`` include the namespace.
    ``began_s``: when its deletion began; ``until_s``: until when workloads wait for it; both None if it does not
    terminate. ``is_wait_limited``: ``until_s`` is the longest allowed wait after ``began_s``, which ends before the
    pod is overdue."""

    uid: str
    name: str
    workload: str
    reserved_s: float
    local_queue: str
    queue: str
    usage: Usage
    began_s: float | None = None
    until_s: float | None = None
    is_wait_limited: bool = False


_decode: Final = msgspec.json.Decoder(QuotaReservation).decode


def reservation_text(workload: Object, pod_set: str) -> str:
    """The annotation for the pods of a pod set of an admitted Workload."""
    status = workload.get("status") or {}
    admission = status.get("admission") or {}
    assignment: Object = next(
        (each for each in admission.get("podSetAssignments") or () if each.get("name") == pod_set), {}
    )
    reserved = conditions.find(status.get("conditions"), names.QUOTA_RESERVED) or {}
    reservation = QuotaReservation(
        str(workload["metadata"].get("uid", "")),
        str(admission.get("clusterQueue", "")),
        str((workload.get("spec") or {}).get("queueName") or ""),
        {name: str(flavor) for name, flavor in sorted((assignment.get("flavors") or {}).items())},
        str(reserved.get("lastTransitionTime") or ""),
    )
    return msgspec.json.encode(reservation).decode()


def read_reservation(pod: Object) -> QuotaReservation | None:
    """None if the annotation is absent or invalid."""
    text = ((pod.get("metadata") or {}).get("annotations") or {}).get(names.QUOTA_RESERVATION)
    if not isinstance(text, str):
        return None
    try:
        return _decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


def read_quota_pod(pod: Object, max_wait_s: float = MAX_TERMINATION_WAIT_S) -> QuotaPod | str | None:
    """The pod as the ledgers count it. None if the pod uses no quota on a node: it was not started with quota, has no
    node, or has ended. A returned string says why the annotation is ignored: users can write it, so it may be
    wrong."""
    found = read_reservation(pod)
    if found is None:
        return None
    metadata, spec = (pod.get(part) or {} for part in ("metadata", "spec"))
    if not spec.get("nodeName") or has_ended(pod):
        return None
    reserved_s = _seconds(found.reserved_at)
    if reserved_s is None:
        return "its time of reservation cannot be read"
    if (metadata.get("labels") or {}).get(names.QUEUE_LABEL) != found.local_queue and controller_of(pod) is None:
        return "the pod has neither the label of the LocalQueue nor a controller"
    namespace = metadata.get("namespace", "")
    usage = {
        (flavor, resource): amount
        for resource, flavor in found.flavors.items()
        if (amount := _amount(pod, resource)) > 0
    }
    deleted_s = _seconds(metadata.get("deletionTimestamp"))
    grace_s = metadata.get("deletionGracePeriodSeconds")
    began_s = None if deleted_s is None else deleted_s - (grace_s if isinstance(grace_s, int) else 0)
    if began_s is not None and reserved_s > began_s + SKEW_S:
        return "its time of reservation is after the deletion of the pod"
    is_wait_limited = deleted_s is not None and began_s is not None and began_s + max_wait_s < deleted_s
    ends_s = began_s + max_wait_s if is_wait_limited and began_s is not None else deleted_s
    return QuotaPod(
        metadata.get("uid", ""),
        f"{namespace}/{metadata.get('name', '')}",
        found.workload,
        reserved_s,
        f"{namespace}/{found.local_queue}",
        found.cluster_queue,
        usage,
        began_s,
        None if ends_s is None else ends_s + OVERDUE_AFTER_S,
        is_wait_limited,
    )


def uses_reservation_of(pod: QuotaPod, workload: Object) -> bool:
    """Whether the pod was started with the quota that the Workload holds now."""
    reserved = conditions.find((workload.get("status") or {}).get("conditions"), names.QUOTA_RESERVED) or {}
    is_same = workload["metadata"].get("uid") == pod.workload
    return is_same and _seconds(reserved.get("lastTransitionTime")) == pod.reserved_s


def _amount(pod: Object, resource: str) -> int:
    if resource == PODS:
        return 1
    found = pod_requests(pod).get(resource)
    return 0 if found is None else units(resource, found)


def _seconds(timestamp: Any) -> float | None:
    parsed = parse_time(timestamp) if isinstance(timestamp, str) else ""
    return None if isinstance(parsed, str) else float(parsed)


class QuotaHolder(msgspec.Struct, frozen=True):
    """A workload with quota. ``order_s``: the time that would order it in its queue if it were pending; ``reserved_s``:
    since when it holds quota. ``cycle_order``: its position among the admissions of a cycle, until the API shows it.
    ``is_waiting``: it has not started yet, because terminating pods still use its quota. ``ends_s``: when its run-time
    limit ends; None if it has none, or has not started. ``grace_s``: how long its pods may run after that.
    ``has_reclaimed``: workloads of other queues were evicted for it. The API does not show that: a restarted engine
    does not know it."""

    key: str
    uid: str
    queue: str
    usage: Usage
    priority: int
    order_s: float
    reserved_s: float
    is_evicted: bool = False
    cycle_order: int = 0
    is_waiting: bool = False
    ends_s: float | None = None
    grace_s: int = 0
    has_reclaimed: bool = False
