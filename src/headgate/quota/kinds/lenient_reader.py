"""A lenient reader for objects under validation: a value of the wrong type counts as absent.

Schemas check types first; where a cluster's definitions are weaker than Headgate's, validation must not raise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Object = dict[str, Any]
Wire = Mapping[str, Any]


def find_object(wire: Wire, *names: str) -> Object:
    """An object inside; empty if there is none."""
    found: Any = wire
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def find_objects(wire: Wire, name: str, path: str) -> Iterator[tuple[str, Object]]:
    """The objects of a list, each with its path."""
    found = wire.get(name)
    for index, each in enumerate(found if isinstance(found, list) else ()):
        if isinstance(each, dict):
            yield f"{path}.{name}[{index}]", each


def find_text(wire: Wire, name: str) -> str:
    found = wire.get(name)
    return found if isinstance(found, str) else ""


def find_texts(wire: Wire, name: str) -> dict[str, str]:
    """A map of strings to strings."""
    return {key: value for key, value in find_object(wire, name).items() if isinstance(value, str)}


def find_strings(wire: Wire, name: str) -> list[str]:
    """The strings of a list."""
    found = wire.get(name)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def find_integer(wire: Wire, name: str, otherwise: int = 0) -> int:
    found = wire.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else otherwise
