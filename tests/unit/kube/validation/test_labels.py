"""Validation of label selectors in objects."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.validation.labels import validate_label_selector


def errors_of(selector: dict[str, Any] | None, *, any_value: bool = False) -> list[str]:
    return [str(each) for each in validate_label_selector(selector, "s", any_value=any_value)]


@pytest.mark.parametrize("selector", [None, {}, {"matchLabels": {"a": "b"}}])
def test_good_selectors(selector: dict[str, Any] | None) -> None:
    assert errors_of(selector) == []


@pytest.mark.parametrize(
    ("operator", "values", "error"),
    [
        ("In", [], "values: Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        ("Exists", ["x"], "values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
        ("Gt", ["1"], 'operator: Invalid value: "Gt": not a valid selector operator'),
    ],
)
def test_an_expression_has_the_values_that_its_operator_needs(operator: str, values: list[str], error: str) -> None:
    expression = {"key": "k", "operator": operator, "values": values}
    assert errors_of({"matchExpressions": [expression]}) == [f"s.matchExpressions[0].{error}"]


def test_an_invalid_value_is_tolerated_with_any_value() -> None:
    selector = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["a b"]}]}
    (error,) = errors_of(selector)
    assert error.startswith('s.matchExpressions[0].values[0]: Invalid value: "a b": a valid label')
    assert errors_of(selector, any_value=True) == []
