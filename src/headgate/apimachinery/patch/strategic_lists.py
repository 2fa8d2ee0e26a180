"""Merges the lists of a strategic merge patch, and orders the items.

Items of the patch keep the order of the patch; items that are only in the document (the stored object) keep the order
of the document. Then the two sequences are merged: of two items that are in the document, the one that is first there
is first; a new item comes before the remaining items of the document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.apimachinery.patch.go_text import go_text, go_type
from headgate.apimachinery.patch.result import rejected, unexpected
from headgate.apimachinery.patch.strategic_directives import (
    PATCH_DIRECTIVE,
    Merger,
    StrategicPatchError,
    bad_type,
    no_merge_key,
    unknown_directive,
)

Object = dict[str, Any]
Key = Callable[[Any], Any]
"""The identity of an item, as a key of a dict."""


def merge_lists(original: list[Any], patch: list[Any], merge_key: str, merge: Merger, deletes: bool) -> list[Any]:
    """``deletes``: ``patch`` lists the scalars to remove."""
    if not original and not patch:
        return original
    if not _are_objects(original, patch):
        listed = set(map(_identity, patch))
        if deletes:
            return [item for item in original if _identity(item) not in listed]
        if merge_key:
            raise bad_type({}, (*original, *patch)[0])
        # A list of scalars is merged as a set.
        merged = list({_identity(item): item for item in (*original, *patch)}.values())
        return _order_items(merged, patch, original, _identity)
    if not merge_key:
        raise StrategicPatchError(unexpected("cannot merge lists without merge key for struct"))
    original, patch = _apply_directives(original, patch, merge_key)
    merged = _merge_objects(original, patch, merge_key, merge)
    return _order_objects(merged, patch, original, merge_key)


def order_by_directive(
    merged: list[Any], order: list[Any], original: list[Any], change: list[Any], merge_key: str
) -> list[Any]:
    """``merged`` in the order of a ``$setElementOrder`` list, which may contain only some of the items."""
    if merge_key:
        ordered = _order_objects(merged, order, original, merge_key)
        _are_objects(original, change)  # raises an error for items of different types
        return ordered
    if _are_objects(original, change):
        raise no_merge_key((original or change)[0], "")
    return _order_items(merged, order, original, _identity)


def _identity(value: Any) -> Any:
    """Scalars of different types differ (in Python ``1 == True``); a list or object is equal only to itself."""
    if isinstance(value, str):
        return value
    return go_type(value), id(value) if isinstance(value, dict | list) else value


def _identity_by(merge_key: str) -> Key:
    return lambda item: _identity(item[merge_key])


def _are_objects(*lists: list[Any]) -> bool:
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


def _apply_directives(original: list[Object], patch: list[Object], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Both lists after the ``$patch`` items were applied; the patch is returned without them."""
    plain = []
    deleted = set()
    replaces = False
    for item in patch:
        if PATCH_DIRECTIVE not in item:
            plain.append(item)
            continue
        match item[PATCH_DIRECTIVE]:
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


def _order_objects(merged: list[Any], patch_order: list[Any], original: list[Any], merge_key: str) -> list[Any]:
    for item in merged:
        if not isinstance(item, dict):
            raise bad_type({}, item)
        if merge_key not in item:
            raise no_merge_key(item, merge_key)
    for i, item in enumerate(patch_order):
        if not isinstance(item, dict):
            raise StrategicPatchError(unexpected(f"value for key {i} is not a map")) if merged else bad_type({}, item)
    for item in (*patch_order, *original):
        if merge_key not in item:
            raise no_merge_key(item, merge_key)
    return _order_items(merged, patch_order, original, _identity_by(merge_key))


def _order_items(merged: list[Any], patch_order: list[Any], original: list[Any], key: Key) -> list[Any]:
    """Splits ``merged`` into items of ``patch_order`` and others, and merges both by the order of the document."""
    patch_positions = _positions(patch_order, key)
    positions = _positions(original, key)
    patch_items = _sorted_by([item for item in merged if key(item) in patch_positions], patch_positions, key)
    other_items = _sorted_by([item for item in merged if key(item) not in patch_positions], positions, key)
    out: list[Any] = []
    i = j = 0
    while i < len(other_items) and j < len(patch_items):
        left, right = positions.get(key(other_items[i]), -1), positions.get(key(patch_items[j]), -1)
        if 0 <= left < right:
            out.append(other_items[i])
            i += 1
        else:
            out.append(patch_items[j])
            j += 1
    return out + other_items[i:] + patch_items[j:]


def _positions(order: list[Any], key: Key) -> dict[Any, int]:
    positions: dict[Any, int] = {}
    for i, item in enumerate(order):
        positions.setdefault(key(item), i)
    return positions


def _sorted_by(items: list[Any], positions: dict[Any, int], key: Key) -> list[Any]:
    """Sorts by position. Items without one, which exist only for an empty ``$setElementOrder``, come first."""
    return sorted(items, key=lambda item: positions.get(key(item), -1))
