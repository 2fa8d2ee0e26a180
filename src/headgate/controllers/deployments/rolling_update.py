"""How a rolling update moves replicas: ``maxSurge``, ``maxUnavailable``, and which ReplicaSets scale down.

Both limits are numbers or percentages of the replica count. Surge is rounded up, unavailability is rounded down; if
both are zero, one pod may be unavailable, because otherwise no progress would be possible. The new ReplicaSet scales up
as far as the surge allows; old ones first give up unavailable replicas and then the available ones above the required
minimum. ``scaling.py`` handles changes of the replica count itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.controllers.deployments.replica_sets import ReplicaSet, active, oldest_first, total
from headgate.kube.integers import scaled_int_or_percent

Object = dict[str, Any]


class DeploymentRolloutLimits(msgspec.Struct, frozen=True):
    wanted: int
    surge: int
    unavailable: int

    @property
    def max_replicas(self) -> int:
        """The maximum number of pods at a time."""
        return self.wanted + self.surge

    @property
    def min_available(self) -> int:
        return self.wanted - self.unavailable


class ReplicaSetResize(msgspec.Struct, frozen=True):
    """``annotations_only``: the annotations of the ReplicaSet are updated also when its size stays."""

    uid: str
    replicas: int
    annotations_only: bool = False


def is_rolling(deployment: Object) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type") == "RollingUpdate")


def desired_replicas(deployment: Object) -> int:
    replicas = deployment["spec"].get("replicas")
    return 1 if replicas is None else replicas


def rollout_limits(deployment: Object) -> DeploymentRolloutLimits:
    """The limits of a rolling update. With the Recreate strategy both are zero."""
    count = desired_replicas(deployment)
    if not is_rolling(deployment):
        return DeploymentRolloutLimits(count, 0, 0)
    update = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    surge = scaled_int_or_percent(update.get("maxSurge"), count, round_up=True) or 0
    missing = scaled_int_or_percent(update.get("maxUnavailable"), count, round_up=False) or 0
    if surge == 0 and missing == 0:
        missing = 1
    return DeploymentRolloutLimits(count, surge, min(missing, count))


def new_size(deployment: Object, sets: Sequence[ReplicaSet], new_replicas: int) -> int:
    """How large the new ReplicaSet, now of ``new_replicas``, may become; ``sets`` are all, the new one included.

    Existing pods count against the surge. Their number is unknown until each ReplicaSet has observed its last
    generation, so the new one grows only then. Upstream compares the requested sizes only, and may exceed the surge for
    a moment.
    """
    limit = rollout_limits(deployment)
    if not is_rolling(deployment):
        return limit.wanted
    if any(each.generation > each.observed_generation for each in sets):
        return new_replicas
    allowance = limit.max_replicas - sum(max(each.replicas, each.counted) for each in sets)
    return new_replicas if allowance <= 0 else new_replicas + min(allowance, limit.wanted - new_replicas)


def resize_new(deployment: Object, sets: Sequence[ReplicaSet], new: ReplicaSet) -> list[ReplicaSetResize]:
    count = desired_replicas(deployment)
    size = count if new.replicas > count else new_size(deployment, sets, new.replicas)
    return [] if size == new.replicas else [ReplicaSetResize(new.uid, size)]


def shrink_old(deployment: Object, old: Sequence[ReplicaSet], new: ReplicaSet) -> list[ReplicaSetResize]:
    """The resizes in order. A ReplicaSet that loses unavailable and then available replicas is listed twice."""
    olds = oldest_first(active(old))
    limit = rollout_limits(deployment)
    allowance = total(olds) + min(new.available, new.replicas) - limit.min_available
    if not olds or allowance <= 0:
        return []
    sizes = {each.uid: each.replicas for each in olds}
    resizes: list[ReplicaSetResize] = []

    def shrink(each: ReplicaSet, by: int) -> None:
        sizes[each.uid] -= by
        resizes.append(ReplicaSetResize(each.uid, sizes[each.uid]))

    for each in olds:
        by = min(allowance, each.replicas - each.available)
        if by > 0:
            shrink(each, by)
            allowance -= by
    # The reported availability may be older than the last resize, so the requested size limits it.
    available = min(new.available, new.replicas) + sum(min(each.available, sizes[each.uid]) for each in olds)
    spare = available - limit.min_available
    for each in olds:
        by = min(sizes[each.uid], spare)
        if by > 0:
            shrink(each, by)
            spare -= by
    return resizes
