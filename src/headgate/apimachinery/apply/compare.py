"""The difference between two objects of one type, as three sets of fields.

:func:`compare` returns the fields that the second object adds, removes and changes. If a value is added or removed, the
set has the value itself and all its fields; an atomic value is one field. Lists with keys are compared item by item,
in any order. :func:`field_set_of` is the set of a value that only one of the objects has, :func:`json_equal` the
equality of JSON. Both objects must be in wire form (``apimachinery/codec/encoder.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headgate.apimachinery.apply.field_sets import FieldSet, difference_below
from headgate.apimachinery.apply.merge_schema import ANY, InvalidListItem, MergeSchema, MergeSchemaKind, element_of
from headgate.apimachinery.apply.path_elements import SELF

# An attribute lookup in the enumeration costs more than the comparisons below, and every write runs them.
STRUCT: Final = MergeSchemaKind.STRUCT
LIST: Final = MergeSchemaKind.LIST


class Comparison(NamedTuple):
    """Three sets of fields, relative to the root of the object."""

    added: FieldSet
    removed: FieldSet
    modified: FieldSet

    def without(self, fields: FieldSet) -> Comparison:
        """Without ``fields`` and everything below them."""
        if not fields:
            return self
        return Comparison(*(difference_below(each, fields) for each in self))


# The same three sets below one value: added, removed, modified. None: no such change; {}: the value itself.
NodeComparison = tuple["FieldSet | None", "FieldSet | None", "FieldSet | None"]


def compare(schema: MergeSchema, old: Mapping[str, Any], new: Mapping[str, Any]) -> Comparison:
    added, removed, modified = _compare(schema, old, new) or (None, None, None)
    return Comparison(added or {}, removed or {}, modified or {})


def json_equal(left: Any, right: Any) -> bool:
    """JSON equality: ``1`` is ``1.0`` but not ``true``."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(value, right[name]) for name, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)


def field_set_of(schema: MergeSchema, value: Any) -> FieldSet:
    """The set of a value that only one of two objects has: the value itself and all its fields."""
    if schema.indivisible or not value:
        return {}
    out: FieldSet = {SELF: {}}
    kind = schema.kind
    if kind is STRUCT:
        parts = schema.fields
        for name, below in value.items():
            if name in parts:
                element, part = parts[name]
                out[element] = {} if part.indivisible or not below else field_set_of(part, below)
            elif schema.item is not None:
                out[f"f:{name}"] = field_set_of(schema.item, below)
    elif kind is LIST:
        item = schema.item or ANY
        for element, items in _by_element(schema, value).items():
            out[element] = field_set_of(item, items[0]) if len(items) == 1 else {}
    elif isinstance(value, dict):
        item = schema.item or ANY
        for name, below in value.items():
            out[f"f:{name}"] = {} if item.indivisible else field_set_of(item, below)
    else:
        return {}
    return out


def _by_element(schema: MergeSchema, items: list[Any]) -> dict[str, list[Any]]:
    """The items by their path elements; duplicate items have the same element.

    Items without keys have no element. They are skipped; ``validate.py`` rejects them.
    """
    out: dict[str, list[Any]] = {}
    for item in items:
        element = element_of(schema, item)
        if isinstance(element, InvalidListItem):
            continue
        if element in out:
            out[element].append(item)
        else:
            out[element] = [item]
    return out


def _compare(schema: MergeSchema, old: Any, new: Any) -> NodeComparison | None:
    if old is new or (schema.plain_equality and old == new):
        return None
    if schema.indivisible:
        return None if json_equal(old, new) else (None, None, {})
    if schema.kind is LIST:
        return _compare_lists(schema, old, new)
    return _compare_any(schema, old, new) if schema.kind is MergeSchemaKind.ANY else _compare_maps(schema, old, new)


class _Changes:
    """Collects the changes below one value."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.added: FieldSet = {}
        self.removed: FieldSet = {}
        self.modified: FieldSet = {}

    def add(self, element: str, changes: NodeComparison | None) -> None:
        if changes is None:
            return
        added, removed, modified = changes
        if added is not None:
            self.added[element] = added
        if removed is not None:
            self.removed[element] = removed
        if modified is not None:
            self.modified[element] = modified

    def result(self) -> NodeComparison | None:
        if not (self.added or self.removed or self.modified):
            return None
        return (self.added or None, self.removed or None, self.modified or None)


def _compare_maps(schema: MergeSchema, old: Any, new: Any) -> NodeComparison | None:
    before: Mapping[str, Any] = old if isinstance(old, dict) else {}
    after: Mapping[str, Any] = new if isinstance(new, dict) else {}
    if not before and not after:
        # An empty value and null are different leaves.
        return None if json_equal(old, new) else (None, None, {})
    changes = _Changes()
    for name, value in after.items():
        element, below = _part(schema, name)
        if name in before:
            changes.add(element, _compare(below, before[name], value))
        else:
            changes.added[element] = field_set_of(below, value)
    for name, value in before.items():
        if name not in after:
            element, below = _part(schema, name)
            changes.removed[element] = field_set_of(below, value)
    return changes.result()


def _part(schema: MergeSchema, name: str) -> tuple[str, MergeSchema]:
    part = schema.fields.get(name)
    return part if part is not None else (f"f:{name}", schema.item or ANY)


def _compare_lists(schema: MergeSchema, old: Any, new: Any) -> NodeComparison | None:
    if not old and not new:
        return None if json_equal(old, new) else (None, None, {})
    before = _by_element(schema, old or [])
    after = _by_element(schema, new or [])
    item = schema.item or ANY
    changes = _Changes()
    for element in before | after:
        old_items, new_items = before.get(element, []), after.get(element, [])
        if len(old_items) == 1 and len(new_items) == 1:
            changes.add(element, _compare(item, old_items[0], new_items[0]))
        elif len(old_items) > 1 and len(new_items) > 1:
            if not json_equal(old_items, new_items):
                changes.modified[element] = {}
        else:
            # One side has no such item, or has it several times: then only the item as a whole can be owned.
            if new_items:
                changes.added[element] = field_set_of(item, new_items[0]) if len(new_items) == 1 else {}
            if old_items:
                changes.removed[element] = field_set_of(item, old_items[0]) if len(old_items) == 1 else {}
    return changes.result()


def _compare_any(schema: MergeSchema, old: Any, new: Any) -> NodeComparison | None:
    """Without a schema the values decide: two maps (or nulls) are compared as maps."""
    if _map_like(old) and _map_like(new):
        return _compare_maps(schema, old, new)
    if json_equal(old, new):
        return None
    if not _map_like(old) and not _map_like(new):
        return (None, None, {})
    # A map replaced another value, or the other way round: its fields were added or removed, and the value changed.
    added, removed, _ = _compare_maps(schema, old, new) or (None, None, None)
    return (added, removed, {})


def _map_like(value: Any) -> bool:
    return value is None or isinstance(value, dict)
