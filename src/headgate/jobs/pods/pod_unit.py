"""The unit of admission: a single pod, or all pods of a group; which pods fill its pod sets, exceed them, or are gone.

A place is one of a pod set's count. These are facts of the moment; ``pod_plan.py`` decides what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.kinds.job_kind import JobOutcome
from headgate.jobs.pods import pod_metadata
from headgate.jobs.pods.managed_pod import FAILED, SUCCEEDED, ManagedPod
from headgate.jobs.pods.pod_cache import GROUP, Key
from headgate.kube.lenient_reader import get_path

Object = dict[str, Any]

MAX_POD_SETS: Final = 18


class PodUnit(msgspec.Struct, frozen=True):
    """``members``: sorted by name, at least one."""

    key: Key
    members: tuple[ManagedPod, ...]

    @property
    def is_group(self) -> bool:
        return self.key[0] == GROUP

    @property
    def first(self) -> ManagedPod:
        """Who speaks for all, and is told what all should know: one that can still hear it, if there is one."""
        return next((each for each in self.members if each.counts_for_pod_set), self.members[0])

    @property
    def is_serving(self) -> bool:
        return self.is_group and pod_metadata.is_serving(self.first.pod)

    @property
    def is_fast(self) -> bool:
        return self.is_group and pod_metadata.has_fast_admission(self.first.pod)

    @property
    def is_unretriable(self) -> bool:
        return any(pod_metadata.is_unretriable(each.pod) for each in self.members)

    @property
    def filling(self) -> list[ManagedPod]:
        return [each for each in self.members if each.counts_for_pod_set]

    @property
    def is_leaving(self) -> bool:
        """All of it was told to end."""
        return all(each.is_leaving for each in self.members)


def outcome_of(unit: PodUnit) -> JobOutcome | None:
    """How it ended, if it did."""
    if not unit.is_group:
        pod = unit.members[0]
        if not pod.is_over:
            return None
        succeeded = pod.phase == SUCCEEDED
        otherwise = "Pod finished successfully" if succeeded else "Pod failed"
        return JobOutcome(succeeded, get_path(pod.pod, ("status", "message")) or otherwise)
    total = unit.first.total
    if unit.is_serving or isinstance(total, str):
        return None
    done = sum(each.has_succeeded for each in unit.members)
    all_over = all(each.is_over or each.is_forced for each in unit.members)
    if done < total and not (all_over and unit.is_unretriable):
        return None
    return JobOutcome(done >= total, f"Pods succeeded: {done}/{total}.")


def disagreement(unit: PodUnit) -> str:
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


def by_role(members: Iterable[ManagedPod]) -> dict[str, list[ManagedPod]]:
    found: dict[str, list[ManagedPod]] = {}
    for each in members:
        found.setdefault(each.role, []).append(each)
    return found


def counts_of(workload: Object) -> dict[str, int]:
    """Places by role."""
    return {each.get("name", ""): each.get("count", 1) for each in get_path(workload, ("spec", "podSets")) or ()}


def missing_count(unit: PodUnit, places: Mapping[str, int]) -> int:
    """How many places nobody fills. A group with fast admission need not be complete, but it must be there."""
    filled = by_role(unit.filling)
    if unit.is_fast:
        return sum(1 for role, count in places.items() if count > 0 and not filled.get(role))
    return sum(max(count - len(filled.get(role, ())), 0) for role, count in places.items())


def excess(unit: PodUnit, places: Mapping[str, int]) -> list[ManagedPod]:
    """Who has no place: of each role the youngest, first of all those that wait; and, when all places are filled,
    those of a role that has none. Who was told to end keeps nobody from its place."""
    found: list[ManagedPod] = []
    unknown: list[ManagedPod] = []
    for role, members in by_role(unit.filling).items():
        if role in places:
            found += too_many(members, places[role])
        else:
            unknown += members
    return found if missing_count(unit, places) else found + unknown


def surplus(unit: PodUnit) -> list[ManagedPod]:
    """Of a group whose places all have a pod that succeeded: who waits or runs in spite of that. A pod that is told to
    end may still succeed, and its replacement is there by then."""
    return [each for each in unit.filling if not each.has_succeeded]


def too_many(members: Iterable[ManagedPod], places: int) -> list[ManagedPod]:
    """Who is not kept: those without our finalizer go first (a deletion may have begun), then those that wait."""
    return sorted(members, key=lambda each: (not each.has_finalizer, each.is_gated, each.created, each.name))[places:]


def pods_of_unknown_role(unit: PodUnit, places: Mapping[str, int]) -> list[ManagedPod]:
    return [each for each in unit.filling if each.role not in places]


def replaced_pods(unit: PodUnit, places: Mapping[str, int]) -> list[ManagedPod]:
    """Who failed, and whose place somebody else has: the longest ago first."""
    found: list[ManagedPod] = []
    roles = by_role(unit.members)
    for role, members in roles.items():
        lost = sorted(
            (each for each in members if not each.counts_for_pod_set), key=lambda each: (each.created, each.name)
        )
        filled = len(members) - len(lost)
        spare = len(lost) + filled - places.get(role, 0)
        found += lost[: max(min(spare, len(lost)), 0)]
    return found
