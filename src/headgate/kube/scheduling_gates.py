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
"""The gate of Volcano's queues, and of Headgate's. It is lifted when no other gate is left: it must not be awaited."""

GATED_CONDITION: Final[Mapping[str, str]] = {
    "type": conditions.POD_SCHEDULED,
    "status": "False",
    "reason": SCHEDULING_GATED,
    "message": GATED_MESSAGE,
}
"""What a new pod with gates is told. It carries no ``observedGeneration``."""


def gate_names(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """In the order of the specification."""
    return tuple(gate.get("name", "") for gate in (pod.get("spec") or {}).get("schedulingGates") or ())


def is_gated(pod: Mapping[str, Any]) -> bool:
    return bool((pod.get("spec") or {}).get("schedulingGates"))


def has_gate(pod: Mapping[str, Any], name: str) -> bool:
    return name in gate_names(pod)


def foreign_gates(pod: Mapping[str, Any], ours: Iterable[str]) -> tuple[str, ...]:
    """Gates that other controllers have to remove."""
    own = frozenset(ours)
    return tuple(name for name in gate_names(pod) if name not in own)


def waiting_message(names: Iterable[str]) -> str:
    """The reason a scheduler gives for leaving the pod alone."""
    return f"waiting for scheduling gates: [{' '.join(names)}]"


def gated_condition(now: str) -> conditions.Condition:
    """``now`` is a wire timestamp."""
    return {**GATED_CONDITION, "lastTransitionTime": now}


def has_gated_condition(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's *condition* says so: it may outlive the last gate, and may be overwritten before that."""
    found = conditions.find((pod.get("status") or {}).get("conditions"), conditions.POD_SCHEDULED)
    return found is not None and found.get("reason") == SCHEDULING_GATED
