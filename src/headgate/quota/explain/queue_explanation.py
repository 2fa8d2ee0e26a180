"""Explains a ClusterQueue or a LocalQueue: whether it admits Workloads, how full it is, which Workloads hold its quota
and the quota of its cohort, and which Workload is first, why it waits, and what would help it.

The first Workload is described as ``description.py`` describes it for itself: what is said to help was found by dry
runs. ``queue_list.py`` has the amounts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.kube.resource_amounts import amount_text
from headgate.quota import names
from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.api.workload import Workload
from headgate.quota.engine import QuotaEngine
from headgate.quota.explain.description import WorkloadDescription, describe_workload
from headgate.quota.explain.queue_list import (
    ListedClusterQueue,
    LocalQueueRow,
    cluster_queue_rows,
    local_queue_row,
    pending_workloads,
)

JSONObject = Mapping[str, Any]
"""An API object, or a part of one, as decoded JSON."""
_FIXES: Final[Mapping[str, str]] = {
    "Stopped": "spec.stopPolicy of ClusterQueue {name} has to be set to None: kubectl patch clusterqueue {name} "
    """--type merge -p '{{"spec":{{"stopPolicy":"None"}}}}'""",
    "Terminating": "its deletion waits for Workloads with quota to end",
    "FlavorNotFound": "the missing ResourceFlavors have to be created",
    "AdmissionCheckNotFound": "the missing AdmissionChecks have to be created",
    "AdmissionCheckInactive": "the controllers of the inactive AdmissionChecks have to run",
    "CohortCycle": "spec.parentName of one of these Cohorts has to be changed",
    "Invalid": "its spec has to be corrected: kubectl edit clusterqueue {name}",
}


_START: Final = """'{"spec":{"stopPolicy":"None"}}'"""


class QuotaHolderRow(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """``amounts``: text by ``resource in flavor``. ``note``: if it is being evicted, or has not started."""

    workload: str
    cluster_queue: str
    amounts: Mapping[str, str]
    note: str = ""


class BorrowingQueue(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A ClusterQueue of the same cohort that uses more than its nominal quota."""

    cluster_queue: str
    flavor: str
    resource: str
    borrowed: str


