"""The former place of ``headgate.scheduling.framework.node_rows``; see ``headgate.plugins``."""

from __future__ import annotations

from typing import Any, Final

from headgate.plugins.deprecation import moved
from headgate.scheduling import framework

_NAMES: Final = ("allocatable", "asked_rows", "free", "label_values", "nodes_at")

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return moved(__name__, name, framework, name)
