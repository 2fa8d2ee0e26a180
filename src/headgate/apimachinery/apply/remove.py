"""Removes fields from an object, and decides which are removed when a manager stops applying them.

A field is removed when its manager applied it last time, does not apply it now, and no other manager owns it
(:func:`prune`). Containers that lose their last part become null, which decoding drops; their owner may still own them.
"""

from __future__ import annotations

from typing import Any

from headgate.apimachinery.apply.field_sets import FieldSet, difference, intersection, is_member, union
from headgate.apimachinery.apply.merge_schema import ANY, InvalidListItem, MergeSchema, MergeSchemaKind, element_of
from headgate.apimachinery.apply.owned_fields import owned_fields, with_parent_fields


def remove_fields(shape: MergeSchema, value: Any, fields: FieldSet) -> Any:
    """``value`` without ``fields`` and what is below them. Called only for a value that has some of them below it."""
    match shape.kind:
        case MergeSchemaKind.LEAF:
            return value
        case MergeSchemaKind.LIST if isinstance(value, list) and not shape.atomic:
            return _remove_items(shape, value, fields)
        case MergeSchemaKind.STRUCT | MergeSchemaKind.MAP | MergeSchemaKind.ANY if (
            isinstance(value, dict) and not shape.atomic
        ):
            return _remove_parts(shape, value, fields)
        case MergeSchemaKind.ANY if not isinstance(value, dict | list):
            return value
        case _:
            return None


def _remove_items(shape: MergeSchema, items: list[Any], fields: FieldSet) -> list[Any] | None:
    out = []
    for item in items:
        element = element_of(shape, item)
        node = None if isinstance(element, InvalidListItem) else fields.get(element)
        if node is None:
            out.append(item)
        elif not is_member(node):
            out.append(remove_fields(shape.item or ANY, item, node))
    return out or None


def _remove_parts(shape: MergeSchema, value: dict[str, Any], fields: FieldSet) -> dict[str, Any] | None:
    out = {}
    for name, below in value.items():
        part = shape.parts.get(name)
        node = fields.get(f"f:{name}")
        if node is None:
            out[name] = below
        elif not is_member(node):
            out[name] = remove_fields(part.shape if part is not None else shape.item or ANY, below, node)
    return out or None


def remove_previously_owned(shape: MergeSchema, merged: Any, last: FieldSet) -> Any:
    """``merged`` without all that its manager owned before."""
    return remove_fields(shape, merged, with_parent_fields(shape, last)) or {}


def add_back_owned_items(shape: MergeSchema, merged: Any, pruned: Any, managed: FieldSet) -> Any:
    """``pruned`` with the owned fields (``managed``: the sets of all managers) restored from ``merged``."""
    kept = union(with_parent_fields(shape, owned_fields(shape, pruned)), with_parent_fields(shape, managed))
    gone = difference(with_parent_fields(shape, owned_fields(shape, merged)), kept)
    return remove_fields(shape, merged, gone) or {}


def add_back_dangling_items(shape: MergeSchema, merged: Any, pruned: Any, last: FieldSet) -> Any:
    """``pruned`` with all put back that its manager did not own: only fields of ``last`` may be missing."""
    before = with_parent_fields(shape, owned_fields(shape, merged))
    gone = difference(before, with_parent_fields(shape, owned_fields(shape, pruned)))
    return remove_fields(shape, merged, intersection(gone, with_parent_fields(shape, last))) or {}
