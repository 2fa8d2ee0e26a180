"""Filling in what a structural schema has defaults for, in place.

A null where none may stand counts as absent. Defaults are copied: the caller owns all that it gets.
"""

from __future__ import annotations

from typing import Any

from headgate.kube.structural.node import NOTHING, Node


def fill(value: Any, node: Node | None) -> None:
    if node is None or not node.defaults:
        return
    if isinstance(value, dict):
        for name, part in node.properties.items():
            if part.default is not NOTHING and (name not in value or _missing(value[name], part)):
                value[name] = copy(part.default)
        for name, below in value.items():
            field = node.field(name)
            if field is None:
                continue
            if _missing(below, field) and name not in node.properties:
                below = value[name] = None if field.default is NOTHING else copy(field.default)
            if field.defaults:
                fill(below, field)
    elif isinstance(value, list) and node.items is not None:
        items = node.items
        for index, item in enumerate(value):
            if _missing(item, items) and items.default is not NOTHING:
                item = value[index] = copy(items.default)
            if items.defaults:
                fill(item, items)


def _missing(value: Any, node: Node) -> bool:
    return value is None and not node.nullable


def copy(value: Any) -> Any:
    """A copy of all containers of a JSON value."""
    if isinstance(value, dict):
        return {name: copy(below) for name, below in value.items()}
    return [copy(item) for item in value] if isinstance(value, list) else value
