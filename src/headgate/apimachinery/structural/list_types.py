"""Checks that lists of type set have unique items, and lists of type map unique keys.

As in kube-apiserver, ``2`` and ``2.0`` are two items of a set and two values of a single key. Several keys are compared
by their JSON, where both are ``2``.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.apimachinery.structural.schema import ABSENT, StructuralSchema
from headgate.kube import field_errors
from headgate.kube.field_errors import FieldErrors
from headgate.kube.serializer.json_decoder import with_go_numbers

_encode: Final = msgspec.json.Encoder(order="sorted").encode


def check_lists(value: Any, node: StructuralSchema | None, path: str = "") -> FieldErrors:
    if node is None or not node.has_lists:
        return []
    if isinstance(value, list):
        return _check_list(value, node, path)
    if not isinstance(value, dict):
        return []
    problems: FieldErrors = []
    for name, below in value.items():
        part = node.properties.get(name)
        if node.additional is not None:
            problems += check_lists(below, node.additional, f"{path}[{name}]")
        if part is not None:
            problems += check_lists(below, part, f"{path}.{name}" if path else name)
    return problems


def _check_list(items: list[Any], node: StructuralSchema, path: str) -> FieldErrors:
    problems: FieldErrors = []
    if node.list_type == "set":
        problems += [field_errors.duplicate(f"{path}[{index}]", items[index]) for index in _repeated(items)]
    elif node.list_type == "map":
        problems += _check_map(items, node.list_keys, path)
    if node.items is not None:
        for index, item in enumerate(items):
            problems += check_lists(item, node.items, f"{path}[{index}]")
    return problems


def _check_map(items: list[Any], key_names: tuple[str, ...], path: str) -> FieldErrors:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            return [field_errors.invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    keys = [{name: item[name] for name in key_names if name in item} if item else {} for item in items]
    has_one_key = len(key_names) == 1
    compared = (
        [key.get(key_names[0], ABSENT) for key in keys] if has_one_key else [with_go_numbers(key) for key in keys]
    )
    return [field_errors.duplicate(f"{path}[{index}]", keys[index]) for index in _repeated(compared)]


def _repeated(items: list[Any]) -> list[int]:
    """The index of the second occurrence of each item; further occurrences are not reported."""
    count: dict[Any, int] = {}
    out = []
    for index, item in enumerate(items):
        key = _identity(item)
        count[key] = count.get(key, 0) + 1
        if count[key] == 2:
            out.append(index)
    return out


def _identity(item: Any) -> Any:
    """Equal for equal JSON values only: ``1`` differs from ``true``."""
    return item if item is ABSENT else _encode(item)
