"""Which of two ways to get a flavor is the better one, and whether to look at the next flavor at all.

A grade is a degree and how high in the tree the quota lies. What a queue prefers, to borrow or to preempt, is told by
its ``flavorFungibility``.
"""

from __future__ import annotations

from typing import Final

from headgate.quota import names
from headgate.quota.assignment import Degree
from headgate.quota.cluster_queue import Fungibility

Grade = tuple[Degree, int]
BEST: Final[Grade] = (Degree.FIT, 0)
WORST: Final[Grade] = (Degree.NO_FIT, 1 << 30)

_HOPELESS: Final = (Degree.NO_FIT, Degree.NO_CANDIDATES)
_AT_OTHERS_COST: Final = (Degree.PREEMPT, Degree.RECLAIM, Degree.DEFERRED)


def is_better(one: Grade, other: Grade, fungibility: Fungibility) -> bool:
    """A way that leads nowhere in this attempt loses to any that does, whatever is preferred."""
    if one[0] == Degree.NO_FIT or other[0] == Degree.NO_FIT:
        return one[0] != Degree.NO_FIT
    if (one[0] == Degree.NO_CANDIDATES) is not (other[0] == Degree.NO_CANDIDATES):
        return other[0] == Degree.NO_CANDIDATES
    ranks = ((-one[0], one[1]), (-other[0], other[1]))
    if fungibility.preference == names.PREEMPTION_OVER_BORROWING:
        ranks = ((one[1], -one[0]), (other[1], -other[0]))
    return ranks[0] < ranks[1]


def goes_on(grade: Grade, fungibility: Fungibility) -> bool:
    """Whether the next flavor is looked at."""
    degree, borrow = grade
    if degree in _HOPELESS:
        return True
    if degree in _AT_OTHERS_COST and fungibility.when_can_preempt == names.TRY_NEXT_FLAVOR:
        return True
    return borrow > 0 and fungibility.when_can_borrow == names.TRY_NEXT_FLAVOR
