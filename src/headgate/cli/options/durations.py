"""Times on the command line that may be days, such as the length of a recording."""

from __future__ import annotations

import re
from typing import Final

_UNITS_S: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION: Final = re.compile(r"(?:\d+[dhms])+")


def read_seconds(text: str) -> int | None:
    """The seconds of ``7d``, ``1d12h`` or ``90s``; None for another text."""
    if not _DURATION.fullmatch(text):
        return None
    return sum(int(number) * _UNITS_S[unit] for number, unit in re.findall(r"(\d+)([dhms])", text))
