"""Measure costs without the caches of Headgate: a text that was parsed before costs nothing."""

from __future__ import annotations

import gc
from functools import _lru_cache_wrapper
from typing import Any


def of_headgate() -> list[_lru_cache_wrapper[Any]]:
    """The caches of all functions in modules that are imported now."""
    return [
        each
        for each in gc.get_objects()
        if isinstance(each, _lru_cache_wrapper) and str(each.__module__).startswith("headgate.")
    ]
