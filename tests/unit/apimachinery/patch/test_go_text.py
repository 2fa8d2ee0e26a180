"""JSON values in Go's notation."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.patch.go_text import go_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "<nil>"),
        (True, "true"),
        (5, "5"),
        (1.5, "1.5"),
        (3.0, "3"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-5, "1e-05"),
        (0.0001, "0.0001"),
        ("a b", "a b"),
        ({"b": [1, "x", None], "a": {}}, "map[a:map[] b:[1 x <nil>]]"),
    ],
)
def test_a_value_is_printed_as_gos_default_format_does(value: Any, text: str) -> None:
    assert go_text(value) == text
