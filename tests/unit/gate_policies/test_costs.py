"""Work follows change, not size: an event costs the same beside many waiting pods as beside few."""

from __future__ import annotations

from typing import Any

import pytest

from cost_growth import cpu_s, too_steep
from headgate.apiserver.registry import stored_objects
from headgate.gate_policies.gate_ages import GateAges
from headgate.gate_policies.pod_counts import AdmittedPod, GatedPodCounts
from headgate.kube.timestamps import format_time
from unit.gate_policies.policies import GATE, a_gated_pod
from unit.gate_policies.policy_world import a_server, create_pod, create_policy

pytestmark = pytest.mark.measured

START_S = 1_700_000_000
FEW, MANY = 1_000, 16_000
EVENTS = 500


def a_pod(number: int) -> dict[str, Any]:
    return a_gated_pod(f"pod-{number}", created=format_time(START_S + number % 50))


def events_on_counts(parked: int) -> float:
    counts, pods = GatedPodCounts(), [a_pod(number) for number in range(parked + EVENTS)]
    for pod in pods[:parked]:
        counts.apply(pod)

    def run() -> None:
        for number in range(EVENTS):
            counts.admit(AdmittedPod("t", f"pod-{parked + number}", frozenset({GATE})), float(number))
            counts.apply(pods[parked + number])
            counts.remove("t", f"pod-{number}")
            assert counts.count(GATE, "t", float(number)) == parked

    return cpu_s(run)


def events_on_ages(parked: int) -> float:
    ages, pods = GateAges(), [a_pod(number) for number in range(parked + EVENTS)]
    for pod in pods[:parked]:
        ages.apply(pod)

    def run() -> None:
        for number in range(EVENTS):
            ages.apply(pods[parked + number])
            ages.remove(f"uid-pod-{number}")
            assert not list(ages.due(GATE, 3600.0, START_S + number))
            assert ages.next_due_s(GATE, 3600.0)
            assert ages.count(GATE) == parked

    return cpu_s(run)


@pytest.mark.parametrize("measure", [events_on_counts, events_on_ages])
def test_an_event_costs_the_same_beside_many_pods(measure: Any) -> None:
    problem = too_steep(lambda: measure(FEW), lambda: measure(MANY), most=4.0)
    assert not problem, problem


def test_the_embedded_server_reads_only_pods_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    server = a_server()
    create_policy(server, "p", maxPods=100)
    for number in range(50):
        assert create_pod(server, f"pod-{number}").status == 201
    decoded: list[bytes] = []
    decode = stored_objects.decode

    def counted(data: bytes) -> dict[str, Any]:
        if GATE.encode() in data:
            decoded.append(data)
        return decode(data)

    monkeypatch.setattr(stored_objects, "decode", counted)
    assert create_pod(server, "one-more").status == 201
    assert len(decoded) <= 5
