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
        """With whatever is missing on the way there. What is no map is left for the server to refuse."""
        place: Any = self.obj
        for depth, step in enumerate(path):
            inner = place.get(step)
            if depth == len(path) - 1:
                if inner == value and step in place:
                    return
                self._add(path, value)
            elif inner is not None and not isinstance(inner, dict):
                return
            elif inner is None:
                for missing in reversed(path[depth + 1 :]):
                    value = {missing: value}
                self._add(path[: depth + 1], value)
                return
            place = inner

    def put_all(self, path: Path, entries: Mapping[str, str]) -> None:
        """Into a map."""
        for name, value in entries.items():
            self.put((*path, name), value)

    def append(self, path: Path, item: Any) -> None:
        """To the end of a list, so that what others add at the same time is neither lost nor moved."""
        place: Any = self.obj
        for step in path:
            place = place.get(step) if isinstance(place, dict) else None
        if not isinstance(place, list) or not place:
            self.put(path, [item])
        elif item not in place:
            self._patch.append({"op": "add", "path": f"{_pointer(path)}/-", "value": item})
            self.obj = _with(self.obj, path, [*place, item])

    def remove(self, path: Path) -> None:
        """What is not there is not removed."""
        place: Any = self.obj
        for step in path:
            if not isinstance(place, dict) or step not in place:
                return
            place = place[step]
        self._patch.append({"op": "remove", "path": _pointer(path)})
        self.obj = _without(self.obj, path)

    def _add(self, path: Path, value: Any) -> None:
        self._patch.append({"op": "add", "path": _pointer(path), "value": value})
        self.obj = _with(self.obj, path, value)


def _pointer(path: Path) -> str:
    return "".join(f"/{escape(step)}" for step in path)


def _without(obj: Object, path: Path) -> Object:
    """A copy as far as the path goes, without what it leads to."""
    step, *rest = path
    if not rest:
        return {key: value for key, value in obj.items() if key != step}
    return {**obj, step: _without(obj[step], tuple(rest))}


def _with(obj: Object, path: Path, value: Any) -> Object:
    """A copy as far as the path goes."""
    step, *rest = path
    return {**obj, step: _with(obj[step], tuple(rest), value) if rest else value}
