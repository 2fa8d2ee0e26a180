"""Taking fields out of an object, and deciding which go when a manager stops applying them.

A field goes when its manager applied it last time, does not apply it now, and nobody else owns it (:func:`prune`).
Containers that lose their last part become null, which decoding drops; their owner may still own them.
"""

from __future__ import annotations

from typing import Any

from headgate.kube.apply.owned import name_parents, owned_fields
from headgate.kube.apply.sets import FieldSet, difference, intersection, is_member, union
from headgate.kube.apply.shapes import ANY, BadItem, Kind, Shape, element_of


def remove_fields(shape: Shape, value: Any, fields: FieldSet) -> Any:
    """``value`` without ``fields`` and what is below them. Called only for a value that has some of them below it."""
    match shape.kind:
        case Kind.LEAF:
            return value
        case Kind.LIST if isinstance(value, list) and not shape.atomic:
            return _remove_items(shape, value, fields)
        case Kind.STRUCT | Kind.MAP | Kind.ANY if isinstance(value, dict) and not shape.atomic:
            return _remove_parts(shape, value, fields)
        case Kind.ANY if not isinstance(value, dict | list):
            return value
        case _:
            return None


def _remove_items(shape: Shape, items: list[Any], fields: FieldSet) -> list[Any] | None:
    out = []
    for item in items:
        element = element_of(shape, item)
        node = None if isinstance(element, BadItem) else fields.get(element)
        if node is None:
            out.append(item)
        elif not is_member(node):
            out.append(remove_fields(shape.item or ANY, item, node))
    return out or None


def _remove_parts(shape: Shape, value: dict[str, Any], fields: FieldSet) -> dict[str, Any] | None:
    out = {}
    for name, below in value.items():
        part = shape.parts.get(name)
        node = fields.get(f"f:{name}")
        if node is None:
            out[name] = below
        elif not is_member(node):
            out[name] = remove_fields(part.shape if part is not None else shape.item or ANY, below, node)
    return out or None


def drop_own(shape: Shape, merged: Any, last: FieldSet) -> Any:
    """``merged`` without all that its manager owned before."""
    return remove_fields(shape, merged, name_parents(shape, last)) or {}


def give_back_owned(shape: Shape, merged: Any, pruned: Any, managed: FieldSet) -> Any:
    """``pruned`` with what somebody owns (``managed``: the sets of all managers) put back from ``merged``."""
    kept = union(name_parents(shape, owned_fields(shape, pruned)), name_parents(shape, managed))
    gone = difference(name_parents(shape, owned_fields(shape, merged)), kept)
    return remove_fields(shape, merged, gone) or {}


def give_back_dangling(shape: Shape, merged: Any, pruned: Any, last: FieldSet) -> Any:
    """``pruned`` with all put back that its manager did not own: only fields of ``last`` may be missing."""
    before = name_parents(shape, owned_fields(shape, merged))
    gone = difference(before, name_parents(shape, owned_fields(shape, pruned)))
    return remove_fields(shape, merged, intersection(gone, name_parents(shape, last))) or {}
