"""Caches of preemption dry runs: the victims on each node, or why preemption fails there, until the node changes.

Pods for which a dry run has the same result share one cache. Its key is made of the pods' cycle state (the inputs of
the filters), their priority, and what the victim rule reads of them (``VictimRule.cache_key``). Thousands of
unschedulable pods with one key cost one search, and one more node after each preemption.
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

_MAX_CACHES: Final = 16


class _CachedResult(msgspec.Struct, frozen=True):
    node_version: Hashable
    budget_version: int
    result: Victims | FailureReasons


class CandidateCache:
    """The results for the pods with one key."""

    def __init__(self, budgets: DisruptionBudgets) -> None:
        self._budgets = budgets
        self._by_row: dict[int, _CachedResult] = {}
        self._last: tuple[Unplaced, Hashable, PostFilterUnschedulable] | None = None

    def candidate(
        self, pod: PodInfo, row: int, handle: Handle, node_version: Hashable, rule: VictimRule
    ) -> Victims | FailureReasons:
        """The victims on the node of a row, or why preemption fails there. ``node_version`` changes when the node, its
        pods or its nominated pods change; while it is equal, an earlier result is reused."""
        cached = self._by_row.get(row)
        if cached is not None and cached.node_version == node_version:
            if cached.budget_version == self._budgets.version:
                return cached.result
            found = cached.result if self._is_valid(cached.result) else self._search(pod, row, handle, rule)
        else:
            found = self._search(pod, row, handle, rule)
        self._by_row[row] = _CachedResult(node_version, self._budgets.version, found)
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
        """The result for the last pod with this key, if it was not nominated and nothing has changed since."""
        if self._last is None or self._last[0] is not unplaced or self._last[1] != handle.epoch:
            return None
        return self._last[2]

    def store(self, unplaced: Unplaced, handle: Handle, result: PostFilterUnschedulable) -> None:
        self._last = unplaced, handle.epoch, result


class CandidateCaches:
    """The caches that were used last, by key."""

    def __init__(self, budgets: DisruptionBudgets) -> None:
        self._budgets = budgets
        self._by_key: OrderedDict[Hashable, CandidateCache] = OrderedDict()

    def for_key(self, key: Hashable) -> CandidateCache:
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = CandidateCache(self._budgets)
            if len(self._by_key) > _MAX_CACHES:
                self._by_key.popitem(last=False)
        else:
            self._by_key.move_to_end(key)
        return found
