"""Decisions that Headgate would make and the other system has not made yet, with the time since when.

A decision that is planned again after the state changed keeps its time, so that the patience of shadow mode begins at
the first plan that contains it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)


class OpenDecision(msgspec.Struct, frozen=True):
    """``is_reported``: the other was too late, and that was counted."""

    since_s: float
    is_reported: bool = False


class OpenDecisions(Generic[K]):
    """``patience_s``: how long the other may take."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._open: dict[K, OpenDecision] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._open

    def __len__(self) -> int:
        return len(self._open)

    def add(self, key: K, now_s: float) -> None:
        self._open.setdefault(key, OpenDecision(now_s))

    def close(self, key: K) -> OpenDecision | None:
        return self._open.pop(key, None)

    def keep_only(self, keys: Iterable[K], among: Iterable[K]) -> None:
        """Of those ``among``, only these are still planned."""
        kept = set(keys)
        for key in among:
            if key not in kept:
                self._open.pop(key, None)

    def overdue(self, now_s: float) -> list[K]:
        """Those that the other should have made by now and that were not reported."""
        return [
            key for key, each in self._open.items() if not each.is_reported and now_s - each.since_s >= self._patience_s
        ]

    def postpone(self, key: K, now_s: float) -> None:
        """The patience begins again: the other may still decide."""
        self._open[key] = OpenDecision(now_s)

    def report(self, key: K) -> None:
        self._open[key] = msgspec.structs.replace(self._open[key], is_reported=True)

    def next_deadline_s(self) -> float | None:
        waiting = (each.since_s for each in self._open.values() if not each.is_reported)
        first = min(waiting, default=None)
        return None if first is None else first + self._patience_s
