"""What came of looking for flavors: values, modes, and the sentences that Kueue's users know.

``flavors.py`` makes them, ``cycle.py`` acts on them, and whoever explains a wait reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

import msgspec

from headgate.quota import names
from headgate.quota.cohort import FlavorResource, Usage
from headgate.quota.workload import Admission, Assigned


class Degree(IntEnum):
    """How a flavor could be had; the more the better. ``DEFERRED``: it fits once the evicted have gone."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    DEFERRED = 4
    FIT = 5


class Mode(IntEnum):
    """The same, as far as the cycle has to know."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED = 2
    FIT = 3


MODE_OF: Final = {
    Degree.NO_FIT: Mode.NO_FIT,
    Degree.NO_CANDIDATES: Mode.PREEMPT,
    Degree.PREEMPT: Mode.PREEMPT,
    Degree.RECLAIM: Mode.PREEMPT,
    Degree.DEFERRED: Mode.DEFERRED,
    Degree.FIT: Mode.FIT,
}

_SEVERITY: Final = ("", names.WAITING_FOR_QUOTA, names.EXCEEDS_MAX_QUOTA, names.NO_MATCHING_FLAVOR)


class Choice(msgspec.Struct, frozen=True):
    """The flavor for a resource. ``borrow``: how high in the tree the quota lies. ``tried``: where the search stopped,
    -1 if it saw all flavors."""

    flavor: str
    mode: Mode
    borrow: int = 0
    tried: int = -1


class Attempt(msgspec.Struct, frozen=True):
    """One flavor for one pod set, and what is in the way."""

    flavor: str
    degree: Degree
    borrow: int = 0
    reasons: tuple[str, ...] = ()
    why: str = ""
    short: frozenset[FlavorResource] = frozenset()


class PodSetChoice(msgspec.Struct, frozen=True):
    """``groups``: the attempts, resource group by resource group."""

    name: str
    count: int
    requests: Mapping[str, int]
    flavors: Mapping[str, Choice] = {}
    reasons: tuple[str, ...] = ()
    groups: tuple[tuple[Attempt, ...], ...] = ()
    is_failed: bool = False

    @property
    def mode(self) -> Mode:
        if self.is_failed:
            return Mode.NO_FIT
        return min((each.mode for each in self.flavors.values()), default=Mode.FIT)


class Assignment(msgspec.Struct, frozen=True):
    """``short_of_least``: what there was too little of for the least that the workload would take, if that is less."""

    pod_sets: tuple[PodSetChoice, ...] = ()
    usage: Usage = {}
    borrow: int = 0
    short_of_least: frozenset[FlavorResource] = frozenset()

    @property
    def mode(self) -> Mode:
        return min((each.mode for each in self.pod_sets), default=Mode.NO_FIT)

    @property
    def message(self) -> str:
        return "; ".join(
            f"couldn't assign flavors to pod set {each.name}: {', '.join(sorted(each.reasons))}"
            for each in self.pod_sets
            if each.reasons
        )

    @property
    def why(self) -> str:
        """The reason that stands in the way: of alternatives the mildest, of what is needed together the worst."""
        return worst(
            worst(_mildest(group) for group in each.groups) or names.NO_MATCHING_FLAVOR
            for each in self.pod_sets
            if each.mode == Mode.NO_FIT
        )

    @property
    def short(self) -> frozenset[FlavorResource]:
        """What there is too little of: only if some of it comes free is it worth to look again."""
        return self.short_of_least.union(
            fr for each in self.pod_sets for group in each.groups for attempt in group for fr in attempt.short
        )

    @property
    def tried(self) -> tuple[Mapping[str, int], ...]:
        """Where the search stopped, by pod set and resource: the next one goes on there."""
        return tuple({name: each.tried for name, each in one.flavors.items()} for one in self.pod_sets)

    @property
    def has_flavors_left(self) -> bool:
        return any(at != -1 for each in self.tried for at in each.values())

    @property
    def needs_preemption(self) -> frozenset[FlavorResource]:
        return frozenset(
            (each.flavor, resource)
            for one in self.pod_sets
            for resource, each in one.flavors.items()
            if each.mode == Mode.PREEMPT
        )

    def admission(self, cluster_queue: str) -> Admission:
        return Admission(
            cluster_queue,
            tuple(
                Assigned(
                    each.name,
                    {resource: choice.flavor for resource, choice in each.flavors.items()},
                    {resource: each.requests[resource] for resource in each.flavors},
                    each.count,
                )
                for each in self.pod_sets
            ),
        )


def worst(reasons: Iterable[str]) -> str:
    return max(reasons, key=_SEVERITY.index, default="")


def _mildest(group: tuple[Attempt, ...]) -> str:
    """Nothing, if one of the flavors can be had: then another group stands in the way."""
    if any(each.degree != Degree.NO_FIT for each in group):
        return ""
    return min((each.why for each in group), key=_SEVERITY.index, default="")
