"""Finds time zones by name in the time zone data of this machine.

A zone is a function that returns the offset from UTC at a time. Pure packages receive it as an argument
(``kube/cron.py``).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from headgate.kube.cron import Zone

_FIRST_S: Final = 0
_LAST_S: Final = 253_000_000_000
"""The year 9987. ``datetime`` cannot represent much later times; a later time uses the offset at this one."""


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
