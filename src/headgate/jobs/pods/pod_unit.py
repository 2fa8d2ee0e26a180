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
        """The pod that represents the unit, for its metadata and for Events: one that counts, if there is one."""
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
    def counted(self) -> list[ManagedPod]:
        return [each for each in self.members if each.counts_for_pod_set]

    @property
    def is_terminating(self) -> bool:
        """Whether all pods are being deleted."""
        return all(each.is_terminating for each in self.members)


def outcome_of(unit: PodUnit) -> JobOutcome | None:
    """The outcome of the unit; None if it has not ended."""
    if not unit.is_group:
        pod = unit.members[0]
        if not pod.has_ended:
            return None
        succeeded = pod.phase == SUCCEEDED
        default = "Pod finished successfully" if succeeded else "Pod failed"
        return JobOutcome(succeeded, get_path(pod.pod, ("status", "message")) or default)
    total = unit.first.total
    if unit.is_serving or isinstance(total, str):
        return None
    done = sum(each.has_succeeded for each in unit.members)
    all_over = all(each.has_ended or each.is_forced for each in unit.members)
    if done < total and not (all_over and unit.is_unretriable):
        return None
    return JobOutcome(done >= total, f"Pods succeeded: {done}/{total}.")


def disagreement(unit: PodUnit) -> str:
    """Why the pods cannot form a group; empty if they can."""
    first = unit.first
    if isinstance(first.total, str):
        return f"pod '{first.name}': {first.total}"
    for each in unit.members:
        if each.phase == FAILED or each.is_terminating:
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
    """The number of places by role."""
    return {each.get("name", ""): each.get("count", 1) for each in get_path(workload, ("spec", "podSets")) or ()}


def missing_count(unit: PodUnit, places: Mapping[str, int]) -> int:
    """The number of places without a pod. With fast admission, one pod per role is enough."""
    filled = by_role(unit.counted)
    if unit.is_fast:
        return sum(1 for role, count in places.items() if count > 0 and not filled.get(role))
    return sum(max(count - len(filled.get(role, ())), 0) for role, count in places.items())


def excess(unit: PodUnit, places: Mapping[str, int]) -> list[ManagedPod]:
    """Pods without a place: of each role the youngest, gated ones first; and, if all places are filled, pods of unknown
    roles. Terminating pods do not take a place."""
    found: list[ManagedPod] = []
    unknown: list[ManagedPod] = []
    for role, members in by_role(unit.counted).items():
        if role in places:
            found += too_many(members, places[role])
        else:
            unknown += members
    return found if missing_count(unit, places) else found + unknown


def surplus(unit: PodUnit) -> list[ManagedPod]:
    """Pods that wait or run although all places have a succeeded pod. A terminating pod may still succeed after its
    replacement was created."""
    return [each for each in unit.counted if not each.has_succeeded]


def too_many(members: Iterable[ManagedPod], places: int) -> list[ManagedPod]:
    """The pods beyond the number of places: first those without Headgate's finalizer (their deletion may have begun),
    then gated ones."""
    return sorted(members, key=lambda each: (not each.has_finalizer, each.is_gated, each.created, each.name))[places:]


def pods_of_unknown_role(unit: PodUnit, places: Mapping[str, int]) -> list[ManagedPod]:
    return [each for each in unit.counted if each.role not in places]


def replaced_pods(unit: PodUnit, places: Mapping[str, int]) -> list[ManagedPod]:
    """Failed pods whose place another pod has taken, oldest first."""
    found: list[ManagedPod] = []
    roles = by_role(unit.members)
    for role, members in roles.items():
        failed = sorted(
            (each for each in members if not each.counts_for_pod_set), key=lambda each: (each.created, each.name)
        )
        filled = len(members) - len(failed)
        spare = len(failed) + filled - places.get(role, 0)
        found += failed[: max(min(spare, len(failed)), 0)]
    return found
