"""Parsing of feature gates."""

from __future__ import annotations

import pytest

from headgate.kube.feature_gates import DEFAULTS, GATES, FeatureGates, contradiction, gate_values, parse_feature_gates


def test_an_empty_text_gives_the_defaults() -> None:
    assert parse_feature_gates("") == DEFAULTS


def test_the_designs_are_on_or_off_by_default() -> None:
    """Alpha is off: KEP-6915 and its alternative. Beta is on: KEP-6143. Pods opt in to the queue gate one by one."""
    defaults = gate_values(DEFAULTS)
    assert (defaults["SchedulingGatedBy"], defaults["ActivationLabels"]) == (False, False)
    assert (defaults["PodIntegrationFastQuotaRelease"], defaults["QueueAllocationGate"]) == (True, True)


def test_each_gate_can_be_set() -> None:
    assert parse_feature_gates(
        "PodSchedulingReadiness=false, MutablePodResourcesForSuspendedJobs=true"
    ) == FeatureGates(pod_scheduling_readiness=False, mutable_pod_resources_for_suspended_jobs=True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Nonsense=true", "unrecognized feature gate: Nonsense; known gates: PodSchedulingReadiness, "),
        ("PodSchedulingReadiness", "missing bool value for feature gate PodSchedulingReadiness: write "),
        ("PodSchedulingReadiness=maybe", "invalid value of PodSchedulingReadiness=maybe: must be true or false"),
        (
            "PodSchedulingReadiness=true,PodSchedulingReadiness=false",
            "feature gate PodSchedulingReadiness is set both to true and to false",
        ),
    ],
)
def test_an_invalid_text_gives_an_error(text: str, problem: str) -> None:
    result = parse_feature_gates(text)
    assert isinstance(result, str)
    assert result.startswith(problem)


def test_every_gate_has_its_field_and_every_field_its_gate() -> None:
    assert sorted(gate.field for gate in GATES) == sorted(set(FeatureGates.__struct_fields__) - {"allow_privileged"})


def test_gate_values_lists_all_gates() -> None:
    assert gate_values(FeatureGates(pod_scheduling_readiness=False))["PodSchedulingReadiness"] is False


def test_the_queue_gate_requires_scheduling_gates() -> None:
    off = parse_feature_gates("PodSchedulingReadiness=false")
    assert isinstance(off, FeatureGates)
    assert "add QueueAllocationGate=false" in contradiction(off)
    both_off = parse_feature_gates("PodSchedulingReadiness=false,SchedulingGatesQueueAdmission=false")
    assert isinstance(both_off, FeatureGates)
    assert contradiction(both_off) == contradiction(FeatureGates()) == ""
