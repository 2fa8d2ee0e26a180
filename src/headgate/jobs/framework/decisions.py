"""Starts and stops of jobs and pods that were written, for the log. The controllers of jobs and pods report them."""

from __future__ import annotations

from typing import Any

from headgate.controllers.ownership.pods import seconds
from headgate.jobs.framework.job_writes import PlannedWrite
from headgate.jobs.framework.workload import queue_of
from headgate.kube import conditions
from headgate.kube.decisions import Decision, Verb
from headgate.quota.names import ADMITTED, WAITING_FOR_TERMINATING_PODS

Object = dict[str, Any]


def written_decision(
    kind: str, obj: Object, planned: PlannedWrite, workload: Object | None, now_s: float
) -> Decision | None:
    """The decision of a write that succeeded; None if it neither starts nor stops the object. A pod starts when its
    gate is removed. ``workload``: the admitted Workload, if there is one."""
    stopped = next((each.message for each in planned.events if each.reason == "Stopped"), None)
    if not planned.starts and stopped is None:
        return None
    status = (workload or {}).get("status") or {}
    admitted_s = startable_s(status)
    verb: Verb = "stopped" if not planned.starts else "gate removed" if kind == "Pod" else "started"
    return _decision(
        verb,
        kind,
        obj,
        cluster_queue=str((status.get("admission") or {}).get("clusterQueue", "")),
        message=stopped or "",
        duration_seconds=None if admitted_s is None or not planned.starts else max(now_s - admitted_s, 0.0),
    )


def rejected_start(kind: str, obj: Object, message: str) -> Decision:
    """The API server rejected the start of an admitted job or pod."""
    return _decision("refused", kind, obj, reason="FailedToStart", message=message)


def startable_s(status: Object) -> float | None:
    """The time from which the pods of a Workload could start: that of the admission, or the end of the wait for
    terminating pods if that is later."""
    found = (conditions.find(status.get("conditions"), each) or {} for each in (ADMITTED, WAITING_FOR_TERMINATING_PODS))
    known = [since_s for each in found if (since_s := seconds(each.get("lastTransitionTime"))) is not None]
    return max(known, default=None)


def _decision(
    verb: Verb,
    kind: str,
    obj: Object,
    *,
    cluster_queue: str = "",
    reason: str = "",
    message: str = "",
    duration_seconds: float | None = None,
) -> Decision:
    metadata = obj["metadata"]
    return Decision(
        verb=verb,
        kind=kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        queue=queue_of(obj),
        cluster_queue=cluster_queue,
        reason=reason,
        message=message,
        duration_seconds=duration_seconds,
    )
