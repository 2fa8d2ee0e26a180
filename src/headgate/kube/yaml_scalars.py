"""What a YAML scalar means: the resolution rules that the API server's YAML reader has (YAML 1.1 with exceptions).

Texts in, JSON scalars out. Documents are put together in ``yaml_text.py``.
"""

from __future__ import annotations

import re
import struct
from decimal import Decimal
from typing import Final

Scalar = str | int | float | bool | None

_PREFIX: Final = "tag:yaml.org,2002:"
_RESOLVABLE: Final = frozenset({"", *(_PREFIX + name for name in ("str", "bool", "int", "float", "null", "timestamp"))})

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_OCTAL: Final = re.compile(r"([-+]?)0([0-7]+)")
_INTEGER: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|0|[1-9][0-9]{0,19})")


class BadScalar(Exception):
    """A scalar that cannot be what it says it is, or that JSON has no word for."""


def resolve(tag: str, text: str) -> Scalar:
    if tag not in _RESOLVABLE or tag == _PREFIX + "str":
        return text
    found, value = _guess(text)
    wanted = tag.removeprefix(_PREFIX)
    if wanted in ("", found, "timestamp"):
        return text if wanted == "timestamp" else value
    if wanted == "float" and found == "int" and isinstance(value, int):
        return float(value)
    raise BadScalar(f"yaml: cannot decode !!{found} `{text}` as a !!{wanted}")


def _guess(text: str) -> tuple[str, Scalar]:
    if text in _WORDS:
        word = _WORDS[text]
        return ("bool" if isinstance(word, bool) else "null" if word is None else "float"), word
    if text[0] not in "+-.0123456789":
        return "str", text
    plain = text if text[0] == "." else text.replace("_", "")
    if octal := _OCTAL.fullmatch(plain):
        plain = f"{octal[1]}0o{octal[2]}"
    if _INTEGER.fullmatch(plain):
        number = int(plain, 0)
        if -(1 << 63) <= number < (1 << 63 if plain[0] in "+-" else 1 << 64):
            return "int", number
    if _FLOAT.fullmatch(plain):
        measure = float(plain)
        if measure not in (float("inf"), float("-inf")):
            return "float", measure
    return "str", text


def key_text(key: Scalar) -> str:
    match key:
        case str():
            return key
        case None:
            raise BadScalar("unsupported map key of type: %!s(<nil>), key: <nil>")
        case bool():
            return "true" if key else "false"
        case int():
            return str(key)
    if key != key or key in (float("inf"), float("-inf")):
        return ".nan" if key != key else ".inf" if key > 0 else "-.inf"
    # Keys are printed with the precision of 32 bits, as there.
    text = next(text for text in (f"{key:.{digits}e}" for digits in range(17)) if _same_in_32_bits(text, key))
    return text if not -5 < int(text.partition("e")[2]) < 6 else f"{Decimal(text):f}"


def _same_in_32_bits(text: str, number: float) -> bool:
    try:
        return struct.pack("f", float(text)) == struct.pack("f", number)
    except OverflowError:
        return float(text) == number
