"""Conditions keep their transition times; own and foreign gates are distinguished."""

from __future__ import annotations

from typing import Any

from headgate.kube import conditions, scheduling_gates

OLD = "2024-01-01T00:00:00Z"
NOW = "2024-06-01T00:00:00Z"


def condition(type_: str, status: str, reason: str = "", since: str = OLD) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": since}


def test_a_new_condition_goes_to_the_end_with_the_time_of_now() -> None:
    before = [condition("A", "True")]
    after = conditions.with_condition(before, {"type": "B", "status": "False"}, NOW)
    assert after == [condition("A", "True"), {"type": "B", "status": "False", "lastTransitionTime": NOW}]
    assert before == [condition("A", "True")]
    assert conditions.with_condition(None, {"type": "B", "status": "False"}, NOW) == after[1:]


def test_the_transition_time_changes_only_with_the_status() -> None:
    before = [condition("A", "False", "SchedulingGated"), condition("B", "True")]
    (same_status, _) = conditions.with_condition(
        before, {"type": "A", "status": "False", "reason": "Unschedulable"}, NOW
    )
    assert same_status["reason"] == "Unschedulable"
    assert same_status["lastTransitionTime"] == OLD
    (changed, _) = conditions.with_condition(before, {"type": "A", "status": "True"}, NOW)
    assert changed == {"type": "A", "status": "True", "lastTransitionTime": NOW}


def test_the_transition_time_of_the_caller_is_used_when_the_status_changes() -> None:
    (changed,) = conditions.with_condition(
        [condition("A", "False")], condition("A", "True", since="2020-01-01T00:00:00Z"), NOW
    )
    assert changed["lastTransitionTime"] == "2020-01-01T00:00:00Z"


def test_an_equal_condition_returns_the_same_list() -> None:
    before = [condition("A", "True", "R")]
    assert (
        conditions.with_condition(before, {"type": "A", "status": "True", "reason": "R", "message": ""}, NOW) is before
    )


def test_conditions_can_be_found_checked_and_removed() -> None:
    known = [condition("A", "True"), condition("B", "False")]
    assert conditions.is_true(known, "A")
    assert conditions.is_false(known, "B")
    assert not conditions.is_true(None, "A")
    assert not conditions.is_false(known, "C")
    assert conditions.find(known, "C") is None
    assert conditions.without_condition(known, "A") == known[1:]
    assert conditions.without_condition(known, "C") is known


def pod(*names: str, **status: Any) -> dict[str, Any]:
    return {"spec": {"schedulingGates": [{"name": name} for name in names]}, "status": status}


def test_a_pod_is_gated_while_it_has_a_gate() -> None:
    assert scheduling_gates.gate_names(pod("a", "b")) == ("a", "b")
    assert scheduling_gates.is_gated(pod("a"))
    assert scheduling_gates.has_gate(pod("a"), "a")
    assert not scheduling_gates.has_gate(pod("a"), "b")
    ungated: list[dict[str, Any]] = [pod(), {}, {"spec": {}}, {"spec": {"schedulingGates": None}}]
    for free in ungated:
        assert not scheduling_gates.is_gated(free)
        assert scheduling_gates.gate_names(free) == ()


def test_foreign_gates_exclude_own_gates() -> None:
    assert scheduling_gates.foreign_gates(pod("ours", "kueue", "x"), ["ours"]) == ("kueue", "x")


def test_the_waiting_message_lists_the_gates() -> None:
    assert scheduling_gates.waiting_message(["foo", "bar"]) == "waiting for scheduling gates: [foo bar]"


def test_the_condition_of_a_new_gated_pod_has_no_observed_generation() -> None:
    assert scheduling_gates.gated_condition(NOW) == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastTransitionTime": NOW,
    }


def test_the_condition_may_be_gated_after_the_last_gate_was_removed() -> None:
    ungated_pod = pod(conditions=[scheduling_gates.gated_condition(OLD)])
    assert scheduling_gates.has_gated_condition(ungated_pod)
    assert not scheduling_gates.is_gated(ungated_pod)
    assert not scheduling_gates.has_gated_condition(pod("a"))
