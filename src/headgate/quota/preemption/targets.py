"""Preemption targets: removes candidates in order until the workload fits, then puts back those that are not needed.

The simulation uses the tree ``after_evictions`` (``quota/cache/quota_ledger.py``), where evicted workloads are already
gone: no victim is counted twice, and no further workload is evicted while the first ones end. The tree is left
unchanged.
"""

from __future__ import annotations

import msgspec

from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.cache.quota_ledger import QuotaLedger, fits
from headgate.quota.cache.quota_tree import QuotaNode
from headgate.quota.flavors.assignment import GranularMode
from headgate.quota.flavors.fungibility import Grade
from headgate.quota.preemption.candidates import Candidates, Preemptor, find_candidates, is_still_eligible


class PreemptionTarget(msgspec.Struct, frozen=True):
    """A workload to evict, and the reason."""

    holder: QuotaHolder
    reason: str


def find_targets(ledger: QuotaLedger, preemptor: Preemptor) -> tuple[PreemptionTarget, ...]:
    """The fewest targets that the order of candidates allows; none if all candidates together are not enough.

    Quota that a workload reclaimed from other queues is not turned into borrowed quota: a preemptor that would borrow
    evicts no workload of its own queue that reclaimed its quota. Otherwise two queues could evict each other's
    borrowers for ever."""
    node = ledger.after_evictions.queue(preemptor.queue.name)
    if node is None:
        return ()
    candidates = find_candidates(ledger, preemptor)
    targets = _search(ledger, preemptor, node, candidates)
    own = [each for each in candidates.same_queue_candidates if not each.holder.has_reclaimed]
    if len(own) < len(candidates.same_queue_candidates) and _borrows_reclaimed(ledger, preemptor, node, targets):
        return _search(ledger, preemptor, node, msgspec.structs.replace(candidates, same_queue_candidates=own))
    return targets


def _borrows_reclaimed(
    ledger: QuotaLedger, preemptor: Preemptor, node: QuotaNode, targets: tuple[PreemptionTarget, ...]
) -> bool:
    """Whether a target of the preemptor's own queue reclaimed its quota, and the queue borrows afterwards."""
    if not any(target.holder.queue == node.name and target.holder.has_reclaimed for target in targets):
        return False
    for target in targets:
        _simulate(ledger, target.holder, -1)
    borrows = any(node.borrows_with(fr, amount) for fr, amount in preemptor.usage.items())
    for target in targets:
        _simulate(ledger, target.holder, +1)
    return borrows


def _search(
    ledger: QuotaLedger, preemptor: Preemptor, node: QuotaNode, candidates: Candidates
) -> tuple[PreemptionTarget, ...]:
    for with_borrowing in _borrow_options(preemptor, candidates, node):
        targets: list[PreemptionTarget] = []
        found = False
        for candidate in candidates:
            if not is_still_eligible(candidate, preemptor, ledger, with_borrowing):
                continue
            _simulate(ledger, candidate.holder, -1)
            targets.append(PreemptionTarget(candidate.holder, candidate.reason))
            if _fits(node, preemptor, with_borrowing):
                found = True
                break
        if found:
            _fill_back(ledger, node, preemptor, targets, with_borrowing)
        for target in targets:
            _simulate(ledger, target.holder, +1)
        if found:
            return tuple(targets)
    return ()


def grade_preemption(ledger: QuotaLedger, preemptor: Preemptor, fr: FlavorResource, amount: int) -> Grade:
    """The mode in which preemption could free the amount, and the height in the tree of the quota."""
    node = ledger.after_evictions.queue(preemptor.queue.name)
    targets = find_targets(ledger, msgspec.structs.replace(preemptor, usage={fr: amount}, needs=frozenset((fr,))))
    if node is None or not targets:
        return GranularMode.NO_CANDIDATES, 0 if node is None else node.lowest_fitting_height(fr, amount)[0]
    for target in targets:
        _simulate(ledger, target.holder, -1)
    borrow, _ = node.lowest_fitting_height(fr, amount)
    for target in targets:
        _simulate(ledger, target.holder, +1)
    is_own = any(target.holder.queue == node.name for target in targets)
    return (GranularMode.PREEMPT if is_own else GranularMode.RECLAIM), borrow


def _borrow_options(preemptor: Preemptor, candidates: Candidates, node: QuotaNode) -> tuple[bool, ...]:
    """Whether the queue may borrow after the preemption: both options, in order. Without borrowing there are more
    candidates; with it there is more quota."""
    borrow_within_cohort = preemptor.queue.preemption.borrow_within_cohort
    has_others = bool(candidates.hierarchy_candidates or candidates.priority_candidates)
    is_under_nominal = all(node.usage.get(fr, 0) < node.quota(fr).nominal for fr in preemptor.needs)
    if not has_others or (not borrow_within_cohort and not is_under_nominal):
        return (True,)
    if not borrow_within_cohort and not candidates.hierarchy_candidates:
        return (False, True)
    return (True, False)


def _fits(node: QuotaNode, preemptor: Preemptor, with_borrowing: bool) -> bool:
    if not with_borrowing and any(node.borrows_with(fr, amount) for fr, amount in preemptor.usage.items()):
        return False
    return fits(node, preemptor.usage)


def _fill_back(
    ledger: QuotaLedger, node: QuotaNode, preemptor: Preemptor, targets: list[PreemptionTarget], with_borrowing: bool
) -> None:
    """Puts back targets that are not needed, in reverse order. The last one is needed: with it the search ended."""
    for target in targets[-2::-1]:
        _simulate(ledger, target.holder, +1)
        if _fits(node, preemptor, with_borrowing):
            targets.remove(target)
        else:
            _simulate(ledger, target.holder, -1)


def _simulate(ledger: QuotaLedger, holder: QuotaHolder, sign: int) -> None:
    ledger.simulate_usage(holder.queue, holder.usage, sign)
