"""What a DaemonSet has on one node and needs there: a few pods in, a verdict out. Pure.

A pod is old when it was made from another template than the present one. Where surge is allowed, an old pod that is
ready and a new one that is not yet available stand side by side; otherwise there is one pod to a node, the oldest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec

from headgate.owners.daemon_sets.placement import GENERATION_LABEL, Fit, Placement
from headgate.owners.families import pods as facts
from headgate.owners.revisions import REVISION_LABEL

Object = dict[str, Any]


class Rules(msgspec.Struct, frozen=True):
    """What of a DaemonSet decides over one node."""

    placement: Placement
    revision_hash: str
    generation: str | None
    min_ready_s: int
    surges: bool


class Pod(msgspec.Struct, frozen=True):
    obj: Object
    is_leaving: bool

    @property
    def name(self) -> str:
        name: str = self.obj["metadata"]["name"]
        return name

    @property
    def is_bound(self) -> bool:
        return bool((self.obj.get("spec") or {}).get("nodeName"))


class Turn(Enum):
    """Where a node stands in a rolling update."""

    NONE = "nothing is there and nothing is wanted"
    MIXED = "more than one old or more than one new pod"
    EMPTY = "no pod that stays"
    BOTH_WAITING = "an old pod, and a new one that is not available"
    BOTH = "an old pod, and a new one that is available"
    NEW = "a new pod that is available"
    NEW_WAITING = "a new pod that is not"
    OLD = "an old pod that is available"
    OLD_WAITING = "an old pod that is not"


class Spot(msgspec.Struct, frozen=True):
    """What a node counts for, and until when that holds if nobody touches it."""

    fit: Fit
    is_scheduled: bool = False
    is_ready: bool = False
    is_available: bool = False
    is_updated: bool = False
    turn: Turn = Turn.NONE
    old_is_available: bool = False
    until_s: float = math.inf


class Need(msgspec.Struct, frozen=True):
    """What is to be done on a node, whatever else goes on."""

    creates: bool = False
    ends: tuple[Pod, ...] = ()
    failed: tuple[Pod, ...] = ()
    """These too, but not too often."""
    succeeded: tuple[Pod, ...] = ()


def is_over(pod: Pod) -> bool:
    """It has ended and is leaving: there is nothing to be done about it any more."""
    return pod.is_leaving and facts.is_finished(pod.obj)


def look(fit: Fit, there: Sequence[Pod], rules: Rules, now_s: float) -> Spot:
    present = sorted((each for each in there if not is_over(each)), key=_age)
    if not present:
        return Spot(fit, turn=Turn.EMPTY if fit == Fit.WANTED else Turn.NONE)
    times = [facts.available_at_s(each.obj, rules.min_ready_s) for each in present]
    until_s = min((each for each in times if each > now_s), default=math.inf)
    oldest = present[0].obj
    is_ready = facts.is_ready(oldest)
    turn, old = _turn(present, rules, now_s)
    return Spot(
        fit,
        is_scheduled=True,
        is_ready=is_ready,
        is_available=is_ready and facts.is_available(oldest, rules.min_ready_s, now_s),
        is_updated=_is_new(present[0], rules),
        turn=turn,
        old_is_available=old is not None and facts.is_available(old.obj, rules.min_ready_s, now_s),
        until_s=until_s,
    )


def old_pod(there: Sequence[Pod], rules: Rules) -> Pod | None:
    """The one that a rolling update would end."""
    return next((each for each in there if not each.is_leaving and not _is_new(each, rules)), None)


def need(fit: Fit, there: Sequence[Pod], rules: Rules, now_s: float) -> Need:
    present = [each for each in there if not is_over(each)]
    staying = sorted((each for each in present if not each.is_leaving), key=_age)
    match fit:
        case Fit.GONE:  # a pod that was never bound would wait for ever; the others are seen to elsewhere
            return Need(ends=tuple(each for each in staying if not each.is_bound))
        case Fit.NO:
            return Need(ends=tuple(staying))
        case Fit.WANTED if not present:
            return Need(creates=True)
    failed = tuple(each for each in staying if facts.phase_of(each.obj) == "Failed")
    succeeded = tuple(each for each in staying if facts.phase_of(each.obj) == "Succeeded")
    running = [each for each in staying if not facts.is_finished(each.obj)]
    if not rules.surges:
        return Need(False, tuple(running[1:]), failed, succeeded)
    if len(running) <= 1:
        return Need(not running and fit == Fit.WANTED, (), failed, succeeded)
    return Need(False, _too_many(running, rules, now_s), failed, succeeded)


def _too_many(running: Sequence[Pod], rules: Rules, now_s: float) -> tuple[Pod, ...]:
    """Of old and of new pods the oldest may stay; the old one as long as it is ready and the new one not available."""
    new = [each for each in running if _hash_of(each) == rules.revision_hash]
    old = [each for each in running if _hash_of(each) != rules.revision_hash]
    going = [*new[1:], *old[1:]]
    if new and old:
        is_done = facts.is_available(new[0].obj, rules.min_ready_s, now_s)
        if is_done or not facts.is_ready(old[0].obj):
            going.append(old[0])
    return tuple(going)


def _turn(present: Sequence[Pod], rules: Rules, now_s: float) -> tuple[Turn, Pod | None]:
    staying = [each for each in present if not each.is_leaving]
    new = [each for each in staying if _is_new(each, rules)]
    old = [each for each in staying if not _is_new(each, rules)]
    if len(new) > 1 or len(old) > 1:
        return Turn.MIXED, None
    if not staying:
        return Turn.EMPTY, None
    judged = new or old
    is_available = facts.is_available(judged[0].obj, rules.min_ready_s, now_s)
    if new and old:
        return (Turn.BOTH if is_available else Turn.BOTH_WAITING), old[0]
    if new:
        return (Turn.NEW if is_available else Turn.NEW_WAITING), None
    return (Turn.OLD if is_available else Turn.OLD_WAITING), old[0]


def _is_new(pod: Pod, rules: Rules) -> bool:
    labels = pod.obj["metadata"].get("labels") or {}
    if rules.generation is not None and labels.get(GENERATION_LABEL) == rules.generation:
        return True
    return bool(labels.get(REVISION_LABEL) == rules.revision_hash)


def _hash_of(pod: Pod) -> str | None:
    found: str | None = (pod.obj["metadata"].get("labels") or {}).get(REVISION_LABEL)
    return found


def _age(pod: Pod) -> tuple[bool, str, str]:
    metadata = pod.obj["metadata"]
    return not pod.is_bound, metadata.get("creationTimestamp", ""), metadata["name"]
