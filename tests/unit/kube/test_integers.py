"""Integers that may be percentages."""

from __future__ import annotations

import pytest

from headgate.kube.integers import scaled_int_or_percent


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [(3, 10, 3, 3), ("25%", 10, 3, 2), ("25%", 4, 1, 1), ("0%", 7, 0, 0), ("100%", 7, 7, 7), (None, 7, 0, 0)],
)
def test_a_percentage_is_rounded_as_asked(value: int | str | None, total: int, up: int, down: int) -> None:
    assert (
        scaled_int_or_percent(value, total, round_up=True),
        scaled_int_or_percent(value, total, round_up=False),
    ) == (up, down)


@pytest.mark.parametrize("value", ["", "5", "%", "a%", "-1%"])
def test_a_text_that_is_not_a_percentage_has_no_value(value: str) -> None:
    assert scaled_int_or_percent(value, 10, round_up=True) is None
