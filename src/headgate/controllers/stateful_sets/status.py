"""The status of a StatefulSet: counts of its pods, and their revisions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from headgate.controllers.stateful_sets.plan import StatefulSetPod, StatefulSetRules

Object = dict[str, Any]

_KEPT_IF_ZERO: Final = frozenset({"replicas", "availableReplicas", "collisionCount"})
_UNCOMPARED: Final = frozenset({"observedGeneration", "collisionCount"})


def status_of(
    set_: Object,
    rules: StatefulSetRules,
    members: Collection[StatefulSetPod],
    current: str,
    update: str,
    collisions: int,
) -> Object:
    present = [each for each in members if not each.is_terminating]
    ready = sum(each.is_ready for each in members)
    updated = sum(each.revision == update for each in present)
    status: Object = {
        "observedGeneration": set_["metadata"].get("generation", 0),
        "replicas": len(members),
        "readyReplicas": ready,
        "currentReplicas": sum(each.revision == current for each in present),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": collisions,
        "availableReplicas": sum(each.is_ready and each.is_available for each in members),
    }
    is_complete = updated == ready == len(members) == rules.replicas
    if rules.partition is not None and is_complete:
        status["currentReplicas"], status["currentRevision"] = updated, update
    return {key: value for key, value in status.items() if value or key in _KEPT_IF_ZERO}


def has_changed(set_: Object, status: Object) -> bool:
    known = set_.get("status") or {}
    if status.get("observedGeneration", 0) > (known.get("observedGeneration") or 0):
        return True
    compared = (status.keys() | known.keys()) - _UNCOMPARED - {"conditions"}
    return any((status.get(key) or None) != (known.get(key) or None) for key in compared)
