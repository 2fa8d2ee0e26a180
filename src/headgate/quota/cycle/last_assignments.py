"""State of pending workloads between rounds: where the flavor search stopped, and what was missing.

A search that stopped at a flavor which was then taken continues behind it in the next round. If it finds nothing there,
and another workload was only faster, it starts again at the first flavor. Pod sets are at different flavors, so a
search may return to an earlier state; there it ends. The state is dropped when the workload is no longer pending.
``admission_cycle.py`` uses it.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.quota.api.cohort import FlavorResource
from headgate.quota.flavors.assignment import Assignment
from headgate.quota.queues.queue_manager import PendingReason

Tried = tuple[Mapping[str, int], ...]


class LastAssignments:
    def __init__(self) -> None:
        self._tried: dict[str, Tried] = {}
        self._short: dict[str, frozenset[FlavorResource]] = {}
        self._passed: set[str] = set()
        self._visited: dict[str, list[Tried]] = {}
        self._said: dict[str, PendingReason] = {}
        self._marks: dict[str, int] = {}

    def begin(self, key: str) -> Tried:
        """Where to begin: behind what was tried, or with the first flavor."""
        tried = self._tried.pop(key, ())
        if not tried:
            self._passed.discard(key)
            self._short.pop(key, None)
            self._visited.pop(key, None)
            self._said.pop(key, None)
        return tried

    def goes_on(self, key: str, assignment: Assignment, reason: PendingReason) -> bool:
        """It found nothing so far, for this reason; whether there is something left to try."""
        visited = self._visited.setdefault(key, [])
        if not assignment.has_flavors_left or assignment.tried in visited:
            return False
        visited.append(assignment.tried)
        self._tried[key] = assignment.tried
        self._short[key] = self.lacks(key, assignment)
        self._said.setdefault(key, reason)
        return True

    def first_reason(self, key: str) -> PendingReason | None:
        """Of a search in parts, what stood in the way of the first: the others did not look at all flavors."""
        return self._said.get(key)

    def skipped(self, key: str, assignment: Assignment, decisions: int) -> bool:
        """Somebody was faster, after so many decisions; whether it goes on. Not if nothing was decided since it was
        passed before: then it would go round in circles."""
        goes_on = assignment.has_flavors_left and self._marks.get(key) != decisions
        self._marks[key] = decisions
        if goes_on:
            self._tried[key] = assignment.tried
            self._passed.add(key)
        return goes_on

    def restarts(self, key: str) -> bool:
        return key in self._passed

    def lacks(self, key: str, assignment: Assignment) -> frozenset[FlavorResource]:
        """Of a search in parts, what all parts lack."""
        return self._short.get(key, frozenset()) | assignment.short_of

    def forget(self, key: str) -> None:
        self._passed.discard(key)
        for remembered in (self._tried, self._short, self._visited, self._said, self._marks):
            remembered.pop(key, None)
