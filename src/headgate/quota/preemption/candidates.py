"""Preemption candidates: workloads that may be evicted for another one, in the order in which they are tried.

There are three groups, in this order. *Hierarchy candidates* are outside a subtree whose quota covers the preemptor,
and borrow from it. *Priority candidates* are the other borrowers in the cohort; while the preemptor borrows,
``borrowWithinCohort`` must allow them. ``reclaimWithinCohort`` applies to both. *Same-queue candidates* are workloads
of the preemptor's own queue. In each group lower priority comes first, then the latest reservation. Evicted workloads
are left out. ``targets.py`` decides how many are needed.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headgate.quota import names
from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.api.resource_groups import FlavorResource, Usage
from headgate.quota.cache.quota_ledger import QuotaLedger
from headgate.quota.cache.quota_tree import QuotaNode


class Preemptor(msgspec.Struct, frozen=True):
    """The workload that needs quota. ``usage``: what it would use; ``needs``: the resources of which quota is
    missing. ``order_s``: the time that orders it in its queue."""

    key: str
    queue: ClusterQueue
    priority: int
    order_s: float
    usage: Usage
    needs: frozenset[FlavorResource]


class Candidate(msgspec.Struct, frozen=True):
    """``common_cohort``: the lowest cohort above both queues; None for the preemptor's own queue.
    ``allowed_while_borrowing``: it may also be evicted in the attempt in which the preemptor's queue borrows."""

    holder: QuotaHolder
    reason: str
    common_cohort: QuotaNode | None = None
    allowed_while_borrowing: bool = True


class Candidates(msgspec.Struct, frozen=True):
    hierarchy_candidates: list[Candidate]
    priority_candidates: list[Candidate]
    same_queue_candidates: list[Candidate]

    def __iter__(self) -> Iterator[Candidate]:
        yield from self.hierarchy_candidates
        yield from self.priority_candidates
        yield from self.same_queue_candidates


def find_candidates(ledger: QuotaLedger, preemptor: Preemptor) -> Candidates:
    found = Candidates([], [], [])
    node = ledger.after_evictions.queue(preemptor.queue.name)
    policy = preemptor.queue.preemption
    if node is None:
        return found
    if policy.within_cluster_queue != names.NEVER:
        for holder in ledger.users(node.name, preemptor.needs):
            if _may_be_preempted(policy.within_cluster_queue, preemptor, holder):
                found.same_queue_candidates.append(Candidate(holder, names.IN_CLUSTER_QUEUE))
    if policy.reclaim_within_cohort != names.NEVER:
        _collect_above(ledger, preemptor, node, found)
    for each in (found.hierarchy_candidates, found.priority_candidates, found.same_queue_candidates):
        each.sort(key=_order)
    return found


def may_preempt(preemptor: Preemptor, holder: QuotaHolder) -> bool:
    """Whether the policies of the preemptor's queue ever allow to evict this workload for it."""
    policy = preemptor.queue.preemption
    allowed = policy.within_cluster_queue if holder.queue == preemptor.queue.name else policy.reclaim_within_cohort
    return allowed != names.NEVER and _may_be_preempted(allowed, preemptor, holder)


def is_still_eligible(candidate: Candidate, preemptor: Preemptor, ledger: QuotaLedger, with_borrowing: bool) -> bool:
    """Whether the candidate may be evicted in this attempt, and its queue and all cohorts below the common one still
    borrow."""
    if candidate.common_cohort is None:
        return True
    if with_borrowing and not candidate.allowed_while_borrowing:
        return False
    node = ledger.after_evictions.queue(candidate.holder.queue)
    while node is not None and node is not candidate.common_cohort:
        if node.is_within_nominal(preemptor.needs):
            return False
        node = node.parent
    return True


def _collect_above(ledger: QuotaLedger, preemptor: Preemptor, node: QuotaNode, found: Candidates) -> None:
    """Collects candidates, cohort by cohort towards the root. If the request fits in the quota of a subtree, workloads
    outside that subtree are hierarchy candidates: they borrow what the subtree lends."""
    fits_in_subtree, left = _fits_in_quota(node, preemptor.usage)
    searched: QuotaNode = node
    for cohort in (each for each in node.path() if each is not node):
        candidates = found.hierarchy_candidates if fits_in_subtree else found.priority_candidates
        for queue in _borrowers(cohort, searched, preemptor.needs):
            for holder in ledger.users(queue.name, preemptor.needs):
                candidate = _classify(preemptor, holder, cohort, fits_in_subtree)
                if candidate is not None:
                    candidates.append(candidate)
        fits, left = _fits_in_quota(cohort, left)
        fits_in_subtree = fits_in_subtree or fits
        searched = cohort


def _borrowers(cohort: QuotaNode, searched: QuotaNode, needs: frozenset[FlavorResource]) -> Iterator[QuotaNode]:
    """The borrowing queues below ``cohort``. Children that borrow nothing, and ``searched``, are skipped with all below
    them."""
    for key in sorted(cohort.children):
        child = cohort.children[key]
        if child is searched or child.is_within_nominal(needs):
            continue
        if child.is_queue:
            yield child
        else:
            yield from _borrowers(child, searched, needs)


def _fits_in_quota(node: QuotaNode, usage: Usage) -> tuple[bool, dict[FlavorResource, int]]:
    """Whether the usage fits in the node's quota, and the part that its local quota does not cover."""
    fits = not any(node.borrows_with(fr, amount) for fr, amount in usage.items())
    return fits, {fr: max(0, amount - node.local_available(fr)) for fr, amount in usage.items()}


def _classify(preemptor: Preemptor, holder: QuotaHolder, cohort: QuotaNode, fits_in_subtree: bool) -> Candidate | None:
    policy = preemptor.queue.preemption
    if not _may_be_preempted(policy.reclaim_within_cohort, preemptor, holder):
        return None
    if fits_in_subtree:
        return Candidate(holder, names.IN_COHORT_RECLAMATION, cohort)
    threshold = policy.borrow_threshold
    is_low = holder.priority < preemptor.priority and (threshold is None or holder.priority <= threshold)
    if policy.borrow_within_cohort and is_low:
        return Candidate(holder, names.IN_COHORT_RECLAIM_WHILE_BORROWING, cohort)
    return Candidate(holder, names.IN_COHORT_RECLAMATION, cohort, allowed_while_borrowing=False)


def _may_be_preempted(policy: str, preemptor: Preemptor, holder: QuotaHolder) -> bool:
    if policy == names.ANY or holder.priority < preemptor.priority:
        return True
    return (
        policy == names.LOWER_OR_NEWER_EQUAL_PRIORITY
        and holder.priority == preemptor.priority
        and preemptor.order_s < holder.order_s
    )


def _order(candidate: Candidate) -> tuple[int, float, int, str]:
    holder = candidate.holder
    # cycle_order: tie-break within one admission cycle
    return holder.priority, -holder.reserved_s, -holder.cycle_order, holder.uid
