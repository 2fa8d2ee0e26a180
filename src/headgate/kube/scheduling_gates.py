"""Scheduling gates (KEP-3521): reading and changing ``spec.schedulingGates``.

A pod with a gate is not scheduled; the API server sets its ``PodScheduled`` condition accordingly when the pod is
created. Gates can be removed later, never added. ``capacity/`` and ``quota/`` decide when to remove their gates;
``apimachinery/validation/pod/gates.py`` validates the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.kube import conditions

SCHEDULING_GATED: Final = "SchedulingGated"
GATED_MESSAGE: Final = "Scheduling is blocked due to non-empty scheduling gates"

QUEUE_ALLOCATION_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"
"""The gate of Volcano's and Headgate's queues. It is removed last, so nothing else may wait for its removal."""

GATED_CONDITION: Final[Mapping[str, str]] = {
    "type": conditions.POD_SCHEDULED,
    "status": "False",
    "reason": SCHEDULING_GATED,
    "message": GATED_MESSAGE,
}
"""The condition of a new pod with gates. It has no ``observedGeneration``."""


def gate_names(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the pod's gates, in order."""
    return tuple(gate.get("name", "") for gate in (pod.get("spec") or {}).get("schedulingGates") or ())


def is_gated(pod: Mapping[str, Any]) -> bool:
    return bool((pod.get("spec") or {}).get("schedulingGates"))


def has_gate(pod: Mapping[str, Any], name: str) -> bool:
    return name in gate_names(pod)


def foreign_gates(pod: Mapping[str, Any], own_gates: Iterable[str]) -> tuple[str, ...]:
    """The gates that other controllers must remove."""
    own = frozenset(own_gates)
    return tuple(name for name in gate_names(pod) if name not in own)


def waiting_message(names: Iterable[str]) -> str:
    """The reason why the scheduler does not schedule the pod."""
    return f"waiting for scheduling gates: [{' '.join(names)}]"


def gated_condition(now: str) -> conditions.Condition:
    """``now`` is a wire timestamp."""
    return {**GATED_CONDITION, "lastTransitionTime": now}


def has_gated_condition(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's *condition* is gated. It may remain after the last gate, or be overwritten before."""
    found = conditions.find((pod.get("status") or {}).get("conditions"), conditions.POD_SCHEDULED)
    return found is not None and found.get("reason") == SCHEDULING_GATED
