"""Parses integers and booleans in labels and annotations as Go does, with Go's error messages."""

from __future__ import annotations

from typing import Final

from headgate.kube.field_errors import quote

_MOST: Final = 2**63 - 1
_MOST_DIGITS: Final = 40
_SWITCHES: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def parse_go_int(written: str) -> int | str:
    """Or why it is none."""
    digits = written.removeprefix(written[:1]) if written[:1] in ("-", "+") else written
    if not (digits.isascii() and digits.isdigit()):
        return f"strconv.Atoi: parsing {quote(written)}: invalid syntax"
    if len(digits) > _MOST_DIGITS or not -_MOST <= int(written) <= _MOST:
        return f"strconv.Atoi: parsing {quote(written)}: value out of range"
    return int(written)


def parse_go_bool(written: str) -> bool | str:
    """Or why it is none."""
    found = _SWITCHES.get(written)
    return f"strconv.ParseBool: parsing {quote(written)}: invalid syntax" if found is None else found
