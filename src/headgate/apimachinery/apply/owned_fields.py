"""The fields of an object as a set, and sets adapted to the schema.

:func:`owned_fields` returns the fields that a manager owns when it applies a configuration: leaves, items of lists and
maps, and explicit empty values, but not the structs above them. :func:`with_parent_fields` adds those structs, because
they are removed with their last field.
:func:`reconcile_with_schema` adapts a set that was written with an older schema. ``field_sets.py`` defines the sets.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from headgate.apimachinery.apply.field_sets import FieldSet
from headgate.apimachinery.apply.merge_schema import ANY, InvalidListItem, MergeSchema, MergeSchemaKind, element_of
from headgate.apimachinery.apply.path_elements import SELF


def owned_fields(schema: MergeSchema, value: Any) -> FieldSet:
    """The set of the fields of ``value``. A duplicate list item is owned without its fields."""
    if schema.indivisible or not value:
        return {}
    match schema.kind:
        case MergeSchemaKind.STRUCT:
            return _owned_struct(schema, value)
        case MergeSchemaKind.LIST:
            return _owned_list(schema, value)
        case _:
            return _owned_map(schema.item or ANY, value) if isinstance(value, dict) else {}


def _owned_struct(schema: MergeSchema, value: dict[str, Any]) -> FieldSet:
    out: FieldSet = {}
    for name, below in value.items():
        part = schema.fields.get(name)
        if part is None:
            if schema.item is not None:
                out[f"f:{name}"] = _member(owned_fields(schema.item, below))
            continue
        if _is_leaf(part.schema, below):
            out[part.element] = {}
        else:
            parts = owned_fields(part.schema, below)
            if parts:
                out[part.element] = parts
    return out


def _is_leaf(schema: MergeSchema, value: Any) -> bool:
    if schema.indivisible or value is None or value == {}:
        return True
    return schema.kind is MergeSchemaKind.ANY and not isinstance(value, dict)


def _owned_map(item: MergeSchema, value: dict[str, Any]) -> FieldSet:
    return {f"f:{name}": _member(owned_fields(item, below)) for name, below in value.items()}


def _owned_list(schema: MergeSchema, value: list[Any]) -> FieldSet:
    elements = [element_of(schema, item) for item in value]
    count = Counter(each for each in elements if not isinstance(each, InvalidListItem))
    return {
        element: _member(owned_fields(schema.item or ANY, item)) if count[element] == 1 else {}
        for element, item in zip(elements, value, strict=True)
        if not isinstance(element, InvalidListItem)
    }


def _member(parts: FieldSet) -> FieldSet:
    return {SELF: {}, **parts} if parts else parts


def with_parent_fields(schema: MergeSchema | None, fields: FieldSet) -> FieldSet:
    """``fields`` and all struct fields above them."""
    out: FieldSet = {}
    for element, node in fields.items():
        if not node:
            out[element] = node
            continue
        below = with_parent_fields(schema_below(schema, element), node)
        is_struct_field = schema is not None and element[:2] == "f:" and element[2:] in schema.fields
        out[element] = {SELF: {}, **below} if is_struct_field and SELF not in below else below
    return out


def schema_below(schema: MergeSchema | None, element: str) -> MergeSchema | None:
    """The schema of ``element``, if it is known."""
    if schema is None:
        return None
    if element[:2] == "f:":
        part = schema.fields.get(element[2:])
        if part is not None:
            return part.schema
        if schema.kind is MergeSchemaKind.ANY:
            return None if schema.atomic else ANY
        return schema.item if schema.kind is not MergeSchemaKind.LIST else None
    return schema.item if schema.kind is MergeSchemaKind.LIST and element[:2] == "k:" else None


def reconcile_with_schema(schema: MergeSchema | None, fields: FieldSet) -> FieldSet:
    """``fields`` without the fields below values that are atomic in the present schema; such a value is owned as a
    whole. The set is returned without a copy if nothing changes."""
    changed: FieldSet = {}
    for element, node in fields.items():
        if not node or element == SELF:
            continue
        below = schema_below(schema, element)
        if below is None or (below.kind is MergeSchemaKind.ANY and not below.atomic):
            continue
        reconciled: FieldSet = (
            {} if below.indivisible and below.kind is not MergeSchemaKind.LEAF else reconcile_with_schema(below, node)
        )
        if reconciled is not node:
            changed[element] = reconciled
    return {**fields, **changed} if changed else fields
