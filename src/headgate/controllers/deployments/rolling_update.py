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

from headgate.controllers.deployments.replica_sets import ReplicaSet, active, oldest_first, total_spec_replicas
from headgate.kube.integers import scaled_int_or_percent

Object = dict[str, Any]


class DeploymentRolloutLimits(msgspec.Struct, frozen=True):
    """``desired_replicas``: ``spec.replicas`` of the Deployment. ``surge`` and ``unavailable``: ``maxSurge`` and
    ``maxUnavailable`` as numbers of pods."""

    desired_replicas: int
    surge: int
    unavailable: int

    @property
    def max_replicas(self) -> int:
        """The maximum number of pods at a time."""
        return self.desired_replicas + self.surge

    @property
    def min_available(self) -> int:
        return self.desired_replicas - self.unavailable


class ReplicaSetResize(msgspec.Struct, frozen=True):
    """The new ``spec.replicas`` of a ReplicaSet. ``updates_annotations``: the annotations with the Deployment's desired
    and maximum replicas are written even if ``spec.replicas`` of the ReplicaSet does not change."""

    uid: str
    replicas: int
    updates_annotations: bool = False


def has_rolling_update_strategy(deployment: Object) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type") == "RollingUpdate")


def desired_replicas(deployment: Object) -> int:
    replicas = deployment["spec"].get("replicas")
    return 1 if replicas is None else replicas


def rollout_limits(deployment: Object) -> DeploymentRolloutLimits:
    """The limits of a rolling update. With the Recreate strategy both are zero."""
    count = desired_replicas(deployment)
    if not has_rolling_update_strategy(deployment):
        return DeploymentRolloutLimits(count, 0, 0)
    update = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    surge = scaled_int_or_percent(update.get("maxSurge"), count, round_up=True) or 0
    unavailable = scaled_int_or_percent(update.get("maxUnavailable"), count, round_up=False) or 0
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return DeploymentRolloutLimits(count, surge, min(unavailable, count))


def new_size(deployment: Object, sets: Sequence[ReplicaSet], new_replicas: int) -> int:
    """The size that the new ReplicaSet may have now. ``sets``: all ReplicaSets, including the new one.
    ``new_replicas``: the present size of the new one.

    There are never more than ``max_replicas`` pods, including pods that a ReplicaSet has not deleted yet. Their number
    is in ``status.replicas``, which is up to date if ``status.observedGeneration`` equals ``metadata.generation``.
    While this is not the case for a ReplicaSet, the new ReplicaSet does not scale up. kube-controller-manager adds up
    ``spec.replicas`` only, so it may exceed ``max_replicas`` for a short time.
    """
    limit = rollout_limits(deployment)
    if not has_rolling_update_strategy(deployment):
        return limit.desired_replicas
    if any(each.generation > each.observed_generation for each in sets):
        return new_replicas
    max_scale_up = limit.max_replicas - sum(max(each.replicas, each.status_replicas) for each in sets)
    return (
        new_replicas if max_scale_up <= 0 else new_replicas + min(max_scale_up, limit.desired_replicas - new_replicas)
    )


def resize_new(deployment: Object, sets: Sequence[ReplicaSet], new: ReplicaSet) -> list[ReplicaSetResize]:
    count = desired_replicas(deployment)
    size = count if new.replicas > count else new_size(deployment, sets, new.replicas)
    return [] if size == new.replicas else [ReplicaSetResize(new.uid, size)]


def shrink_old(deployment: Object, old: Sequence[ReplicaSet], new: ReplicaSet) -> list[ReplicaSetResize]:
    """The resizes of old ReplicaSets, in order. First they lose unavailable replicas, then available ones, so a
    ReplicaSet may be listed twice."""
    remaining = oldest_first(active(old))
    limit = rollout_limits(deployment)
    max_scale_down = total_spec_replicas(remaining) + min(new.available, new.replicas) - limit.min_available
    if not remaining or max_scale_down <= 0:
        return []
    sizes = {each.uid: each.replicas for each in remaining}
    resizes: list[ReplicaSetResize] = []

    def shrink(each: ReplicaSet, by: int) -> None:
        sizes[each.uid] -= by
        resizes.append(ReplicaSetResize(each.uid, sizes[each.uid]))

    for each in remaining:
        by = min(max_scale_down, each.replicas - each.available)
        if by > 0:
            shrink(each, by)
            max_scale_down -= by
    # status.availableReplicas may be older than the last change of spec.replicas, so spec.replicas is its upper bound.
    available = min(new.available, new.replicas) + sum(min(each.available, sizes[each.uid]) for each in remaining)
    spare = available - limit.min_available
    for each in remaining:
        by = min(sizes[each.uid], spare)
        if by > 0:
            shrink(each, by)
            spare -= by
    return resizes
