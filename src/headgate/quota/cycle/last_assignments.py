"""State of pending workloads between rounds: where the flavor search stopped, and what was missing.

A search that stopped at a flavor continues after it in the next round, if another workload got that flavor's quota in
the same round. If no later flavor has quota, it starts again at the first flavor. Each pod set is at its own flavor, so
a search may return to an earlier state; then it ends. The state is dropped when the workload is no longer pending.
``admission_cycle.py`` uses it.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.flavors.assignment import Assignment
from headgate.quota.queues.queue_manager import PendingReason

Tried = tuple[Mapping[str, int], ...]
"""For each pod set, by resource, the index of the last flavor that was tried; -1 if all flavors were tried."""


class LastAssignments:
    """The state of each workload, by its key (``namespace/name``)."""

    def __init__(self) -> None:
        self._tried: dict[str, Tried] = {}
        self._shortages: dict[str, frozenset[FlavorResource]] = {}
        self._was_skipped: set[str] = set()
        self._visited: dict[str, list[Tried]] = {}
        self._first_reasons: dict[str, PendingReason] = {}
        self._decisions_at_skip: dict[str, int] = {}

    def start(self, key: str) -> Tried:
        """Where the search starts: after the flavors that were tried, or at the first flavor."""
        tried = self._tried.pop(key, ())
        if not tried:
            self._was_skipped.discard(key)
            self._shortages.pop(key, None)
            self._visited.pop(key, None)
            self._first_reasons.pop(key, None)
        return tried

    def continues(self, key: str, assignment: Assignment, reason: PendingReason) -> bool:
        """Records that no flavor had quota so far, and the reason. Returns whether the search continues with the
        remaining flavors."""
        visited = self._visited.setdefault(key, [])
        if not assignment.has_flavors_left or assignment.tried in visited:
            return False
        visited.append(assignment.tried)
        self._tried[key] = assignment.tried
        self._shortages[key] = self.shortage_of(key, assignment)
        self._first_reasons.setdefault(key, reason)
        return True

    def first_reason(self, key: str) -> PendingReason | None:
        """The reason that the first round of a search found: later rounds do not try all flavors."""
        return self._first_reasons.get(key)

    def skipped(self, key: str, assignment: Assignment, decisions: int) -> bool:
        """Records that another workload got the quota. Returns whether the search continues. It does not if no decision
        was made since the workload was last skipped, because the search would have the same result."""
        continues = assignment.has_flavors_left and self._decisions_at_skip.get(key) != decisions
        self._decisions_at_skip[key] = decisions
        if continues:
            self._tried[key] = assignment.tried
            self._was_skipped.add(key)
        return continues

    def restarts(self, key: str) -> bool:
        """Whether the search starts again at the first flavor, because the workload was skipped."""
        return key in self._was_skipped

    def shortage_of(self, key: str, assignment: Assignment) -> frozenset[FlavorResource]:
        """The missing resources of all rounds of a search."""
        return self._shortages.get(key, frozenset()) | assignment.short_of

    def forget(self, key: str) -> None:
        self._was_skipped.discard(key)
        for by_key in (self._tried, self._shortages, self._visited, self._first_reasons, self._decisions_at_skip):
            by_key.pop(key, None)
