"""Merging the lists of a strategic merge patch, and the order in which the items come out.

Items of the patch keep the patch's order, items only the document has keep the document's; where both lists know two
items the document's order decides, and an item that is new goes before what is left of the old ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.apimachinery.patch.go_text import go_text, go_type
from headgate.apimachinery.patch.result import rejected, unexpected
from headgate.apimachinery.patch.strategic_directives import (
    MARKER,
    Merger,
    StrategicPatchError,
    bad_type,
    no_merge_key,
    unknown_directive,
)

Object = dict[str, Any]
Key = Callable[[Any], Any]
"""What makes two items the same item: something that can be a key of a dict."""


def merge_lists(original: list[Any], patch: list[Any], merge_key: str, merge: Merger, deletes: bool) -> list[Any]:
    """``deletes``: ``patch`` names the scalars to take out."""
    if not original and not patch:
        return original
    if not _holds_objects(original, patch):
        named = set(map(_identity, patch))
        if deletes:
            return [item for item in original if _identity(item) not in named]
        if merge_key:
            raise bad_type({}, (*original, *patch)[0])
        # Scalars are a set: each comes out once.
        merged = list({_identity(item): item for item in (*original, *patch)}.values())
        return _arrange(merged, patch, original, _identity)
    if not merge_key:
        raise StrategicPatchError(unexpected("cannot merge lists without merge key for struct"))
    original, patch = _follow_directives(original, patch, merge_key)
    merged = _merge_objects(original, patch, merge_key, merge)
    return _arrange_objects(merged, patch, original, merge_key)


def order_by_directive(
    merged: list[Any], order: list[Any], original: list[Any], change: list[Any], merge_key: str
) -> list[Any]:
    """``merged`` in the order of a ``$setElementOrder`` list, which may know only some of the items."""
    if merge_key:
        arranged = _arrange_objects(merged, order, original, merge_key)
        _holds_objects(original, change)
        return arranged
    if _holds_objects(original, change):
        raise no_merge_key((original or change)[0], "")
    return _arrange(merged, order, original, _identity)


def _identity(value: Any) -> Any:
    """Scalars of different types differ, also where Python says ``1 == True``; anything else is only itself."""
    if isinstance(value, str):
        return value
    return go_type(value), id(value) if isinstance(value, dict | list) else value


def _identity_by(merge_key: str) -> Key:
    return lambda item: _identity(item[merge_key])


def _holds_objects(*lists: list[Any]) -> bool:
    """Whether the items are objects. They must all be of one type, and not lists."""
    first = ""
    for items in lists:
        for item in items:
            if not first:
                if isinstance(item, list):
                    raise StrategicPatchError(rejected())
                if item is None:
                    raise StrategicPatchError(unexpected(f"list items must not be null: {go_text(list(lists))}"))
                first = go_type(item)
            elif go_type(item) != first:
                raise StrategicPatchError(unexpected(f"list element types are not identical: {go_text(list(lists))}"))
    if not first:
        raise StrategicPatchError(unexpected("no elements in any of the given slices"))
    return first == go_type({})


def _follow_directives(original: list[Object], patch: list[Object], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Both lists after the ``$patch`` items have done their work; the patch comes back without them."""
    plain = []
    deleted = set()
    replaces = False
    for item in patch:
        if MARKER not in item:
            plain.append(item)
            continue
        match item[MARKER]:
            case "delete":
                if merge_key not in item:
                    raise no_merge_key(item, merge_key)
                deleted.add(_identity(item[merge_key]))
            case "replace":
                replaces = True
            case "merge":
                raise StrategicPatchError(unexpected("merging lists cannot yet be specified in the patch"))
            case _:
                raise unknown_directive(item)
    if replaces:
        return plain, []
    if deleted:
        original = [each for each in original if merge_key not in each or _identity(each[merge_key]) not in deleted]
    return original, plain


def _merge_objects(original: list[Object], patch: list[Object], merge_key: str, merge: Merger) -> list[Object]:
    merged = list(original)
    found: dict[Any, int] = {}
    for i, each in enumerate(merged):
        if merge_key in each:
            found.setdefault(_identity(each[merge_key]), i)
    for item in patch:
        if merge_key not in item:
            raise no_merge_key(item, merge_key)
        i = found.setdefault(_identity(item[merge_key]), len(merged))
        if i == len(merged):
            merged.append(item)
        else:
            merged[i] = merge(merged[i], item)
    return merged


def _arrange_objects(merged: list[Any], leading: list[Any], original: list[Any], merge_key: str) -> list[Any]:
    for item in merged:
        if not isinstance(item, dict):
            raise bad_type({}, item)
        if merge_key not in item:
            raise no_merge_key(item, merge_key)
    for i, item in enumerate(leading):
        if not isinstance(item, dict):
            raise StrategicPatchError(unexpected(f"value for key {i} is not a map")) if merged else bad_type({}, item)
    for item in (*leading, *original):
        if merge_key not in item:
            raise no_merge_key(item, merge_key)
    return _arrange(merged, leading, original, _identity_by(merge_key))


def _arrange(merged: list[Any], leading: list[Any], original: list[Any], key: Key) -> list[Any]:
    """``merged`` as two lists, what ``leading`` names and the rest, woven together by the order of the document."""
    lead = _places(leading, key)
    places = _places(original, key)
    theirs = _sorted_by([item for item in merged if key(item) in lead], lead, key)
    ours = _sorted_by([item for item in merged if key(item) not in lead], places, key)
    out: list[Any] = []
    i = j = 0
    while i < len(ours) and j < len(theirs):
        left, right = places.get(key(ours[i]), -1), places.get(key(theirs[j]), -1)
        if 0 <= left < right:
            out.append(ours[i])
            i += 1
        else:
            out.append(theirs[j])
            j += 1
    return out + ours[i:] + theirs[j:]


def _places(order: list[Any], key: Key) -> dict[Any, int]:
    places: dict[Any, int] = {}
    for i, item in enumerate(order):
        places.setdefault(key(item), i)
    return places


def _sorted_by(items: list[Any], places: dict[Any, int], key: Key) -> list[Any]:
    """By place; items without one, which only an empty ``$setElementOrder`` leaves over, go to the front."""
    return sorted(items, key=lambda item: places.get(key(item), -1))
