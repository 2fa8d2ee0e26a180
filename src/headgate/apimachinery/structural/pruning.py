"""Removes unknown fields, and nulls of fields that are not nullable.

Both functions change the value in place. They do not change the type and metadata of a resource, at the root or
embedded: ``embedded_resources.py`` decodes those.
"""

from __future__ import annotations

from typing import Any

from headgate.apimachinery.structural.schema import ABSENT, META_FIELDS, StructuralSchema

Path = tuple[Any, str | int] | None


def prune(value: Any, node: StructuralSchema | None) -> list[str]:
    """Drops unknown fields; returns their paths, sorted."""
    unknown: list[str] = []
    _prune(value, node, None, unknown)
    unknown.sort()
    return unknown


def _prune(value: Any, node: StructuralSchema | None, path: Path, unknown: list[str]) -> None:
    if isinstance(value, dict):
        _prune_object(value, node, path, unknown)
    elif isinstance(value, list):
        items = node.items if node is not None else None
        preserves = node is not None and node.preserve
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                (_prune_preserved if preserves else _prune)(item, items, (path, index), unknown)


def _prune_object(value: dict[str, Any], node: StructuralSchema | None, path: Path, unknown: list[str]) -> None:
    dropped = []
    for name, below in value.items():
        if node is None:
            dropped.append(name)
            continue
        if node.embedded and name in META_FIELDS:
            continue
        part = node.properties.get(name)
        if part is not None:
            if isinstance(below, (dict, list)):
                _prune(below, part, (path, name), unknown)
        elif node.allows_additional:
            _prune(below, node.additional, (path, name), unknown)
        elif not node.preserve:
            dropped.append(name)
    for name in dropped:
        del value[name]
        if path is not None or name not in META_FIELDS:
            unknown.append(dotted((path, name)))


def _prune_preserved(value: Any, node: StructuralSchema | None, path: Path, unknown: list[str]) -> None:
    """Where unknown fields are preserved, prunes only below fields that the schema specifies."""
    if node is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            _prune_preserved(item, node.items, (path, index), unknown)
    elif isinstance(value, dict):
        for name, below in value.items():
            if node.embedded and name in META_FIELDS:
                continue
            part = node.properties.get(name)
            if part is not None:
                _prune(below, part, (path, name), unknown)
            elif node.allows_additional:
                _prune(below, node.additional, (path, name), unknown)


def dotted(path: Path) -> str:
    steps = []
    while path is not None:
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")


def drop_nulls(value: Any, node: StructuralSchema | None) -> None:
    """Drops nulls that are not allowed and that no default replaces."""
    if node is None:
        return
    if isinstance(value, dict):
        dropped = []
        for name, below in value.items():
            part = node.field(name)
            if part is None:
                continue
            if below is None:
                if not part.nullable and part.default is ABSENT:
                    dropped.append(name)
            else:
                drop_nulls(below, part)
        for name in dropped:
            del value[name]
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            drop_nulls(item, node.items)