class QuotaQueueExplanation(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """``cluster_queue``: also of a LocalQueue. ``full``: flavors and resources without available quota.
    ``holders``: the largest first; of a LocalQueue, its own Workloads. ``borrowers``: other queues that use quota of
    the cohort beyond their own. ``pending_reasons``: how many pending Workloads have which reason. ``first``: the first
    in line; None if none is in line."""

    kind: str
    name: str
    summary: str
    admits: bool
    cluster_queue: ListedClusterQueue | None = None
    local_queue: LocalQueueRow | None = None
    full: tuple[str, ...] = ()
    holders: tuple[QuotaHolderRow, ...] = ()
    borrowers: tuple[BorrowingQueue, ...] = ()
    pending_reasons: Mapping[str, int] = {}
    first: WorkloadDescription | None = None
    next: tuple[str, ...] = ()


def explain_cluster_queue(
    engine: QuotaEngine, name: str, workloads: Mapping[str, JSONObject], now_s: float
) -> QuotaQueueExplanation | None:
    """``workloads``: wire objects by namespace/name. None if there is no such queue."""
    row = next((each for each in cluster_queue_rows(engine) if each.name == name), None)
    if row is None:
        return None
    full = tuple(
        f"{each.resource} in {each.flavor}"
        for each in row.flavors
        if each.available == "0" or each.available.startswith("-")
    )
    first = _first(engine, name, "", workloads, now_s)
    admits = row.state == "Active"
    return QuotaQueueExplanation(
        "clusterqueue",
        name,
        _summary(row, full),
        admits,
        cluster_queue=row,
        full=full,
        holders=tuple(_holders(engine, name)),
        borrowers=tuple(_borrowers(engine, name)),
        pending_reasons=dict(sorted(_pending_reasons(engine, name, "").items())),
        first=first,
        next=_steps(first) if admits else (_FIXES[row.state].format(name=name),),
    )


def explain_local_queue(
    engine: QuotaEngine, key: str, workloads: Mapping[str, JSONObject], now_s: float
) -> QuotaQueueExplanation | None:
    """``key``: namespace/name. None if there is no such queue."""
    row = local_queue_row(engine, key)
    if row is None:
        return None
    above = explain_cluster_queue(engine, row.cluster_queue, workloads, now_s)
    waits = _workloads_wait(row.pending or 0)
    admits = row.state == "Active"
    first = _first(engine, row.cluster_queue, key, workloads, now_s)
    if admits:
        full = f"; ClusterQueue {row.cluster_queue}: {above.summary}" if above is not None else ""
        summary, steps = f"it admits Workloads; {waits}{full}", _steps(first)
    else:
        summary = f"it admits no Workloads ({row.state}); {waits}"
        steps = _local_fixes(row, above)
    return QuotaQueueExplanation(
        "localqueue",
        key,
        summary,
        admits,
        local_queue=row,
        cluster_queue=None if above is None else above.cluster_queue,
        full=() if above is None else above.full,
        holders=tuple(each for each in _holders(engine, row.cluster_queue) if _queue_key(engine, each.workload) == key),
        pending_reasons=dict(sorted(_pending_reasons(engine, row.cluster_queue, key).items())),
        first=first,
        next=steps,
    )


def _local_fixes(row: LocalQueueRow, above: QuotaQueueExplanation | None) -> tuple[str, ...]:
    if row.state == "Stopped":
        patch = """--type merge -p '{"spec":{"stopPolicy":"None"}}'"""
        return (
            f"spec.stopPolicy has to be set to None: kubectl -n {row.namespace} patch localqueue {row.name} {patch}",
        )
    if row.state == "ClusterQueueDoesNotExist":
        return (f"ClusterQueue {row.cluster_queue} has to be created, or the LocalQueue has to name another one",)
    if row.state == "Terminating" or above is None:
        return ("it is being deleted; its Workloads need another LocalQueue",)
    return above.next


def _summary(row: ListedClusterQueue, full: tuple[str, ...]) -> str:
    waits = _workloads_wait(row.pending or 0)
    if row.state != "Active":
        return f"it admits no Workloads: {row.message or row.state}; {waits}"
    if full:
        return f"it has no free quota for {', '.join(full)}; {waits}"
    return f"it admits Workloads; {waits}"


def _workloads_wait(pending: int) -> str:
    return "1 Workload waits" if pending == 1 else f"{pending} Workloads wait"


def _steps(first: WorkloadDescription | None) -> tuple[str, ...]:
    if first is None:
        return ()
    return tuple(f"for workload {first.namespace}/{first.name}: {step}" for step in first.next)


def _first(
    engine: QuotaEngine, cluster_queue: str, local_queue: str, workloads: Mapping[str, JSONObject], now_s: float
) -> WorkloadDescription | None:
    """The first Workload in line. ``local_queue``: only those of this LocalQueue; empty for all."""
    for pending in engine.queue_manager.pending(cluster_queue):
        if local_queue in ("", pending.workload.queue_key) and pending.key in workloads:
            return describe_workload(engine, workloads[pending.key], True, now_s)
    return None


def _holders(engine: QuotaEngine, name: str) -> Iterator[QuotaHolderRow]:
    """The Workloads that hold quota of the queue, those with the largest part of a nominal quota first."""
    queue = engine.cache.queues.get(name)
    nominal = {} if queue is None else {fr: quota.nominal for fr, quota in queue.quotas.items()}

    def part(usage: Mapping[FlavorResource, int]) -> float:
        return max((amount / max(nominal.get(fr, 0), 1) for fr, amount in usage.items()), default=0.0)

    for holder in sorted(engine.ledger.held_in(name), key=lambda each: (-part(each.usage), each.key)):
        amounts = {
            f"{resource} in {flavor}": amount_text(resource, amount)
            for (flavor, resource), amount in sorted(holder.usage.items())
            if amount
        }
        note = "being evicted" if holder.is_evicted else "waits to start" if holder.is_waiting else ""
        yield QuotaHolderRow(holder.key, name, amounts, note)


def _borrowers(engine: QuotaEngine, name: str) -> Iterator[BorrowingQueue]:
    node = engine.ledger.now.queue(name)
    queue = engine.cache.queues.get(name)
    if node is None or node.parent is None or queue is None:
        return
    for other in sorted(engine.ledger.now.queues_below(node.root), key=lambda each: each.name):
        if other.name == name:
            continue
        for fr in sorted(set(queue.quotas) & set(other.usage)):
            borrowed = other.usage[fr] - other.quota(fr).nominal
            if borrowed > 0:
                yield BorrowingQueue(other.name, *fr, amount_text(fr[1], borrowed))


def _pending_reasons(engine: QuotaEngine, cluster_queue: str, local_queue: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for workload in pending_workloads(engine):
        local = engine.cache.local_queues.get(workload.queue_key)
        if local is None or local.cluster_queue != cluster_queue or local_queue not in ("", local.key):
            continue
        found[_reason(engine, workload)] += 1
    return found


def _reason(engine: QuotaEngine, workload: Workload) -> str:
    if not workload.is_active:
        return "Deactivated"
    if workload.gates:
        return "Gated"
    if engine.queue_manager.get(workload.key) is not None:
        return "InLine"
    shown = engine.queue_manager.pending_reason(workload.key)
    condition = workload.conditions.get(names.QUOTA_RESERVED)
    if shown is not None and shown.reason:
        return shown.reason
    return condition.reason if condition is not None and condition.reason else "Inadmissible"


def _queue_key(engine: QuotaEngine, key: str) -> str:
    workload = engine.workloads.get(key)
    return "" if workload is None else workload.queue_key
