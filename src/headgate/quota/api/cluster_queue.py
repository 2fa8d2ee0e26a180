"""A ClusterQueue as the quota engine reads it: quotas, strategies, policies and the Active condition. A frozen value.

It is read from v1beta2; v1beta1 is converted before. :func:`find_active_condition` decides whether the queue can admit
workloads, with Kueue's reasons and messages; for a cycle of cohorts, which Kueue disables without a message, it names
the cycle. ``quota/cache/quota_tree.py`` computes the available quota; ``quota/queues/queue_manager.py`` holds the
pending workloads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Final

import msgspec

from headgate.kube.labels import NOTHING, Selector, from_label_selector
from headgate.quota import names
from headgate.quota.api.resource_groups import FlavorQuota, FlavorResource, ResourceGroup, read_resource_groups
from headgate.quota.api.wire_reader import (
    InvalidObject,
    JSONObject,
    read_choice,
    read_integer,
    read_object,
    read_objects,
    read_text,
    read_texts,
)


class Fungibility(msgspec.Struct, frozen=True):
    """What to do when a flavor is available only by borrowing or preempting, and more flavors follow in the group."""

    when_can_borrow: str = names.MAY_STOP_SEARCH
    when_can_preempt: str = names.TRY_NEXT_FLAVOR
    preference: str = names.BORROWING_OVER_PREEMPTION


class Preemption(msgspec.Struct, frozen=True):
    """``borrow_within_cohort``: whether workloads in the cohort are preempted also while the queue borrows.
    ``borrow_threshold``: while borrowing, only workloads of at most this priority are preempted in the cohort."""

    within_cluster_queue: str = names.NEVER
    reclaim_within_cohort: str = names.NEVER
    borrow_within_cohort: bool = False
    borrow_threshold: int | None = None

    @property
    def is_allowed(self) -> bool:
        return (self.within_cluster_queue, self.reclaim_within_cohort) != (names.NEVER, names.NEVER)


class ClusterQueue(msgspec.Struct, frozen=True, dict=True):
    """``checks``: admission checks, each with its flavors; no flavors mean all. Without a namespace selector no
    namespace matches. ``protects_first``: the first workload in line is protected (``DEQUEUE_STRATEGY`` in
    ``quota/names.py``)."""

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    quotas: Mapping[FlavorResource, FlavorQuota] = {}
    strategy: str = names.BEST_EFFORT_FIFO
    namespaces: Selector = NOTHING
    fungibility: Fungibility = Fungibility()
    preemption: Preemption = Preemption()
    checks: tuple[tuple[str, frozenset[str]], ...] = ()
    stop_policy: str = names.NONE
    is_terminating: bool = False
    protects_first: bool = False

    @property
    def is_strict(self) -> bool:
        """Whether no workload overtakes the head. If the first in line is protected, some may."""
        return self.strategy == names.STRICT_FIFO and not self.protects_first

    @cached_property
    def group_of(self) -> Mapping[str, ResourceGroup]:
        """The resource group of each resource."""
        return {resource: group for group in self.groups for resource in group.resources}

    @cached_property
    def flavors(self) -> frozenset[str]:
        return frozenset(flavor for group in self.groups for flavor in group.flavors)


def read_cluster_queue(obj: JSONObject) -> ClusterQueue | str:
    """The queue, or a text that says why it is invalid."""
    try:
        return _read(obj)
    except InvalidObject as problem:
        return str(problem)


def _read(obj: JSONObject) -> ClusterQueue:
    metadata, spec = read_object(obj, "metadata"), read_object(obj, "spec")
    groups, quotas = read_resource_groups(spec)
    cohort = read_text(spec, "cohortName", path="spec.")
    for (flavor, resource), quota in quotas.items():
        if not cohort and (quota.borrowing_limit is not None or quota.lending_limit is not None):
            raise InvalidObject(
                f"spec.resourceGroups: {flavor} has a limit for {resource}, but the queue has no cohort"
            )
        if quota.lending_limit is not None and quota.lending_limit > quota.nominal:
            raise InvalidObject(f"spec.resourceGroups: {flavor} lends more {resource} than it has")
    return ClusterQueue(
        name=read_text(metadata, "name"),
        cohort=cohort,
        groups=groups,
        quotas=quotas,
        strategy=read_choice(spec, "queueingStrategy", (names.BEST_EFFORT_FIFO, names.STRICT_FIFO), "spec."),
        namespaces=_namespaces(spec),
        fungibility=_fungibility(read_object(spec, "flavorFungibility", "spec.")),
        preemption=_preemption(read_object(spec, "preemption", "spec.")),
        checks=tuple(_checks(spec)),
        stop_policy=read_stop_policy(spec),
        is_terminating=bool(metadata.get("deletionTimestamp")),
        protects_first=_protects_first(metadata),
    )


def _protects_first(metadata: JSONObject) -> bool:
    value = read_texts(metadata, "annotations", "metadata.").get(names.DEQUEUE_STRATEGY)
    if value not in (None, names.BACKFILL):
        raise InvalidObject(
            f"metadata.annotations[{names.DEQUEUE_STRATEGY}]: must be {names.BACKFILL}; spec.queueingStrategy sets the "
            f"other strategies of a ClusterQueue"
        )
    return value == names.BACKFILL


def read_stop_policy(spec: JSONObject) -> str:
    return read_choice(spec, "stopPolicy", (names.NONE, names.HOLD, names.HOLD_AND_DRAIN), "spec.")


def _namespaces(spec: JSONObject) -> Selector:
    if spec.get("namespaceSelector") is None:
        return NOTHING
    selector = read_object(spec, "namespaceSelector", "spec.")
    try:
        return from_label_selector(selector)
    except (AttributeError, TypeError) as problem:
        raise InvalidObject(f"spec.namespaceSelector: cannot be read: {problem}") from problem


def _fungibility(obj: JSONObject) -> Fungibility:
    path = "spec.flavorFungibility."
    return Fungibility(
        read_choice(obj, "whenCanBorrow", (names.MAY_STOP_SEARCH, names.TRY_NEXT_FLAVOR), path),
        read_choice(obj, "whenCanPreempt", (names.TRY_NEXT_FLAVOR, names.MAY_STOP_SEARCH), path),
        read_choice(obj, "preference", (names.BORROWING_OVER_PREEMPTION, names.PREEMPTION_OVER_BORROWING), path),
    )


def _preemption(obj: JSONObject) -> Preemption:
    path = "spec.preemption."
    within = (names.NEVER, names.LOWER_PRIORITY, names.LOWER_OR_NEWER_EQUAL_PRIORITY)
    borrow = read_object(obj, "borrowWithinCohort", path)
    threshold = borrow.get("maxPriorityThreshold")
    return Preemption(
        read_choice(obj, "withinClusterQueue", within, path),
        read_choice(obj, "reclaimWithinCohort", (names.NEVER, names.LOWER_PRIORITY, names.ANY), path),
        read_choice(borrow, "policy", (names.NEVER, names.LOWER_PRIORITY), f"{path}borrowWithinCohort.") != names.NEVER,
        None if threshold is None else read_integer(borrow, "maxPriorityThreshold", path=f"{path}borrowWithinCohort."),
    )


def _checks(spec: JSONObject) -> list[tuple[str, frozenset[str]]]:
    strategy = read_object(spec, "admissionChecksStrategy", "spec.")
    found = []
    for path, obj in read_objects(strategy, "admissionChecks", "spec.admissionChecksStrategy."):
        flavors = obj.get("onFlavors") or ()
        if not isinstance(flavors, list | tuple) or not all(isinstance(each, str) for each in flavors):
            raise InvalidObject(f"{path}onFlavors: must be a list of names")
        found.append((read_text(obj, "name", path=path), frozenset(flavors)))
    return found


class ActiveCondition(msgspec.Struct, frozen=True):
    """The condition Active of a ClusterQueue."""

    is_active: bool
    reason: str
    message: str


READY: Final = ActiveCondition(True, "Ready", "Can admit new workloads")
_TERMINATING: Final = ActiveCondition(False, "Terminating", "Can't admit new workloads; clusterQueue is terminating")


def find_active_condition(
    queue: ClusterQueue, flavors: Collection[str], checks: Mapping[str, bool], cycle: tuple[str, ...] = ()
) -> ActiveCondition:
    """``checks``: all admission checks, and whether each is active. ``cycle``: cohorts that form a cycle above the
    queue."""
    if queue.is_terminating:
        return _TERMINATING
    check_names = [name for name, _ in queue.checks]
    blockers = (
        ("Stopped", "is stopped", [""] if queue.stop_policy != names.NONE else []),
        ("FlavorNotFound", "references missing ResourceFlavor(s): ", sorted(queue.flavors - set(flavors))),
        (
            "AdmissionCheckNotFound",
            "references missing AdmissionCheck(s): ",
            sorted(name for name in check_names if name not in checks),
        ),
        (
            "AdmissionCheckInactive",
            "references inactive AdmissionCheck(s): ",
            sorted(name for name in check_names if checks.get(name) is False),
        ),
        ("CohortCycle", "is below cohorts that lead in a circle: ", list(cycle)),
    )
    found = [(reason, words + ",".join(listed)) for reason, words, listed in blockers if listed]
    if not found:
        return READY
    return ActiveCondition(False, found[0][0], f"Can't admit new workloads: {', '.join(text for _, text in found)}.")
