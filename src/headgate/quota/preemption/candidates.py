"""Preemption candidates: workloads that may be evicted for another one, in the order in which they are tried.

There are three groups, in this order: workloads that use quota to which the preemptor's queue has the closer claim in
the hierarchy (reclaimed whatever their priority, if the queue reclaims at all); workloads of the cohort that the
queue's policy lets it preempt by priority; workloads of its own queue. In each group lower priority comes first, then
the latest reservation. Evicted workloads are left out. ``targets.py`` decides how many are needed.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headgate.quota import names
from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.cohort import FlavorResource, Usage
from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.cache.quota_ledger import QuotaLedger
from headgate.quota.cache.quota_tree import QuotaNode


class Preemptor(msgspec.Struct, frozen=True):
    """The workload that needs quota: its usage, and the resources that are short."""

    key: str
    queue: ClusterQueue
    priority: int
    order_s: float
    usage: Usage
    needs: frozenset[FlavorResource]


class Candidate(msgspec.Struct, frozen=True):
    """``common_cohort``: the lowest cohort above both queues; None for the preemptor's own queue. ``may_borrow``:
    whether it may be evicted although the preemptor's queue would borrow."""

    holder: QuotaHolder
    reason: str
    common_cohort: QuotaNode | None = None
    may_borrow: bool = True


class Candidates(msgspec.Struct, frozen=True):
    hierarchy_candidates: list[Candidate]
    priority_candidates: list[Candidate]
    same_queue_candidates: list[Candidate]

    def __iter__(self) -> Iterator[Candidate]:
        yield from self.hierarchy_candidates
        yield from self.priority_candidates
        yield from self.same_queue_candidates


def find_candidates(book: QuotaLedger, preemptor: Preemptor) -> Candidates:
    found = Candidates([], [], [])
    node = book.ahead.queue(preemptor.queue.name)
    policy = preemptor.queue.preemption
    if node is None:
        return found
    if policy.within_cluster_queue != names.NEVER:
        for holder in book.users(node.name, preemptor.needs):
            if _yields(policy.within_cluster_queue, preemptor, holder):
                found.same_queue_candidates.append(Candidate(holder, names.IN_CLUSTER_QUEUE))
    if policy.reclaim_within_cohort != names.NEVER:
        _collect_above(book, preemptor, node, found)
    for each in (found.hierarchy_candidates, found.priority_candidates, found.same_queue_candidates):
        each.sort(key=_order)
    return found


def is_still_eligible(candidate: Candidate, preemptor: Preemptor, book: QuotaLedger, may_borrow: bool) -> bool:
    """A queue gives back what it borrowed, and no more: neither it nor a cohort on the way to where they meet."""
    if candidate.common_cohort is None:
        return True
    if may_borrow and not candidate.may_borrow:
        return False
    node = book.ahead.queue(candidate.holder.queue)
    while node is not None and node is not candidate.common_cohort:
        if node.is_within(preemptor.needs):
            return False
        node = node.parent
    return True


def _collect_above(book: QuotaLedger, preemptor: Preemptor, node: QuotaNode, found: Candidates) -> None:
    """Cohort by cohort towards the root. Once the request fits what a part of the tree has, everybody outside of that
    part uses what is nearer to the preemptor than to him."""
    is_nearer, left = _fits_own(node, preemptor.usage)
    seen: QuotaNode = node
    for meeting in (each for each in node.path() if each is not node):
        into = found.hierarchy_candidates if is_nearer else found.priority_candidates
        for queue in _borrowers(meeting, seen, preemptor.needs):
            for holder in book.users(queue.name, preemptor.needs):
                candidate = _classify(preemptor, holder, meeting, is_nearer)
                if candidate is not None:
                    into.append(candidate)
        fits, left = _fits_own(meeting, left)
        is_nearer = is_nearer or fits
        seen = meeting


def _borrowers(top: QuotaNode, seen: QuotaNode, needs: frozenset[FlavorResource]) -> Iterator[QuotaNode]:
    """Queues below a cohort that use more than they have, on branches that do so, too; ``seen`` was looked at."""
    for key in sorted(top.children):
        child = top.children[key]
        if child is seen or child.is_within(needs):
            continue
        if child.is_queue:
            yield child
        else:
            yield from _borrowers(child, seen, needs)


def _fits_own(node: QuotaNode, usage: Usage) -> tuple[bool, dict[FlavorResource, int]]:
    """Whether it fits what the node has, and what of it is not covered by what the node keeps."""
    fits = not any(node.borrows_with(fr, amount) for fr, amount in usage.items())
    return fits, {fr: max(0, amount - node.local_available(fr)) for fr, amount in usage.items()}


def _classify(preemptor: Preemptor, holder: QuotaHolder, meeting: QuotaNode, is_nearer: bool) -> Candidate | None:
    policy = preemptor.queue.preemption
    if not _yields(policy.reclaim_within_cohort, preemptor, holder):
        return None
    if is_nearer:
        return Candidate(holder, names.IN_COHORT_RECLAMATION, meeting)
    threshold = policy.borrow_threshold
    is_low = holder.priority < preemptor.priority and (threshold is None or holder.priority <= threshold)
    if policy.may_borrow and is_low:
        return Candidate(holder, names.IN_COHORT_RECLAIM_WHILE_BORROWING, meeting)
    return Candidate(holder, names.IN_COHORT_RECLAMATION, meeting, may_borrow=False)


def _yields(policy: str, preemptor: Preemptor, holder: QuotaHolder) -> bool:
    if policy == names.ANY or holder.priority < preemptor.priority:
        return True
    return (
        policy == names.LOWER_OR_NEWER_EQUAL_PRIORITY
        and holder.priority == preemptor.priority
        and preemptor.order_s < holder.order_s
    )


def _order(candidate: Candidate) -> tuple[int, float, int, str]:
    holder = candidate.holder
    return holder.priority, -holder.reserved_s, -holder.cycle_order, holder.uid
