"""What is remembered of those who wait from one round to the next: where their search for flavors stopped, and what
they lacked.

A search that stopped at a flavor which could be had, and then could not after all, goes on behind it in the next
round. If it finds nothing there and had only been passed by somebody faster, it begins anew: the first flavor may do.
Pod sets are at different flavors, so a search may come by where it was before; there it ends. Nothing of this outlives
the wait. ``cycle.py`` asks and tells.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.quota.assignment import Assignment
from headgate.quota.cohort import FlavorResource
from headgate.quota.queueing import Reason

Tried = tuple[Mapping[str, int], ...]


class Searches:
    def __init__(self) -> None:
        self._tried: dict[str, Tried] = {}
        self._short: dict[str, frozenset[FlavorResource]] = {}
        self._passed: set[str] = set()
        self._visited: dict[str, list[Tried]] = {}
        self._said: dict[str, Reason] = {}
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

    def goes_on(self, key: str, assignment: Assignment, reason: Reason) -> bool:
        """It found nothing so far, for this reason; whether there is something left to try."""
        visited = self._visited.setdefault(key, [])
        if not assignment.has_flavors_left or assignment.tried in visited:
            return False
        visited.append(assignment.tried)
        self._tried[key] = assignment.tried
        self._short[key] = self.lacks(key, assignment)
        self._said.setdefault(key, reason)
        return True

    def why(self, key: str) -> Reason | None:
        """Of a search in parts, what stood in the way of the first: the others did not look at all flavors."""
        return self._said.get(key)

    def pass_by(self, key: str, assignment: Assignment, decisions: int) -> bool:
        """Somebody was faster, after so many decisions; whether it goes on. Not if nothing was decided since it was
        passed before: then it would go round in circles."""
        goes_on = assignment.has_flavors_left and self._marks.get(key) != decisions
        self._marks[key] = decisions
        if goes_on:
            self._tried[key] = assignment.tried
            self._passed.add(key)
        return goes_on

    def begins_anew(self, key: str) -> bool:
        return key in self._passed

    def lacks(self, key: str, assignment: Assignment) -> frozenset[FlavorResource]:
        """Of a search in parts, what all parts lack."""
        return self._short.get(key, frozenset()) | assignment.short

    def forget(self, key: str) -> None:
        self._passed.discard(key)
        for remembered in (self._tried, self._short, self._visited, self._said, self._marks):
            remembered.pop(key, None)
