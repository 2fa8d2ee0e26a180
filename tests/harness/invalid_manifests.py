"""A valid manifest with one invalid place at a time: every field removed, emptied, duplicated, out of range, retyped.

The walk is exhaustive and has a fixed order; a caller that wants fewer cases takes every n-th. CEL expressions stay
unchanged: the embedded server stores them and does not compile them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]
LEFT_ALONE = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "namespace")}
EXPRESSIONS = {"expression", "valueExpression"}


def spoiled(manifest: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Pairs of what was done, and the manifest with it done."""
    for path, value in _places(manifest, ()):
        if path in LEFT_ALONE or path[-1] in EXPRESSIONS:
            continue
        name = ".".join(str(part) for part in path)
        yield f"without {name}", _changed(manifest, path, _REMOVED)
        yield f"{name} is null", _changed(manifest, path, None)
        for other in _others(value):
            shown = repr(other) if len(repr(other)) < 40 else f"{repr(other)[:20]}… ({len(repr(other))})"
            yield f"{name} is {shown}", _changed(manifest, path, other)


_REMOVED = object()


def _others(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value, "text"]
    if isinstance(value, int):
        return [0, -1, value + 1, 70000, 2**31, "text"]
    if isinstance(value, float):
        return [0, -1.5, "text"]
    if isinstance(value, str):
        return ["", "Bad Value!", "other", "x" * 64, "x" * 300, "-1", 7]
    if isinstance(value, list):
        return [[], [*value, *value[:1]], {}, "text"]
    if isinstance(value, dict):
        return [{}, [], "text", {**value, "Bad Key!": "x"}]
    return []


def _places(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), item
            yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield (*path, index), item
            yield from _places(item, (*path, index))


def _changed(value: Any, path: Path, other: Any) -> Any:
    head, rest = path[0], path[1:]
    if isinstance(value, dict):
        if not rest and other is _REMOVED:
            return {key: item for key, item in value.items() if key != head}
        return {
            key: (_changed(item, rest, other) if rest else other) if key == head else item
            for key, item in value.items()
        }
    items = list(value)
    if not rest and other is _REMOVED:
        del items[int(head)]
    else:
        items[int(head)] = _changed(items[int(head)], rest, other) if rest else other
    return items
