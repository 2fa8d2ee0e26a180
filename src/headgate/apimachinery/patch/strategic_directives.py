"""The directives of a strategic merge patch, one function each; ``strategic_merge_patch.py`` calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headgate.apimachinery.patch.go_text import go_text, go_type
from headgate.apimachinery.patch.result import PatchError, malformed, unexpected

Object = dict[str, Any]
Merger = Callable[[Object, Object], Object]
"""Merges a patch object into an item of a list."""

PATCH_DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_ITEMS: Final = "$deleteFromPrimitiveList"
SET_ORDER: Final = "$setElementOrder"
DROPPED: Final = object()  # the result of without_directives for an object that is removed

_BAD_FORMAT: Final = {
    DELETE_ITEMS: "invalid patch format of primitive list",
    SET_ORDER: "invalid patch format of setElementOrder list",
    RETAIN_KEYS: "invalid patch format of retainKeys",
}


class StrategicPatchError(Exception):
    """Raised and caught in this package."""

    def __init__(self, problem: PatchError) -> None:
        super().__init__(problem.message)
        self.problem: Final = problem


def bad_format(directive: str) -> StrategicPatchError:
    return StrategicPatchError(malformed(_BAD_FORMAT[directive]))


def bad_type(expected: Any, actual: Any) -> StrategicPatchError:
    return StrategicPatchError(unexpected(f"expected a {go_type(expected)}, but received a {go_type(actual)}"))


def no_merge_key(item: Object, key: str) -> StrategicPatchError:
    return StrategicPatchError(unexpected(f"map: {go_text(item)} does not contain declared merge key: {key}"))


def unknown_directive(item: Object) -> StrategicPatchError:
    directive = item[PATCH_DIRECTIVE]
    if directive is None:
        shown = "%!s(<nil>)"
    elif isinstance(directive, str):
        shown = directive
    else:
        shown = f"%!s({go_type(directive)}={go_text(directive)})"
    return StrategicPatchError(unexpected(f"unknown patch type: {shown} in map: {go_text(item)}"))


def list_name(key: str, directive: str) -> str:
    """``x`` of ``$directive/x``."""
    prefix, slash, name = key.partition("/")
    if not slash or prefix != directive:
        raise bad_format(directive)
    return name


def replace_or_delete(patch: Object) -> Object:
    """The merged object if its patch has ``$patch``: the patch itself for ``replace``, empty for ``delete``."""
    match patch[PATCH_DIRECTIVE]:
        case "replace":
            return {key: value for key, value in patch.items() if key != PATCH_DIRECTIVE}
        case "delete":
            return {}
        case _:
            raise unknown_directive(patch)


def retain_keys(original: Object, patch: Object) -> Object:
    """``original`` with only the keys in ``$retainKeys``; the patch must not set any other key."""
    listed = patch[RETAIN_KEYS]
    if not isinstance(listed, list):
        raise bad_format(RETAIN_KEYS)
    kept = {key for key in listed if isinstance(key, str)}
    for key, value in patch.items():
        if value is None or key == RETAIN_KEYS or key.startswith((DELETE_ITEMS, SET_ORDER)):
            continue
        if key not in kept:
            raise bad_format(RETAIN_KEYS)
    return {key: value for key, value in original.items() if key in kept}


def check_order(change: list[Any], order: list[Any], merge_key: str) -> None:
    """The items of a patch must have the order of its ``$setElementOrder``."""
    if not order or not change:
        return
    items = change
    if merge_key:
        for item in change:
            if not isinstance(item, dict):
                raise bad_type({}, item)
        items = [item for item in change if item.get(PATCH_DIRECTIVE) != "delete"]
    position = 0
    for wanted in order:
        while position < len(items) and isinstance(items[position], dict) and PATCH_DIRECTIVE in items[position]:
            position += 1
        if position == len(items):
            return
        if _is_same_item(items[position], wanted, merge_key):
            position += 1
    if position < len(items):
        text = f"The order in patch list:\n{go_text(change)}\n doesn't match {SET_ORDER} list:\n{go_text(order)}\n"
        raise StrategicPatchError(unexpected(text))


def _is_same_item(one: Any, other: Any, merge_key: str) -> bool:
    if not merge_key:
        return bool(one == other)
    for item in (one, other):
        if not isinstance(item, dict):
            raise bad_type({}, item)
    for item in (one, other):
        if merge_key not in item:
            raise no_merge_key(item, merge_key)
    return bool(one[merge_key] == other[merge_key])


def without_nulls(value: Any) -> Any:
    """``value`` without its ``null`` values: they delete fields, and a new value has none to delete."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def without_directives(value: Any) -> Any:
    """``value`` without objects that have ``$patch``; :data:`DROPPED` if it is such an object itself."""
    if isinstance(value, dict):
        if PATCH_DIRECTIVE in value:
            return DROPPED
        cleaned = {key: without_directives(each) for key, each in value.items()}
        return {key: each for key, each in cleaned.items() if each is not DROPPED}
    if isinstance(value, list):
        items = map(without_directives, value)
        return [item for item in items if item is not DROPPED]
    return value
