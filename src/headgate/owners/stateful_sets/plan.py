"""What a StatefulSet has to do next, from what is known of its pods. Pure decisions; ``hands.py`` carries them out.

A plan is a row of stages; a stage that fails ends the work, so what stands later may rely on what stands before. In
order, every stage is one step, and the plan ends at the first member that has to be waited for: nobody is started
before all with lower ordinals are available, nobody is ended for an update before everybody is. In parallel, starting
and scaling down wait for nobody; an update still takes one member at a time, from the highest ordinal down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from headgate.owners.families import pods
from headgate.owners.revisions import REVISION_LABEL

Object = dict[str, Any]

_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class Rules(msgspec.Struct, frozen=True):
    start: int
    replicas: int
    is_ordered: bool
    partition: int | None
    """How many of the lowest ordinals stay as they are; ``None``: pods are updated when somebody else deletes them."""
    min_ready_s: int

    @property
    def ordinals(self) -> range:
        return range(self.start, self.start + self.replicas)


class Member(msgspec.Struct, frozen=True):
    """A pod of the set."""

    ordinal: int
    pod: Object
    revision: str
    phase: str
    is_ready: bool
    """Running and ready."""
    is_available: bool
    is_leaving: bool

    @property
    def is_unavailable(self) -> bool:
        return self.is_leaving or not self.is_available


class Start(msgspec.Struct, frozen=True):
    ordinal: int


class End(msgspec.Struct, frozen=True):
    member: Member


class Provide(msgspec.Struct, frozen=True):
    """Claims that a waiting pod may miss."""

    member: Member


class Mend(msgspec.Struct, frozen=True):
    """Its labels, and the owners of its claims."""

    member: Member


Step = Start | End | Provide | Mend
Stage = list[Step]
Needs = Callable[[Member], bool]


def rules_of(set_: Object) -> Rules:
    spec = set_["spec"]
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("type", "RollingUpdate") == "RollingUpdate"
    replicas = spec.get("replicas")
    return Rules(
        start=(spec.get("ordinals") or {}).get("start") or 0,
        replicas=1 if replicas is None else replicas,
        is_ordered=spec.get("podManagementPolicy") != "Parallel",
        partition=(strategy.get("rollingUpdate") or {}).get("partition") or 0 if rolling else None,
        min_ready_s=spec.get("minReadySeconds") or 0,
    )


def member_of(pod: Object, ordinal: int, min_ready_s: int, now_s: float, *, is_leaving: bool) -> Member:
    phase = pods.phase_of(pod)
    return Member(
        ordinal=ordinal,
        pod=pod,
        revision=(pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""),
        phase=phase,
        is_ready=phase == "Running" and pods.is_ready(pod),
        is_available=pods.is_available(pod, min_ready_s, now_s),
        is_leaving=is_leaving,
    )


def starts_at_current(rules: Rules, ordinal: int) -> bool:
    """Whether a pod that is started now is still made from the current revision, not from the one updated to."""
    return rules.partition is not None and ordinal < rules.start + rules.partition


def plan(rules: Rules, members: Iterable[Member], update_revision: str, needs_mending: Needs) -> list[Stage]:
    by_ordinal = {each.ordinal: each for each in members}
    condemned = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal.keys() - set(rules.ordinals), reverse=True)]
    kept = [by_ordinal.get(ordinal) for ordinal in rules.ordinals]
    if rules.is_ordered:
        return _in_order(rules, kept, condemned, update_revision, needs_mending)
    first = [step for ordinal, each in zip(rules.ordinals, kept, strict=True) for step in _tend(ordinal, each)]
    first += [Mend(each) for each in kept if each is not None and needs_mending(each)]
    mended: Stage = [Mend(each) for each in condemned if needs_mending(each)]
    ended: Stage = [End(each) for each in condemned if not each.is_leaving]
    stages = [first, mended, ended, _update(rules, kept, update_revision)]
    return [stage for stage in stages if stage]


def _in_order(
    rules: Rules, kept: list[Member | None], condemned: list[Member], update_revision: str, needs_mending: Needs
) -> list[Stage]:
    stages: list[Stage] = []
    for ordinal, each in zip(rules.ordinals, kept, strict=True):
        stages += [[step] for step in _tend(ordinal, each)]
        if each is None or each.phase in _FINISHED or not each.is_ready or each.is_unavailable:
            return stages
        if needs_mending(each):
            stages.append([Mend(each)])
    stages += [[Mend(each)] for each in condemned if needs_mending(each)]
    if condemned:
        if _may_end(condemned):
            stages.append([End(condemned[0])])
        return stages
    update = _update(rules, kept, update_revision)
    return [*stages, update] if update else stages


def _tend(ordinal: int, member: Member | None) -> Stage:
    if member is None:
        return [Start(ordinal)]
    if member.phase in _FINISHED:
        return [] if member.is_leaving else [End(member)]
    return [Provide(member)] if member.phase == "Pending" else []


def _may_end(condemned: list[Member]) -> bool:
    """The highest goes first, one at a time; when somebody is unavailable, only if it is that one, the lowest such."""
    highest = condemned[0]
    if highest.is_leaving:
        return False
    if highest.is_ready and highest.is_available:
        return True
    return all(not each.is_unavailable for each in condemned[1:])


def _update(rules: Rules, kept: list[Member | None], update_revision: str) -> Stage:
    """One that is not of the wanted revision, from the highest down, if all above it are available."""
    if rules.partition is None:
        return []
    for member in reversed(kept[rules.partition :]):
        if member is None or member.phase in _FINISHED:  # it is being started, or replaced, as it is
            return []
        if member.revision != update_revision and not member.is_leaving:
            return [End(member)]
        if member.is_unavailable:
            return []
    return []
