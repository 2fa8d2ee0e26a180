"""A ClusterQueue as the engine reads it: quotas, strategies and policies, a frozen value.

Read from v1beta2. Its older spellings are converted before they come here. How its quota is shared with others is
``tree.py``'s, who waits in it ``queueing.py``'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from headgate.kube.labels import NOTHING, Selector, from_label_selector
from headgate.quota import names
from headgate.quota.cohort import FlavorResource, Quota, ResourceGroup, read_groups
from headgate.quota.reading import Unreadable, Wire, one_of, part, parts, text, whole


class Fungibility(msgspec.Struct, frozen=True):
    """What to do when a flavor could be had by borrowing or by preempting, and more flavors come after it."""

    when_can_borrow: str = names.MAY_STOP_SEARCH
    when_can_preempt: str = names.TRY_NEXT_FLAVOR
    preference: str = names.BORROWING_OVER_PREEMPTION


class Preemption(msgspec.Struct, frozen=True):
    """``borrow_threshold``: while borrowing, only workloads of at most this priority are preempted in the cohort."""

    within_cluster_queue: str = names.NEVER
    reclaim_within_cohort: str = names.NEVER
    may_borrow: bool = False
    borrow_threshold: int | None = None


class ClusterQueue(msgspec.Struct, frozen=True, dict=True):
    """``checks``: admission checks, each with the flavors it is for; no flavors mean all. A missing selector of
    namespaces selects none."""

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    quotas: Mapping[FlavorResource, Quota] = {}
    strategy: str = names.BEST_EFFORT_FIFO
    namespaces: Selector = NOTHING
    fungibility: Fungibility = Fungibility()
    preemption: Preemption = Preemption()
    checks: tuple[tuple[str, frozenset[str]], ...] = ()
    stop_policy: str = names.NONE
    is_terminating: bool = False

    @property
    def is_strict(self) -> bool:
        return self.strategy == names.STRICT_FIFO

    @cached_property
    def group_of(self) -> Mapping[str, ResourceGroup]:
        """Resources by name, to the group that has them."""
        return {resource: group for group in self.groups for resource in group.resources}

    @cached_property
    def flavors(self) -> frozenset[str]:
        return frozenset(flavor for group in self.groups for flavor in group.flavors)


def read_cluster_queue(wire: Wire) -> ClusterQueue | str:
    """The queue, or why it cannot be counted with."""
    try:
        return _read(wire)
    except Unreadable as problem:
        return str(problem)


def _read(wire: Wire) -> ClusterQueue:
    metadata, spec = part(wire, "metadata"), part(wire, "spec")
    groups, quotas = read_groups(spec)
    cohort = text(spec, "cohortName", path="spec.")
    for (flavor, resource), quota in quotas.items():
        if not cohort and (quota.borrowing_limit is not None or quota.lending_limit is not None):
            raise Unreadable(f"spec.resourceGroups: {flavor} has a limit for {resource}, but the queue has no cohort")
        if quota.lending_limit is not None and quota.lending_limit > quota.nominal:
            raise Unreadable(f"spec.resourceGroups: {flavor} lends more {resource} than it has")
    return ClusterQueue(
        name=text(metadata, "name"),
        cohort=cohort,
        groups=groups,
        quotas=quotas,
        strategy=one_of(spec, "queueingStrategy", (names.BEST_EFFORT_FIFO, names.STRICT_FIFO), "spec."),
        namespaces=_namespaces(spec),
        fungibility=_fungibility(part(spec, "flavorFungibility", "spec.")),
        preemption=_preemption(part(spec, "preemption", "spec.")),
        checks=tuple(_checks(spec)),
        stop_policy=read_stop_policy(spec),
        is_terminating=bool(metadata.get("deletionTimestamp")),
    )


def read_stop_policy(spec: Wire) -> str:
    return one_of(spec, "stopPolicy", (names.NONE, names.HOLD, names.HOLD_AND_DRAIN), "spec.")


def _namespaces(spec: Wire) -> Selector:
    if spec.get("namespaceSelector") is None:
        return NOTHING
    selector = part(spec, "namespaceSelector", "spec.")
    try:
        return from_label_selector(selector)
    except (AttributeError, TypeError) as problem:
        raise Unreadable(f"spec.namespaceSelector: cannot be read: {problem}") from problem


def _fungibility(wire: Wire) -> Fungibility:
    path = "spec.flavorFungibility."
    return Fungibility(
        one_of(wire, "whenCanBorrow", (names.MAY_STOP_SEARCH, names.TRY_NEXT_FLAVOR), path),
        one_of(wire, "whenCanPreempt", (names.TRY_NEXT_FLAVOR, names.MAY_STOP_SEARCH), path),
        one_of(wire, "preference", (names.BORROWING_OVER_PREEMPTION, names.PREEMPTION_OVER_BORROWING), path),
    )


def _preemption(wire: Wire) -> Preemption:
    path = "spec.preemption."
    within = (names.NEVER, names.LOWER_PRIORITY, names.LOWER_OR_NEWER_EQUAL_PRIORITY)
    borrow = part(wire, "borrowWithinCohort", path)
    threshold = borrow.get("maxPriorityThreshold")
    return Preemption(
        one_of(wire, "withinClusterQueue", within, path),
        one_of(wire, "reclaimWithinCohort", (names.NEVER, names.LOWER_PRIORITY, names.ANY), path),
        one_of(borrow, "policy", (names.NEVER, names.LOWER_PRIORITY), f"{path}borrowWithinCohort.") != names.NEVER,
        None if threshold is None else whole(borrow, "maxPriorityThreshold", path=f"{path}borrowWithinCohort."),
    )


def _checks(spec: Wire) -> list[tuple[str, frozenset[str]]]:
    strategy = part(spec, "admissionChecksStrategy", "spec.")
    found = []
    for path, wire in parts(strategy, "admissionChecks", "spec.admissionChecksStrategy."):
        flavors = wire.get("onFlavors") or ()
        if not isinstance(flavors, list | tuple) or not all(isinstance(each, str) for each in flavors):
            raise Unreadable(f"{path}onFlavors: must be a list of names")
        found.append((text(wire, "name", path=path), frozenset(flavors)))
    return found
