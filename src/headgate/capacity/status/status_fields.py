"""Builds the status of a Queue or a PodGroup, and the patch that writes it.

Pure functions. Only the fields and conditions that Headgate writes are compared and written; conditions of other types
are kept. ``status_reporter.py`` decides which object is due.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.capacity.api import queue_state
from headgate.capacity.api.pod_group_phase import PHASES, SCHEDULED
from headgate.capacity.api.queue import Amounts
from headgate.capacity.kinds import unsupported
from headgate.kube.conditions import UNSCHEDULABLE, Condition, with_condition
from headgate.kube.lenient_reader import find_items
from headgate.kube.resource_amounts import amount_text

Object = dict[str, Any]

VALID: Final = "Valid"
"""The type of the condition of a queue that is invalid or has an invalid ancestor."""
WITHIN_CAPABILITY: Final = "WithinCapability"
"""The type of the condition of a queue whose pods on nodes hold more than its limit."""
CAPABILITY_EXCEEDED: Final = "CapabilityExceeded"
_QUEUE_CONDITIONS: Final = (queue_state.CONDITION, VALID, WITHIN_CAPABILITY, unsupported.CONDITION)
_GROUP_CONDITIONS: Final = (UNSCHEDULABLE, SCHEDULED, unsupported.CONDITION)
_AMOUNTS: Final = ("allocated", "reserved", "terminating")
"""The fields of the Queue status that map resources to amounts: a merge patch must set removed resources to null."""


def queue_status(
    observed: Mapping[str, Any],
    *,
    state: str,
    phases: Mapping[str, int],
    allocated: Amounts,
    reserved: Amounts,
    terminating: Amounts,
    conditions: Iterable[Condition | None],
    now: str,
) -> Object:
    """``observed``: the current status. ``phases``: the number of groups by phase."""
    return {
        "state": state,
        **{phase.lower(): phases.get(phase, 0) for phase in PHASES},
        "allocated": _amount_texts(allocated),
        "reserved": _amount_texts(reserved),
        "terminating": _amount_texts(terminating),
        "conditions": _merge_conditions(observed, conditions, _QUEUE_CONDITIONS, now),
    }


def group_status(
    observed: Mapping[str, Any],
    *,
    phase: str,
    running: int,
    succeeded: int,
    failed: int,
    conditions: Iterable[Condition | None],
    now: str,
) -> Object:
    return {
        "phase": phase,
        "running": running,
        "succeeded": succeeded,
        "failed": failed,
        "conditions": _merge_conditions(observed, conditions, _GROUP_CONDITIONS, now),
    }


def validity_condition(problem: str) -> Condition | None:
    if not problem:
        return None
    return {"type": VALID, "status": "False", "reason": "InvalidQueue", "message": problem}


def capability_condition(allocated: Amounts, limits: Amounts) -> Condition | None:
    """``limits``: the effective limits of the queue. Running pods are not preempted because of a resize or a lowered
    limit; this condition reports the excess instead."""
    over = [
        f"{amount_text(name, allocated[name])} of {amount_text(name, limit)} {name}"
        for name, limit in sorted(limits.items())
        if allocated.get(name, 0) > limit
    ]
    if not over:
        return None
    text = f"pods on nodes hold more than the queue may use: {', '.join(over)}; nothing more is granted until they fit"
    return {"type": WITHIN_CAPABILITY, "status": "False", "reason": CAPABILITY_EXCEEDED, "message": text}


def fields_of_desired(observed: Mapping[str, Any], desired: Mapping[str, Any]) -> Object:
    """The fields of the ``observed`` status that Headgate writes, which are the fields of ``desired``; an absent field
    has the zero value of its type."""
    return {name: observed.get(name, _zero_value(value)) for name, value in desired.items()}


def patch_of(observed: Mapping[str, Any], desired: Mapping[str, Any]) -> Object:
    """A merge patch that changes ``observed`` to ``desired``: the fields that differ; in maps, removed keys are
    null."""
    body: Object = {}
    for name, value in desired.items():
        before = observed.get(name, _zero_value(value))
        if name in _AMOUNTS:
            previous = before if isinstance(before, Mapping) else {}
            removed: dict[str, str | None] = {each: None for each in previous if each not in value}
            body[name] = {**removed, **value}
        elif before != value or name not in observed:
            body[name] = value
    return body


def _amount_texts(amounts: Amounts) -> dict[str, str]:
    return {name: amount_text(name, amount) for name, amount in sorted(amounts.items()) if amount}


def _merge_conditions(
    observed: Mapping[str, Any], desired: Iterable[Condition | None], own_types: tuple[str, ...], now: str
) -> list[Condition]:
    before = find_items(observed, "conditions")
    set_conditions = [each for each in desired if each is not None]
    types = {each["type"] for each in set_conditions}
    kept = [each for each in before if each.get("type") in types or each.get("type") not in own_types]
    for each in set_conditions:
        kept = with_condition(kept, each, now)
    return kept


def _zero_value(value: Any) -> Any:
    """The meaning of an absent field of this type."""
    return type(value)()
