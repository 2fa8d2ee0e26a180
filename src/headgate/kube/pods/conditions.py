"""The conditions of a pod's status: finding one, and setting one the way the API server does."""

from __future__ import annotations

from typing import Any, Final

Object = dict[str, Any]

POD_SCHEDULED: Final = "PodScheduled"
GATED: Final = {
    "type": POD_SCHEDULED,
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def with_condition(status: Object, condition: Object, now: str) -> Object:
    """``status`` with ``condition`` in place of the one of its type, or at the end.

    ``lastTransitionTime`` moves only when the status does. What the new condition does not say is forgotten.
    """
    conditions = status.get("conditions") or []
    index = next((i for i, each in enumerate(conditions) if each.get("type") == condition["type"]), None)
    if index is None:
        return {**status, "conditions": [*conditions, {**condition, "lastTransitionTime": now}]}
    old = conditions[index]
    since = old.get("lastTransitionTime") if old.get("status") == condition["status"] else now
    new = {**condition, "lastTransitionTime": since}
    return {**status, "conditions": [*conditions[:index], new, *conditions[index + 1 :]]}
