"""Sets of fields, in the very form that ``managedFields[].fieldsV1`` has on the wire.

A :data:`FieldSet` maps path elements to nodes. An empty node means that the field is in the set; a node with children
holds ``"."`` if the field itself is in the set too. So ``{"f:a": {}, "f:b": {".": {}, "f:c": {}}}`` is the set of
``.a``, ``.b`` and ``.b.c``. Sets are values: nothing here changes one that it was given, and results share parts with
their inputs. Union alone can lose the order of the wire; :func:`ordered` puts it back.

What the elements mean is in ``path_elements.py``; which fields an object has, in ``owned_fields.py`` and
``compare.py``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from heapq import merge
from typing import Any, Final, TypeAlias

from headgate.apimachinery.apply.path_elements import IGNORED, SELF, canonical, order

FieldSet: TypeAlias = "dict[str, FieldSet]"
Path: TypeAlias = tuple[str, ...]
FieldNames: TypeAlias = tuple[tuple[str, ...], ...]

_RUN: Final = 4_096


def is_member(node: FieldSet) -> bool:
    """Whether the field that ``node`` stands for is in the set itself."""
    return not node or SELF in node


def from_paths(paths: Iterable[Path]) -> FieldSet:
    return ordered(collected(_one(path) for path in paths))


def _one(path: Path) -> FieldSet:
    node: FieldSet = {}
    for element in reversed(path):
        node = {element: node}
    return node


@lru_cache(maxsize=256)
def of_fields(names: FieldNames) -> FieldSet:
    """The set of some fields given by name: ``(("status",), ("metadata", "labels"))``."""
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
        mine = out.get(element)
        out[element] = node if mine is None else _join(mine, node)
    return out


def _join(left: FieldSet, right: FieldSet) -> FieldSet:
    if left is right:
        return left
    if not left:
        return right if is_member(right) else {SELF: {}, **right}
    if not right:
        return left if SELF in left else {SELF: {}, **left}
    return union(left, right)


def collected(sets: Iterable[FieldSet]) -> FieldSet:
    """The union of many sets, in time that grows with their sizes; its elements are in no particular order."""
    out: FieldSet = {}
    for fields in sets:
        add(out, fields)
    return out


def add(into: FieldSet, fields: FieldSet) -> None:
    """Put ``fields`` into a set that the caller made with :func:`collected` and has not shared."""
    for element, node in fields.items():
        mine = into.get(element)
        if mine is None:
            into[element] = _copied(node)
        elif not node:
            if mine:
                mine.setdefault(SELF, {})
        else:
            if not mine:
                mine[SELF] = {}
            add(mine, node)


def _copied(node: FieldSet) -> FieldSet:
    return {element: _copied(below) for element, below in node.items()}


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in ``left`` and not in ``right``. A field in ``right`` takes away itself, not what is below it."""
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
        return plain  # only fields (and "."): their texts sort as they should
    if len(plain) <= _RUN:
        return sorted(plain, key=order)
    # No other thread runs while many keys are compared: they are sorted in runs, which are merged one by one.
    runs = [sorted((order(element), element) for element in plain[at : at + _RUN]) for at in range(0, len(plain), _RUN)]
    return [element for _, element in merge(*runs)]


def ordered(fields: FieldSet) -> FieldSet:
    """The same set with its elements in wire order."""
    elements = _sorted(fields) if len(fields) > 1 else fields
    return {element: ordered(node) if (node := fields[element]) else node for element in elements}


def paths_of(fields: FieldSet) -> Iterator[Path]:
    """All members: those of a level first, then what is below each, in wire order."""
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
    """The set that a client or the store wrote, canonical and in wire order; ``None`` if it is malformed.

    What is canonical already comes back as it is, uncopied.
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
    same = True
    for element, below in fields.items():
        if element == SELF:
            out[SELF] = {}
            same = same and below == {}
            continue
        text = element if element[:2] == "f:" else canonical(element)
        if text is None:
            return None
        if text == IGNORED:
            same = False
            continue
        node = below if below == {} else _read(below)
        if node is None:
            return None
        same = same and node is below and text == element
        out[text] = _join(out[text], node) if text in out else node
    elements = _sorted(out) if len(out) > 1 else list(out)
    if elements == [SELF]:
        return {}
    return fields if same and elements == list(out) else {element: out[element] for element in elements}
