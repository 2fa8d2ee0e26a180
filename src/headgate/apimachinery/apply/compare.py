"""The difference between two objects of one type, as three sets of fields.

:func:`compare` says which fields the second object adds, removes and changes. A value with parts that appears or
disappears counts with all its parts and itself; a value that is one piece counts once. Lists with identity are
compared item by item whatever their order. :func:`whole` is the set of a value that only one side has, :func:`same`
the equality of JSON. Both objects must be in the form that the server prints (``apimachinery/codec/codec.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headgate.apimachinery.apply.field_sets import FieldSet, difference_below
from headgate.apimachinery.apply.merge_schema import ANY, InvalidListItem, MergeSchema, MergeSchemaKind, element_of
from headgate.apimachinery.apply.path_elements import SELF

# Looking a member up in its enumeration costs more than the comparisons below; this module is on every write's way.
STRUCT: Final = MergeSchemaKind.STRUCT
LIST: Final = MergeSchemaKind.LIST


class Comparison(NamedTuple):
    """Sets of fields. Inside this module also nodes, with ``None`` where nothing changed."""

    added: FieldSet
    removed: FieldSet
    modified: FieldSet

    def outside(self, fields: FieldSet) -> Comparison:
        """Without ``fields`` and all below them."""
        if not fields:
            return self
        return Comparison(*(difference_below(each, fields) for each in self))


NodeComparison = tuple["FieldSet | None", "FieldSet | None", "FieldSet | None"]


def compare(shape: MergeSchema, old: Mapping[str, Any], new: Mapping[str, Any]) -> Comparison:
    added, removed, modified = _compare(shape, old, new) or (None, None, None)
    return Comparison(added or {}, removed or {}, modified or {})


def same(left: Any, right: Any) -> bool:
    """JSON equality: ``1`` is ``1.0`` but not ``true``."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[name]) for name, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def whole(shape: MergeSchema, value: Any) -> FieldSet:
    """The node of a value that the other side does not have: itself and all its parts."""
    if shape.whole or not value:
        return {}
    out: FieldSet = {SELF: {}}
    kind = shape.kind
    if kind is STRUCT:
        parts = shape.parts
        for name, below in value.items():
            if name in parts:
                element, part = parts[name]
                out[element] = {} if part.whole or not below else whole(part, below)
            elif shape.item is not None:
                out[f"f:{name}"] = whole(shape.item, below)
    elif kind is LIST:
        item = shape.item or ANY
        for element, items in _by_element(shape, value).items():
            out[element] = whole(item, items[0]) if len(items) == 1 else {}
    elif isinstance(value, dict):
        item = shape.item or ANY
        for name, below in value.items():
            out[f"f:{name}"] = {} if item.whole else whole(item, below)
    else:
        return {}
    return out


def _by_element(shape: MergeSchema, items: list[Any]) -> dict[str, list[Any]]:
    """Items with the same element are duplicates; what has no element is left out (``validate.py`` has refused it)."""
    out: dict[str, list[Any]] = {}
    for item in items:
        element = element_of(shape, item)
        if isinstance(element, InvalidListItem):
            continue
        if element in out:
            out[element].append(item)
        else:
            out[element] = [item]
    return out


def _compare(shape: MergeSchema, old: Any, new: Any) -> NodeComparison | None:
    if old is new or (shape.exact and old == new):
        return None
    if shape.whole:
        return None if same(old, new) else (None, None, {})
    if shape.kind is LIST:
        return _compare_lists(shape, old, new)
    return _compare_any(shape, old, new) if shape.kind is MergeSchemaKind.ANY else _compare_maps(shape, old, new)


class _Changes:
    """Collects the changes below one value."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.added: FieldSet = {}
        self.removed: FieldSet = {}
        self.modified: FieldSet = {}

    def take(self, element: str, changes: NodeComparison | None) -> None:
        if changes is None:
            return
        added, removed, modified = changes
        if added is not None:
            self.added[element] = added
        if removed is not None:
            self.removed[element] = removed
        if modified is not None:
            self.modified[element] = modified

    def done(self) -> NodeComparison | None:
        if not (self.added or self.removed or self.modified):
            return None
        return (self.added or None, self.removed or None, self.modified or None)


def _compare_maps(shape: MergeSchema, old: Any, new: Any) -> NodeComparison | None:
    before: Mapping[str, Any] = old if isinstance(old, dict) else {}
    after: Mapping[str, Any] = new if isinstance(new, dict) else {}
    if not before and not after:
        # Empty against null: a leaf, so that the distinction is not lost.
        return None if same(old, new) else (None, None, {})
    changes = _Changes()
    for name, value in after.items():
        element, below = _part(shape, name)
        if name in before:
            changes.take(element, _compare(below, before[name], value))
        else:
            changes.added[element] = whole(below, value)
    for name, value in before.items():
        if name not in after:
            element, below = _part(shape, name)
            changes.removed[element] = whole(below, value)
    return changes.done()


def _part(shape: MergeSchema, name: str) -> tuple[str, MergeSchema]:
    part = shape.parts.get(name)
    return part if part is not None else (f"f:{name}", shape.item or ANY)


def _compare_lists(shape: MergeSchema, old: Any, new: Any) -> NodeComparison | None:
    if not old and not new:
        return None if same(old, new) else (None, None, {})
    before = _by_element(shape, old or [])
    after = _by_element(shape, new or [])
    item = shape.item or ANY
    changes = _Changes()
    for element in before | after:
        had, has = before.get(element, []), after.get(element, [])
        if len(had) == 1 and len(has) == 1:
            changes.take(element, _compare(item, had[0], has[0]))
        elif len(had) > 1 and len(has) > 1:
            if not same(had, has):
                changes.modified[element] = {}
        else:
            # One side has none, or has the item several times: then only the item as such can be owned.
            if has:
                changes.added[element] = whole(item, has[0]) if len(has) == 1 else {}
            if had:
                changes.removed[element] = whole(item, had[0]) if len(had) == 1 else {}
    return changes.done()


def _compare_any(shape: MergeSchema, old: Any, new: Any) -> NodeComparison | None:
    """Without a schema each side is taken for what it is; a null may be anything, a map above all."""
    if _map_like(old) and _map_like(new):
        return _compare_maps(shape, old, new)
    if same(old, new):
        return None
    if not _map_like(old) and not _map_like(new):
        return (None, None, {})
    # A map took the place of something else, or the other way round: its parts came or went, the value changed.
    added, removed, _ = _compare_maps(shape, old, new) or (None, None, None)
    return (added, removed, {})


def _map_like(value: Any) -> bool:
    return value is None or isinstance(value, dict)
