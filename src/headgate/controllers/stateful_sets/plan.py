"""The next steps of a StatefulSet, from the state of its pods. Pure; ``pod_control.py`` performs them.

A plan is a sequence of stages; a stage that fails ends the reconcile, so later stages may rely on earlier ones. With
OrderedReady every stage is one step, and the plan ends at the first pod that must be waited for: no pod is created
before all with lower ordinals are available, no pod is deleted for an update before all are. With Parallel, creation
and scale-down wait for no other pod; an update still takes one pod at a time, from the highest ordinal down.
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
    """Correct its labels, and the owners of its claims."""

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


def starts_at_current(rules: StatefulSetRules, ordinal: int) -> bool:
    """Whether a new pod is created from the current revision, not from the update revision."""
    return rules.partition is not None and ordinal < rules.start + rules.partition


def plan_pods(
    rules: StatefulSetRules, members: Iterable[StatefulSetPod], update_revision: str, needs_repair: NeedsRepair
) -> list[PlanStage]:
    by_ordinal = {each.ordinal: each for each in members}
    condemned = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal.keys() - set(rules.ordinals), reverse=True)]
    kept = [by_ordinal.get(ordinal) for ordinal in rules.ordinals]
    if rules.is_ordered:
        return _in_order(rules, kept, condemned, update_revision, needs_repair)
    first = [step for ordinal, each in zip(rules.ordinals, kept, strict=True) for step in _keep_ordinal(ordinal, each)]
    first += [RepairPod(each) for each in kept if each is not None and needs_repair(each)]
    repairs: PlanStage = [RepairPod(each) for each in condemned if needs_repair(each)]
    stops: PlanStage = [StopPod(each) for each in condemned if not each.is_terminating]
    stages = [first, repairs, stops, _update(rules, kept, update_revision)]
    return [stage for stage in stages if stage]


def _in_order(
    rules: StatefulSetRules,
    kept: list[StatefulSetPod | None],
    condemned: list[StatefulSetPod],
    update_revision: str,
    needs_repair: NeedsRepair,
) -> list[PlanStage]:
    stages: list[PlanStage] = []
    for ordinal, each in zip(rules.ordinals, kept, strict=True):
        stages += [[step] for step in _keep_ordinal(ordinal, each)]
        if each is None or each.phase in _FINISHED or not each.is_ready or each.is_unavailable:
            return stages
        if needs_repair(each):
            stages.append([RepairPod(each)])
    stages += [[RepairPod(each)] for each in condemned if needs_repair(each)]
    if condemned:
        if _may_delete(condemned):
            stages.append([StopPod(condemned[0])])
        return stages
    update = _update(rules, kept, update_revision)
    return [*stages, update] if update else stages


def _keep_ordinal(ordinal: int, member: StatefulSetPod | None) -> PlanStage:
    if member is None:
        return [StartPod(ordinal)]
    if member.phase in _FINISHED:
        return [] if member.is_terminating else [StopPod(member)]
    return [ProvideClaims(member)] if member.phase == "Pending" else []


def _may_delete(condemned: list[StatefulSetPod]) -> bool:
    """Whether the highest condemned pod may be deleted: one at a time, and only if all others are available."""
    highest = condemned[0]
    if highest.is_terminating:
        return False
    if highest.is_ready and highest.is_available:
        return True
    return all(not each.is_unavailable for each in condemned[1:])


def _update(rules: StatefulSetRules, kept: list[StatefulSetPod | None], update_revision: str) -> PlanStage:
    """Stops the highest pod that is not of the update revision, if all above it are available."""
    if rules.partition is None:
        return []
    for member in reversed(kept[rules.partition :]):
        if member is None or member.phase in _FINISHED:  # another step creates or replaces it
            return []
        if member.revision != update_revision and not member.is_terminating:
            return [StopPod(member)]
        if member.is_unavailable:
            return []
    return []
