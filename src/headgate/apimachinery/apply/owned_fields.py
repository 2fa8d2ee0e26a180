"""Which fields an object has, as a set; and sets seen through the schema.

:func:`owned_fields` is what a manager owns by applying a configuration: leaves, items of lists and maps, and what is
explicitly empty, but not the structs on the way. :func:`with_parent_fields` adds those structs where pruning needs
them. :func:`settle` fits a set that an older schema wrote. The sets themselves are ``field_sets.py``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from headgate.apimachinery.apply.field_sets import FieldSet
from headgate.apimachinery.apply.merge_schema import ANY, InvalidListItem, MergeSchema, MergeSchemaKind, element_of
from headgate.apimachinery.apply.path_elements import SELF


def owned_fields(shape: MergeSchema, value: Any) -> FieldSet:
    """The set of the fields of ``value``. Items that appear twice in a list are owned as such, without their parts."""
    if shape.whole or not value:
        return {}
    match shape.kind:
        case MergeSchemaKind.STRUCT:
            return _owned_struct(shape, value)
        case MergeSchemaKind.LIST:
            return _owned_list(shape, value)
        case _:
            return _owned_map(shape.item or ANY, value) if isinstance(value, dict) else {}


def _owned_struct(shape: MergeSchema, value: dict[str, Any]) -> FieldSet:
    out: FieldSet = {}
    for name, below in value.items():
        part = shape.parts.get(name)
        if part is None:
            if shape.item is not None:
                out[f"f:{name}"] = _member(owned_fields(shape.item, below))
            continue
        if _is_leaf(part.shape, below):
            out[part.element] = {}
        else:
            parts = owned_fields(part.shape, below)
            if parts:
                out[part.element] = parts
    return out


def _is_leaf(shape: MergeSchema, value: Any) -> bool:
    if shape.whole or value is None or value == {}:
        return True
    return shape.kind is MergeSchemaKind.ANY and not isinstance(value, dict)


def _owned_map(item: MergeSchema, value: dict[str, Any]) -> FieldSet:
    return {f"f:{name}": _member(owned_fields(item, below)) for name, below in value.items()}


def _owned_list(shape: MergeSchema, value: list[Any]) -> FieldSet:
    elements = [element_of(shape, item) for item in value]
    count = Counter(each for each in elements if not isinstance(each, InvalidListItem))
    return {
        element: _member(owned_fields(shape.item or ANY, item)) if count[element] == 1 else {}
        for element, item in zip(elements, value, strict=True)
        if not isinstance(element, InvalidListItem)
    }


def _member(parts: FieldSet) -> FieldSet:
    return {SELF: {}, **parts} if parts else parts


def with_parent_fields(shape: MergeSchema | None, fields: FieldSet) -> FieldSet:
    """``fields`` and every struct field above one of them."""
    out: FieldSet = {}
    for element, node in fields.items():
        if not node:
            out[element] = node
            continue
        below = with_parent_fields(schema_below(shape, element), node)
        named = shape is not None and element[:2] == "f:" and element[2:] in shape.parts
        out[element] = {SELF: {}, **below} if named and SELF not in below else below
    return out


def schema_below(shape: MergeSchema | None, element: str) -> MergeSchema | None:
    """The shape that ``element`` leads to, if the schema knows it."""
    if shape is None:
        return None
    if element[:2] == "f:":
        part = shape.parts.get(element[2:])
        if part is not None:
            return part.shape
        if shape.kind is MergeSchemaKind.ANY:
            return None if shape.atomic else ANY
        return shape.item if shape.kind is not MergeSchemaKind.LIST else None
    return shape.item if shape.kind is MergeSchemaKind.LIST and element[:2] == "k:" else None


def reconcile_with_schema(shape: MergeSchema | None, fields: FieldSet) -> FieldSet:
    """``fields`` with nothing below what the schema now holds to be one piece. Returned uncopied if that is so."""
    changed: FieldSet = {}
    for element, node in fields.items():
        if not node or element == SELF:
            continue
        below = schema_below(shape, element)
        if below is None or (below.kind is MergeSchemaKind.ANY and not below.atomic):
            continue
        settled: FieldSet = (
            {} if below.whole and below.kind is not MergeSchemaKind.LEAF else reconcile_with_schema(below, node)
        )
        if settled is not node:
            changed[element] = settled
    return {**fields, **changed} if changed else fields
