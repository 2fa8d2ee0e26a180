"""Sets of fields, in the form of ``managedFields[].fieldsV1``.

A :data:`FieldSet` maps path elements to nodes. An empty node means that the field is in the set; a node with children
has ``"."`` if the field itself is in the set too. So ``{"f:a": {}, "f:b": {".": {}, "f:c": {}}}`` is the set of ``.a``,
``.b`` and ``.b.c``. Functions do not change their arguments (except :func:`add`), and results share nodes with their
inputs. The elements of a set are in *wire order*, in which Kubernetes writes them; only a union can lose this order,
and :func:`in_wire_order` restores it.

``path_elements.py`` defines the elements; ``owned_fields.py`` and ``compare.py`` compute the fields of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from heapq import merge
from typing import Any, Final, TypeAlias

from headgate.apimachinery.apply.path_elements import IGNORED, SELF, normal_form, sort_key

FieldSet: TypeAlias = "dict[str, FieldSet]"
Path: TypeAlias = tuple[str, ...]
FieldNames: TypeAlias = tuple[tuple[str, ...], ...]

_RUN_LENGTH: Final = 4_096  # so many elements are sorted without a break for other threads


def is_member(node: FieldSet) -> bool:
    """Whether the field of ``node`` itself is in the set."""
    return not node or SELF in node


def from_paths(paths: Iterable[Path]) -> FieldSet:
    return in_wire_order(union_of(_from_path(path) for path in paths))


def _from_path(path: Path) -> FieldSet:
    node: FieldSet = {}
    for element in reversed(path):
        node = {element: node}
    return node


@lru_cache(maxsize=256)
def from_names(names: FieldNames) -> FieldSet:
    """The set of fields with these names: ``(("status",), ("metadata", "labels"))``."""
    return from_paths(tuple(f"f:{name}" for name in path) for path in names)


def has(fields: FieldSet, path: Path) -> bool:
    node = fields
    for element in path:
        below = node.get(element)
        if below is None:
            return False
        node = below
    return bool(path) and is_member(node)


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or not right:
        return left or right
    out = dict(left)
    for element, node in right.items():
        existing = out.get(element)
        out[element] = node if existing is None else _join(existing, node)
    return out


def _join(left: FieldSet, right: FieldSet) -> FieldSet:
    if left is right:
        return left
    if not left:
        return right if is_member(right) else {SELF: {}, **right}
    if not right:
        return left if SELF in left else {SELF: {}, **left}
    return union(left, right)


def union_of(sets: Iterable[FieldSet]) -> FieldSet:
    """The union of many sets, in linear time; its elements have no particular order."""
    out: FieldSet = {}
    for fields in sets:
        add(out, fields)
    return out


def add(into: FieldSet, fields: FieldSet) -> None:
    """Adds ``fields`` in place to a set from :func:`union_of` that the caller has not shared."""
    for element, node in fields.items():
        existing = into.get(element)
        if existing is None:
            into[element] = _copy(node)
        elif not node:
            if existing:
                existing.setdefault(SELF, {})
        else:
            if not existing:
                existing[SELF] = {}
            add(existing, node)


def _copy(node: FieldSet) -> FieldSet:
    return {element: _copy(below) for element, below in node.items()}


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in ``left`` and not in ``right``. A field in ``right`` removes only itself, not the fields below it."""
    if not left or not right:
        return left
    out: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None:
            out[element] = node
            continue
        rest = _without(node, other)
        if rest is not None:
            out[element] = rest
    return out


def _without(left: FieldSet, right: FieldSet) -> FieldSet | None:
    member = is_member(left) and not is_member(right)
    below = difference({e: n for e, n in left.items() if e != SELF}, right) if left else {}
    return _node(member, below)


def _node(member: bool, below: FieldSet) -> FieldSet | None:
    if not below:
        return {} if member else None
    return {SELF: {}, **below} if member else below


def difference_below(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in ``left`` and neither in ``right`` nor below a field of ``right``."""
    if not left or not right:
        return left
    out: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None:
            out[element] = node
        elif not is_member(other):
            below = difference_below({e: n for e, n in node.items() if e != SELF}, other)
            rest = _node(is_member(node), below)
            if rest is not None:
                out[element] = rest
    return out


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    out: FieldSet = {}
    if not right:
        return out
    for element, node in left.items():
        other = right.get(element)
        if other is None or element == SELF:
            continue
        member = is_member(node) and is_member(other)
        both = _node(member, intersection(node, other) if node else {})
        if both is not None:
            out[element] = both
    return out


def _sorted(elements: Iterable[str]) -> list[str]:
    plain = sorted(elements)
    if not plain or plain[-1] < "g":
        return plain  # only fields (and "."): their texts have the right order
    if len(plain) <= _RUN_LENGTH:
        return sorted(plain, key=sort_key)
    # No other thread runs during one call of sorted, so a long list is sorted in runs, which are then merged.
    runs = [
        sorted((sort_key(element), element) for element in plain[start : start + _RUN_LENGTH])
        for start in range(0, len(plain), _RUN_LENGTH)
    ]
    return [element for _, element in merge(*runs)]


def in_wire_order(fields: FieldSet) -> FieldSet:
    """The same set with its elements in wire order."""
    elements = _sorted(fields) if len(fields) > 1 else fields
    return {element: in_wire_order(node) if (node := fields[element]) else node for element in elements}


def paths_of(fields: FieldSet) -> Iterator[Path]:
    """All members in wire order: first those of a level, then those below each of them."""
    return _paths(fields, ())


def _paths(fields: FieldSet, prefix: Path) -> Iterator[Path]:
    elements = [element for element in _sorted(fields) if element != SELF]
    for element in elements:
        if is_member(fields[element]):
            yield (*prefix, element)
    for element in elements:
        if fields[element]:
            yield from _paths(fields[element], (*prefix, element))


def read(fields: Any) -> FieldSet | None:
    """A set from a client or the store, with its elements in normal form and wire order; ``None`` if it is malformed.

    A set that needs no change is returned without a copy.
    """
    node = _read(fields)
    if node is None or SELF not in node:
        return node
    return {element: below for element, below in node.items() if element != SELF}


def _read(fields: Any) -> FieldSet | None:
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        return None
    out: FieldSet = {}
    unchanged = True
    for element, below in fields.items():
        if element == SELF:
            out[SELF] = {}
            unchanged = unchanged and below == {}
            continue
        text = element if element[:2] == "f:" else normal_form(element)
        if text is None:
            return None
        if text == IGNORED:
            unchanged = False
            continue
        node = below if below == {} else _read(below)
        if node is None:
            return None
        unchanged = unchanged and node is below and text == element
        out[text] = _join(out[text], node) if text in out else node
    elements = _sorted(out) if len(out) > 1 else list(out)
    if elements == [SELF]:
        return {}
    return fields if unchanged and elements == list(out) else {element: out[element] for element in elements}
