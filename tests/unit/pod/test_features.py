"""Feature gates as users write them."""

from __future__ import annotations

import pytest

from headgate.kube.features import DEFAULTS, GATES, Features, contradiction, listing, parse_features


def test_nothing_said_is_the_default() -> None:
    assert parse_features("") == DEFAULTS


def test_gates_are_switched_one_by_one() -> None:
    assert parse_features("PodSchedulingReadiness=false, MutablePodResourcesForSuspendedJobs=true") == Features(
        pod_scheduling_readiness=False, mutable_pod_resources_for_suspended_jobs=True
    )


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
    answer = parse_features(text)
    assert isinstance(answer, str)
    assert answer.startswith(problem)


def test_every_gate_has_its_field_and_every_field_its_gate() -> None:
    assert sorted(gate.field for gate in GATES) == sorted(set(Features.__struct_fields__) - {"allow_privileged"})


def test_the_listing_shows_what_holds() -> None:
    assert listing(Features(pod_scheduling_readiness=False))["PodSchedulingReadiness"] is False


def test_queue_gates_cannot_do_without_scheduling_gates() -> None:
    off = parse_features("PodSchedulingReadiness=false")
    assert isinstance(off, Features)
    assert "add QueueAllocationGate=false" in contradiction(off)
    both_off = parse_features("PodSchedulingReadiness=false,SchedulingGatesQueueAdmission=false")
    assert isinstance(both_off, Features)
    assert contradiction(both_off) == contradiction(Features()) == ""
