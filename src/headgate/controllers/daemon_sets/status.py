"""The status of a DaemonSet."""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.daemon_sets.daemon_nodes import DaemonSetCounts

Object = dict[str, Any]

_ALWAYS: Final = frozenset({"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"})


def status_of(daemon_set: Object, counts: DaemonSetCounts, collisions: int) -> Object:
    """The status with these counts; other fields stay."""
    numbers: dict[str, int] = {
        "currentNumberScheduled": counts.current,
        "numberMisscheduled": counts.misscheduled,
        "desiredNumberScheduled": counts.desired,
        "numberReady": counts.ready,
        "observedGeneration": daemon_set["metadata"].get("generation", 0),
        "updatedNumberScheduled": counts.updated,
        "numberAvailable": counts.available,
        "numberUnavailable": counts.desired - counts.available,
        "collisionCount": collisions,
    }
    kept = {key: value for key, value in (daemon_set.get("status") or {}).items() if key not in numbers}
    return {**kept, **{key: value for key, value in numbers.items() if value or key in _ALWAYS}}


def has_changed(daemon_set: Object, status: Object) -> bool:
    known = daemon_set.get("status") or {}
    return any((status.get(key) or 0) != (known.get(key) or 0) for key in status.keys() | known.keys())
