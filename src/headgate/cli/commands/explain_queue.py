"""``headgate explain queue|clusterqueue|localqueue NAME``: whether it admits, how full it is, and who is first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from headgate.capacity.names import QUEUES
from headgate.capacity.queue_explanation import QueueExplanation, explain_queue, known_queue
from headgate.cli.commands.explain_quota import description_lines
from headgate.cli.options.cluster_access import perform
from headgate.cli.options.listing import table_text
from headgate.cli.options.suggestions import closest
from headgate.client.pager import ListRefused
from headgate.http.transport import Transport
from headgate.quota.explain.queue_explanation import (
    QuotaQueueExplanation,
    explain_cluster_queue,
    explain_local_queue,
)
from headgate.runtime.inspection.queues import inspect_queues
from headgate.runtime.inspection.quota import QuotaInspection, inspect_quota
from headgate.runtime.inspection.unavailable import UnavailableResource

QUEUE_KINDS: Final = {
    **dict.fromkeys(("queue", "queues", "q", "queue.scheduling.volcano.sh", "queues.scheduling.volcano.sh"), "queue"),
    **dict.fromkeys(
        ("clusterqueue", "clusterqueues", "cq", "clusterqueue.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io"),
        "clusterqueue",
    ),
    **dict.fromkeys(
        ("localqueue", "localqueues", "lq", "localqueue.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io"), "localqueue"
    ),
}
"""The kinds of queues, by the names that kubectl takes."""
_MAX_HOLDERS: Final = 5


class ExplainedQueue(NamedTuple):
    """``document``: for JSON; ``lines``: for people."""

    document: dict[str, Any]
    lines: list[str]
    unavailable: tuple[UnavailableResource, ...]
    revision: str


async def explain_any_queue(
    transport: Transport,
    kind: str,
    namespace: str,
    name: str,
    served: tuple[str, ...],
    gated: tuple[str, ...],
    now_s: float,
) -> ExplainedQueue | ListRefused:
    """``kind``: one of the values of ``QUEUE_KINDS``."""
    if kind == "queue":
        return await _explain_queue(transport, name, served, gated, now_s)
    quota = await perform(transport, inspect_quota(namespace, now_s))
    found = _explain_quota_queue(quota, kind, namespace, name, now_s)
    if isinstance(found, ListRefused):
        return found
    document = msgspec.to_builtins(found)
    return ExplainedQueue(document, list(quota_lines(found, now_s)), quota.unavailable, quota.revision)


async def _explain_queue(
    transport: Transport, name: str, served: tuple[str, ...], gated: tuple[str, ...], now_s: float
) -> ExplainedQueue | ListRefused:
    found = await perform(transport, inspect_queues(served, gated, now_s))
    if found.is_incomplete or any(each.plural == QUEUES.plural for each in found.unavailable):
        return _missing(found.unavailable)
    if name not in found.specs or not known_queue(found.queues, name):
        return ListRefused(f"there is no Queue {name}{_similar(name, found.specs)}: headgate queues lists them")
    explanation = explain_queue(found.queues, name, found.specs[name].state)
    document = {"kind": "queue", **msgspec.to_builtins(explanation)}
    return ExplainedQueue(document, list(queue_lines(explanation)), found.unavailable, found.revision)


def _explain_quota_queue(
    quota: QuotaInspection, kind: str, namespace: str, name: str, now_s: float
) -> QuotaQueueExplanation | ListRefused:
    if quota.is_absent or not quota.knows_positions:
        return _missing(quota.unavailable)
    if kind == "clusterqueue":
        found = explain_cluster_queue(quota.engine, name, quota.workloads, now_s)
        if found is None:
            similar = _similar(name, quota.engine.cache.queues)
            return ListRefused(f"there is no ClusterQueue {name}{similar}: headgate queues lists them")
        return found
    found = explain_local_queue(quota.engine, f"{namespace}/{name}", quota.workloads, now_s)
    if found is None:
        similar = _similar(f"{namespace}/{name}", quota.engine.cache.local_queues)
        return ListRefused(
            f"there is no LocalQueue {name} in namespace {namespace}{similar}: headgate queues lists them"
        )
    return found


def _missing(unavailable: Sequence[UnavailableResource]) -> ListRefused:
    """An answer without these lists would be wrong."""
    return ListRefused("\n".join(dict.fromkeys(each.line for each in unavailable)))


def _similar(name: str, known: Any) -> str:
    close = closest(name, known)
    return f"; did you mean {close}?" if close else ""


def queue_lines(found: QueueExplanation) -> Iterator[str]:
    yield f"queue {found.name}: {found.summary}"
    facts = [
        f"state {found.state}" if found.state else "",
        f"below {found.parent}" if found.parent else "",
        f"above {', '.join(found.children)}" if found.children else "",
    ]
    if any(facts):
        yield "  " + ", ".join(filter(None, facts))
    if found.usage:
        head = ("RESOURCE", "ALLOCATED", "RESERVED", "LIMIT", "FREE", "DESERVED", "GUARANTEE", "TERMINATING")
        rows = [
            (
                *(each.resource, each.allocated, each.reserved, each.limit or "none", each.free or "-"),
                *(each.deserved or "-", each.guarantee or "-", each.terminating or "-"),
            )
            for each in found.usage
        ]
        yield from (f"  {line}" for line in table_text([head, *rows]).splitlines())
    if found.holders:
        yield f"held by {len(found.holders)} pods; the largest:"
    for holder in found.holders[:_MAX_HOLDERS]:
        amounts = ", ".join(f"{name} {amount}" for name, amount in holder.amounts.items())
        where = f" in queue {holder.queue}" if holder.queue != found.name else ""
        yield f"  pod {holder.pod}{where}: {amounts}" + (
            ", promised and not on a node yet" if holder.is_promised else ""
        )
    if found.waiting_reasons:
        yield "waiting, by reason"
    yield from (f"  {reason}: {count}" for reason, count in found.waiting_reasons.items())
    if found.uncounted:
        yield f"  {found.uncounted} more were not asked"
    for first in found.first:
        where = f" in queue {first.queue}" if first.queue != found.name else ""
        yield f"first in line{where}: pod {first.pod} ({first.reason}): {first.text}"
    yield from _next_lines(found.next)


def quota_lines(found: QuotaQueueExplanation, now_s: float) -> Iterator[str]:
    yield f"{found.kind} {found.name}: {found.summary}"
    row = found.cluster_queue
    if row is not None:
        facts = [
            f"ClusterQueue {row.name}" if found.kind == "localqueue" else "",
            f"cohort {row.cohort}" if row.cohort else "no cohort",
            row.strategy,
            f"{row.reserving} Workloads hold quota, {row.admitted} of them admitted",
        ]
        yield "  " + ", ".join(filter(None, facts))
        head = ("FLAVOR", "RESOURCE", "NOMINAL", "USED", "RESERVED", "BORROWED", "AVAILABLE")
        rows = [
            (each.flavor, each.resource, each.nominal, each.used, each.reserved, each.borrowed or "0", each.available)
            for each in row.flavors
        ]
        if rows:
            yield from (f"  {line}" for line in table_text([head, *rows]).splitlines())
    if found.local_queue is not None and found.local_queue.usage:
        used = ", ".join(f"{each.reserved} {each.resource} in {each.flavor}" for each in found.local_queue.usage)
        yield f"  its own Workloads hold {used}"
    if found.holders:
        yield f"held by {len(found.holders)} Workloads; the largest:"
    for holder in found.holders[:_MAX_HOLDERS]:
        amounts = ", ".join(f"{amount} {what}" for what, amount in holder.amounts.items())
        yield f"  workload {holder.workload}: {amounts}" + (f", {holder.note}" if holder.note else "")
    if found.borrowers:
        yield "borrowed in its cohort by"
    for each in found.borrowers:
        yield f"  ClusterQueue {each.cluster_queue}: {each.borrowed} {each.resource} in {each.flavor}"
    if found.pending_reasons:
        yield "waiting, by reason"
    yield from (f"  {reason}: {count}" for reason, count in found.pending_reasons.items())
    if found.first is not None:
        yield "first in line"
        yield from (f"  {line}" for line in description_lines(found.first, now_s))
    yield from _next_lines(found.next)


def _next_lines(steps: Sequence[str]) -> Iterator[str]:
    if steps:
        yield "next"
    yield from (f"  {step}" for step in steps)
