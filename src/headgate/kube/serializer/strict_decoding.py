"""Strict decoding: checks a decoded configuration file against a table of its fields and collects all errors.

An unknown field or a wrong type is reported with its path and then treated as absent, so that one error does not hide
the next. ``null`` means absent, as in all objects of Kubernetes. Callers check ranges, duplicates and defaults.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final

from headgate.kube.field_errors import FieldErrors, forbidden, type_invalid
from headgate.kube.timestamps import parse_duration

Object = dict[str, Any]
Decoder = Callable[[Any, str, FieldErrors], Any]
"""Takes a value, its path and the list of errors; returns the decoded value, or ``None`` if it is invalid."""

_MIN_SIMILARITY: Final = 0.75
_NANOS: Final = 1_000_000_000


def _scalar(expected: str, is_valid: Callable[[Any], bool]) -> Decoder:
    def decode(value: Any, path: str, errors: FieldErrors) -> Any:
        if is_valid(value):
            return value
        errors.append(type_invalid(path, value, f"must be {expected}"))
        return None

    return decode


def _is_integer(bits: int) -> Callable[[Any], bool]:
    limit = 1 << (bits - 1)
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


int32: Final = _scalar("an integer of 32 bits", _is_integer(32))
int64: Final = _scalar("an integer of 64 bits", _is_integer(64))
number: Final = _scalar("a number", _is_number)
text: Final = _scalar("a string", lambda value: isinstance(value, str))
text_or_integer: Final = _scalar(
    "a string or an integer", lambda value: isinstance(value, str | int) and not isinstance(value, bool)
)
boolean: Final = _scalar("true or false", lambda value: isinstance(value, bool))
anything: Final = _scalar("anything", lambda value: True)
mapping: Final = _scalar("an object", lambda value: isinstance(value, dict))


def seconds(value: Any, path: str, errors: FieldErrors) -> float | None:
    """A Go duration such as ``1m30s``; a number is nanoseconds, as in all Kubernetes components."""
    nanos = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str):
        parsed = parse_duration(value)
        if isinstance(parsed, str):
            errors.append(type_invalid(path, value, parsed))
            return None
        nanos = parsed
    if nanos is None:
        errors.append(type_invalid(path, value, "must be a duration such as 15s"))
        return None
    return nanos / _NANOS


def list_of(decode_item: Decoder) -> Decoder:
    def decode(value: Any, path: str, errors: FieldErrors) -> Any:
        if not isinstance(value, list):
            errors.append(type_invalid(path, value, "must be a list"))
            return None
        # An invalid item becomes None, so that the others keep their index: paths count the items of the file.
        return [None if item is None else decode_item(item, f"{path}[{i}]", errors) for i, item in enumerate(value)]

    return decode


def string_map(value: Any, path: str, errors: FieldErrors) -> Any:
    """An object of strings, such as ``matchLabels``."""
    if mapping(value, path, errors) is None:
        return None
    return {key: text(each, f"{path}.{key}", errors) for key, each in value.items() if each is not None}


def record(fields: Mapping[str, Decoder], hints: Mapping[str, str] | None = None) -> Decoder:
    """An object with these fields and no others. ``hints`` are messages for certain unknown fields."""

    def decode(value: Any, path: str, errors: FieldErrors) -> Any:
        if not isinstance(value, dict):
            errors.append(type_invalid(path, value, "must be an object"))
            return None
        read_fields: Object = {}
        for name, given in value.items():
            item_path = f"{path}.{name}" if path else str(name)
            decode = fields.get(name)
            if decode is None:
                errors.append(forbidden(item_path, unknown(str(name), fields, hints or {})))
            elif given is not None:
                decoded = decode(given, item_path, errors)
                if decoded is not None:
                    read_fields[name] = decoded
        return read_fields

    return decode


def unknown(name: str, fields: Mapping[str, Any], hints: Mapping[str, str]) -> str:
    if name in hints:
        return f"unknown field: {hints[name]}"
    close = similar(name, fields)
    return f"unknown field: is it {close}?" if close else "unknown field"


def similar(name: str, known: Mapping[str, Any]) -> str:
    """The most similar known name; empty if none is similar."""
    by_lower = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name.lower(), by_lower, 1, _MIN_SIMILARITY)
    return by_lower[found[0]] if found else ""
