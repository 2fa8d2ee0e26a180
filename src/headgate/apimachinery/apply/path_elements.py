"""Path elements: the keys of ``fieldsV1``, each one step of a field path.

An element is a text as in ``fieldsV1``, so that sets of elements are plain dictionaries: ``f:spec`` (a field or a map
key), ``k:{"name":"main"}`` (a list item by its keys), ``v:"kubernetes"`` (an item of a list that is a set), ``i:0`` (an
index). A client may write an element in several ways, for example with spaces; :func:`normal_form` returns the one that
this package uses. ``field_sets.py`` has the sets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from headgate.kube.field_errors import quote
from headgate.kube.integers import read_integer
from headgate.kube.serializer.json_syntax import MAX_DEPTH

SELF: Final = "."  # the field is in the set, in addition to fields below it
IGNORED: Final = ""  # the result of normal_form() for an element with an unknown prefix, which Kubernetes ignores

_MAX_INDEX: Final = (1 << 63) - 1
_MAX_FLOAT_DIGITS: Final = 308  # a number with more digits does not fit in a float64
_EXACT_FLOAT: Final = 1 << 53

# Go escapes these characters in JSON strings.
_ESCAPES: Final = {code: f"\\u{code:04x}" for code in (*range(0x20), *map(ord, "<>&\u2028\u2029"))} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}
_UNSAFE: Final = re.compile('[\x00-\x1f"\\\\<>&\u2028\u2029]')


class _Pairs(list[tuple[str, Any]]):
    """A parsed JSON object: keys in their original order, with duplicates."""


def go_number(number: float) -> str:
    """A float64 as Go's JSON writes it."""
    if number == int(number) and abs(number) < 1e21:
        return str(int(number))
    text = repr(float(number))
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent):+03d}" if exponent else text


def json_text(value: Any) -> str:
    """A JSON value as Go writes it into a path element."""
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"' if _UNSAFE.search(value) else f'"{value}"'
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case int():
            return str(value)
        case float():
            return go_number(value)
        case _Pairs() | dict():
            pairs = sorted(value if isinstance(value, _Pairs) else value.items(), key=lambda pair: pair[0])
            return "{" + ",".join(f"{json_text(name)}:{json_text(item)}" for name, item in pairs) + "}"
        case _:
            return "[" + ",".join(map(json_text, value)) + "]"


def key_element(pairs: Iterable[tuple[str, Any]]) -> str:
    """The element of a list item by its keys; ``pairs`` sorted by name."""
    return "k:{" + ",".join(f"{json_text(name)}:{json_text(value)}" for name, value in pairs) + "}"


def value_element(value: Any) -> str:
    return "v:" + json_text(value)


def _read_int(text: str) -> int:
    """Numbers in path elements are float64, so that digits beyond 2**53 are lost, as in Kubernetes."""
    number = read_integer(text)
    if number is not None and abs(number) <= _EXACT_FLOAT:
        return number
    if len(text) > _MAX_FLOAT_DIGITS:
        raise ValueError("the number is too large for a float64")
    return int(float(text))


def _reject_constant(text: str) -> Any:
    raise ValueError(text)


def _read(text: str) -> Any:
    if text.count("[") + text.count("{") > MAX_DEPTH:  # the functions below are recursive
        raise ValueError("the element of a path nests too deeply")
    return json.loads(text, object_pairs_hook=_Pairs, parse_int=_read_int, parse_constant=_reject_constant)


@lru_cache(maxsize=8192)
def normal_form(element: str) -> str | None:
    """``element`` with sorted keys and Go's notation of values; ``IGNORED`` for an element with an unknown prefix,
    ``None`` for a malformed one."""
    kind, colon, text = element[:1], element[1:2], element[2:]
    if colon != ":":
        return None
    if kind == "f":
        return element
    if kind == "i":
        index = read_integer(text)
        return None if index is None or abs(index) > _MAX_INDEX else f"i:{index}"
    if kind not in "kv" or not kind:
        return IGNORED
    try:
        value = _read(text)
    except ValueError:
        return None
    if kind == "v":
        return value_element(value)
    if not isinstance(value, _Pairs):
        return None
    return key_element(sorted(value, key=lambda pair: pair[0]))


def _rank(value: Any) -> tuple[Any, ...]:
    """Numbers before strings before booleans before lists before maps before null."""
    match value:
        case bool():
            return (2, value)
        case int() | float():
            return (0, value)
        case str():
            return (1, value)
        case _Pairs():
            return (4, tuple((name, _rank(item)) for name, item in value))
        case list():
            return (3, tuple(map(_rank, value)))
        case _:
            return (5,)


@lru_cache(maxsize=8192)
def sort_key(element: str) -> tuple[Any, ...]:
    """The sort key of an element in normal form: fields, then keys, then values, then indexes."""
    kind, text = element[:1], element[2:]
    match kind:
        case ".":
            return (-1,)
        case "f":
            return (0, text)
        case "k":
            return (1, tuple((name, _rank(value)) for name, value in _read(text)))
        case "v":
            return (2, _rank(_read(text)))
        case _:
            return (3, int(text))


def go_float(number: float) -> str:
    """A float64 in Go's format ``%v``."""
    if number == int(number) and abs(number) < 1e6:
        return str(int(number))
    mantissa, _, exponent = repr(float(number)).partition("e")
    if exponent or 1e-4 <= abs(number) < 1e6:
        return f"{mantissa.removesuffix('.0')}e{int(exponent):+03d}" if exponent else mantissa
    digits = mantissa.lstrip("-").replace(".", "").strip("0")
    power = len(mantissa.lstrip("-").partition(".")[0]) - 1
    scientific = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{'-' if number < 0 else ''}{scientific}e{power:+03d}"


def _format_value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case str():
            return quote(value)
        case int() | float():
            return go_float(value)
        case _Pairs():
            return "".join(f"{name}={_format_value(item)}" for name, item in value)
        case _:
            return "[" + ",".join(map(_format_value, value)) + "]"


def format_element(element: str) -> str:
    """``.spec``, ``[name="main"]``, ``[="x"]``, ``[0]``."""
    kind, text = element[:1], element[2:]
    match kind:
        case "f":
            return f".{text}"
        case "k":
            return "[" + ",".join(f"{name}={_format_value(value)}" for name, value in _read(text)) + "]"
        case "v":
            return f"[={_format_value(_read(text))}]"
        case _:
            return f"[{text}]"


def format_path(path: Sequence[str]) -> str:
    """A path in messages: ``.spec.containers[name="main"].image``."""
    return "".join(map(format_element, path))
