"""JSON values as Go prints and names them: some responses of the API server quote a patch like that."""

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


def json_word(value: Any) -> str:
    """What Go's JSON reader calls a value that does not fit."""
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
    """Shortest digits; an exponent only below 1e-4 and from 1e21 on, where Python starts at 1e16."""
    text = repr(number)
    if "e" in text and 1 <= abs(number) < 1e21:
        text = format(Decimal(text), "f")
    return text.removesuffix(".0")
