"""A strict reader of decoded JSON: each field has the expected type, or the object is rejected with a reason.

The functions raise :class:`InvalidObject`. The functions of other modules that read a whole kind, such as
``read_workload``, catch it and return its text. ``path``: the path of the object, for that text; it ends with a dot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headgate.kube.resource_amounts import read_units
from headgate.kube.timestamps import parse_time

JSONObject = Mapping[str, Any]
"""An API object, or a part of one, as decoded JSON."""


class InvalidObject(Exception):
    """Why an object cannot be used, as a message for its owner."""


def read_object(obj: JSONObject, name: str, path: str = "") -> JSONObject:
    """The nested object; empty if it is absent."""
    found = obj.get(name)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise InvalidObject(f"{path}{name}: must be an object")
    return found


def read_objects(obj: JSONObject, name: str, path: str = "") -> Iterator[tuple[str, JSONObject]]:
    """The objects of a list, each with its path."""
    found = obj.get(name)
    if found is None:
        return
    if not isinstance(found, list | tuple):
        raise InvalidObject(f"{path}{name}: must be a list")
    for at, each in enumerate(found):
        if not isinstance(each, Mapping):
            raise InvalidObject(f"{path}{name}[{at}]: must be an object")
        yield f"{path}{name}[{at}].", each


def read_text(obj: JSONObject, name: str, default: str = "", path: str = "") -> str:
    found = obj.get(name)
    if found is None or found == "":
        return default
    if not isinstance(found, str):
        raise InvalidObject(f"{path}{name}: must be a string")
    return found


def read_texts(obj: JSONObject, name: str, path: str = "") -> dict[str, str]:
    """A map of strings to strings, such as labels."""
    found = read_object(obj, name, path)
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in found.items()):
        raise InvalidObject(f"{path}{name}: must be a map of strings")
    return dict(found)


def read_choice(obj: JSONObject, name: str, allowed: tuple[str, ...], path: str = "") -> str:
    """One of the allowed values; the first if the field is absent."""
    found = read_text(obj, name, allowed[0], path)
    if found not in allowed:
        raise InvalidObject(f"{path}{name}: {found!r} is none of {', '.join(allowed)}")
    return found


def read_integer(obj: JSONObject, name: str, default: int = 0, path: str = "") -> int:
    found = obj.get(name)
    if found is None:
        return default
    if not isinstance(found, int) or isinstance(found, bool):
        raise InvalidObject(f"{path}{name}: must be a whole number")
    return found


def read_bool(obj: JSONObject, name: str, default: bool, path: str = "") -> bool:
    found = obj.get(name)
    if found is None:
        return default
    if not isinstance(found, bool):
        raise InvalidObject(f"{path}{name}: must be true or false")
    return found


def read_amount(resource: str, value: Any, path: str) -> int:
    found = read_units(resource, value, path)
    if isinstance(found, str):
        raise InvalidObject(found)
    return found


def read_time_s(obj: JSONObject, name: str) -> float | None:
    """A timestamp; None if it is absent or invalid."""
    found = obj.get(name)
    if not isinstance(found, str) or not found:
        return None
    read = parse_time(found)
    return None if isinstance(read, str) else float(read)
