"""Which pods are replaced next in a rolling update, from the states of the nodes.

Without surge, old pods are deleted: all that are not available, and of the others as many as ``maxUnavailable`` allows.
With surge, new pods are created beside old ones, and an old one is deleted when the new one is available. Nodes are
processed in the order of their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from heapq import nsmallest
from typing import Any

import msgspec

from headgate.controllers.daemon_sets.daemon_nodes import UpdateGroup
from headgate.controllers.daemon_sets.node_state import NodeUpdateState
from headgate.kube.integers import scaled_int_or_percent

Object = dict[str, Any]
Groups = Mapping[UpdateGroup, Set[str]]


class DaemonRolloutLimits(msgspec.Struct, frozen=True):
    surge: int
    unavailable: int


class DaemonPodReplacement(msgspec.Struct, frozen=True):
    """Nodes where the old pod is deleted, and nodes where a new one is created."""

    deletes: tuple[str, ...] = ()
    creates: tuple[str, ...] = ()


def has_rolling_update_strategy(daemon_set: Object) -> bool:
    strategy = daemon_set["spec"].get("updateStrategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def limits_of(daemon_set: Object, desired: int) -> DaemonRolloutLimits:
    rolling = (daemon_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    unavailable = scaled_int_or_percent(rolling.get("maxUnavailable"), desired, round_up=True) or 0
    surge = scaled_int_or_percent(rolling.get("maxSurge"), desired, round_up=True) or 0
    if desired > 0 and not unavailable and not surge:
        unavailable = 1
    return DaemonRolloutLimits(surge, unavailable)


def allows_surge(daemon_set: Object) -> bool:
    return has_rolling_update_strategy(daemon_set) and limits_of(daemon_set, 1).surge > 0


def replace(groups: Groups, limits: DaemonRolloutLimits, desired: int, serving: int) -> DaemonPodReplacement:
    return (
        _replace_with_surge(groups, limits.surge, desired, serving)
        if limits.surge
        else _replace_in_place(groups, limits.unavailable)
    )


def _replace_in_place(groups: Groups, may_be_unavailable: int) -> DaemonPodReplacement:
    waiting = (
        NodeUpdateState.MIXED,
        NodeUpdateState.EMPTY,
        NodeUpdateState.BOTH,
        NodeUpdateState.BOTH_WAITING,
        NodeUpdateState.NEW_WAITING,
        NodeUpdateState.OLD_WAITING,
    )
    unavailable = sum(len(_nodes(groups, state)) for state in waiting)
    candidates = nsmallest(max(may_be_unavailable - unavailable, 0), _nodes(groups, NodeUpdateState.OLD))
    return DaemonPodReplacement(deletes=(*sorted(_nodes(groups, NodeUpdateState.OLD_WAITING)), *candidates))


def _replace_with_surge(groups: Groups, surge: int, desired: int, serving: int) -> DaemonPodReplacement:
    surging = len(_nodes(groups, NodeUpdateState.MIXED)) + len(_nodes(groups, NodeUpdateState.BOTH_WAITING))
    deletes = [
        *sorted(_nodes(groups, NodeUpdateState.BOTH)),
        *sorted(groups.get((NodeUpdateState.OLD_WAITING, False), ())),
    ]
    # On nodes where no pod is wanted, a pod is deleted when enough others serve.
    deletes += nsmallest(max(serving - desired, 0), groups.get((NodeUpdateState.OLD, False), ()))
    candidates = nsmallest(max(surge - surging, 0), groups.get((NodeUpdateState.OLD, True), ()))
    return DaemonPodReplacement(
        tuple(deletes), (*sorted(groups.get((NodeUpdateState.OLD_WAITING, True), ())), *candidates)
    )


def _nodes(groups: Groups, state: NodeUpdateState) -> set[str]:
    return {*groups.get((state, True), ()), *groups.get((state, False), ())}
