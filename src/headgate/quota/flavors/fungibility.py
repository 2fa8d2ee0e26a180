"""Compares two ways to get a flavor, and decides whether to try the next flavor.

A *grade* is the mode in which a flavor is available, and the height in the cohort tree at which its quota is available
(0: in the queue itself). The ``flavorFungibility`` of the queue says
whether it prefers to borrow or to preempt.
"""

from __future__ import annotations

from typing import Final

from headgate.quota import names
from headgate.quota.api.cluster_queue import Fungibility
from headgate.quota.flavors.assignment import GranularMode

Grade = tuple[GranularMode, int]
"""The mode in which a flavor is available, and the height in the cohort tree of its quota."""
BEST: Final[Grade] = (GranularMode.FIT, 0)
WORST: Final[Grade] = (GranularMode.NO_FIT, 1 << 30)

_UNUSABLE: Final = (GranularMode.NO_FIT, GranularMode.NO_CANDIDATES)
_NEEDS_RELEASE: Final = (GranularMode.PREEMPT, GranularMode.RECLAIM, GranularMode.DEFERRED)


def is_better(one: Grade, other: Grade, fungibility: Fungibility) -> bool:
    """Whether a grade is better than another. A usable grade is always better than an unusable one."""
    if one[0] == GranularMode.NO_FIT or other[0] == GranularMode.NO_FIT:
        return one[0] != GranularMode.NO_FIT
    if (one[0] == GranularMode.NO_CANDIDATES) is not (other[0] == GranularMode.NO_CANDIDATES):
        return other[0] == GranularMode.NO_CANDIDATES
    ranks = ((-one[0], one[1]), (-other[0], other[1]))
    if fungibility.preference == names.PREEMPTION_OVER_BORROWING:
        ranks = ((one[1], -one[0]), (other[1], -other[0]))
    return ranks[0] < ranks[1]


def tries_next_flavor(grade: Grade, fungibility: Fungibility) -> bool:
    """Whether the search continues with the next flavor."""
    mode, borrow = grade
    if mode in _UNUSABLE:
        return True
    if mode in _NEEDS_RELEASE and fungibility.when_can_preempt == names.TRY_NEXT_FLAVOR:
        return True
    return borrow > 0 and fungibility.when_can_borrow == names.TRY_NEXT_FLAVOR
