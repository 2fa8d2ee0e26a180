"""The status of a ReplicaSet: counts of its pods, and the ReplicaFailure condition."""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.replica_sets.counts import ReplicaSetCounts
from headgate.kube import conditions

Object = dict[str, Any]

REPLICA_FAILURE: Final = "ReplicaFailure"


def min_ready_s(owner: Object) -> int:
    seconds: int = owner["spec"].get("minReadySeconds") or 0
    return seconds


def desired_replicas(owner: Object) -> int:
    replicas: int | None = owner["spec"].get("replicas")
    return 1 if replicas is None else replicas


def status(owner: Object, counts: ReplicaSetCounts, failed: Object | None, now_s: float) -> Object:
    """The whole status, including zeros. ``failed``: the condition, if pods could not be created or deleted; an
    existing one is kept."""
    known: list[conditions.Condition] = (owner.get("status") or {}).get("conditions") or []
    if failed is None:
        known = conditions.without_condition(known, REPLICA_FAILURE)
    elif conditions.find(known, REPLICA_FAILURE) is None:
        known = [*known, failed]
    return {
        "replicas": counts.active,
        "fullyLabeledReplicas": counts.labelled,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.available(min_ready_s(owner), now_s),
        "terminatingReplicas": counts.terminating,
        "observedGeneration": owner["metadata"].get("generation", 0),
        "conditions": known or None,
    }


def differs(owner: Object, new: Object) -> bool:
    """Whether the stored status differs. A zero of terminating pods is stored, other zeros are not."""
    old = owner.get("status") or {}
    if "terminatingReplicas" not in old:
        return True
    return any((old.get(name) or None) != (value or None) for name, value in new.items())


def failure(missing: int, message: str, now: str) -> Object:
    """The ReplicaFailure condition. ``missing``: the number of missing pods; negative if there are too many."""
    return {
        "type": REPLICA_FAILURE,
        "status": "True",
        "lastTransitionTime": now,
        "reason": "FailedCreate" if missing > 0 else "FailedDelete",
        "message": message,
    }
