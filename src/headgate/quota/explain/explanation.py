"""Explains why a workload is pending: its position, and per flavor the shortage and the holders.

Explanations are computed on request by the functions that decide; nothing is kept or changed. ``description.py`` turns
them into text.
"""

from __future__ import annotations

import msgspec

from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.cache.quota_ledger import QuotaLedger
from headgate.quota.cycle.line_protection import WorkloadDelay
from headgate.quota.engine import QuotaEngine
from headgate.quota.flavors.assignment import FlavorCandidate
from headgate.quota.queues.queue_manager import PendingReason


class HeldQuota(msgspec.Struct, frozen=True):
    """How much of a quota a workload holds, or waits for while its victims end."""

    key: str
    queue: str
    amount: int
    is_evicted: bool = False
    is_claim: bool = False


class QuotaShortage(msgspec.Struct, frozen=True):
    """A shortage of one resource in one flavor. ``asked``: what the workload requests; ``available``: what the queue
    may use now; ``most``: what it may use if nothing else is in use. ``held_by``: the holders in the whole tree, the
    largest first. ``remedies.py`` finds what would help."""

    flavor: str
    resource: str
    asked: int
    available: int
    most: int
    held_by: tuple[HeldQuota, ...]


class WorkloadExplanation(msgspec.Struct, frozen=True):
    """``position``: how many come before it in its queue; None if it is in none. ``behind``: the head of a StrictFIFO
    queue, if the workload waits for it. ``delay``: if there is quota for it, why it may not get it before the first in
    line of a queue. ``message``: why it gets no quota; if no flavors can be assigned, in Kueue's words."""

    key: str
    state: str
    queue: str = ""
    position: int | None = None
    behind: str = ""
    reason: PendingReason | None = None
    attempts: tuple[tuple[str, FlavorCandidate], ...] = ()
    """Each flavor that was tried, with the name of its pod set."""
    shortages: tuple[QuotaShortage, ...] = ()
    would_evict: tuple[str, ...] = ()
    message: str = ""
    delay: WorkloadDelay | None = None


def explain_workload(engine: QuotaEngine, key: str, now_s: float) -> WorkloadExplanation:
    problem = engine.cache.problems.get(("Workload", key))
    holder, pending = engine.ledger.get(key), engine.queue_manager.get(key)
    if holder is not None:
        return WorkloadExplanation(key, "Evicted" if holder.is_evicted else "QuotaReserved", holder.queue)
    if problem is not None:
        return WorkloadExplanation(key, "SetAside", reason=PendingReason("Misconfigured", problem))
    if pending is None:
        known = engine.workloads.get(key)
        state = "NotFound" if known is None else "Finished" if known.is_finished else "Inadmissible"
        return WorkloadExplanation(key, state, reason=engine.queue_manager.pending_reason(key))
    queue = engine.cache.queues[pending.queue]
    in_order = [each.key for each in engine.queue_manager.pending(pending.queue)]
    found, delay = engine.nominate_pending(pending, now_s)
    asked: dict[FlavorResource, int] = {}
    for pod_set in found.assignment.pod_sets:
        for attempt in (each for group in pod_set.groups for each in group):
            for fr in attempt.short:
                asked[fr] = asked.get(fr, 0) + pod_set.requests[fr[1]]
    return WorkloadExplanation(
        key,
        "Pending",
        pending.queue,
        in_order.index(key),
        in_order[0] if queue.is_strict and in_order[0] != key else "",
        engine.queue_manager.pending_reason(key),
        tuple(
            (pod_set.name, each) for pod_set in found.assignment.pod_sets for group in pod_set.groups for each in group
        ),
        tuple(_shortage(engine.ledger, pending.queue, fr, asked[fr]) for fr in sorted(asked)),
        tuple(target.holder.key for target in found.targets) if delay is None else (),
        found.assignment.message if delay is None else delay.message,
        delay,
    )


def _shortage(ledger: QuotaLedger, queue: str, fr: FlavorResource, asked: int) -> QuotaShortage:
    now, after = ledger.now.queue(queue), ledger.after_evictions.queue(queue)
    available = min((node.available(fr) for node in (now, after) if node is not None), default=0)
    most = 0 if now is None else now.potential_available(fr)
    queues = [] if now is None else [each.name for each in ledger.now.queues_below(now.root)]
    holders = [each for name in queues for each in ledger.held_in(name) if each.usage.get(fr)]
    held = [HeldQuota(each.key, each.queue, each.usage[fr], each.is_evicted) for each in holders]
    held += [
        HeldQuota(key, claim.queue, claim.usage[fr], is_claim=True)
        for key, claim in sorted(ledger.claims().items())
        if claim.queue in queues and claim.usage.get(fr)
    ]
    held.sort(key=lambda each: (-each.amount, each.key))
    return QuotaShortage(*fr, asked, available, most, tuple(held))
