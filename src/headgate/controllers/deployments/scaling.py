"""Changes of a Deployment's replica count. During a rollout, every ReplicaSet is scaled in proportion to its size.

So a change of the replica count does not change how far the rollout has progressed. Annotations of each ReplicaSet
record the replica count and the maximum number of pods of the Deployment when the ReplicaSet was last scaled. If these
differ from the present values, the ReplicaSet must be scaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.controllers.deployments.replica_sets import ReplicaSet, active, oldest_first, total_spec_replicas
from headgate.controllers.deployments.rolling_update import (
    DeploymentRolloutLimits,
    ReplicaSetResize,
    desired_replicas,
    has_rolling_update_strategy,
    rollout_limits,
)

Object = dict[str, Any]


def needs_scaling(deployment: Object, sets: Sequence[ReplicaSet]) -> bool:
    """Whether the replica count of the Deployment has changed since its ReplicaSets were last scaled."""
    count = desired_replicas(deployment)
    return any(each.desired_annotation is not None and each.desired_annotation != count for each in active(sets))


def resizes(deployment: Object, old: Sequence[ReplicaSet], new: ReplicaSet | None) -> list[ReplicaSetResize]:
    sets = [*old, new] if new is not None else list(old)
    running = active(sets)
    limit = rollout_limits(deployment)
    if len(running) <= 1:  # there is no rollout: the only active or the latest ReplicaSet gets all replicas
        only = running[0] if running else _latest(old, new)
        return (
            []
            if only is None
            else [ReplicaSetResize(only.uid, limit.desired_replicas, updates_annotations=only.replicas > 0)]
        )
    if new is not None and is_saturated(new, limit.desired_replicas):
        return [ReplicaSetResize(each.uid, 0) for each in _youngest_first(running) if each.uid != new.uid]
    return _in_proportion(deployment, running, limit) if has_rolling_update_strategy(deployment) else []


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
    """Resizes in proportion to the present sizes, the largest ReplicaSet first. Of ReplicaSets with equal sizes, the
    younger grow first and the older shrink first. The largest one gets the rounding difference."""
    to_add = (limit.max_replicas if limit.desired_replicas > 0 else 0) - total_spec_replicas(running)
    ordered = sorted(_youngest_first(running) if to_add > 0 else oldest_first(running), key=lambda each: -each.replicas)
    deployment_replicas: int = (deployment.get("status") or {}).get("replicas", 0)
    sizes = [each.replicas for each in ordered]
    added = 0
    if to_add:
        for index, each in enumerate(ordered):
            share = _share(each, limit, deployment_replicas, to_add - added) if added != to_add else 0
            sizes[index] += share
            added += share
        sizes[0] = max(0, sizes[0] + to_add - added)
    return [
        ReplicaSetResize(each.uid, size, updates_annotations=True) for each, size in zip(ordered, sizes, strict=True)
    ]


def _share(each: ReplicaSet, limit: DeploymentRolloutLimits, deployment_replicas: int, allowed: int) -> int:
    """By how many pods this ReplicaSet grows, or shrinks if negative; at most by ``allowed``. ``deployment_replicas``:
    ``status.replicas`` of the Deployment, for a ReplicaSet without the annotation."""
    if limit.desired_replicas == 0:
        part = -each.replicas
    else:
        before = each.max_replicas_annotation or deployment_replicas
        part = 0 if before == 0 else int(each.replicas * limit.max_replicas / before + 0.5) - each.replicas
    return min(part, allowed) if allowed > 0 else max(part, allowed)
