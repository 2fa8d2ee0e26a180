"""Who could be evicted to make room for a workload, in the order in which they are tried.

Three kinds, one after the other: those below whom the workload stands closer to the quota they use (it may have it
back whatever their priority, if its queue reclaims at all), those in the cohort that the policy of its queue lets it
outrank, and those in its own queue. In each: lower priority first, then who got quota last. Whoever was told to go
already is not among them. How many of them it takes is ``preemption.py``'s question.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headgate.quota import names
from headgate.quota.cluster_queue import ClusterQueue
from headgate.quota.cohort import FlavorResource, Usage
from headgate.quota.holder import Holder
from headgate.quota.holdings import Holdings
from headgate.quota.tree import Node


class Preemptor(msgspec.Struct, frozen=True):
    """Who needs room: how much in all, and of what there is too little."""

    key: str
    queue: ClusterQueue
    priority: int
    order_s: float
    usage: Usage
    needs: frozenset[FlavorResource]


class Candidate(msgspec.Struct, frozen=True):
    """``meeting``: the cohort that both queues are below; None for the preemptor's own queue. ``may_borrow``: whether
    it may be evicted though the preemptor's queue would borrow."""

    holder: Holder
    reason: str
    meeting: Node | None = None
    may_borrow: bool = True


class Candidates(msgspec.Struct, frozen=True):
    by_place: list[Candidate]
    by_priority: list[Candidate]
    own: list[Candidate]

    def __iter__(self) -> Iterator[Candidate]:
        yield from self.by_place
        yield from self.by_priority
        yield from self.own


def find_candidates(book: Holdings, preemptor: Preemptor) -> Candidates:
    found = Candidates([], [], [])
    node = book.ahead.queue(preemptor.queue.name)
    policy = preemptor.queue.preemption
    if node is None:
        return found
    if policy.within_cluster_queue != names.NEVER:
        for holder in book.users(node.name, preemptor.needs):
            if _yields(policy.within_cluster_queue, preemptor, holder):
                found.own.append(Candidate(holder, names.IN_CLUSTER_QUEUE))
    if policy.reclaim_within_cohort != names.NEVER:
        _collect_above(book, preemptor, node, found)
    for each in (found.by_place, found.by_priority, found.own):
        each.sort(key=_order)
    return found


def is_still_fair(candidate: Candidate, preemptor: Preemptor, book: Holdings, may_borrow: bool) -> bool:
    """A queue gives back what it borrowed, and no more: neither it nor a cohort on the way to where they meet."""
    if candidate.meeting is None:
        return True
    if may_borrow and not candidate.may_borrow:
        return False
    node = book.ahead.queue(candidate.holder.queue)
    while node is not None and node is not candidate.meeting:
        if node.is_within(preemptor.needs):
            return False
        node = node.parent
    return True


def _collect_above(book: Holdings, preemptor: Preemptor, node: Node, found: Candidates) -> None:
    """Cohort by cohort towards the root. Once the request fits what a part of the tree has, everybody outside of that
    part uses what is nearer to the preemptor than to him."""
    is_nearer, left = _fits_own(node, preemptor.usage)
    seen: Node = node
    for meeting in (each for each in node.path() if each is not node):
        into = found.by_place if is_nearer else found.by_priority
        for queue in _borrowers(meeting, seen, preemptor.needs):
            for holder in book.users(queue.name, preemptor.needs):
                candidate = _classify(preemptor, holder, meeting, is_nearer)
                if candidate is not None:
                    into.append(candidate)
        fits, left = _fits_own(meeting, left)
        is_nearer = is_nearer or fits
        seen = meeting


def _borrowers(top: Node, seen: Node, needs: frozenset[FlavorResource]) -> Iterator[Node]:
    """Queues below a cohort that use more than they have, on branches that do so, too; ``seen`` was looked at."""
    for key in sorted(top.children):
        child = top.children[key]
        if child is seen or child.is_within(needs):
            continue
        if child.is_queue:
            yield child
        else:
            yield from _borrowers(child, seen, needs)


def _fits_own(node: Node, usage: Usage) -> tuple[bool, dict[FlavorResource, int]]:
    """Whether it fits what the node has, and what of it is not covered by what the node keeps."""
    fits = not any(node.borrows_with(fr, amount) for fr, amount in usage.items())
    return fits, {fr: max(0, amount - node.kept_free(fr)) for fr, amount in usage.items()}


def _classify(preemptor: Preemptor, holder: Holder, meeting: Node, is_nearer: bool) -> Candidate | None:
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


def _yields(policy: str, preemptor: Preemptor, holder: Holder) -> bool:
    if policy == names.ANY or holder.priority < preemptor.priority:
        return True
    return (
        policy == names.LOWER_OR_NEWER_EQUAL_PRIORITY
        and holder.priority == preemptor.priority
        and preemptor.order_s < holder.order_s
    )


def _order(candidate: Candidate) -> tuple[int, float, int, str]:
    holder = candidate.holder
    return holder.priority, -holder.reserved_s, -holder.turn, holder.uid
