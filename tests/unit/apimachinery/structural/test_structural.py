"""Structural schemas on plain values."""

from __future__ import annotations

from typing import Any

from headgate.apimachinery.structural.defaulting import apply_defaults, copy
from headgate.apimachinery.structural.list_types import check_lists
from headgate.apimachinery.structural.pruning import drop_nulls, prune
from headgate.apimachinery.structural.schema import StructuralSchema, as_resource
from headgate.apimachinery.structural.validation import compile_schema

STRING = {"type": "string"}
SPEC = {
    "type": "object",
    "properties": {
        "name": STRING,
        "size": {"type": "integer", "default": 3, "minimum": 1},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "items": {"type": "array", "items": {"type": "object", "properties": {"a": {**STRING, "default": "x"}}}},
    },
}


def validation_errors(schema: dict[str, Any], value: Any, old: Any = None) -> list[str]:
    return [
        str(each)
        for each in compile_schema(schema)(value, old, StructuralSchema(schema) if old is not None else None, "")
    ]


def test_unknown_fields_are_pruned_and_reported_in_order() -> None:
    value = {"z": 1, "name": "n", "open": {"any": 1}, "items": [{"a": "1", "b": 2}], "a": {"c": 1}}
    assert prune(value, StructuralSchema(SPEC)) == ["a", "items[0].b", "z"]
    assert value == {"name": "n", "open": {"any": 1}, "items": [{"a": "1"}]}


def test_the_type_of_a_resource_is_not_pruned() -> None:
    value = {"apiVersion": "v1", "kind": "K", "metadata": {"odd": 1}, "other": 1}
    assert prune(value, as_resource(SPEC)) == ["other"]
    assert value == {"apiVersion": "v1", "kind": "K", "metadata": {"odd": 1}}


def test_nulls_are_dropped_unless_nullable_or_defaulted() -> None:
    schema = {
        "type": "object",
        "properties": {"a": STRING, "b": {**STRING, "nullable": True}, "c": {**STRING, "default": "d"}},
    }
    value: dict[str, Any] = {"a": None, "b": None, "c": None}
    drop_nulls(value, StructuralSchema(schema))
    assert value == {"b": None, "c": None}
    apply_defaults(value, StructuralSchema(schema), 1000)
    assert value == {"b": None, "c": "d"}


def test_defaults_are_set_also_in_list_items() -> None:
    value: dict[str, Any] = {"items": [{}, {"a": "own"}]}
    apply_defaults(value, StructuralSchema(SPEC), 1000)
    assert value == {"size": 3, "items": [{"a": "x"}, {"a": "own"}]}


def test_a_default_is_not_shared_between_objects() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "default": {"b": []}}}}
    one: dict[str, Any] = {}
    other: dict[str, Any] = {}
    apply_defaults(one, StructuralSchema(schema), 1000)
    apply_defaults(other, StructuralSchema(schema), 1000)
    one["a"]["b"].append(1)
    assert other == {"a": {"b": []}}
    assert copy(one) == one


def test_the_errors_of_the_best_alternative_are_reported() -> None:
    schema = {
        "type": "object",
        "properties": {"a": STRING, "b": STRING},
        "anyOf": [{"required": ["a", "b"]}, {"properties": {"a": {"minLength": 3}}}],
    }
    reports = validation_errors(schema, {"a": "xy"})
    assert reports[0] == '<nil>: Invalid value: "": "" must validate at least one schema (anyOf)'
    assert reports[1:] == ['a: Invalid value: "xy": a in body should be at least 3 chars long']


def test_unchanged_invalid_values_are_tolerated() -> None:
    old = {"name": "n", "size": 0}
    assert validation_errors(SPEC, {"name": "m", "size": 0}, old) == []
    assert validation_errors(SPEC, {"name": "m", "size": -1}, old) == [
        "size: Invalid value: -1: size in body should be greater than or equal to 1"
    ]


def test_an_integer_and_an_equal_float_are_different_items_of_a_set_and_values_of_one_key() -> None:
    def keyed(*keys: str) -> dict[str, Any]:
        items = {"type": "object", "properties": {key: {"type": "number"} for key in keys}}
        kinds = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*keys]}
        return {"type": "array", "items": items, **kinds}

    numbers = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "number"}}
    fields = {"s": numbers, "one": keyed("a"), "two": keyed("a", "b")}
    node = StructuralSchema({"type": "object", "properties": fields})
    assert check_lists({"s": [2, 2.0, 3.0], "one": [{"a": 2}, {"a": 2.0}]}, node) == []
    assert [each.path for each in check_lists({"s": [2, 2.0, 2.0]}, node)] == ["s[2]"]
    assert [each.path for each in check_lists({"two": [{"a": 2, "b": 1}, {"a": 2.0, "b": 1}]}, node)] == ["two[1]"]


def test_one_and_true_are_different_items_of_a_set() -> None:
    schema = {"type": "array", "x-kubernetes-list-type": "set", "items": {"x-kubernetes-preserve-unknown-fields": True}}
    node = StructuralSchema({"type": "object", "properties": {"s": schema}})
    assert check_lists({"s": [1, True, 0, False, "1"]}, node) == []
    assert [str(each) for each in check_lists({"s": [1, 2, 1, 1]}, node)] == ["s[2]: Duplicate value: 1"]
