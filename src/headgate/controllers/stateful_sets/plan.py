"""The next steps of a StatefulSet, from the state of its pods. Pure; ``pod_control.py`` performs them.

A plan is a sequence of stages; a stage that fails ends the reconcile, so later stages may rely on earlier ones. With
OrderedReady every stage is one step, and the plan ends at the first pod that is not available: a pod is created only
when all pods with lower ordinals are available, and a pod is deleted for an update only when all pods are available.
With Parallel, the creation and the scale-down of a pod do not wait for other pods. An update replaces one pod at a time
with both policies, from the highest ordinal to the lowest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.ownership import pods
from headgate.controllers.ownership.controller_revisions import REVISION_LABEL

Object = dict[str, Any]

_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class StatefulSetRules(msgspec.Struct, frozen=True):
    """The fields of the spec that the plan depends on. ``start``: the first ordinal. ``is_ordered``: the pod management
    policy is OrderedReady."""

    start: int
    replicas: int
    is_ordered: bool
    partition: int | None
    """How many of the lowest ordinals are not updated; ``None``: OnDelete, pods are updated when they are deleted."""
    min_ready_s: int

    @property
    def ordinals(self) -> range:
        return range(self.start, self.start + self.replicas)


class StatefulSetPod(msgspec.Struct, frozen=True):
    """A pod of the set."""

    ordinal: int
    pod: Object
    revision: str
    phase: str
    is_ready: bool
    """Running and ready."""
    is_available: bool
    is_terminating: bool

    @property
    def is_unavailable(self) -> bool:
        return self.is_terminating or not self.is_available


class StartPod(msgspec.Struct, frozen=True):
    ordinal: int


class StopPod(msgspec.Struct, frozen=True):
    member: StatefulSetPod


class ProvideClaims(msgspec.Struct, frozen=True):
    """Create claims that a pending pod may lack."""

    member: StatefulSetPod


class RepairPod(msgspec.Struct, frozen=True):
    """Correct the labels of a pod, and the owners of its claims."""

    member: StatefulSetPod


PlanStep = StartPod | StopPod | ProvideClaims | RepairPod
PlanStage = list[PlanStep]
NeedsRepair = Callable[[StatefulSetPod], bool]


def rules_of(set_: Object) -> StatefulSetRules:
    spec = set_["spec"]
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("type", "RollingUpdate") == "RollingUpdate"
    replicas = spec.get("replicas")
    return StatefulSetRules(
        start=(spec.get("ordinals") or {}).get("start") or 0,
        replicas=1 if replicas is None else replicas,
        is_ordered=spec.get("podManagementPolicy") != "Parallel",
        partition=(strategy.get("rollingUpdate") or {}).get("partition") or 0 if rolling else None,
        min_ready_s=spec.get("minReadySeconds") or 0,
    )


def member_of(pod: Object, ordinal: int, min_ready_s: int, now_s: float, *, is_terminating: bool) -> StatefulSetPod:
    phase = pods.phase_of(pod)
    return StatefulSetPod(
        ordinal=ordinal,
        pod=pod,
        revision=(pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""),
        phase=phase,
        is_ready=phase == "Running" and pods.is_ready(pod),
        is_available=pods.is_available(pod, min_ready_s, now_s),
        is_terminating=is_terminating,
    )


def uses_current_revision(rules: StatefulSetRules, ordinal: int) -> bool:
    """Whether a new pod of this ordinal is created from the current revision, not from the update revision."""
    return rules.partition is not None and ordinal < rules.start + rules.partition


def plan_pods(
    rules: StatefulSetRules, members: Iterable[StatefulSetPod], update_revision: str, needs_repair: NeedsRepair
) -> list[PlanStage]:
    """The stages of the plan. A pod outside the requested ordinals is *condemned*: it is deleted in a scale-down."""
    by_ordinal = {each.ordinal: each for each in members}
    condemned = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal.keys() - set(rules.ordinals), reverse=True)]
    kept = [by_ordinal.get(ordinal) for ordinal in rules.ordinals]
    if rules.is_ordered:
        return _plan_ordered(rules, kept, condemned, update_revision, needs_repair)
    starts_and_repairs = [
        step for ordinal, each in zip(rules.ordinals, kept, strict=True) for step in _steps_for_ordinal(ordinal, each)
    ]
    starts_and_repairs += [RepairPod(each) for each in kept if each is not None and needs_repair(each)]
    repairs: PlanStage = [RepairPod(each) for each in condemned if needs_repair(each)]
    stops: PlanStage = [StopPod(each) for each in condemned if not each.is_terminating]
    stages = [starts_and_repairs, repairs, stops, _update_stage(rules, kept, update_revision)]
    return [stage for stage in stages if stage]


def _plan_ordered(
    rules: StatefulSetRules,
    kept: list[StatefulSetPod | None],
    condemned: list[StatefulSetPod],
    update_revision: str,
    needs_repair: NeedsRepair,
) -> list[PlanStage]:
    stages: list[PlanStage] = []
    for ordinal, each in zip(rules.ordinals, kept, strict=True):
        stages += [[step] for step in _steps_for_ordinal(ordinal, each)]
        if each is None or each.phase in _FINISHED or not each.is_ready or each.is_unavailable:
            return stages
        if needs_repair(each):
            stages.append([RepairPod(each)])
    stages += [[RepairPod(each)] for each in condemned if needs_repair(each)]
    if condemned:
        if _may_delete_highest(condemned):
            stages.append([StopPod(condemned[0])])
        return stages
    update = _update_stage(rules, kept, update_revision)
    return [*stages, update] if update else stages


def _steps_for_ordinal(ordinal: int, member: StatefulSetPod | None) -> PlanStage:
    """The steps for a requested ordinal and its pod, if that exists."""
    if member is None:
        return [StartPod(ordinal)]
    if member.phase in _FINISHED:
        return [] if member.is_terminating else [StopPod(member)]
    return [ProvideClaims(member)] if member.phase == "Pending" else []


def _may_delete_highest(condemned: list[StatefulSetPod]) -> bool:
    """Whether the condemned pod with the highest ordinal may be deleted. A scale-down deletes one pod at a time, so its
    deletion must not have begun. If it is not available itself, all other condemned pods must be available."""
    highest = condemned[0]
    if highest.is_terminating:
        return False
    if highest.is_ready and highest.is_available:
        return True
    return all(not each.is_unavailable for each in condemned[1:])


def _update_stage(rules: StatefulSetRules, kept: list[StatefulSetPod | None], update_revision: str) -> PlanStage:
    """Stops the pod with the highest ordinal that is not of the update revision, if all pods with higher ordinals are
    available."""
    if rules.partition is None:
        return []
    for member in reversed(kept[rules.partition :]):
        if member is None or member.phase in _FINISHED:  # another step of the plan creates or deletes this pod
            return []
        if member.revision != update_revision and not member.is_terminating:
            return [StopPod(member)]
        if member.is_unavailable:
            return []
    return []
