"""What is admitted together: a pod alone, or all pods of a group. Who fills its places, who is too many, who is gone.

A place is one of a pod set's count. Facts of the moment; what is done about them is ``plan.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.kind import Outcome, at
from headgate.jobs.pods import shape
from headgate.jobs.pods.member import FAILED, SUCCEEDED, Member
from headgate.jobs.pods.roster import GROUP, Key

Object = dict[str, Any]

MOST_ROLES: Final = 18


class Unit(msgspec.Struct, frozen=True):
    """``members`` are in the order of their names, and at least one."""

    key: Key
    members: tuple[Member, ...]

    @property
    def is_group(self) -> bool:
        return self.key[0] == GROUP

    @property
    def first(self) -> Member:
        """Who speaks for all, and is told what all should know: one that can still hear it, if there is one."""
        return next((each for each in self.members if each.fills_a_place), self.members[0])

    @property
    def is_serving(self) -> bool:
        return self.is_group and shape.is_serving(self.first.pod)

    @property
    def is_fast(self) -> bool:
        return self.is_group and shape.has_fast_admission(self.first.pod)

    @property
    def is_unretriable(self) -> bool:
        return any(shape.is_unretriable(each.pod) for each in self.members)

    @property
    def filling(self) -> list[Member]:
        return [each for each in self.members if each.fills_a_place]

    @property
    def is_leaving(self) -> bool:
        """All of it was told to end."""
        return all(each.is_leaving for each in self.members)


def outcome_of(unit: Unit) -> Outcome | None:
    """How it ended, if it did."""
    if not unit.is_group:
        pod = unit.members[0]
        if not pod.is_over:
            return None
        succeeded = pod.phase == SUCCEEDED
        otherwise = "Pod finished successfully" if succeeded else "Pod failed"
        return Outcome(succeeded, at(pod.pod, ("status", "message")) or otherwise)
    total = unit.first.total
    if unit.is_serving or isinstance(total, str):
        return None
    done = sum(each.has_succeeded for each in unit.members)
    all_over = all(each.is_over or each.is_forced for each in unit.members)
    if done < total and not (all_over and unit.is_unretriable):
        return None
    return Outcome(done >= total, f"Pods succeeded: {done}/{total}.")


def disagreement(unit: Unit) -> str:
    """Why its pods make no group; empty if they do."""
    first = unit.first
    if isinstance(first.total, str):
        return f"pod '{first.name}': {first.total}"
    for each in unit.members:
        if each.phase == FAILED or each.is_leaving:
            continue
        if each.queue != first.queue:
            names = f"pods '{first.name}' and '{each.name}'"
            return f"{names} have different queue names: {first.queue}!={each.queue}"
        if each.total != first.total:
            names = f"pods '{first.name}' and '{each.name}'"
            return f"{names} have different values of pod-group-total-count: {first.total}!={each.total}"
    return ""


def by_role(members: Iterable[Member]) -> dict[str, list[Member]]:
    found: dict[str, list[Member]] = {}
    for each in members:
        found.setdefault(each.role, []).append(each)
    return found


def counts_of(workload: Object) -> dict[str, int]:
    """Places by role."""
    return {each.get("name", ""): each.get("count", 1) for each in at(workload, ("spec", "podSets")) or ()}


def absent(unit: Unit, places: Mapping[str, int]) -> int:
    """How many places nobody fills. A group with fast admission need not be complete, but it must be there."""
    filled = by_role(unit.filling)
    if unit.is_fast:
        return sum(1 for role, count in places.items() if count > 0 and not filled.get(role))
    return sum(max(count - len(filled.get(role, ())), 0) for role, count in places.items())


def excess(unit: Unit, places: Mapping[str, int]) -> list[Member]:
    """Who has no place: of each role the youngest, first of all those that wait; and, when all places are filled,
    those of a role that has none. Who was told to end keeps nobody from its place."""
    found: list[Member] = []
    unknown: list[Member] = []
    for role, members in by_role(unit.filling).items():
        if role in places:
            found += too_many(members, places[role])
        else:
            unknown += members
    return found if absent(unit, places) else found + unknown


def surplus(unit: Unit) -> list[Member]:
    """Of a group whose places all have a pod that succeeded: who waits or runs in spite of that. A pod that is told to
    end may still succeed, and its replacement is there by then."""
    return [each for each in unit.filling if not each.has_succeeded]


def too_many(members: Iterable[Member], places: int) -> list[Member]:
    """Who is not kept: those without our finalizer go first (a deletion may have begun), then those that wait."""
    return sorted(members, key=lambda each: (not each.is_kept, each.is_gated, each.created, each.name))[places:]


def strangers(unit: Unit, places: Mapping[str, int]) -> list[Member]:
    return [each for each in unit.filling if each.role not in places]


def replaced(unit: Unit, places: Mapping[str, int]) -> list[Member]:
    """Who failed, and whose place somebody else has: the longest ago first."""
    found: list[Member] = []
    roles = by_role(unit.members)
    for role, members in roles.items():
        lost = sorted((each for each in members if not each.fills_a_place), key=lambda each: (each.created, each.name))
        filled = len(members) - len(lost)
        spare = len(lost) + filled - places.get(role, 0)
        found += lost[: max(min(spare, len(lost)), 0)]
    return found
