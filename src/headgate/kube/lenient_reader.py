"""A lenient reader of wire objects: a value of the wrong type counts as absent.

It is for objects that no schema has checked, or that the CustomResourceDefinitions of a cluster check less strictly
than those of Headgate: reading them must not raise. ``quota/api/wire_reader.py`` is the strict reader, which rejects
such an object with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Object = dict[str, Any]
Wire = Mapping[str, Any]


def get_path(wire: Wire, path: Iterable[str]) -> Any:
    """The value at a path of field names, whatever its type; None if there is none."""
    found: Any = wire
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def find_object(wire: Wire, *path: str) -> Object:
    """An object inside; empty if there is none."""
    found = get_path(wire, path)
    return found if isinstance(found, dict) else {}


def find_items(wire: Wire, *path: str) -> list[Object]:
    """The objects of a list."""
    found = get_path(wire, path)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def find_objects(wire: Wire, name: str, path: str) -> Iterator[tuple[str, Object]]:
    """The objects of a list, each with its path."""
    found = wire.get(name)
    for index, each in enumerate(found if isinstance(found, list) else ()):
        if isinstance(each, dict):
            yield f"{path}.{name}[{index}]", each


def find_text(wire: Wire, *path: str) -> str:
    found = get_path(wire, path)
    return found if isinstance(found, str) else ""


def find_texts(wire: Wire, name: str) -> dict[str, str]:
    """A map of strings to strings."""
    return {key: value for key, value in find_object(wire, name).items() if isinstance(value, str)}


def find_strings(wire: Wire, name: str) -> list[str]:
    """The strings of a list."""
    found = wire.get(name)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def find_integer(wire: Wire, name: str, default: int = 0) -> int:
    found = wire.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else default
