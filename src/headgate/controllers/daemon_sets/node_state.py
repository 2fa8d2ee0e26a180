"""The state of a DaemonSet on one node, and the pods to create or delete there. Pure.

A pod is old when it was created from another template than the present one. With surge, an old pod that is ready and a
new one that is not yet available may coexist; otherwise a node has one pod, the oldest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec

from headgate.controllers.daemon_sets.placement import GENERATION_LABEL, DaemonPodPlacement, NodeFit
from headgate.controllers.ownership import pods as facts
from headgate.controllers.ownership.controller_revisions import REVISION_LABEL

Object = dict[str, Any]


class DaemonSetRules(msgspec.Struct, frozen=True):
    """The fields of a DaemonSet that decide for one node."""

    placement: DaemonPodPlacement
    revision_hash: str
    generation: str | None
    min_ready_s: int
    surges: bool


class DaemonPod(msgspec.Struct, frozen=True):
    obj: Object
    is_terminating: bool

    @property
    def name(self) -> str:
        name: str = self.obj["metadata"]["name"]
        return name

    @property
    def is_bound(self) -> bool:
        return bool((self.obj.get("spec") or {}).get("nodeName"))


class NodeUpdateState(Enum):
    """The state of a node in a rolling update."""

    NONE = "nothing is there and nothing is wanted"
    MIXED = "more than one old or more than one new pod"
    EMPTY = "no pod that stays"
    BOTH_WAITING = "an old pod, and a new one that is not available"
    BOTH = "an old pod, and a new one that is available"
    NEW = "a new pod that is available"
    NEW_WAITING = "a new pod that is not available"
    OLD = "an old pod that is available"
    OLD_WAITING = "an old pod that is not available"


class DaemonNodeState(msgspec.Struct, frozen=True):
    """The counts of a node, and until when they are valid without an event."""

    fit: NodeFit
    is_scheduled: bool = False
    is_ready: bool = False
    is_available: bool = False
    is_updated: bool = False
    update_state: NodeUpdateState = NodeUpdateState.NONE
    old_is_available: bool = False
    until_s: float = math.inf


class DaemonNodeActions(msgspec.Struct, frozen=True):
    """What to do on a node, independent of a rolling update."""

    creates: bool = False
    deletes: tuple[DaemonPod, ...] = ()
    failed: tuple[DaemonPod, ...] = ()
    """Failed pods, which are deleted with back-off."""
    succeeded: tuple[DaemonPod, ...] = ()


def has_ended(pod: DaemonPod) -> bool:
    """Whether the pod is finished and being deleted: nothing is left to do."""
    return pod.is_terminating and facts.is_finished(pod.obj)


def observe_node(fit: NodeFit, pods: Sequence[DaemonPod], rules: DaemonSetRules, now_s: float) -> DaemonNodeState:
    present = sorted((each for each in pods if not has_ended(each)), key=_age)
    if not present:
        return DaemonNodeState(
            fit, update_state=NodeUpdateState.EMPTY if fit == NodeFit.WANTED else NodeUpdateState.NONE
        )
    times = [facts.available_at_s(each.obj, rules.min_ready_s) for each in present]
    until_s = min((each for each in times if each > now_s), default=math.inf)
    oldest = present[0].obj
    is_ready = facts.is_ready(oldest)
    state, old = _update_state(present, rules, now_s)
    return DaemonNodeState(
        fit,
        is_scheduled=True,
        is_ready=is_ready,
        is_available=is_ready and facts.is_available(oldest, rules.min_ready_s, now_s),
        is_updated=_is_new(present[0], rules),
        update_state=state,
        old_is_available=old is not None and facts.is_available(old.obj, rules.min_ready_s, now_s),
        until_s=until_s,
    )


def old_pod(pods: Sequence[DaemonPod], rules: DaemonSetRules) -> DaemonPod | None:
    """The pod that a rolling update deletes."""
    return next((each for each in pods if not each.is_terminating and not _is_new(each, rules)), None)


def needed_actions(fit: NodeFit, pods: Sequence[DaemonPod], rules: DaemonSetRules, now_s: float) -> DaemonNodeActions:
    present = [each for each in pods if not has_ended(each)]
    staying = sorted((each for each in present if not each.is_terminating), key=_age)
    match fit:
        case NodeFit.GONE:  # an unbound pod would wait forever; pod_gc.py deletes the others
            return DaemonNodeActions(deletes=tuple(each for each in staying if not each.is_bound))
        case NodeFit.NO:
            return DaemonNodeActions(deletes=tuple(staying))
        case NodeFit.WANTED if not present:
            return DaemonNodeActions(creates=True)
    failed = tuple(each for each in staying if facts.phase_of(each.obj) == "Failed")
    succeeded = tuple(each for each in staying if facts.phase_of(each.obj) == "Succeeded")
    running = [each for each in staying if not facts.is_finished(each.obj)]
    if not rules.surges:
        return DaemonNodeActions(False, tuple(running[1:]), failed, succeeded)
    if len(running) <= 1:
        return DaemonNodeActions(not running and fit == NodeFit.WANTED, (), failed, succeeded)
    return DaemonNodeActions(False, _excess_pods(running, rules, now_s), failed, succeeded)


def _excess_pods(running: Sequence[DaemonPod], rules: DaemonSetRules, now_s: float) -> tuple[DaemonPod, ...]:
    """The excess pods: all but the oldest old and the oldest new one. The old one may stay while it is ready and the
    new one is not available."""
    new = [each for each in running if _hash_of(each) == rules.revision_hash]
    old = [each for each in running if _hash_of(each) != rules.revision_hash]
    deletes = [*new[1:], *old[1:]]
    if new and old:
        is_done = facts.is_available(new[0].obj, rules.min_ready_s, now_s)
        if is_done or not facts.is_ready(old[0].obj):
            deletes.append(old[0])
    return tuple(deletes)


def _update_state(
    present: Sequence[DaemonPod], rules: DaemonSetRules, now_s: float
) -> tuple[NodeUpdateState, DaemonPod | None]:
    staying = [each for each in present if not each.is_terminating]
    new = [each for each in staying if _is_new(each, rules)]
    old = [each for each in staying if not _is_new(each, rules)]
    if len(new) > 1 or len(old) > 1:
        return NodeUpdateState.MIXED, None
    if not staying:
        return NodeUpdateState.EMPTY, None
    newest = new or old
    is_available = facts.is_available(newest[0].obj, rules.min_ready_s, now_s)
    if new and old:
        return (NodeUpdateState.BOTH if is_available else NodeUpdateState.BOTH_WAITING), old[0]
    if new:
        return (NodeUpdateState.NEW if is_available else NodeUpdateState.NEW_WAITING), None
    return (NodeUpdateState.OLD if is_available else NodeUpdateState.OLD_WAITING), old[0]


def _is_new(pod: DaemonPod, rules: DaemonSetRules) -> bool:
    labels = pod.obj["metadata"].get("labels") or {}
    if rules.generation is not None and labels.get(GENERATION_LABEL) == rules.generation:
        return True
    return bool(labels.get(REVISION_LABEL) == rules.revision_hash)


def _hash_of(pod: DaemonPod) -> str | None:
    found: str | None = (pod.obj["metadata"].get("labels") or {}).get(REVISION_LABEL)
    return found


def _age(pod: DaemonPod) -> tuple[bool, str, str]:
    metadata = pod.obj["metadata"]
    return not pod.is_bound, metadata.get("creationTimestamp", ""), metadata["name"]
