"""Results of flavor assignment: values, modes, and Kueue's messages.

``flavor_assigner.py`` makes them, ``quota/cycle/admission_cycle.py`` acts on them, and ``quota/explain/`` shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

import msgspec

from headgate.quota import names
from headgate.quota.api.resource_groups import FlavorResource, Usage
from headgate.quota.api.workload import Admission, AdmittedPodSet


class GranularMode(IntEnum):
    """How a flavor is available, as in Kueue; higher is better. Kueue does not have ``DEFERRED``: the flavor fits when
    workloads that are already evicted have ended."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    DEFERRED = 4
    FIT = 5


class AssignmentMode(IntEnum):
    """The modes that the admission cycle distinguishes."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED = 2
    FIT = 3


MODE_OF_GRANULAR: Final = {
    GranularMode.NO_FIT: AssignmentMode.NO_FIT,
    GranularMode.NO_CANDIDATES: AssignmentMode.PREEMPT,
    GranularMode.PREEMPT: AssignmentMode.PREEMPT,
    GranularMode.RECLAIM: AssignmentMode.PREEMPT,
    GranularMode.DEFERRED: AssignmentMode.DEFERRED,
    GranularMode.FIT: AssignmentMode.FIT,
}

_SEVERITY: Final = (
    "",
    names.WAITING_FOR_QUOTA,
    names.FIRST_IN_LINE_PROTECTED,
    names.EXCEEDS_MAX_QUOTA,
    names.NO_MATCHING_FLAVOR,
)


class FlavorAssignment(msgspec.Struct, frozen=True):
    """The flavor for a resource. ``borrow``: the height in the cohort tree at which the quota is available; 0 if the
    queue borrows nothing. ``tried``: the index of the flavor at which the search stopped; -1 if it tried all
    flavors."""

    flavor: str
    mode: AssignmentMode
    borrow: int = 0
    tried: int = -1


class FlavorCandidate(msgspec.Struct, frozen=True):
    """One flavor that was tried for one pod set. ``reasons``: texts about what prevents it; ``pending_reason``: the
    reason for the condition; ``short``: the resources of which quota is missing now."""

    flavor: str
    mode: GranularMode
    borrow: int = 0
    reasons: tuple[str, ...] = ()
    pending_reason: str = ""
    short: frozenset[FlavorResource] = frozenset()


class PodSetAssignment(msgspec.Struct, frozen=True):
    """The flavors of a pod set. ``groups``: all flavors that were tried, by resource group."""

    name: str
    count: int
    requests: Mapping[str, int]
    flavors: Mapping[str, FlavorAssignment] = {}
    reasons: tuple[str, ...] = ()
    groups: tuple[tuple[FlavorCandidate, ...], ...] = ()
    is_failed: bool = False

    @property
    def mode(self) -> AssignmentMode:
        if self.is_failed:
            return AssignmentMode.NO_FIT
        return min((each.mode for each in self.flavors.values()), default=AssignmentMode.FIT)


class Assignment(msgspec.Struct, frozen=True):
    """The flavors of all pod sets of a workload. ``usage``: the quota that it would use; ``borrow``: the largest of its
    flavors. ``short_of_minimum``: what is missing for the workload's minimum counts, if these are smaller."""

    pod_sets: tuple[PodSetAssignment, ...] = ()
    usage: Usage = {}
    borrow: int = 0
    short_of_minimum: frozenset[FlavorResource] = frozenset()

    @property
    def mode(self) -> AssignmentMode:
        return min((each.mode for each in self.pod_sets), default=AssignmentMode.NO_FIT)

    @property
    def message(self) -> str:
        return "; ".join(
            f"couldn't assign flavors to pod set {each.name}: {', '.join(sorted(each.reasons))}"
            for each in self.pod_sets
            if each.reasons
        )

    @property
    def pending_reason(self) -> str:
        """The reason why no flavor fits: of alternative flavors the least severe one, of all pod sets and resource
        groups the most severe one."""
        return most_severe(
            most_severe(_least_severe(group) for group in each.groups) or names.NO_MATCHING_FLAVOR
            for each in self.pod_sets
            if each.mode == AssignmentMode.NO_FIT
        )

    @property
    def short_of(self) -> frozenset[FlavorResource]:
        """The missing resources. A new attempt is useful only when some of them become free."""
        return self.short_of_minimum.union(
            fr for each in self.pod_sets for group in each.groups for attempt in group for fr in attempt.short
        )

    @property
    def tried(self) -> tuple[Mapping[str, int], ...]:
        """Where the search stopped, by pod set and resource. The next search continues there."""
        return tuple({name: each.tried for name, each in one.flavors.items()} for one in self.pod_sets)

    @property
    def has_flavors_left(self) -> bool:
        return any(index != -1 for each in self.tried for index in each.values())

    @property
    def flavor_resources_needing_preemption(self) -> frozenset[FlavorResource]:
        return frozenset(
            (each.flavor, resource)
            for one in self.pod_sets
            for resource, each in one.flavors.items()
            if each.mode == AssignmentMode.PREEMPT
        )

    def admission(self, cluster_queue: str) -> Admission:
        return Admission(
            cluster_queue,
            tuple(
                AdmittedPodSet(
                    each.name,
                    {resource: choice.flavor for resource, choice in each.flavors.items()},
                    {resource: each.requests[resource] for resource in each.flavors},
                    each.count,
                )
                for each in self.pod_sets
            ),
        )


def most_severe(reasons: Iterable[str]) -> str:
    return max(reasons, key=_SEVERITY.index, default="")


def _least_severe(group: tuple[FlavorCandidate, ...]) -> str:
    """Empty if one of the flavors is available: then another group is the cause."""
    if any(each.mode != GranularMode.NO_FIT for each in group):
        return ""
    return min((each.pending_reason for each in group), key=_SEVERITY.index, default="")
