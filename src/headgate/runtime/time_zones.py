"""Time zones by name, from the data of this machine: their offset from UTC at an instant.

Pure packages get them as functions (``kube/cron.py``); this module reads the data.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from headgate.kube.cron import Zone

_FIRST_S: Final = 0
_LAST_S: Final = 253_000_000_000
"""The year 9987. Times outside the range use the rules of its nearest end."""


@lru_cache(maxsize=1024)  # there are about 600 zones; users choose the names
def find_zone(name: str) -> Zone | None:
    """None if there is no zone of that name."""
    try:
        zone = ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, an invalid name, or a folder
        return None

    def utc_offset_s(at_s: int) -> int:
        local_time = datetime.fromtimestamp(min(max(at_s, _FIRST_S), _LAST_S), zone)
        return int((local_time.utcoffset() or timedelta()).total_seconds())

    return utc_offset_s
