"""What the API server's own admission adds to every pod: tolerations of a short node outage, and a priority.

These are the plugins DefaultTolerationSeconds and Priority, which are on in every cluster. They run after defaulting
and before ``pods/strategy.py``; who knows the PriorityClasses hands them in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

Object = dict[str, Any]

OUTAGE_S: Final = 300
_OUTAGES: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def admit_tolerations(pod: Object) -> None:
    """On create and on update: a pod outlives its node's silence by five minutes, unless it says otherwise."""
    tolerations = pod["spec"].get("tolerations") or []
    tolerated = {each.get("key", "") for each in tolerations if each.get("effect", "") in ("", "NoExecute")}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": OUTAGE_S}
        for key in _OUTAGES
        if key not in tolerated and "" not in tolerated
    ]
    if added:
        pod["spec"]["tolerations"] = [*tolerations, *added]


def admit_priority(pod: Object, classes: Iterable[Object]) -> str:
    """On create. A returned text says why the pod is forbidden."""
    spec = pod["spec"]
    name = spec.get("priorityClassName") or ""
    if name:
        found = next((each for each in classes if each["metadata"]["name"] == name), None)
        if found is None:
            return f"no PriorityClass with name {name} was found"
    else:
        defaults = [each for each in classes if each.get("globalDefault")]
        found = min(defaults, key=lambda each: each.get("value", 0), default=None)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    priority = found.get("value", 0) if found else 0
    policy = found.get("preemptionPolicy") if found else "PreemptLowerPriority"
    if spec.get("priority") not in (None, priority):
        return (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {priority} from the given PriorityClass name"
        )
    spec["priority"] = priority
    if policy is not None:
        if spec.get("preemptionPolicy") not in (None, policy):
            return (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
        spec["preemptionPolicy"] = policy
    return ""


def keep_priority(new: Object, old: Object) -> None:
    """On update: clients that do not know what admission added must not remove it."""
    for field in ("priority", "preemptionPolicy"):
        if new["spec"].get(field) is None and old["spec"].get(field) is not None:
            new["spec"][field] = old["spec"][field]
