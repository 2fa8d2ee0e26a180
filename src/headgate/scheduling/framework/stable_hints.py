"""Wraps queueing hints of external plugins, so that they are safe keys in the scheduling queue's indexes.

A hint is the field ``guard`` of a ``ClusterEventWithHint``. The queue hashes and compares hints whenever pods are added
or removed, outside of any plugin call. A hint that changes
would not be found again, and one that raises would stop the queue. The hash is therefore computed once, and a
comparison that raises means "not equal". If a hint raises for an event, or returns neither ``True`` nor ``False``, the
event matches: the pod is tried once too often, and the failure is reported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from headgate.waiting.queueing_hints import ClusterEventWithHint


class StableHint:
    """``report``: receives failures of the hint; None before :func:`report_failures`."""

    __slots__ = ("_guard", "_hash", "report")

    def __init__(self, guard: Any) -> None:
        """Raises if the ``__hash__`` of the guard raises."""
        self._guard = guard
        self._hash = hash(guard)
        self.report: Callable[[BaseException], None] | None = None

    def matches(self, event: Any, /) -> bool:
        try:
            found = self._guard.matches(event)
            if isinstance(found, bool | np.bool_):
                return bool(found)
            if inspect.iscoroutine(found):
                found.close()  # it never runs; unclosed it would warn when it is collected
            raise TypeError(f"a guard returned a value of type {type(found).__name__} instead of True or False")
        except BaseException as error:
            if self.report is not None:
                self.report(error)
            return True

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StableHint) or self._hash != other._hash:
            return False
        if self._guard is other._guard:
            return True
        try:
            return bool(self._guard == other._guard)
        except BaseException:
            return False


def with_stable_hints(wakers: tuple[ClusterEventWithHint, ...]) -> tuple[ClusterEventWithHint, ...]:
    return tuple(
        each if each.guard is None else ClusterEventWithHint(each.topic, StableHint(each.guard), each.own)
        for each in wakers
    )


def report_failures(wakers: tuple[ClusterEventWithHint, ...], report: Callable[[BaseException], None]) -> None:
    """Reports failures of these hints from now on."""
    for each in wakers:
        if isinstance(each.guard, StableHint):
            each.guard.report = report
