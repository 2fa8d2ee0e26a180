"""Resets the DisruptionTarget condition of pods whose announced disruption did not happen.

The condition is set to false after two minutes. A condition that a kubelet set has no time limit.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.ownership.pods import is_finished, seconds
from headgate.kube import conditions

Object = dict[str, Any]

STALE_S: Final = 120.0
_BY_KUBELET: Final = "TerminationByKubelet"


def stale_at_s(pod: Object) -> float | None:
    """The time at which the condition has to be reset; None if the pod does not have it, or the disruption has
    happened."""
    found = conditions.find((pod.get("status") or {}).get("conditions"), conditions.DISRUPTION_TARGET)
    if found is None or found.get("status") != "True" or found.get("reason") == _BY_KUBELET:
        return None
    if "deletionTimestamp" in pod["metadata"] or is_finished(pod):
        return None
    return (seconds(found.get("lastTransitionTime")) or 0.0) + STALE_S


def cleared_condition(pod: Object, now: str) -> Object:
    """A strategic merge patch that resets the condition, with the version of the pod as its precondition."""
    metadata = pod["metadata"]
    generation = metadata.get("generation")
    condition = {
        "type": conditions.DISRUPTION_TARGET,
        "status": "False",
        "reason": None,
        "message": None,
        "lastTransitionTime": now,
        **({"observedGeneration": generation} if generation else {}),
    }
    identity = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return {"metadata": identity, "status": {"conditions": [condition]}}
