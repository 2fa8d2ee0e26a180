"""The status of a GatePolicy while the feature gate is off."""

from __future__ import annotations

from typing import Any

from headgate.gate_policies.api import read_policy
from headgate.gate_policies.status import status_without_feature

POLICY = read_policy({"metadata": {"name": "p", "generation": 3}, "spec": {"gates": ["x.io/a"]}})
TIME = "2026-01-01T00:00:00Z"


def a_condition(type_: str, status: str, reason: str) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": TIME}


def test_a_policy_that_was_in_effect_says_that_it_has_no_effect() -> None:
    before = {
        "conditions": [a_condition("Accepted", "True", "Accepted"), a_condition("OwnerAlive", "True", "LeaseRenewed")],
        "pods": 3,
    }
    status = status_without_feature(POLICY, before, 0.0)
    assert status is not None
    (condition,) = status.pop("conditions")
    assert (condition["type"], condition["status"], condition["reason"]) == ("Accepted", "False", "FeatureGateOff")
    assert condition["message"] == "The feature gate GateOwnership is off: the policy has no effect"
    assert condition["observedGeneration"] == 3
    assert status == {"pods": None, "overduePods": None}, "a merge patch removes the counts"


def test_nothing_is_written_twice_or_for_a_policy_without_a_status() -> None:
    assert status_without_feature(POLICY, {}, 0.0) is None
    off = {"conditions": [a_condition("Accepted", "False", "FeatureGateOff")]}
    assert status_without_feature(POLICY, off, 0.0) is None
