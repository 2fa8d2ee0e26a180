"""The status of a GatePolicy: conditions with readable reasons, and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.gate_policies.api import GatePolicy
from headgate.gate_policies.gate_ages import GateAges
from headgate.gate_policies.index import GatePolicyIndex
from headgate.gate_policies.lease_health import LeaseHealth
from headgate.gate_policies.names import ACCEPTED, OWNER_ALIVE, WITHIN_MAX_AGE
from headgate.kube import conditions
from headgate.kube.field_errors import quote
from headgate.kube.timestamps import format_duration, format_time

Object = dict[str, Any]

_MAX_MESSAGE: Final = 2048
_FEATURE_OFF: Final = "FeatureGateOff"
_NS_PER_S: Final = 1_000_000_000


def gates_in_effect(policy: GatePolicy, index: GatePolicyIndex) -> tuple[str, ...]:
    """The gates for which no older policy counts."""
    return tuple(gate for gate in policy.gates if index.of_gate(gate) is policy)


def policy_status(
    policy: GatePolicy,
    index: GatePolicyIndex,
    ages: GateAges,
    lease: LeaseHealth | None,
    before: Object,
    now_s: float,
) -> Object:
    """``before``: the present status. ``lease``: None if the policy names none, or it was not read yet."""
    effective = gates_in_effect(policy, index)
    overdue = sum(map(ages.overdue_count, effective)) if policy.max_age_s is not None else 0
    wanted = [_accepted(policy, index)]
    if policy.lease is not None and lease is not None:
        wanted.append(_condition(OWNER_ALIVE, lease.status, lease.reason, lease.message))
    if policy.max_age_s is not None:
        wanted.append(_within_max_age(policy.max_age_s, overdue))
    now, listed = format_time(now_s), _present(before)
    kept = {ACCEPTED, WITHIN_MAX_AGE if policy.max_age_s is not None else "", OWNER_ALIVE if policy.lease else ""}
    for each in (ACCEPTED, OWNER_ALIVE, WITHIN_MAX_AGE):
        if each not in kept:
            listed = conditions.without_condition(listed, each)
    for condition in wanted:
        listed = conditions.with_condition(listed, {**condition, "observedGeneration": policy.generation}, now)
    return {"conditions": listed, "pods": sum(map(ages.count, effective)), "overduePods": overdue}


def status_without_feature(policy: GatePolicy, before: Object, now_s: float) -> Object | None:
    """The status of a policy while the feature gate GateOwnership is off. None: it says so already, or no controller
    has written a status yet."""
    listed = _present(before)
    accepted = conditions.find(listed, ACCEPTED)
    if accepted is None or accepted.get("reason") == _FEATURE_OFF:
        return None
    text = "The feature gate GateOwnership is off: the policy has no effect"
    condition = {**_condition(ACCEPTED, "False", _FEATURE_OFF, text), "observedGeneration": policy.generation}
    listed = conditions.with_condition(listed, condition, format_time(now_s))
    for each in (OWNER_ALIVE, WITHIN_MAX_AGE):
        listed = conditions.without_condition(listed, each)
    return {"conditions": listed, "pods": None, "overduePods": None}


def _present(status: Object) -> list[conditions.Condition]:
    found = status.get("conditions")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _condition(type_: str, status: str, reason: str, message: str) -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": message[:_MAX_MESSAGE]}


def _accepted(policy: GatePolicy, index: GatePolicyIndex) -> Object:
    conflicts = list(_conflicts(policy, index))
    texts: Sequence[str] = (*policy.problems, *conflicts)
    if not texts:
        return _condition(ACCEPTED, "True", ACCEPTED, "The whole policy is in effect")
    return _condition(ACCEPTED, "False", "Invalid" if policy.problems else "Conflict", "; ".join(texts))


def _conflicts(policy: GatePolicy, index: GatePolicyIndex) -> list[str]:
    found = []
    for gate in policy.gates:
        other = index.of_gate(gate)
        if other is not None and other is not policy:
            text = f"gate {quote(gate)} belongs to the older GatePolicy {quote(other.name)}, which is in effect for it"
            found.append(text)
    return found


def _within_max_age(max_age_s: float, overdue: int) -> Object:
    age = format_duration(int(max_age_s * _NS_PER_S))
    if not overdue:
        return _condition(WITHIN_MAX_AGE, "True", WITHIN_MAX_AGE, f"No pod waits longer than {age}")
    noun = "pod waits" if overdue == 1 else "pods wait"
    return _condition(WITHIN_MAX_AGE, "False", "Overdue", f"{overdue} {noun} longer than {age}")
