"""Removes fields from an object, and decides which are removed when a manager stops applying them.

A field is removed when its manager applied it last time, does not apply it now, and no other manager owns it
(``_prune`` in ``server_side_apply.py``). A map or list that becomes empty is set to null, which decoding drops; the
managers that own the map or list itself keep it in their sets.
"""

from __future__ import annotations

from typing import Any

from headgate.apimachinery.apply.field_sets import FieldSet, difference, intersection, is_member, union
from headgate.apimachinery.apply.merge_schema import ANY, InvalidListItem, MergeSchema, MergeSchemaKind, element_of
from headgate.apimachinery.apply.owned_fields import owned_fields, with_parent_fields


def remove_fields(schema: MergeSchema, value: Any, fields: FieldSet) -> Any:
    """``value`` without ``fields`` and everything below them. At least one of ``fields`` must be in ``value``."""
    match schema.kind:
        case MergeSchemaKind.LEAF:
            return value
        case MergeSchemaKind.LIST if isinstance(value, list) and not schema.atomic:
            return _remove_items(schema, value, fields)
        case MergeSchemaKind.STRUCT | MergeSchemaKind.MAP | MergeSchemaKind.ANY if (
            isinstance(value, dict) and not schema.atomic
        ):
            return _remove_parts(schema, value, fields)
        case MergeSchemaKind.ANY if not isinstance(value, dict | list):
            return value
        case _:
            return None


def _remove_items(schema: MergeSchema, items: list[Any], fields: FieldSet) -> list[Any] | None:
    out = []
    for item in items:
        element = element_of(schema, item)
        node = None if isinstance(element, InvalidListItem) else fields.get(element)
        if node is None:
            out.append(item)
        elif not is_member(node):
            out.append(remove_fields(schema.item or ANY, item, node))
    return out or None


def _remove_parts(schema: MergeSchema, value: dict[str, Any], fields: FieldSet) -> dict[str, Any] | None:
    out = {}
    for name, below in value.items():
        part = schema.fields.get(name)
        node = fields.get(f"f:{name}")
        if node is None:
            out[name] = below
        elif not is_member(node):
            out[name] = remove_fields(part.schema if part is not None else schema.item or ANY, below, node)
    return out or None


def remove_previously_owned(schema: MergeSchema, merged: Any, last: FieldSet) -> Any:
    """``merged`` without all fields that the applying manager owned before this request (``last``)."""
    return remove_fields(schema, merged, with_parent_fields(schema, last)) or {}


def add_back_owned_items(schema: MergeSchema, merged: Any, pruned: Any, managed: FieldSet) -> Any:
    """``pruned`` with those fields restored from ``merged`` that are in ``managed``, the sets of all managers."""
    kept = union(with_parent_fields(schema, owned_fields(schema, pruned)), with_parent_fields(schema, managed))
    removed = difference(with_parent_fields(schema, owned_fields(schema, merged)), kept)
    return remove_fields(schema, merged, removed) or {}


def add_back_dangling_items(schema: MergeSchema, merged: Any, pruned: Any, last: FieldSet) -> Any:
    """``pruned`` with all fields restored from ``merged`` that the applying manager did not own before.

    Only fields of ``last``, which it owned, stay removed.
    """
    before = with_parent_fields(schema, owned_fields(schema, merged))
    removed = difference(before, with_parent_fields(schema, owned_fields(schema, pruned)))
    return remove_fields(schema, merged, intersection(removed, with_parent_fields(schema, last))) or {}
