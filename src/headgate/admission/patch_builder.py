"""Builds the JSON Patch of a mutating handler step by step.

A value that is already set adds no operation, so a handler that is called twice changes nothing the second time. The
original object is not modified.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.admission.admission_review import Object, Operation, escape

Path = tuple[str, ...]

LABELS: Final = ("metadata", "labels")
ANNOTATIONS: Final = ("metadata", "annotations")


class PatchBuilder:
    def __init__(self, obj: Object) -> None:
        self.obj = obj
        self._patch: Final[list[Operation]] = []

    @property
    def patch(self) -> tuple[Operation, ...]:
        return tuple(self._patch)

    def put(self, path: Path, value: Any) -> None:
        """Sets a value and creates missing parents. If a parent is not a map, nothing is changed: the API server
        rejects the object."""
        current: Any = self.obj
        for depth, step in enumerate(path):
            inner = current.get(step)
            if depth == len(path) - 1:
                if inner == value and step in current:
                    return
                self._add(path, value)
            elif inner is not None and not isinstance(inner, dict):
                return
            elif inner is None:
                for missing in reversed(path[depth + 1 :]):
                    value = {missing: value}
                self._add(path[: depth + 1], value)
                return
            current = inner

    def put_all(self, path: Path, entries: Mapping[str, str]) -> None:
        """Sets entries of a map."""
        for name, value in entries.items():
            self.put((*path, name), value)

    def append(self, path: Path, item: Any) -> None:
        """Appends to a list, so that items which other webhooks add at the same time are neither lost nor moved."""
        current: Any = self.obj
        for step in path:
            current = current.get(step) if isinstance(current, dict) else None
        if not isinstance(current, list) or not current:
            self.put(path, [item])
        elif item not in current:
            self._patch.append({"op": "add", "path": f"{_pointer(path)}/-", "value": item})
            self.obj = _with(self.obj, path, [*current, item])

    def remove(self, path: Path) -> None:
        """Removes the value if it exists."""
        current: Any = self.obj
        for step in path:
            if not isinstance(current, dict) or step not in current:
                return
            current = current[step]
        self._patch.append({"op": "remove", "path": _pointer(path)})
        self.obj = _without(self.obj, path)

    def _add(self, path: Path, value: Any) -> None:
        self._patch.append({"op": "add", "path": _pointer(path), "value": value})
        self.obj = _with(self.obj, path, value)


def _pointer(path: Path) -> str:
    return "".join(f"/{escape(step)}" for step in path)


def _without(obj: Object, path: Path) -> Object:
    """A copy along the path, without the value at its end."""
    step, *rest = path
    if not rest:
        return {key: value for key, value in obj.items() if key != step}
    return {**obj, step: _without(obj[step], tuple(rest))}


def _with(obj: Object, path: Path, value: Any) -> Object:
    """A copy along the path, with another value at its end."""
    step, *rest = path
    return {**obj, step: _with(obj[step], tuple(rest), value) if rest else value}
