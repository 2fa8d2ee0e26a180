"""How many pods wait behind a gate."""

from __future__ import annotations

from headgate.gate_policies.pod_counts import ADMISSION_LIFETIME_S, AdmittedPod, GatedPodCounts
from unit.gate_policies.policies import GATE, OTHER_GATE, a_gated_pod


def test_pods_count_by_gate_and_namespace_until_the_gate_is_lifted() -> None:
    counts = GatedPodCounts()
    counts.apply(a_gated_pod("a", GATE, OTHER_GATE))
    counts.apply(a_gated_pod("b", GATE))
    counts.apply(a_gated_pod("a", GATE, namespace="u"))
    assert (counts.count(GATE, "t", 0), counts.count(OTHER_GATE, "t", 0), counts.count(GATE, "u", 0)) == (2, 1, 1)
    counts.apply({**a_gated_pod("a"), "spec": {"schedulingGates": [{"name": OTHER_GATE}]}})
    counts.remove("t", "b")
    counts.remove("t", "never-seen")
    assert (counts.count(GATE, "t", 0), counts.count(OTHER_GATE, "t", 0)) == (0, 1)


def test_pods_that_have_ended_do_not_wait() -> None:
    counts = GatedPodCounts()
    counts.apply({**a_gated_pod("a"), "status": {"phase": "Failed"}})
    counts.apply({**a_gated_pod("b"), "status": {"phase": "Pending"}})
    assert counts.count(GATE, "t", 0) == 1


def test_an_admitted_pod_counts_once_before_and_after_the_watch_shows_it() -> None:
    counts = GatedPodCounts()
    counts.admit(AdmittedPod("t", "a", frozenset({GATE})), 0.0)
    assert counts.count(GATE, "t", 1.0) == 1
    counts.apply(a_gated_pod("a"))
    assert counts.count(GATE, "t", 1.0) == 1
    assert counts.count(GATE, "t", ADMISSION_LIFETIME_S + 1) == 1
    counts.remove("t", "a")
    assert counts.count(GATE, "t", ADMISSION_LIFETIME_S + 1) == 0


def test_an_admitted_pod_that_is_never_created_counts_for_a_while_only() -> None:
    counts = GatedPodCounts()
    counts.admit(AdmittedPod("t", "a", frozenset({GATE})), 0.0)
    assert counts.count(GATE, "t", ADMISSION_LIFETIME_S - 0.1) == 1
    assert counts.count(GATE, "t", ADMISSION_LIFETIME_S) == 0


def test_a_deletion_that_the_watch_shows_late_does_not_end_the_admission_of_a_new_pod() -> None:
    counts = GatedPodCounts()
    counts.admit(AdmittedPod("t", "a", frozenset({GATE})), 0.0)
    counts.remove("t", "a")
    assert counts.count(GATE, "t", 1.0) == 1
    counts.forget("t", "a")
    assert counts.count(GATE, "t", 1.0) == 0


def test_repeated_creations_of_one_name_count_once() -> None:
    counts = GatedPodCounts()
    for second in range(5):
        counts.admit(AdmittedPod("t", "a", frozenset({GATE})), float(second))
    assert counts.count(GATE, "t", 5.0) == 1
    counts.apply(a_gated_pod("a"))
    counts.admit(AdmittedPod("t", "a", frozenset({GATE})), 6.0)
    assert counts.count(GATE, "t", 6.0) == 1
