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
from headgate.scheduling.preemption.victim_selection import FailureReasons, Victims, select_victims

_MAX_KINDS: Final = 16


class _CachedResult(msgspec.Struct, frozen=True):
    stamp: Hashable
    budgets: int
    result: Victims | FailureReasons


class CandidateCache:
    """For one kind of pod: equal cycle state, priority and victim rule."""

    def __init__(self, budgets: DisruptionBudgets) -> None:
        self._budgets = budgets
        self._by_row: dict[int, _CachedResult] = {}
        self._last: tuple[Unplaced, Hashable, PostFilterUnschedulable] | None = None

    def candidate(
        self, pod: PodInfo, row: int, handle: Handle, stamp: Hashable, rule: VictimRule
    ) -> Victims | FailureReasons:
        """The victims on a row, or why preemption fails there. The result is reused while the stamp is equal."""
        cached = self._by_row.get(row)
        if cached is not None and cached.stamp == stamp:
            if cached.budgets == self._budgets.version:
                return cached.result
            found = cached.result if self._is_valid(cached.result) else self._search(pod, row, handle, rule)
        else:
            found = self._search(pod, row, handle, rule)
        self._by_row[row] = _CachedResult(stamp, self._budgets.version, found)
        return found

    def _is_valid(self, result: Victims | FailureReasons) -> bool:
        """Whether the budgets allow the same evictions of these pods as before. The version of the budgets changes with
        every eviction, mostly of other pods."""
        return not isinstance(result, Victims) or self._budgets.violations(result.eligible) == result.violates_budget

    def _search(self, pod: PodInfo, row: int, handle: Handle, rule: VictimRule) -> Victims | FailureReasons:
        eligible = rule.eligible(pod, tuple(handle.matrix.pods_on(row).values()))
        with handle.dry_run(pod, row) as dry_run:
            return select_victims(eligible, dry_run, self._budgets)

    def last_result(self, unplaced: Unplaced, handle: Handle) -> PostFilterUnschedulable | None:
        """The result for the last pod of this kind, if nothing has changed since."""
        if self._last is None or self._last[0] is not unplaced or self._last[1] != handle.epoch:
            return None
        return self._last[2]

    def store(self, unplaced: Unplaced, handle: Handle, result: PostFilterUnschedulable) -> None:
        self._last = unplaced, handle.epoch, result


class CandidateCaches:
    """The caches of the kinds of pod that were used last."""

    def __init__(self, budgets: DisruptionBudgets) -> None:
        self._budgets = budgets
        self._by_kind: OrderedDict[Hashable, CandidateCache] = OrderedDict()

    def for_kind(self, kind: Hashable) -> CandidateCache:
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = CandidateCache(self._budgets)
            if len(self._by_kind) > _MAX_KINDS:
                self._by_kind.popitem(last=False)
        else:
            self._by_kind.move_to_end(kind)
        return found
