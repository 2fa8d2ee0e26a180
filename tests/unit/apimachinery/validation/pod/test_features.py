"""Feature gates as users write them."""

from __future__ import annotations

import pytest

from headgate.kube.feature_gates import DEFAULTS, GATES, FeatureGates, contradiction, gate_values, parse_feature_gates


def test_nothing_said_is_the_default() -> None:
    assert parse_feature_gates("") == DEFAULTS


def test_gates_are_switched_one_by_one() -> None:
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
def test_a_mistake_is_explained(text: str, problem: str) -> None:
    answer = parse_feature_gates(text)
    assert isinstance(answer, str)
    assert answer.startswith(problem)


def test_every_gate_has_its_field_and_every_field_its_gate() -> None:
    assert sorted(gate.field for gate in GATES) == sorted(set(FeatureGates.__struct_fields__) - {"allow_privileged"})


def test_the_listing_shows_what_holds() -> None:
    assert gate_values(FeatureGates(pod_scheduling_readiness=False))["PodSchedulingReadiness"] is False


def test_queue_gates_cannot_do_without_scheduling_gates() -> None:
    off = parse_feature_gates("PodSchedulingReadiness=false")
    assert isinstance(off, FeatureGates)
    assert "add QueueAllocationGate=false" in contradiction(off)
    both_off = parse_feature_gates("PodSchedulingReadiness=false,SchedulingGatesQueueAdmission=false")
    assert isinstance(both_off, FeatureGates)
    assert contradiction(both_off) == contradiction(FeatureGates()) == ""
