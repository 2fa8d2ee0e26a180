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
    """When the announcement is to be taken back; nothing if there is none, or it was true."""
    found = conditions.find((pod.get("status") or {}).get("conditions"), conditions.DISRUPTION_TARGET)
    if found is None or found.get("status") != "True" or found.get("reason") == _BY_KUBELET:
        return None
    if "deletionTimestamp" in pod["metadata"] or is_finished(pod):
        return None
    return (seconds(found.get("lastTransitionTime")) or 0.0) + STALE_S


def cleared_condition(pod: Object, now: str) -> Object:
    """A strategic patch of the pod's status, if it is still the pod that was looked at."""
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
