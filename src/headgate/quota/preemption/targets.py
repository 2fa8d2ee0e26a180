"""Preemption targets: removes candidates in order until the workload fits, then puts back those that are not needed.

The simulation uses the tree *ahead* (``quota/cache/quota_ledger.py``), where evicted workloads are already gone: no
victim is counted twice, and no workload is evicted because others end slowly. The tree is left unchanged.
"""

from __future__ import annotations

import msgspec

from headgate.quota.api.cohort import FlavorResource
from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.cache.quota_ledger import QuotaLedger, fits
from headgate.quota.cache.quota_tree import QuotaNode
from headgate.quota.flavors.assignment import GranularMode
from headgate.quota.flavors.fungibility import Grade
from headgate.quota.preemption.candidates import Candidates, Preemptor, find_candidates, is_still_eligible


class PreemptionTarget(msgspec.Struct, frozen=True):
    """A workload to evict, and the reason."""

    holder: QuotaHolder
    reason: str


def find_targets(book: QuotaLedger, preemptor: Preemptor) -> tuple[PreemptionTarget, ...]:
    """The fewest that the order of candidates allows; none if all of them together would not do."""
    node = book.ahead.queue(preemptor.queue.name)
    if node is None:
        return ()
    candidates = find_candidates(book, preemptor)
    for may_borrow in _attempts(preemptor, candidates, node):
        taken: list[PreemptionTarget] = []
        found = False
        for candidate in candidates:
            if not is_still_eligible(candidate, preemptor, book, may_borrow):
                continue
            _take(book, candidate.holder, -1)
            taken.append(PreemptionTarget(candidate.holder, candidate.reason))
            if _fits(node, preemptor, may_borrow):
                found = True
                break
        if found:
            _put_back(book, node, preemptor, taken, may_borrow)
        for target in taken:
            _take(book, target.holder, +1)
        if found:
            return tuple(taken)
    return ()


def grade_preemption(book: QuotaLedger, preemptor: Preemptor, fr: FlavorResource, amount: int) -> Grade:
    """Whether preemption could free so much of one resource, and how high the quota would lie then."""
    node = book.ahead.queue(preemptor.queue.name)
    targets = find_targets(book, msgspec.structs.replace(preemptor, usage={fr: amount}, needs=frozenset((fr,))))
    if node is None or not targets:
        return GranularMode.NO_CANDIDATES, 0 if node is None else node.lowest_fitting_height(fr, amount)[0]
    for target in targets:
        _take(book, target.holder, -1)
    borrow, _ = node.lowest_fitting_height(fr, amount)
    for target in targets:
        _take(book, target.holder, +1)
    is_own = any(target.holder.queue == node.name for target in targets)
    return (GranularMode.PREEMPT if is_own else GranularMode.RECLAIM), borrow


def _attempts(preemptor: Preemptor, candidates: Candidates, node: QuotaNode) -> tuple[bool, ...]:
    """Whether the queue may borrow in the end. Without borrowing there are more candidates, with it more room."""
    may_borrow = preemptor.queue.preemption.may_borrow
    has_others = bool(candidates.hierarchy_candidates or candidates.priority_candidates)
    is_under = all(node.usage.get(fr, 0) < node.quota(fr).nominal for fr in preemptor.needs)
    if not has_others or (not may_borrow and not is_under):
        return (True,)
    if not may_borrow and not candidates.hierarchy_candidates:
        return (False, True)
    return (True, False)


def _fits(node: QuotaNode, preemptor: Preemptor, may_borrow: bool) -> bool:
    if not may_borrow and any(node.borrows_with(fr, amount) for fr, amount in preemptor.usage.items()):
        return False
    return fits(node, preemptor.usage)


def _put_back(
    book: QuotaLedger, node: QuotaNode, preemptor: Preemptor, taken: list[PreemptionTarget], may_borrow: bool
) -> None:
    """In reverse order; the last one is needed, or the search would have ended before him."""
    for target in taken[-2::-1]:
        _take(book, target.holder, +1)
        if _fits(node, preemptor, may_borrow):
            taken.remove(target)
        else:
            _take(book, target.holder, -1)


def _take(book: QuotaLedger, holder: QuotaHolder, sign: int) -> None:
    book.simulate_usage(holder.queue, holder.usage, sign)
