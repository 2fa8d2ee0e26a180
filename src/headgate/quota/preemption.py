"""Who has to go so that a workload fits: candidates are taken away in order until it does, then put back if it still
does without them.

Everything is tried out in the tree *ahead* (``holdings.py``), where whoever was told to go is gone already: no victim
is taken twice, and nobody is taken because others take their time to go. The tree is left as it was found.
"""

from __future__ import annotations

import msgspec

from headgate.quota.assignment import Degree
from headgate.quota.candidates import Candidates, Preemptor, find_candidates, is_still_fair
from headgate.quota.cohort import FlavorResource
from headgate.quota.fungibility import Grade
from headgate.quota.holder import Holder
from headgate.quota.holdings import Holdings, fits
from headgate.quota.tree import Node


class Target(msgspec.Struct, frozen=True):
    """Who is to go, and why he is the one."""

    holder: Holder
    reason: str


def find_targets(book: Holdings, preemptor: Preemptor) -> tuple[Target, ...]:
    """The fewest that the order of candidates allows; none if all of them together would not do."""
    node = book.ahead.queue(preemptor.queue.name)
    if node is None:
        return ()
    candidates = find_candidates(book, preemptor)
    for may_borrow in _attempts(preemptor, candidates, node):
        taken: list[Target] = []
        found = False
        for candidate in candidates:
            if not is_still_fair(candidate, preemptor, book, may_borrow):
                continue
            _take(book, candidate.holder, -1)
            taken.append(Target(candidate.holder, candidate.reason))
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


def grade_preemption(book: Holdings, preemptor: Preemptor, fr: FlavorResource, amount: int) -> Grade:
    """Whether preemption could free so much of one resource, and how high the quota would lie then."""
    node = book.ahead.queue(preemptor.queue.name)
    targets = find_targets(book, msgspec.structs.replace(preemptor, usage={fr: amount}, needs=frozenset((fr,))))
    if node is None or not targets:
        return Degree.NO_CANDIDATES, 0 if node is None else node.lowest_that_has(fr, amount)[0]
    for target in targets:
        _take(book, target.holder, -1)
    borrow, _ = node.lowest_that_has(fr, amount)
    for target in targets:
        _take(book, target.holder, +1)
    is_own = any(target.holder.queue == node.name for target in targets)
    return (Degree.PREEMPT if is_own else Degree.RECLAIM), borrow


def _attempts(preemptor: Preemptor, candidates: Candidates, node: Node) -> tuple[bool, ...]:
    """Whether the queue may borrow in the end. Without borrowing there are more candidates, with it more room."""
    may_borrow = preemptor.queue.preemption.may_borrow
    has_others = bool(candidates.by_place or candidates.by_priority)
    is_under = all(node.usage.get(fr, 0) < node.quota(fr).nominal for fr in preemptor.needs)
    if not has_others or (not may_borrow and not is_under):
        return (True,)
    if not may_borrow and not candidates.by_place:
        return (False, True)
    return (True, False)


def _fits(node: Node, preemptor: Preemptor, may_borrow: bool) -> bool:
    if not may_borrow and any(node.borrows_with(fr, amount) for fr, amount in preemptor.usage.items()):
        return False
    return fits(node, preemptor.usage)


def _put_back(book: Holdings, node: Node, preemptor: Preemptor, taken: list[Target], may_borrow: bool) -> None:
    """In reverse order; the last one is needed, or the search would have ended before him."""
    for target in taken[-2::-1]:
        _take(book, target.holder, +1)
        if _fits(node, preemptor, may_borrow):
            taken.remove(target)
        else:
            _take(book, target.holder, -1)


def _take(book: Holdings, holder: Holder, sign: int) -> None:
    book.shift_ahead(holder.queue, holder.usage, sign)
