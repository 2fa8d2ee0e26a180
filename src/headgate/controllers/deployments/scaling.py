"""Changes of the replica count, also during a rollout: every ReplicaSet scales in proportion.

Scaling makes a rollout neither faster nor riskier. Annotations of each ReplicaSet record the replica count and the
maximum of its last sizing; annotations that differ from the present values mean that it must be scaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.controllers.deployments.replica_sets import ReplicaSet, active, oldest_first, total
from headgate.controllers.deployments.rolling_update import (
    DeploymentRolloutLimits,
    ReplicaSetResize,
    desired_replicas,
    is_rolling,
    rollout_limits,
)

Object = dict[str, Any]


def is_scaled(deployment: Object, sets: Sequence[ReplicaSet]) -> bool:
    """Whether the replica count has changed since its ReplicaSets were scaled."""
    count = desired_replicas(deployment)
    return any(each.desired_annotation is not None and each.desired_annotation != count for each in active(sets))


def resizes(deployment: Object, old: Sequence[ReplicaSet], new: ReplicaSet | None) -> list[ReplicaSetResize]:
    sets = [*old, new] if new is not None else list(old)
    running = active(sets)
    limit = rollout_limits(deployment)
    if len(running) <= 1:
        only = running[0] if running else _latest(old, new)
        return [] if only is None else [ReplicaSetResize(only.uid, limit.wanted, annotations_only=only.replicas > 0)]
    if new is not None and is_saturated(new, limit.wanted):
        return [ReplicaSetResize(each.uid, 0) for each in _youngest_first(running) if each.uid != new.uid]
    return _in_proportion(deployment, running, limit) if is_rolling(deployment) else []


def is_saturated(new: ReplicaSet, count: int) -> bool:
    """Whether the new ReplicaSet has all replicas, and all of them are available."""
    return new.replicas == count and new.desired_annotation == count and new.available == count


def _latest(old: Sequence[ReplicaSet], new: ReplicaSet | None) -> ReplicaSet | None:
    return new or (_youngest_first(old)[0] if old else None)


def _youngest_first(sets: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    return oldest_first(sets)[::-1]


def _in_proportion(
    deployment: Object, running: Sequence[ReplicaSet], limit: DeploymentRolloutLimits
) -> list[ReplicaSetResize]:
    """Resizes in proportion, largest first. Of equal ones the younger grow first, and the older shrink first. The
    largest gets the rounding difference."""
    to_add = (limit.max_replicas if limit.wanted > 0 else 0) - total(running)
    ordered = sorted(_youngest_first(running) if to_add > 0 else oldest_first(running), key=lambda each: -each.replicas)
    counted: int = (deployment.get("status") or {}).get("replicas", 0)
    sizes = [each.replicas for each in ordered]
    added = 0
    if to_add:
        for index, each in enumerate(ordered):
            share = _share(each, limit, counted, to_add - added) if added != to_add else 0
            sizes[index] += share
            added += share
        sizes[0] = max(0, sizes[0] + to_add - added)
    return [ReplicaSetResize(each.uid, size, annotations_only=True) for each, size in zip(ordered, sizes, strict=True)]


def _share(each: ReplicaSet, limit: DeploymentRolloutLimits, counted: int, allowed: int) -> int:
    """How much this ReplicaSet grows, or shrinks if negative; at most ``allowed``."""
    if limit.wanted == 0:
        part = -each.replicas
    else:
        before = each.max_replicas_annotation or counted
        part = 0 if before == 0 else int(each.replicas * limit.max_replicas / before + 0.5) - each.replicas
    return min(part, allowed) if allowed > 0 else max(part, allowed)
