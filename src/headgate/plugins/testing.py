"""The former place of ``headgate.scheduling.testing``; see ``headgate.plugins``."""

from __future__ import annotations

from typing import Any, Final

from headgate.plugins.deprecation import moved
from headgate.scheduling import testing

_NAMES: Final = ("Clock", "VirtualScheduler", "a_node", "a_pod")

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return moved(__name__, name, testing, name)
