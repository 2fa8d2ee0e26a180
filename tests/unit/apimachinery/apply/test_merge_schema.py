"""Atomic and granular values, with a small hand-written schema."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.apply.compare import Comparison, compare
from headgate.apimachinery.apply.field_sets import FieldSet
from headgate.apimachinery.apply.merge import merge
from headgate.apimachinery.apply.merge_schema import merge_schema_of
from headgate.apimachinery.apply.owned_fields import owned_fields, reconcile_with_schema, with_parent_fields
from headgate.apimachinery.apply.remove import remove_fields
from headgate.apimachinery.apply.validate import schema_errors
from headgate.kube.schema import Field, GroupVersionKind, Schemas, TypeDef
from headgate.kube.schema import Type as T

ITEM = T("struct", ref="Item")
SCHEMAS = Schemas(
    (
        TypeDef(
            "Thing",
            (
                Field("count", T("int64")),
                Field("tags", T("map", items=T("string"))),
                Field("whole", T("map", items=T("string")), map_atomic=True),
                Field("items", T("list", items=ITEM), list_type="map", list_keys=("name", "side")),
                Field("names", T("list", items=T("string")), list_type="set"),
                Field("args", T("list", items=T("string"))),
                Field("any", T("raw")),
                Field("point", T("struct", ref="Point"), pointer=True),
                Field("inner", T("struct", ref="Item"), pointer=True),
            ),
        ),
        TypeDef("Point", (Field("x", T("int64")), Field("y", T("int64"))), atomic=True),
        TypeDef(
            "Item", (Field("name", T("string")), Field("side", T("string"), default="left"), Field("size", T("int64")))
        ),
    ),
    {GroupVersionKind("", "v1", "Thing"): "Thing"},
)
THING = merge_schema_of(SCHEMAS, "Thing")
LEFT_A, LEFT_B = 'k:{"name":"a","side":"left"}', 'k:{"name":"b","side":"left"}'


def test_parent_structs_are_not_owned_but_items_are() -> None:
    value = {"inner": {"size": 1}, "tags": {"a": "b"}, "items": [{"name": "a", "size": 1}], "names": ["n"]}
    assert owned_fields(THING, value) == {
        "f:inner": {"f:size": {}},
        "f:tags": {"f:a": {}},
        "f:items": {LEFT_A: {".": {}, "f:name": {}, "f:size": {}}},
        "f:names": {'v:"n"': {}},
    }


def test_an_atomic_value_is_owned_as_a_whole() -> None:
    value = {"whole": {"a": "b"}, "args": ["x"], "point": {"x": 1}}
    assert owned_fields(THING, value) == {"f:whole": {}, "f:args": {}, "f:point": {}}


def test_an_explicit_empty_value_is_owned_but_an_empty_list_is_not() -> None:
    value: dict[str, Any] = {"tags": {}, "inner": None, "items": [], "names": None}
    assert owned_fields(THING, value) == {"f:tags": {}, "f:inner": {}, "f:names": {}}


def test_without_a_schema_maps_are_granular_and_lists_are_atomic() -> None:
    assert owned_fields(THING, {"any": {"a": {"b": [1]}, "c": {}}}) == {
        "f:any": {"f:a": {".": {}, "f:b": {}}, "f:c": {}}
    }
    assert owned_fields(THING, {"any": [1]}) == {"f:any": {}}


def test_a_duplicate_item_is_owned_without_its_fields() -> None:
    value = {"items": [{"name": "a", "size": 1}, {"name": "a", "size": 2}, {"name": "b"}]}
    assert owned_fields(THING, value)["f:items"] == {LEFT_A: {}, LEFT_B: {".": {}, "f:name": {}}}


def test_a_default_completes_the_keys_of_an_item() -> None:
    explicit = {"items": [{"name": "a", "side": "left"}]}
    assert list(owned_fields(THING, explicit)["f:items"]) == [LEFT_A]


def changes(old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    return compare(THING, old, new)


def test_an_added_container_counts_with_all_its_fields() -> None:
    added = changes({}, {"items": [{"name": "a"}], "tags": {"x": "y"}}).added
    assert added == {"f:items": {".": {}, LEFT_A: {".": {}, "f:name": {}}}, "f:tags": {".": {}, "f:x": {}}}


def test_an_existing_container_is_not_changed_by_its_fields() -> None:
    result = changes({"tags": {"a": "1", "b": "1"}}, {"tags": {"a": "2", "c": "1"}})
    assert result == ({"f:tags": {"f:c": {}}}, {"f:tags": {"f:b": {}}}, {"f:tags": {"f:a": {}}})


def test_the_order_of_items_is_no_change() -> None:
    a, b = {"name": "a"}, {"name": "b"}
    assert changes({"items": [a, b]}, {"items": [b, a]}) == ({}, {}, {})
    assert changes({"args": ["a", "b"]}, {"args": ["b", "a"]}).modified == {"f:args": {}}


def test_null_and_empty_differ_as_leaves() -> None:
    assert changes({"tags": None}, {"tags": {}}).modified == {"f:tags": {}}
    assert changes({"tags": None}, {"tags": {"a": "b"}}).added == {"f:tags": {"f:a": {}}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (["1"], ["1", "1"], ({LEFT_A: {}}, {LEFT_A: {".": {}, "f:name": {}, "f:size": {}}}, {})),
        (["1", "1"], ["1"], ({LEFT_A: {".": {}, "f:name": {}, "f:size": {}}}, {LEFT_A: {}}, {})),
        (["1", "1"], ["1", "2"], ({}, {}, {LEFT_A: {}})),
        (["1", "1"], ["1", "1"], ({}, {}, {})),
        (["1", "1"], [], ({}, {LEFT_A: {}}, {})),
    ],
)
def test_duplicate_items_are_compared_as_one(old: list[str], new: list[str], expected: Any) -> None:
    def items(sizes: list[str]) -> dict[str, Any]:
        return {"items": [{"name": "b"}, *({"name": "a", "size": int(size)} for size in sizes)]}

    assert tuple(part.get("f:items", {}) for part in changes(items(old), items(new))) == expected


def test_true_is_not_one_where_there_is_no_schema() -> None:
    assert changes({"any": {"a": 1}}, {"any": {"a": True}}).modified == {"f:any": {"f:a": {}}}
    assert changes({"any": {"a": 1}}, {"any": {"a": 1.0}}) == ({}, {}, {})


def test_a_map_that_replaces_a_scalar_is_a_change_with_added_fields() -> None:
    assert changes({"any": 1}, {"any": {"a": 1}}) == ({"f:any": {"f:a": {}}}, {}, {"f:any": {}})
    assert changes({"any": {"a": 1}}, {"any": None}) == ({}, {"f:any": {"f:a": {}}}, {})


def names(items: Any) -> list[str]:
    return [item["name"] for item in items]


@pytest.mark.parametrize(
    ("live", "config", "expected"),
    [
        ("abc", "", "abc"),
        ("abc", "ca", "bca"),
        ("abc", "d", "abcd"),
        ("abc", "xc", "abxc"),
        ("abc", "xa", "xabc"),
        ("ab", "ba", "ba"),
        ("", "ba", "ba"),
        ("axbycz", "cba", "xyczba"),
    ],
)
def test_applied_items_have_the_order_of_the_configuration(live: str, config: str, expected: str) -> None:
    merged = merge(THING, {"items": [{"name": n} for n in live]}, {"items": [{"name": n} for n in config]})
    assert "".join(names(merged.get("items", []))) == expected


def test_a_null_changes_no_map_but_clears_a_leaf() -> None:
    live = {"tags": {"a": "b"}, "items": [{"name": "a"}], "count": 1, "args": ["x"]}
    config = dict.fromkeys(live)
    assert merge(THING, live, config) == {"tags": {"a": "b"}, "items": [{"name": "a"}], "count": None, "args": None}


def test_duplicate_items_are_replaced_by_the_applied_one() -> None:
    live = {"items": [{"name": "a", "size": 1}, {"name": "b"}, {"name": "a", "size": 2}]}
    assert merge(THING, live, {"items": [{"name": "a"}]}) == {"items": [{"name": "a"}, {"name": "b"}]}


def test_a_map_that_loses_its_last_field_becomes_null() -> None:
    value = {"tags": {"a": "b"}, "items": [{"name": "a"}, {"name": "b"}], "any": {"a": {"b": 1}}}
    gone: FieldSet = {"f:tags": {"f:a": {}}, "f:items": {LEFT_A: {}}, "f:any": {"f:a": {"f:b": {}}}}
    assert remove_fields(THING, value, gone) == {"tags": None, "items": [{"name": "b"}], "any": {"a": None}}


def test_only_struct_fields_are_added_as_parents() -> None:
    fields: FieldSet = {"f:inner": {"f:size": {}}, "f:tags": {"f:a": {}}, "f:items": {LEFT_A: {"f:size": {}}}}
    assert with_parent_fields(THING, fields) == {
        "f:inner": {".": {}, "f:size": {}},
        "f:tags": {".": {}, "f:a": {}},
        "f:items": {".": {}, LEFT_A: {"f:size": {}}},
    }


def test_fields_of_a_value_that_became_atomic_become_the_value() -> None:
    fields: FieldSet = {"f:whole": {"f:a": {}}, "f:args": {"i:0": {}}, "f:point": {"f:x": {}}, "f:tags": {"f:a": {}}}
    assert reconcile_with_schema(THING, fields) == {"f:whole": {}, "f:args": {}, "f:point": {}, "f:tags": {"f:a": {}}}
    untouched: FieldSet = {"f:any": {"f:a": {"f:b": {}}}, "f:unknown": {"f:a": {}}, "f:count": {"f:odd": {}}}
    assert reconcile_with_schema(THING, untouched) is untouched


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"nope": 1}, ".nope: field not declared in schema"),
        ({"point": {"z": 1}}, ".point.z: field not declared in schema"),
        ({"count": "x"}, ".count: expected numeric (int or float), got string"),
        ({"count": True}, ".count: expected numeric (int or float), got bool"),
        ({"tags": {"a": 1000000}}, ".tags.a: expected string, got &value.valueUnstructured{Value:1000000}"),
        ({"tags": {"a": 1e6}}, ".tags.a: expected string, got &value.valueUnstructured{Value:1e+06}"),
        ({"tags": [1, "s", None]}, ".tags: expected map, got &{[1 s <nil>]}"),
        ({"items": {"b": 1, "a": True}}, ".items: expected list, got &{map[a:true b:1]}"),
        ({"args": ["x", 1]}, ".args[1]: expected string, got &value.valueUnstructured{Value:1}"),
        ({"items": [{"name": "a"}, {"name": "a"}]}, '.items: duplicate entries for key [name="a",side="left"]'),
        ({"names": ["a", "a"]}, '.names: duplicate entries for key [="a"]'),
        ({"names": [{}]}, ".names: element 0: associative list without keys has an element that's a map type"),
        ({"names": [[]]}, ".names: element 0: not supported: associative list with lists as elements"),
        ({"items": [None]}, ".items: element 0: associative list with keys may not have a null element"),
        ({"items": [3]}, ".items: element 0: associative list with keys may not have non-map elements"),
        ({"count": "x", "inner": {"size": []}}, "errors:\n  .count: expected numeric (int or float), got string"
         "\n  .inner.size: expected numeric (int or float), got []interface {}"),
    ],
)  # fmt: skip
def test_a_configuration_that_does_not_match_the_schema_gets_an_error(value: dict[str, Any], text: str) -> None:
    assert schema_errors(THING, value) == text


def test_live_objects_may_have_duplicate_items() -> None:
    assert schema_errors(THING, {"items": [{"name": "a"}, {"name": "a"}]}, allow_duplicates=True) is None


def test_nulls_and_values_without_a_schema_are_always_valid() -> None:
    assert schema_errors(THING, {"count": None, "items": None, "tags": None, "any": [{"x": 1}]}) is None
