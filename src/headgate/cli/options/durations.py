"""Times on the command line that may be days, such as the length of a recording. All commands read them here."""

from __future__ import annotations

import re
from typing import Final

MAX_S: Final = 100 * 365 * 86_400
"""100 years: a longer time is a mistake."""
_UNITS_S: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PART: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)([dhms])", re.ASCII)
_DURATION: Final = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)


def read_seconds(text: str, *, allows_zero: bool = False) -> float | str:
    """The seconds of ``7d``, ``1d12h``, ``1.5h`` or ``90s``, or what is wrong with the text. ``allows_zero``: whether
    no time at all has a meaning."""
    if not _DURATION.fullmatch(text):
        return f"{text}: write a time such as 7d, 12h, 30m or 1d12h"
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))
    if not seconds and not allows_zero:
        return f"{text}: write a time that is longer than 0, such as 7d, 12h, 30m or 1d12h"
    return seconds if seconds <= MAX_S else f"{text}: write a time of at most {MAX_S // 86400}d (100 years)"
