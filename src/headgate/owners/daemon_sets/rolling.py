"""Who is replaced next in a rolling update, from where the nodes stand.

Without surge, old pods are ended: all that are not available (nobody misses them), and of the others as many as may be
unavailable. With surge, new pods are started beside old ones, and an old one is ended when the new one is available.
Nodes are taken in the order of their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from heapq import nsmallest
from typing import Any

import msgspec

from headgate.kube.shares import share_of
from headgate.owners.daemon_sets.board import Group
from headgate.owners.daemon_sets.spots import Turn

Object = dict[str, Any]
Groups = Mapping[Group, Set[str]]


class Limits(msgspec.Struct, frozen=True):
    surge: int
    unavailable: int


class Replacement(msgspec.Struct, frozen=True):
    """Nodes where the old pod is ended, and nodes where a new one is started."""

    ends: tuple[str, ...] = ()
    creates: tuple[str, ...] = ()


def is_rolling(owner: Object) -> bool:
    strategy = owner["spec"].get("updateStrategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def limits_of(owner: Object, desired: int) -> Limits:
    rolling = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    unavailable = share_of(rolling.get("maxUnavailable"), desired, round_up=True) or 0
    surge = share_of(rolling.get("maxSurge"), desired, round_up=True) or 0
    if desired > 0 and not unavailable and not surge:
        unavailable = 1
    return Limits(surge, unavailable)


def allows_surge(owner: Object) -> bool:
    return is_rolling(owner) and limits_of(owner, 1).surge > 0


def replace(groups: Groups, limits: Limits, desired: int, serving: int) -> Replacement:
    return _surge(groups, limits.surge, desired, serving) if limits.surge else _end(groups, limits.unavailable)


def _end(groups: Groups, may_be_unavailable: int) -> Replacement:
    waiting = (Turn.MIXED, Turn.EMPTY, Turn.BOTH, Turn.BOTH_WAITING, Turn.NEW_WAITING, Turn.OLD_WAITING)
    unavailable = sum(len(_nodes(groups, turn)) for turn in waiting)
    candidates = nsmallest(max(may_be_unavailable - unavailable, 0), _nodes(groups, Turn.OLD))
    return Replacement(ends=(*sorted(_nodes(groups, Turn.OLD_WAITING)), *candidates))


def _surge(groups: Groups, surge: int, desired: int, serving: int) -> Replacement:
    surging = len(_nodes(groups, Turn.MIXED)) + len(_nodes(groups, Turn.BOTH_WAITING))
    ends = [*sorted(_nodes(groups, Turn.BOTH)), *sorted(groups.get((Turn.OLD_WAITING, False), ()))]
    # Where no pod is wanted any more, one goes when another one serves elsewhere in its place.
    ends += nsmallest(max(serving - desired, 0), groups.get((Turn.OLD, False), ()))
    candidates = nsmallest(max(surge - surging, 0), groups.get((Turn.OLD, True), ()))
    return Replacement(tuple(ends), (*sorted(groups.get((Turn.OLD_WAITING, True), ())), *candidates))


def _nodes(groups: Groups, turn: Turn) -> set[str]:
    return {*groups.get((turn, True), ()), *groups.get((turn, False), ())}
