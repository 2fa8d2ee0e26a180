"""Sets the defaults of a structural schema, in place.

A null that is not nullable counts as absent. Defaults are copied: the caller owns the result. A short object may have
many places for a long default, so the added size is counted and bounded.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.structural.schema import NOTHING, StructuralSchema

_FIELD_BYTES: Final = 4  # quotes, a colon, a comma


class TooManyDefaults(Exception):
    """The defaults of an object together are longer than the bound; never leaves the server."""


class _Filling:
    """One object being filled. ``undo`` holds what stood at each place before."""

    __slots__ = ("_left", "undo")

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self.undo: Final[list[tuple[Any, Any, Any]]] = []

    def put(self, holder: Any, place: Any, before: Any, node: StructuralSchema) -> Any:
        self._left -= node.default_bytes + (len(place) + _FIELD_BYTES if isinstance(place, str) else 1)
        if self._left < 0:
            raise TooManyDefaults
        self.undo.append((holder, place, before))
        value = holder[place] = copy(node.default)
        return value


def fill(value: Any, node: StructuralSchema, most_bytes: int) -> None:
    """Raises :class:`TooManyDefaults` if all defaults together have more bytes; ``value`` is unfinished then."""
    if node.defaults:
        _fill(value, node, _Filling(most_bytes))


def fill_or_leave(value: Any, node: StructuralSchema, most_bytes: int) -> None:
    """As :func:`fill`, but ``value`` is left as it was when there is too much to fill in."""
    if not node.defaults:
        return
    filling = _Filling(most_bytes)
    try:
        _fill(value, node, filling)
    except TooManyDefaults:
        for holder, place, before in reversed(filling.undo):
            if before is NOTHING:
                del holder[place]
            else:
                holder[place] = before


def _fill(value: Any, node: StructuralSchema, filling: _Filling) -> None:
    if isinstance(value, dict):
        for name, part in node.properties.items():
            if part.default is not NOTHING:
                if name not in value:
                    filling.put(value, name, NOTHING, part)
                elif _missing(value[name], part):
                    filling.put(value, name, None, part)
        for name, below in value.items():
            field = node.field(name)
            if field is None:
                continue
            if _missing(below, field) and name not in node.properties and field.default is not NOTHING:
                below = filling.put(value, name, None, field)
            if field.defaults:
                _fill(below, field, filling)
    elif isinstance(value, list) and node.items is not None:
        items = node.items
        for index, item in enumerate(value):
            if _missing(item, items) and items.default is not NOTHING:
                item = filling.put(value, index, None, items)
            if items.defaults:
                _fill(item, items, filling)


def _missing(value: Any, node: StructuralSchema) -> bool:
    return value is None and not node.nullable


def copy(value: Any) -> Any:
    """A copy of all containers of a JSON value."""
    if isinstance(value, dict):
        return {name: copy(below) for name, below in value.items()}
    return [copy(item) for item in value] if isinstance(value, list) else value
