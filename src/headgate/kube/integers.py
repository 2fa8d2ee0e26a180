"""Decimal integers in user input, and values that are an integer or a percentage.

Python's ``int`` takes quadratic time and raises above 4,300 digits. The functions here read a text of any length in
linear time: a value outside 64 bits becomes :data:`OUT_OF_RANGE` with its sign, which callers compare with
their own limits. ``maxSurge``, ``maxUnavailable`` and ``minAvailable`` may be percentages; for a text that is neither
an integer nor a percentage the result is ``None``, and ``kube/validation/`` reports it.
"""

from __future__ import annotations

import re
from typing import Final

OUT_OF_RANGE: Final = 10**20
"""Stands for every number with more digits than a 64-bit integer."""

_DIGITS: Final = 20
_INTEGER: Final = re.compile("([+-]?)([0-9]++)")


def read_integer(text: str) -> int | None:
    """The decimal integer in ``text``, with or without a sign; ``None`` if it is not one."""
    if len(text) <= _DIGITS:
        digits = text[1:] if text[:1] in ("+", "-") else text
        return int(text) if digits.isascii() and digits.isdigit() else None
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    digits = found[2].lstrip("0") or "0"
    number = int(digits) if len(digits) <= _DIGITS else OUT_OF_RANGE
    return -number if found[1] == "-" else number


def read_natural(text: str) -> int | None:
    """The same without a sign: digits only."""
    return read_integer(text) if text.isascii() and text.isdigit() else None


def scaled_int_or_percent(value: int | str | None, total: int, *, round_up: bool) -> int | None:
    """``value`` itself, or the percentage of ``total``; ``None`` if it is neither. An absent value is zero."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    percent = read_natural(digits)
    if digits == value or percent is None:
        return None
    hundredths = percent * total
    return -(-hundredths // 100) if round_up else hundredths // 100
