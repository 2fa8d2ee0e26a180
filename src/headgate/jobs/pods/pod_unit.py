"""The unit of admission: a single pod, or all pods of a group.

The functions of this module say which pods count for the pod sets of the Workload, which are beyond the counts of the
pod sets, and which were replaced. ``pod_plan.py`` decides what to do.
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
    """``members``: the pods, sorted by name; at least one."""

    key: Key
    members: tuple[ManagedPod, ...]

    @property
    def is_group(self) -> bool:
        return self.key[0] == GROUP

    @property
    def representative(self) -> ManagedPod:
        """The pod whose metadata is used for the unit, and that its Events are about: the first pod that counts for its
        pod set, otherwise the first pod."""
        return next((each for each in self.members if each.counts_for_pod_set), self.members[0])

    @property
    def is_serving(self) -> bool:
        """Whether the group never ends by itself."""
        return self.is_group and pod_metadata.is_serving(self.representative.pod)

    @property
    def has_fast_admission(self) -> bool:
        """Whether the group can be admitted before all its pods exist."""
        return self.is_group and pod_metadata.has_fast_admission(self.representative.pod)

    @property
    def is_unretriable(self) -> bool:
        """Whether the group ends when all pods have ended, also if some have failed."""
        return any(pod_metadata.is_unretriable(each.pod) for each in self.members)

    @property
    def counted_pods(self) -> list[ManagedPod]:
        return [each for each in self.members if each.counts_for_pod_set]

    @property
    def is_terminating(self) -> bool:
        """Whether all pods are being deleted."""
        return all(each.is_terminating for each in self.members)


def outcome_of(unit: PodUnit) -> JobOutcome | None:
    """The outcome of the unit; None if the unit has not ended."""
    if not unit.is_group:
        pod = unit.members[0]
        if not pod.has_ended:
            return None
        succeeded = pod.phase == SUCCEEDED
        default = "Pod finished successfully" if succeeded else "Pod failed"
        return JobOutcome(succeeded, get_path(pod.pod, ("status", "message")) or default)
    total = unit.representative.total
    if unit.is_serving or isinstance(total, str):
        return None
    succeeded_count = sum(each.has_succeeded for each in unit.members)
    have_all_ended = all(each.has_ended or each.is_force_deleted for each in unit.members)
    if succeeded_count < total and not (have_all_ended and unit.is_unretriable):
        return None
    return JobOutcome(succeeded_count >= total, f"Pods succeeded: {succeeded_count}/{total}.")


def find_metadata_conflict(unit: PodUnit) -> str:
    """Why the metadata of the pods is invalid for a group, such as pods that name different queues; empty if it is
    valid."""
    first = unit.representative
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


def pod_set_counts_of(workload: Object) -> dict[str, int]:
    """The counts of the pod sets of a Workload, by name. In a group, the name of a pod set is the role of its pods."""
    return {each.get("name", ""): each.get("count", 1) for each in get_path(workload, ("spec", "podSets")) or ()}


def missing_count(unit: PodUnit, pod_set_counts: Mapping[str, int]) -> int:
    """How many pods must still be created to reach the counts of the pod sets. With fast admission, one pod per role is
    enough."""
    filled = by_role(unit.counted_pods)
    if unit.has_fast_admission:
        return sum(1 for role, count in pod_set_counts.items() if count > 0 and not filled.get(role))
    return sum(max(count - len(filled.get(role, ())), 0) for role, count in pod_set_counts.items())


def excess_pods_of(unit: PodUnit, pod_set_counts: Mapping[str, int]) -> list[ManagedPod]:
    """Pods beyond the count of their pod set: of each role the youngest, gated pods first. If all pod sets are
    complete, also pods whose role has no pod set. Terminating pods are not counted."""
    found: list[ManagedPod] = []
    unknown: list[ManagedPod] = []
    for role, members in by_role(unit.counted_pods).items():
        if role in pod_set_counts:
            found += pods_beyond_count(members, pod_set_counts[role])
        else:
            unknown += members
    return found if missing_count(unit, pod_set_counts) else found + unknown


def unneeded_pods(unit: PodUnit) -> list[ManagedPod]:
    """The pods that wait or run in a group in which enough pods have succeeded. There are such pods because a
    terminating pod may still succeed after its replacement was created."""
    return [each for each in unit.counted_pods if not each.has_succeeded]


def pods_beyond_count(members: Iterable[ManagedPod], pod_set_count: int) -> list[ManagedPod]:
    """The pods beyond the count. Pods without Headgate's finalizer are chosen first, because their deletion may have
    begun; then gated pods; then the youngest. Pods that run without an admission have no finalizer and are kept."""

    def order(each: ManagedPod) -> tuple[bool, bool, str, str]:
        is_kept = each.has_finalizer or each.may_run_unadmitted
        return not is_kept, each.is_gated, each.created, each.name

    return sorted(members, key=order)[pod_set_count:]


def pods_of_unknown_role(unit: PodUnit, pod_set_counts: Mapping[str, int]) -> list[ManagedPod]:
    return [each for each in unit.counted_pods if each.role not in pod_set_counts]


def replaced_pods(unit: PodUnit, pod_set_counts: Mapping[str, int]) -> list[ManagedPod]:
    """Pods that do not count for their pod set (they have failed or terminate) and that other pods have replaced, the
    oldest first."""
    found: list[ManagedPod] = []
    roles = by_role(unit.members)
    for role, members in roles.items():
        not_counted = sorted(
            (each for each in members if not each.counts_for_pod_set), key=lambda each: (each.created, each.name)
        )
        excess_count = len(members) - pod_set_counts.get(role, 0)
        found += not_counted[: max(min(excess_count, len(not_counted)), 0)]
    return found
