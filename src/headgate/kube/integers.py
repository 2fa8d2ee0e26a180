"""Decimal integers in texts that users write.

Python's ``int`` takes quadratic time and refuses more than 4,300 digits with an exception. Here a text of any length is
read in linear time: what lies outside of 64 bits comes back as a number just as large (:data:`BEYOND`), so that callers
only have to compare it with their own limits.
"""

from __future__ import annotations

import re
from typing import Final

BEYOND: Final = 10**20
"""Stands for every number that has more digits than 64 bits can hold."""

_DIGITS: Final = 20
_INTEGER: Final = re.compile("([+-]?)([0-9]++)")


def read_integer(text: str) -> int | None:
    """The number that ``text`` is, with or without a sign; ``None`` if it is no decimal integer."""
    if len(text) <= _DIGITS:
        digits = text[1:] if text[:1] in ("+", "-") else text
        return int(text) if digits.isascii() and digits.isdigit() else None
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    digits = found[2].lstrip("0") or "0"
    number = int(digits) if len(digits) <= _DIGITS else BEYOND
    return -number if found[1] == "-" else number


def read_natural(text: str) -> int | None:
    """The same without a sign: digits only."""
    return read_integer(text) if text.isascii() and text.isdigit() else None
