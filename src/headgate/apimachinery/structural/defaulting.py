"""Sets the defaults of a structural schema, in place.

A null in a field that is not ``nullable`` counts as absent. Each default is copied. A short object may need a long
default many times, so the total size of the added defaults is limited.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.structural.schema import ABSENT, StructuralSchema

_FIELD_BYTES: Final = 4  # quotes, a colon, a comma


class TooManyDefaults(Exception):
    """The defaults of an object are longer in total than the limit."""


class _Defaulting:
    """The defaulting of one object. ``undo`` has the previous value of each changed key."""

    __slots__ = ("_remaining_bytes", "undo")

    def __init__(self, max_bytes: int) -> None:
        self._remaining_bytes = max_bytes
        self.undo: Final[list[tuple[Any, Any, Any]]] = []

    def set_default(self, container: Any, key: Any, before: Any, node: StructuralSchema) -> Any:
        self._remaining_bytes -= node.default_bytes + (len(key) + _FIELD_BYTES if isinstance(key, str) else 1)
        if self._remaining_bytes < 0:
            raise TooManyDefaults
        self.undo.append((container, key, before))
        value = container[key] = copy(node.default)
        return value


def apply_defaults(value: Any, node: StructuralSchema, max_bytes: int) -> None:
    """Raises :class:`TooManyDefaults` if the defaults have more bytes in total; ``value`` is then incomplete."""
    if node.has_defaults:
        _apply_defaults(value, node, _Defaulting(max_bytes))


def apply_defaults_or_restore(value: Any, node: StructuralSchema, max_bytes: int) -> None:
    """Like :func:`apply_defaults`, but if the defaults have more bytes, ``value`` is left without any new default."""
    if not node.has_defaults:
        return
    defaulting = _Defaulting(max_bytes)
    try:
        _apply_defaults(value, node, defaulting)
    except TooManyDefaults:
        for container, key, before in reversed(defaulting.undo):
            if before is ABSENT:
                del container[key]
            else:
                container[key] = before


def _apply_defaults(value: Any, node: StructuralSchema, defaulting: _Defaulting) -> None:
    if isinstance(value, dict):
        for name, part in node.properties.items():
            if part.default is not ABSENT:
                if name not in value:
                    defaulting.set_default(value, name, ABSENT, part)
                elif _missing(value[name], part):
                    defaulting.set_default(value, name, None, part)
        for name, below in value.items():
            field = node.field(name)
            if field is None:
                continue
            if _missing(below, field) and name not in node.properties and field.default is not ABSENT:
                below = defaulting.set_default(value, name, None, field)
            if field.has_defaults:
                _apply_defaults(below, field, defaulting)
    elif isinstance(value, list) and node.items is not None:
        items = node.items
        for index, item in enumerate(value):
            if _missing(item, items) and items.default is not ABSENT:
                item = defaulting.set_default(value, index, None, items)
            if items.has_defaults:
                _apply_defaults(item, items, defaulting)


def _missing(value: Any, node: StructuralSchema) -> bool:
    return value is None and not node.nullable


def copy(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if isinstance(value, dict):
        return {name: copy(below) for name, below in value.items()}
    return [copy(item) for item in value] if isinstance(value, list) else value
