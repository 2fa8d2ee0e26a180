from __future__ import annotations

from typing import Any

from headgate.apimachinery.apply.field_sets import (
    FieldSet,
    difference,
    difference_below,
    from_names,
    from_paths,
    has,
    in_wire_order,
    intersection,
    paths_of,
    read,
    union,
)
from headgate.apimachinery.apply.path_elements import sort_key


def test_a_field_and_its_children_can_be_members() -> None:
    fields = from_paths([("f:a", "f:b"), ("f:a",)])
    assert fields == {"f:a": {".": {}, "f:b": {}}}
    assert has(fields, ("f:a",))
    assert has(fields, ("f:a", "f:b"))
    assert not has(fields, ("f:a", "f:c"))
    assert not has(fields, ())


def test_a_parent_is_not_a_member_because_of_its_child() -> None:
    assert not has(from_paths([("f:a", "f:b")]), ("f:a",))


def test_difference_with_a_parent_keeps_its_children() -> None:
    fields: FieldSet = {"f:a": {".": {}, "f:b": {}}}
    assert difference(fields, {"f:a": {}}) == {"f:a": {"f:b": {}}}
    assert difference(fields, {"f:a": {"f:b": {}}}) == {"f:a": {}}
    assert difference(fields, fields) == {}


def test_difference_below_a_field_removes_its_children() -> None:
    fields: FieldSet = {"f:a": {".": {}, "f:b": {}}, "f:c": {}}
    assert difference_below(fields, {"f:a": {}}) == {"f:c": {}}
    assert difference_below(fields, {"f:a": {"f:b": {}}}) == {"f:a": {}, "f:c": {}}


def test_an_intersection_keeps_no_empty_branches() -> None:
    assert intersection({"f:a": {"f:b": {}}}, {"f:a": {"f:c": {}}}) == {}
    assert intersection({"f:a": {}}, {"f:a": {".": {}, "f:b": {}}}) == {"f:a": {}}


def test_union_makes_a_parent_a_member_if_one_side_has_it() -> None:
    assert union({"f:a": {}}, {"f:a": {"f:b": {}}}) == {"f:a": {".": {}, "f:b": {}}}


def test_the_wire_order_is_by_value_and_by_kind_of_element() -> None:
    fields = in_wire_order({'v:"x"': {}, 'k:{"p":10}': {}, 'k:{"p":9}': {}, "f:b": {}, "f:a": {}, ".": {}})
    assert list(fields) == [".", "f:a", "f:b", 'k:{"p":9}', 'k:{"p":10}', 'v:"x"']


def test_members_of_a_level_come_before_their_children() -> None:
    fields: FieldSet = {"f:a": {"f:deep": {}}, "f:b": {}}
    assert list(paths_of(fields)) == [("f:b",), ("f:a", "f:deep")]


def test_a_canonical_set_is_returned_without_a_copy() -> None:
    fields: FieldSet = {"f:a": {".": {}, "f:b": {}}, "f:c": {'k:{"name":"x"}': {}}}
    assert read(fields) is fields


def test_a_set_of_a_client_is_made_canonical() -> None:
    given: dict[str, Any] = {"f:b": None, "f:a": {"z:later": {}}, "f:c": {'k:{"b":1,"a":2}': {".": {}}}, ".": {}}
    read_back = read(given)
    assert read_back == {"f:a": {}, "f:b": {}, "f:c": {'k:{"a":2,"b":1}': {}}}
    assert list(read_back or ()) == ["f:a", "f:b", "f:c"]


def test_a_malformed_set_is_none() -> None:
    assert read({"nonsense": {}}) is None
    assert read({"f:a": 1}) is None
    assert read("f:a") is None
    assert read(None) == {}


def test_a_set_can_be_made_from_field_names() -> None:
    assert from_names((("status",), ("metadata", "labels"))) == {"f:metadata": {"f:labels": {}}, "f:status": {}}


def test_many_elements_are_sorted_as_few_are() -> None:
    numbers = [*range(9_000, 0, -1)]
    elements = [
        *(f'k:{{"containerPort":{number},"protocol":"TCP"}}' for number in numbers),
        *(f"v:{number}" for number in numbers),
        *(f"f:{number}" for number in numbers),
        ".",
    ]
    found = list(in_wire_order({element: {} for element in elements}))
    assert found == sorted(sorted(elements), key=sort_key)


def test_many_elements_are_sorted_in_parts_between_which_other_threads_run() -> None:
    record: list[str] = []

    class Compared(str):
        __slots__ = ()

        def __lt__(self, other: str) -> bool:
            record.append("compared")
            return super().__lt__(other)

    class Element(str):
        __slots__ = ()

        def __getitem__(self, part: Any) -> str:
            text = super().__getitem__(part)
            if part != slice(2, None):
                return text
            record.append("read")
            return Compared(text)

    fields: FieldSet = {Element(f"f:{number * 7919 % 10_007}"): {} for number in range(10_000)}
    assert list(in_wire_order({**fields, 'v:"last"': {}})) == [*sorted(fields), 'v:"last"']
    assert "read" in record[record.index("compared") :], "all elements are compared in one call into C"
