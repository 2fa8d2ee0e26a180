"""Values of the wrong type count as absent."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.lenient_reader import (
    find_integer,
    find_items,
    find_object,
    find_objects,
    find_strings,
    find_text,
    find_texts,
    get_path,
)

WIRE: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"x": "1", "y": 2}},
    "spec": {"items": [{"n": 1}, 2, {"n": 3}], "names": ["a", 1, "b"], "count": 4, "yes": True},
    "status": "not an object",
}


def test_a_path_is_followed_through_objects_only() -> None:
    assert get_path(WIRE, ("spec", "count")) == 4
    assert get_path(WIRE, ("status", "count")) is None
    assert get_path(WIRE, ("spec", "items", "n")) is None
    assert get_path(WIRE, ()) == WIRE


@pytest.mark.parametrize("path", [("status",), ("metadata", "name"), ("spec", "none", "deeper")])
def test_a_value_that_is_not_an_object_is_empty(path: tuple[str, ...]) -> None:
    assert find_object(WIRE, *path) == {}


def test_values_of_the_right_type_are_found() -> None:
    assert find_object(WIRE, "metadata", "labels") == {"x": "1", "y": 2}
    assert find_text(WIRE, "metadata", "name") == "a"
    assert find_text(WIRE, "spec", "count") == ""
    assert find_texts(WIRE["metadata"], "labels") == {"x": "1"}
    assert find_items(WIRE, "spec", "items") == [{"n": 1}, {"n": 3}]
    assert find_items(WIRE, "spec", "count") == []
    assert list(find_objects(WIRE["spec"], "items", "spec")) == [
        ("spec.items[0]", {"n": 1}),
        ("spec.items[2]", {"n": 3}),
    ]
    assert find_strings(WIRE["spec"], "names") == ["a", "b"]


def test_a_boolean_is_no_integer() -> None:
    assert find_integer(WIRE["spec"], "count", 1) == 4
    assert find_integer(WIRE["spec"], "yes", 1) == 1
