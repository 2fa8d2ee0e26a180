"""The decisions of the quota manager in examples/controllers."""

from __future__ import annotations

from typing import Any

import pytest
from examples.controllers.quota_manager import Amount, Quota, parse_limit

from headgate.client.known_objects import ObjectApplied, ObjectDeleted
from headgate.kube import quantity

GATE = "example.com/quota"


def quota(entry: str) -> Quota:
    made = Quota("kube-system/quota-limits")
    made.on_config_map(ObjectApplied({"metadata": {}, "data": {"ns": entry}}))
    return made


def pod(name: str, *gates: str, uid: str = "", created: int = 0, phase: str = "Pending", **metadata: str) -> Any:
    identity = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}"}
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    return ObjectApplied(
        {
            "metadata": {**identity, "creationTimestamp": f"2030-01-01T00:00:{created:02}Z", **metadata},
            "spec": {"containers": [container], "schedulingGates": [{"name": each} for each in gates]},
            "status": {"phase": phase},
        }
    )


def released(state: Quota) -> list[str]:
    return [each.name for each in state.plan("ns").releases]


def told(state: Quota) -> dict[str, str]:
    return {each.name: reason for each, reason, _ in state.plan("ns").waits}


def test_pods_are_released_in_the_order_of_their_creation() -> None:
    state = quota("pods=2")
    for name, created in (("a", 3), ("b", 1), ("c", 2)):
        state.on_pod(pod(name, GATE, created=created))
    assert released(state) == ["b", "c"]
    assert told(state) == {"a": "WaitingForQuota"}


def test_a_late_watch_event_does_not_release_a_second_pod_in_the_place_of_the_first() -> None:
    state = quota("pods=1")
    state.on_pod(pod("a", GATE))
    assert released(state) == ["a"]
    state.on_pod(pod("a", GATE))  # from before the removal
    state.on_pod(pod("b", GATE, created=1))
    assert released(state) == []
    state.on_pod(pod("a"))
    assert released(state) == []
    state.on_pod(pod("a", phase="Succeeded"))
    assert released(state) == ["b"]


def test_a_pod_that_is_created_again_under_its_name_has_to_wait_again() -> None:
    state = quota("pods=1")
    state.on_pod(pod("a", GATE))
    assert released(state) == ["a"]
    state.on_pod(ObjectDeleted("ns", "a", "uid-a"))
    assert state._reserved == set()
    state.on_pod(pod("b", GATE))
    state.on_pod(pod("a", GATE, uid="another", created=5))
    assert released(state) == ["b"]
    assert told(state) == {"a": "WaitingForQuota"}


def test_a_pod_without_the_gate_counts_until_it_has_ended_also_while_it_terminates() -> None:
    state = quota("cpu=2")
    state.on_pod(pod("plain", phase="Running"))
    state.on_pod(pod("ending", phase="Running", deletionTimestamp="2030-01-01T00:00:00Z"))
    state.on_pod(pod("next", GATE))
    assert released(state) == []
    state.on_pod(ObjectDeleted("ns", "ending", "uid-ending"))
    assert released(state) == ["next"]


def test_a_gated_pod_that_is_deleted_or_has_failed_is_not_released() -> None:
    state = quota("pods=1")
    state.on_pod(pod("a", GATE, deletionTimestamp="2030-01-01T00:00:00Z"))
    state.on_pod(pod("b", GATE, phase="Failed"))
    assert released(state) == []
    assert told(state) == {}


def test_a_lowered_limit_releases_nothing_until_it_holds_again() -> None:
    state = quota("pods=3")
    for name in "abc":
        state.on_pod(pod(name, phase="Running"))
    state.on_pod(pod("d", GATE))
    state.on_config_map(ObjectApplied({"metadata": {}, "data": {"ns": "pods=2"}}))
    state.on_pod(pod("a", phase="Failed"))
    assert released(state) == []
    state.on_pod(pod("b", phase="Failed"))
    assert released(state) == ["d"]


def test_without_an_entry_for_the_namespace_all_pods_wait() -> None:
    state = quota("pods=3")
    state.on_config_map(ObjectApplied({"metadata": {}, "data": {"other": "pods=2"}}))
    state.on_pod(pod("a", GATE))
    ((waiting, reason, message),) = state.plan("ns").waits
    assert (waiting.name, reason) == ("a", "NoQuota")
    assert message == "the ConfigMap kube-system/quota-limits has no entry for namespace ns: add one"


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("pods=2, cpu=1500m", Amount(2, quantity.amount("1.5"))),
        (" cpu = 2 ", Amount(None, quantity.amount("2"))),
        ("pods=0", Amount(0, None)),
    ],
)
def test_a_limit_is_read(text: str, limit: Amount) -> None:
    assert parse_limit(text) == limit


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        "pods",
        "pods=" + "9" * 5000,
        "pods=",
        "pods=-1",
        "pods=1.5",
        "pods=1,pods=2",
        "cpu=x",
        "cpu=-1",
        "memory=1Gi",
    ],
)
def test_a_wrong_limit_is_explained(text: str) -> None:
    assert isinstance(parse_limit(text), str)
