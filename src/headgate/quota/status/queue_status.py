"""The status of ClusterQueues and LocalQueues: active condition, pending counts, and usage.

It is computed from the quota engine and the workload counters when the status of a queue is due, and written only if it
differs from the status that the API shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.kube import conditions
from headgate.kube.resource_amounts import amount_text
from headgate.kube.timestamps import format_time
from headgate.quota import names
from headgate.quota.api.cluster_queue import ActiveCondition
from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.engine import QuotaEngine
from headgate.quota.status.workload_counters import WorkloadCounters

Object = dict[str, Any]

_UNKNOWN: Final = ActiveCondition(False, "Invalid", "Can't admit new workloads: it cannot be read.")
_LOCAL_READY: Final = ActiveCondition(True, "Ready", "Can submit new workloads to localQueue")
_LOCAL_STOPPED: Final = ActiveCondition(False, "Stopped", "LocalQueue is stopped")
_NO_CLUSTER_QUEUE: Final = ActiveCondition(
    False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
)
_CLUSTER_QUEUE_INACTIVE: Final = ActiveCondition(
    False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
)


def cluster_queue_status(engine: QuotaEngine, counters: WorkloadCounters, queue: Object, now_s: float) -> Object:
    name = queue["metadata"]["name"]
    problem = engine.cache.problems.get(("ClusterQueue", name))
    activity = engine.cache.activity.get(name)
    if activity is None:
        activity = ActiveCondition(False, "Invalid", f"Can't admit new workloads: {problem}.") if problem else _UNKNOWN
    counts = counters.counts(("cluster queue", name))
    node = engine.ledger.now.queue(name)
    known = engine.cache.queues.get(name)
    quotas = {fr: quota.nominal for fr, quota in known.quotas.items()} if known is not None else {}
    has_cohort = node is not None and node.parent is not None  # without a cohort a queue borrows nothing

    def borrowed(fr: FlavorResource, used: int) -> int:
        return max(used - quotas.get(fr, 0), 0) if has_cohort else 0

    return {
        "conditions": _active(queue, activity, now_s),
        "pendingWorkloads": counts.states["waiting"],
        "reservingWorkloads": counts.holding,
        "admittedWorkloads": counts.states["admitted"],
        "flavorsReservation": _usage(quotas, counts.reserved, borrowed),
        "flavorsUsage": _usage(quotas, counts.admitted, borrowed),
    }


def local_queue_status(engine: QuotaEngine, counters: WorkloadCounters, queue: Object, now_s: float) -> Object:
    metadata = queue["metadata"]
    key = f"{metadata['namespace']}/{metadata['name']}"
    local = engine.cache.local_queues.get(key)
    activity = _NO_CLUSTER_QUEUE
    cluster_queue_activity = None if local is None else engine.cache.activity.get(local.cluster_queue)
    if local is not None and local.stop_policy != names.NONE:
        activity = _LOCAL_STOPPED
    elif cluster_queue_activity is not None:
        activity = _LOCAL_READY if cluster_queue_activity.is_active else _CLUSTER_QUEUE_INACTIVE
    known = None if local is None else engine.cache.queues.get(local.cluster_queue)
    listed = dict.fromkeys(known.quotas, 0) if known is not None else {}
    counts = counters.counts(("local queue", key))
    return {
        "conditions": _active(queue, activity, now_s),
        "pendingWorkloads": counts.states["waiting"],
        "reservingWorkloads": counts.holding,
        "admittedWorkloads": counts.states["admitted"],
        "flavorsReservation": _usage(listed, counts.reserved),
        "flavorsUsage": _usage(listed, counts.admitted),
    }


def differs(queue: Object, status: Object) -> bool:
    """Whether the status of the queue object differs from this one."""
    known = queue.get("status") or {}
    return any(known.get(field) != value for field, value in status.items())


def _active(queue: Object, activity: ActiveCondition, now_s: float) -> list[Object]:
    known = (queue.get("status") or {}).get("conditions")
    new = {
        "type": "Active",
        "status": "True" if activity.is_active else "False",
        "reason": activity.reason,
        "message": activity.message,
        "observedGeneration": queue["metadata"].get("generation", 0),
    }
    return conditions.with_condition(known, new, format_time(now_s))


def _usage(
    listed: Mapping[FlavorResource, int], amounts: Mapping[FlavorResource, int], borrowed: Any = None
) -> list[Object]:
    """Every flavor that the queue lists, in its order, with its resources by name, used or not."""
    found: dict[str, list[Object]] = {}
    for flavor, resource in listed:
        used = amounts.get((flavor, resource), 0)
        row: Object = {"name": resource, "total": amount_text(resource, used)}
        if borrowed is not None:
            row["borrowed"] = amount_text(resource, borrowed((flavor, resource), used))
        found.setdefault(flavor, []).append(row)
    return [{"name": flavor, "resources": sorted(rows, key=_name)} for flavor, rows in found.items()]


def _name(row: Object) -> str:
    return str(row["name"])
