"""The status throttle: when the status of an object is computed again, and whether it is written.

Changes are batched, and an object that keeps changing is written once per interval: one write per change would overload
the server (volcano-sh/volcano#5921). If the server stores less of a status than was sent, for example because its
schema lacks a field, the status is not written again for that reason. If another client keeps reverting a status, the
writes back off. The module does no I/O; ``status_fields.py`` builds the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.kube.backoff import ExponentialBackoff
from headgate.waiting.heap import DeadlineHeap

Key = tuple[str, str, str]
"""An object: the plural of its resource, its namespace and its name."""
Object = dict[str, Any]

_MAX_INTERVAL_S: Final = 600.0
_RETRY_S: Final = 2.0


class StatusThrottleEntry:
    """The writes to one object. ``written``: the status that was last sent; ``observed``: the status that the server
    had after that write. ``repeats``: how often in a row the same status was written again because another client
    reverted it. ``due_s``: when the status is computed next; None if nothing changed."""

    __slots__ = ("due_s", "is_in_flight", "last_write_s", "observed", "repeats", "written")

    def __init__(self) -> None:
        self.written: Object | None = None
        self.observed: Object | None = None
        self.last_write_s = float("-inf")
        self.repeats = 0
        self.is_in_flight = False
        self.due_s: float | None = None


class StatusThrottle:
    """``intervals_s``: the minimum interval between writes of an object, by the plural of its resource."""

    def __init__(self, intervals_s: Mapping[str, float]) -> None:
        self._intervals_s = intervals_s
        self._entries: dict[Key, StatusThrottleEntry] = {}
        self._due: DeadlineHeap[Key] = DeadlineHeap()

    def forget(self, key: Key) -> None:
        self._entries.pop(key, None)
        self._due.discard(key)

    def mark(self, key: Key, now_s: float, delay_s: float, *, urgent: bool = False) -> None:
        """The object changed: its status is due after ``delay_s``, or after the interval unless it is ``urgent``."""
        entry = self._entries.setdefault(key, StatusThrottleEntry())
        due_s = now_s + delay_s
        if not urgent:
            due_s = max(due_s, entry.last_write_s + self._intervals_s[key[0]])
        if entry.due_s is None or due_s < entry.due_s:
            entry.due_s = due_s
            if not entry.is_in_flight:
                self._due.put(key, due_s)

    def take(self, now_s: float) -> Key | None:
        """The next object that is due."""
        key = next(self._due.due(now_s), None)
        if key is not None:
            self._entries[key].due_s = None
        return key

    def next_deadline_s(self) -> float | None:
        return self._due.next_deadline_s()

    def should_write(self, key: Key, seen: Object, desired: Object, now_s: float) -> bool:
        """Whether to write ``desired`` now, while the watch shows ``seen``. If so, the caller must call
        :meth:`write_finished`.

        ``seen`` and ``desired`` are compared as they are: leave out what should not count, such as times."""
        entry = self._entries.setdefault(key, StatusThrottleEntry())
        if seen == desired:
            entry.repeats = 0
            return False
        if desired != entry.written:
            entry.repeats = 0
        elif seen == entry.observed:
            return False
        else:  # another client reverted it
            wait_s = ExponentialBackoff(self._intervals_s[key[0]], _MAX_INTERVAL_S).delay_s(entry.repeats + 1)
            if now_s < entry.last_write_s + wait_s:
                self._put(key, entry, entry.last_write_s + wait_s)
                return False
            entry.repeats = min(entry.repeats + 1, 16)
        entry.is_in_flight = True
        entry.last_write_s = now_s
        return True

    def write_finished(self, key: Key, desired: Object, observed: Object | None, now_s: float) -> None:
        """``observed``: the status on the server now; None if the write failed and should be retried."""
        entry = self._entries.get(key)
        if entry is None:
            return
        entry.is_in_flight = False
        if observed is not None:
            entry.written, entry.observed = desired, observed
        if observed is None:
            self._put(key, entry, now_s + _RETRY_S)
        elif entry.due_s is not None:
            self._put(key, entry, entry.due_s)

    def _put(self, key: Key, entry: StatusThrottleEntry, due_s: float) -> None:
        entry.due_s = due_s if entry.due_s is None else min(entry.due_s, due_s)
        self._due.put(key, entry.due_s)
