"""How a rolling update moves replicas: how many pods there may be at once, how many may be missing, who shrinks.

Both fences come as numbers or percents of what is wanted. Surge is rounded up, what may be missing is rounded down;
should both come to nought, one pod may be missing, for otherwise nothing could ever move. The new ReplicaSet grows into
what the surge leaves; old ones give up first the replicas that are not available, which costs nobody anything, and then
what is available beyond the least that must be. ``scaling.py`` is for changes of the wanted number itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.kube.shares import share_of
from headgate.owners.deployments.sets import ReplicaSet, active, oldest_first, total

Object = dict[str, Any]


class Fences(msgspec.Struct, frozen=True):
    wanted: int
    surge: int
    missing: int

    @property
    def most(self) -> int:
        """Pods there may be at once."""
        return self.wanted + self.surge

    @property
    def least_available(self) -> int:
        return self.wanted - self.missing


class Resize(msgspec.Struct, frozen=True):
    """``note_only``: also when the size stays, the notes on the ReplicaSet are brought up to date."""

    uid: str
    replicas: int
    note_only: bool = False


def is_rolling(deployment: Object) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type") == "RollingUpdate")


def wanted(deployment: Object) -> int:
    replicas = deployment["spec"].get("replicas")
    return 1 if replicas is None else replicas


def fences(deployment: Object) -> Fences:
    """Of a Deployment that is recreated, no fence holds: nothing is added, and nothing need be available."""
    count = wanted(deployment)
    if not is_rolling(deployment):
        return Fences(count, 0, 0)
    update = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    surge = share_of(update.get("maxSurge"), count, round_up=True) or 0
    missing = share_of(update.get("maxUnavailable"), count, round_up=False) or 0
    if surge == 0 and missing == 0:
        missing = 1
    return Fences(count, surge, min(missing, count))


def new_size(deployment: Object, sets: Sequence[ReplicaSet], new_replicas: int) -> int:
    """How large the new ReplicaSet, now of ``new_replicas``, may become; ``sets`` are all, the new one included.

    Pods that were not told to go yet take their room, and while a ReplicaSet has not done what it was last told nobody
    knows how many those are: it grows only when all of them have. Upstream goes by the sizes alone, so that for moments
    there may be more pods than the surge allows.
    """
    limit = fences(deployment)
    if not is_rolling(deployment):
        return limit.wanted
    if any(each.generation > each.observed_generation for each in sets):
        return new_replicas
    room = limit.most - sum(max(each.replicas, each.counted) for each in sets)
    return new_replicas if room <= 0 else new_replicas + min(room, limit.wanted - new_replicas)


def resize_new(deployment: Object, sets: Sequence[ReplicaSet], new: ReplicaSet) -> list[Resize]:
    count = wanted(deployment)
    size = count if new.replicas > count else new_size(deployment, sets, new.replicas)
    return [] if size == new.replicas else [Resize(new.uid, size)]


def shrink_old(deployment: Object, old: Sequence[ReplicaSet], new: ReplicaSet) -> list[Resize]:
    """In order. A ReplicaSet that gives up unavailable replicas and then available ones comes twice."""
    olds = oldest_first(active(old))
    limit = fences(deployment)
    room = total(olds) + min(new.available, new.replicas) - limit.least_available
    if not olds or room <= 0:
        return []
    sizes = {each.uid: each.replicas for each in olds}
    resizes: list[Resize] = []

    def shrink(each: ReplicaSet, by: int) -> None:
        sizes[each.uid] -= by
        resizes.append(Resize(each.uid, sizes[each.uid]))

    for each in olds:
        by = min(room, each.replicas - each.available)
        if by > 0:
            shrink(each, by)
            room -= by
    # What a ReplicaSet last said may be older than what it was told since: it will not keep more than that.
    available = min(new.available, new.replicas) + sum(min(each.available, sizes[each.uid]) for each in olds)
    spare = available - limit.least_available
    for each in olds:
        by = min(sizes[each.uid], spare)
        if by > 0:
            shrink(each, by)
            spare -= by
    return resizes
