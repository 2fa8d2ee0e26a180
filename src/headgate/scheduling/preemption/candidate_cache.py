"""Results of preemption dry runs per node for one kind of pod, kept until the node changes.

Thousands of unschedulable pods of one shape cost one search, and one more node after each preemption.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

import msgspec

from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cluster.disruption_budgets import DisruptionBudgets
from headgate.scheduling.cluster.victim_rules import VictimRule
from headgate.scheduling.framework.interface import Handle, PostFilterUnschedulable, Unplaced
from headgate.scheduling.preemption.victim_selection import Hopeless, Victims, select_victims

_KINDS: Final = 16


class _Found(msgspec.Struct, frozen=True):
    stamp: Hashable
    budgets: int
    answer: Victims | Hopeless


class CandidateCache:
    """For one kind of pod: equal cycle state, priority and victim rule."""

    def __init__(self, budgets: DisruptionBudgets) -> None:
        self._budgets = budgets
        self._by_row: dict[int, _Found] = {}
        self._last: tuple[Unplaced, Hashable, PostFilterUnschedulable] | None = None

    def candidate(
        self, pod: PodInfo, row: int, ground: Handle, stamp: Hashable, rule: VictimRule
    ) -> Victims | Hopeless:
        """As long as the stamp is the same, so is what is there."""
        known = self._by_row.get(row)
        if known is not None and known.stamp == stamp:
            if known.budgets == self._budgets.version:
                return known.answer
            found = known.answer if self._still_holds(known.answer) else self._search(pod, row, ground, rule)
        else:
            found = self._search(pod, row, ground, rule)
        self._by_row[row] = _Found(stamp, self._budgets.version, found)
        return found

    def _still_holds(self, answer: Victims | Hopeless) -> bool:
        """Budgets move with every eviction, and rarely matter: only what they say about these pods counts."""
        return not isinstance(answer, Victims) or self._budgets.overdrawn(answer.lower) == answer.overdrawn

    def _search(self, pod: PodInfo, row: int, ground: Handle, rule: VictimRule) -> Victims | Hopeless:
        eligible = rule.eligible(pod, tuple(ground.matrix.pods_on(row).values()))
        with ground.dry_run(pod, row) as trial:
            return select_victims(eligible, trial, self._budgets)

    def last_result(self, unplaced: Unplaced, ground: Handle) -> PostFilterUnschedulable | None:
        """What was said to the last pod of this kind, if nothing has changed since."""
        if self._last is None or self._last[0] is not unplaced or self._last[1] != ground.epoch:
            return None
        return self._last[2]

    def keep(self, unplaced: Unplaced, ground: Handle, answer: PostFilterUnschedulable) -> None:
        self._last = unplaced, ground.epoch, answer


class CandidateCaches:
    """The caches of the kinds of pod that were used last."""

    def __init__(self, budgets: DisruptionBudgets) -> None:
        self._budgets = budgets
        self._kinds: OrderedDict[Hashable, CandidateCache] = OrderedDict()

    def of(self, kind: Hashable) -> CandidateCache:
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = CandidateCache(self._budgets)
            if len(self._kinds) > _KINDS:
                self._kinds.popitem(last=False)
        else:
            self._kinds.move_to_end(kind)
        return found
