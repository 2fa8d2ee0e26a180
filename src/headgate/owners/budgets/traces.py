"""Announcements on pods that they are about to be disrupted (the condition DisruptionTarget), and nothing came of it.

Two minutes later the condition is set back. What a kubelet announced may take as long as it likes.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube import conditions
from headgate.owners.families.pods import is_finished, seconds

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


def taken_back(pod: Object, now: str) -> Object:
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
