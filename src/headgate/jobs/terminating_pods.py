"""Reports pods that still terminate although their quota is released, and those that do so for too long.

Quota is released when pods begin to terminate (Kueue's KEP-6143), so a pod that does not end uses a node that other
pods have quota for. This controller reads the quota of a pod from its annotation (``quota/api/quota_reservation.py``),
so pods of jobs count, too. It keeps the metrics of ``metrics.py``, and emits an Event about a pod that terminates
longer than its grace period and a configurable time. It changes no pod: ``failure_recovery.py`` may delete it by force.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import EmitEvent
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    WatchSpec,
)
from headgate.controllers.ownership.pods import is_finished, seconds
from headgate.jobs.metrics import JobMetrics
from headgate.jobs.names import COMPONENT
from headgate.jobs.settings import REPORT_TERMINATING_AFTER_S
from headgate.kube import conditions
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.timestamps import format_time
from headgate.quota.api.quota_reservation import read_reservation
from headgate.quota.kinds.names import WORKLOADS
from headgate.quota.names import QUOTA_RESERVED

Object = dict[str, Any]

REASON: Final = "TerminatingTooLong"
_POD_FIELDS: Final = frozenset(
    {
        "metadata.annotations",
        "metadata.deletionTimestamp",
        "metadata.deletionGracePeriodSeconds",
        "spec.nodeName",
        "status.phase",
    }
)


class _TerminatingPod(msgspec.Struct, frozen=True):
    """A terminating pod on a node. ``workload``: the uid of the Workload whose quota it was started with;
    ``reserved_s``: when that was reserved. ``ends_s``: its deletion timestamp, the end of its grace period."""

    namespace: str
    name: str
    uid: str
    node: str
    workload: str
    reserved_s: float
    began_s: float
    ends_s: float


class TerminatingPodsController(Controller):
    name = "terminating pods"

    def __init__(self, metrics: JobMetrics, report_after_s: float = REPORT_TERMINATING_AFTER_S) -> None:
        """``report_after_s``: how long after the end of its grace period a pod is reported."""
        self._metrics: Final = metrics
        self._report_after_s: Final = report_after_s
        self._pods: Final[dict[str, _TerminatingPod]] = {}
        self._pods_of: Final[dict[str, dict[str, None]]] = {}  # by the uid of the Workload
        self._reserved_s: Final[dict[str, float]] = {}  # of Workloads with quota, by uid
        self._reported: Final[set[str]] = set()
        self._served: frozenset[APIResource] = frozenset()

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._served = frozenset(row.resource for row in served.by_name.values())
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        if WORKLOADS not in self._served:
            return ()
        return WatchSpec(PODS, _POD_FIELDS), WatchSpec(WORKLOADS, frozenset({"status.conditions"}))

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        uid = obj["metadata"]["uid"]
        if resource == WORKLOADS:
            return self._set_reserved(uid, _reserved_s(obj))
        pod, known = _read(obj), self._pods.get(uid)
        if pod is None:
            return self._forget(uid)
        if known is not None:
            # A second deletion with a shorter grace period does not change when the first one began.
            pod = msgspec.structs.replace(pod, began_s=min(pod.began_s, known.began_s))
            if pod == known:
                return ()
            self._drop(known)
        self._pods[uid] = pod
        self._pods_of.setdefault(pod.workload, {})[uid] = None
        return (Enqueue(uid),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        return self._set_reserved(uid, None) if resource == WORKLOADS else self._forget(uid)

    def _set_reserved(self, uid: str, reserved_s: float | None) -> Iterable[Enqueue]:
        if self._reserved_s.get(uid) == reserved_s:
            return ()
        self._reserved_s.pop(uid, None)
        if reserved_s is not None:
            self._reserved_s[uid] = reserved_s
        return [Enqueue(each) for each in self._pods_of.get(uid, ())]

    def _forget(self, uid: str) -> Iterable[Enqueue]:
        known = self._pods.get(uid)
        if known is not None:
            self._drop(known)
            self._reported.discard(uid)
            self._metrics.pod_gone(uid)
        return ()

    def _drop(self, pod: _TerminatingPod) -> None:
        del self._pods[pod.uid]
        del self._pods_of[pod.workload][pod.uid]
        if not self._pods_of[pod.workload]:
            del self._pods_of[pod.workload]

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        pod = self._pods.get(key)
        if pod is None or self._reserved_s.get(pod.workload) == pod.reserved_s:
            self._metrics.pod_gone(key)
            return Done()
        report_s = pod.ends_s + self._report_after_s
        self._metrics.pod_terminating(key, pod.began_s, pod.ends_s if now_s >= report_s else None)
        if now_s < report_s:
            return RequeueAfter(report_s - now_s)
        if key not in self._reported:
            self._reported.add(key)
            yield _event(pod)
        return Done()


def _read(obj: Object) -> _TerminatingPod | None:
    """None if the pod does not terminate, uses no node, or was not started with quota."""
    metadata = obj["metadata"]
    ends_s = seconds(metadata.get("deletionTimestamp"))
    node = (obj.get("spec") or {}).get("nodeName") or ""
    if ends_s is None or not node or is_finished(obj):
        return None
    reservation = read_reservation(obj)
    reserved_s = None if reservation is None else seconds(reservation.reserved_at)
    if reservation is None or reserved_s is None:
        return None
    grace_s = metadata.get("deletionGracePeriodSeconds") or 0
    return _TerminatingPod(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        node,
        reservation.workload,
        reserved_s,
        ends_s - grace_s,
        ends_s,
    )


def _reserved_s(workload: Object) -> float | None:
    """When the quota was reserved that the Workload holds; None if it holds none."""
    found = conditions.find((workload.get("status") or {}).get("conditions"), QUOTA_RESERVED) or {}
    return seconds(found.get("lastTransitionTime")) if found.get("status") == "True" else None


def _event(pod: _TerminatingPod) -> EmitEvent:
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
    }
    message = (
        f"The pod still terminates on node {pod.node}, its grace period ended at {format_time(pod.ends_s)}, and its "
        f"quota is released: other workloads may have it already. Look at the kubelet of the node and at the volumes "
        f"of the pod"
    )
    return EmitEvent(reference, "Warning", REASON, message, COMPONENT)
