"""Parses integers and booleans in labels and annotations as Go does, with Go's error messages."""

from __future__ import annotations

from typing import Final

from headgate.kube.field_errors import quote

_MAX: Final = 2**63 - 1
_MAX_DIGITS: Final = 40
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def parse_go_int(text: str) -> int | str:
    """The integer, or the error message."""
    digits = text.removeprefix(text[:1]) if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        return f"strconv.Atoi: parsing {quote(text)}: invalid syntax"
    if len(digits) > _MAX_DIGITS or not -_MAX <= int(text) <= _MAX:
        return f"strconv.Atoi: parsing {quote(text)}: value out of range"
    return int(text)


def parse_go_bool(text: str) -> bool | str:
    """The boolean, or the error message."""
    found = _BOOLS.get(text)
    return f"strconv.ParseBool: parsing {quote(text)}: invalid syntax" if found is None else found
