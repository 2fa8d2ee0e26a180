"""Feature gates as users write them."""

from __future__ import annotations

import pytest

from headgate.kube.features import DEFAULTS, GATES, Features, listing, parse_features


def test_nothing_said_is_the_default() -> None:
    assert parse_features("") == DEFAULTS


def test_gates_are_switched_one_by_one() -> None:
    assert parse_features("PodSchedulingReadiness=false, SchedulingGatedBy=true") == Features(
        pod_scheduling_readiness=False, scheduling_gated_by=True
    )


@pytest.mark.parametrize(
    ("alias", "field"),
    [
        ("SchedulingGatesQueueAdmission", "queue_allocation_gate"),
        ("FastQuotaReleaseInPodIntegration", "pod_integration_fast_quota_release"),
    ],
)
def test_upstreams_newer_name_is_understood(alias: str, field: str) -> None:
    features = parse_features(f"{alias}=false")
    assert isinstance(features, Features)
    assert getattr(features, field) is False


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Nonsense=true", "unrecognized feature gate: Nonsense; known gates: PodSchedulingReadiness, "),
        ("SchedulingGatedBy", "missing bool value for feature gate SchedulingGatedBy: write SchedulingGatedBy=true or"),
        ("SchedulingGatedBy=maybe", "invalid value of SchedulingGatedBy=maybe: must be true or false"),
        (
            "QueueAllocationGate=true,SchedulingGatesQueueAdmission=false",
            "feature gate QueueAllocationGate is set both to true and to false",
        ),
    ],
)
def test_a_mistake_is_explained(text: str, problem: str) -> None:
    answer = parse_features(text)
    assert isinstance(answer, str)
    assert answer.startswith(problem)


def test_every_gate_has_its_field_and_every_field_its_gate() -> None:
    assert sorted(gate.field for gate in GATES) == sorted(Features.__struct_fields__)


def test_the_listing_shows_what_holds() -> None:
    assert listing(Features(gang_atomic_ungate=False))["GangAtomicUngate"] is False
