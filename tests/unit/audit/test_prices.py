"""Prices: numbers from 0, and errors with the path of the field."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.audit.prices import PriceTable, read_prices


def test_a_price_of_0_and_whole_numbers_are_prices() -> None:
    found = read_prices({"nodeTypes": {"a": 0, "b": 3}, "resources": {"cpu": 1}})
    assert isinstance(found, PriceTable)
    assert (found.node_types, found.resources.cpu) == ({"a": 0.0, "b": 3.0}, 1.0)


@pytest.mark.parametrize("price", [-1, float("nan"), float("inf"), float("-inf"), 1e13])
@pytest.mark.parametrize(
    "path", ["nodeTypes.a", "spotNodeTypes.a", "resources.cpu", "resources.memoryGib", "spotResources.gpu"]
)
def test_a_price_outside_of_the_range_is_refused_with_its_path(path: str, price: float) -> None:
    section, field = path.split(".")
    assert f"{path}: {price:g} is not a price" in str(read_prices({section: {field: price}}))


@pytest.mark.parametrize("price", [True, "1", None, [1]])
def test_another_value_is_no_price(price: Any) -> None:
    assert isinstance(read_prices({"nodeTypes": {"a": price}}), str)
