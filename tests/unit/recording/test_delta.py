from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.recording.delta import InvalidDelta, apply_delta, make_delta
from unit.recording.histories import MAPS, VALUES


def same(one: Any, other: Any) -> bool:
    """Equal with the types of all parts."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@given(MAPS, MAPS)
@settings(max_examples=120)
def test_the_delta_of_two_states_makes_one_of_the_other(old: Any, new: Any) -> None:
    delta = make_delta(old, new)
    assert (delta is None) == same(old, new)
    assert delta is None or same(apply_delta(old, delta), new)


@given(MAPS, st.lists(st.integers(0, 3) | VALUES, max_size=4))
@settings(max_examples=100)
def test_a_foreign_delta_is_refused_or_gives_some_state_and_never_raises_another_error(old: Any, delta: Any) -> None:
    with contextlib.suppress(InvalidDelta):
        apply_delta(old, delta)


def test_true_and_one_are_different_values() -> None:
    assert make_delta({"a": 1}, {"a": True}) == [1, {"a": [0, True]}, []]
    assert make_delta({"a": 1}, {"a": 1.0}) is not None
    assert make_delta([1, {"a": [2]}], [1, {"a": [2]}]) is None


def test_a_changed_condition_costs_only_that_condition() -> None:
    old = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "False"}]}
    new = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "False"}, {"type": "New"}]}
    assert make_delta(old, new) == [
        1,
        {"conditions": [2, {0: [1, {"status": [0, "False"]}, []]}, 2, [{"type": "New"}]]},
        [],
    ]


def test_the_old_state_is_not_changed() -> None:
    old: dict[str, Any] = {"a": {"b": [1, 2]}}
    delta = make_delta(old, {"a": {"b": [1, 3]}})
    assert apply_delta(old, delta) == {"a": {"b": [1, 3]}}
    assert old == {"a": {"b": [1, 2]}}


@pytest.mark.parametrize("delta", [[], [3, 1], [2, {0: [0, 1]}, 5, []], [2, {7: [0, 1]}, 1, []], "text", None])
def test_a_delta_that_does_not_match_is_refused(delta: Any) -> None:
    with pytest.raises(InvalidDelta):
        apply_delta([1, 2], delta)
