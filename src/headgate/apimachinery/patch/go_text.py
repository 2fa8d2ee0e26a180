"""JSON values and types in Go's notation, which some error messages of the API server contain."""

from __future__ import annotations

from decimal import Decimal
from typing import Any


def go_text(value: Any) -> str:
    """``map[a:1 b:[x y]]``: keys sorted, no quotes."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case dict():
            return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(map(go_text, value))}]"
        case float():
            return _float(value)
        case _:
            return str(value)


def go_type(value: Any) -> str:
    """The Go type of a decoded JSON value."""
    match value:
        case None:
            return "%!s(<nil>)"
        case bool():
            return "bool"
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
        case float():
            return "float64"
        case int():
            return "int64"
        case _:
            return "string"


def json_type_name(value: Any) -> str:
    """The name of a JSON type in Go's error messages."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case dict():
            return "object"
        case list():
            return "array"
        case _:
            return "number"


def _float(number: float) -> str:
    """The shortest digits; an exponent only below 1e-4 and from 1e21 on (Python's repr: from 1e16 on)."""
    text = repr(number)
    if "e" in text and 1 <= abs(number) < 1e21:
        text = format(Decimal(text), "f")
    return text.removesuffix(".0")
