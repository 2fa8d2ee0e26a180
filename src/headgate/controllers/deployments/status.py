"""The status of a Deployment: the sums of its ReplicaSets' counts, and whether enough replicas are available."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.controllers.deployments.progress import condition, with_condition
from headgate.controllers.deployments.replica_sets import ReplicaSet, total_spec_replicas
from headgate.controllers.deployments.rolling_update import rollout_limits
from headgate.kube import conditions
from headgate.kube.conditions import Condition

Object = dict[str, Any]

_AVAILABLE: Final = "Available"
_REPLICA_FAILURE: Final = "ReplicaFailure"


def counts(deployment: Object, sets: Sequence[ReplicaSet], new: ReplicaSet | None) -> Object:
    """The status without conditions, in the wire form: zeros are left out."""
    available = sum(each.available for each in sets)
    numbers = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": sum(each.status_replicas for each in sets),
        "updatedReplicas": 0 if new is None else new.status_replicas,
        "readyReplicas": sum(each.ready for each in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total_spec_replicas(sets) - available),
    }
    found: Object = {name: number for name, number in numbers.items() if number}
    collisions = (deployment.get("status") or {}).get("collisionCount")
    terminating = _terminating(sets)
    if terminating is not None:
        found["terminatingReplicas"] = terminating
    return found if collisions is None else {**found, "collisionCount": collisions}


def _terminating(sets: Sequence[ReplicaSet]) -> int | None:
    """The number of terminating pods; None if an observed ReplicaSet does not report it. A new one counts as zero."""
    numbers = [0 if each.terminating is None and each.observed_generation == 0 else each.terminating for each in sets]
    return None if None in numbers else sum(each for each in numbers if each is not None)


def with_availability(deployment: Object, status: Object, known: list[Condition], now_s: float) -> list[Condition]:
    enough = status.get("availableReplicas", 0) >= rollout_limits(deployment).min_available
    outcome = (
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        if enough
        else ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    )
    return with_condition(known, condition(_AVAILABLE, *outcome, now_s))


def with_failures(sets: Sequence[ReplicaSet], new: ReplicaSet | None, known: list[Condition]) -> list[Condition]:
    """Copies the failure condition of the new ReplicaSet, or of another one; removes it if there is none."""
    for each in [*([new] if new is not None else []), *sets]:
        failed = conditions.find((each.obj.get("status") or {}).get("conditions"), _REPLICA_FAILURE)
        if failed is not None:
            return with_condition(known, {**failed, "lastUpdateTime": failed.get("lastTransitionTime")})
    return conditions.without_condition(known, _REPLICA_FAILURE)
