"""Time zones by name, from the data of this machine: their offset from UTC at an instant.

Pure packages get them as functions (``kube/cron.py``); this module reads the data.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

from headgate.kube.cron import Zone

_FIRST_S: Final = 0
_LAST_S: Final = 253_000_000_000
"""The year 9987. Whatever lies outside has the rules of the edge: calendars of machines end somewhere."""


@cache
def find_zone(name: str) -> Zone | None:
    """Nothing if there is none of that name."""
    try:
        zone = ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not there, no name at all, or a folder
        return None

    def ahead_s(at_s: int) -> int:
        shown = datetime.fromtimestamp(min(max(at_s, _FIRST_S), _LAST_S), zone)
        return int((shown.utcoffset() or timedelta()).total_seconds())

    return ahead_s
