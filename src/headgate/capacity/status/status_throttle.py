"""The status throttle: when the status of an object is computed again, and whether it is written.

Changes are batched, and an object that keeps changing is written once per interval: one write per change would overload
the server (volcano-sh/volcano#5921). A status is not written again only because the server stores less of it than was
sent, and if another client keeps reverting it the writes back off. Pure; ``status_fields.py`` builds the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.kube.backoff import ExponentialBackoff
from headgate.waiting.heap import Heap

Key = tuple[str, str, str]
"""Plural, namespace, name."""
Object = dict[str, Any]

_LONGEST_S: Final = 600.0
_AGAIN_S: Final = 2.0


class StatusThrottleEntry:
    """What was written to one object. ``observed``: the server's version of it."""

    __slots__ = ("busy", "due_s", "observed", "repeats", "since_s", "written")

    def __init__(self) -> None:
        self.written: Object | None = None
        self.observed: Object | None = None
        self.since_s = float("-inf")
        self.repeats = 0
        self.busy = False
        self.due_s: float | None = None


class StatusThrottle:
    """``intervals_s``: the minimum interval between writes of an object, by the plural of its resource."""

    def __init__(self, intervals_s: Mapping[str, float]) -> None:
        self._intervals_s = intervals_s
        self._entries: dict[Key, StatusThrottleEntry] = {}
        self._due: Heap[Key] = Heap()

    def forget(self, key: Key) -> None:
        self._entries.pop(key, None)
        self._due.discard(key)

    def mark(self, key: Key, now_s: float, soon_s: float, *, urgent: bool = False) -> None:
        """Something about it changed; it is looked at after ``soon_s``. ``urgent``: people wait for it."""
        slip = self._entries.setdefault(key, StatusThrottleEntry())
        due_s = now_s + soon_s
        if not urgent:
            due_s = max(due_s, slip.since_s + self._intervals_s[key[0]])
        if slip.due_s is None or due_s < slip.due_s:
            slip.due_s = due_s
            if not slip.busy:
                self._due.put(key, due_s)

    def take(self, now_s: float) -> Key | None:
        """One that is due."""
        first = self._due.first()
        if first is None or first[0] > now_s:
            return None
        self._due.pop()
        self._entries[first[1]].due_s = None
        return first[1]

    def next_deadline_s(self) -> float | None:
        first = self._due.first()
        return None if first is None else float(first[0])

    def should_write(self, key: Key, seen: Object, wanted: Object, now_s: float) -> bool:
        """Whether to write ``wanted`` now, where the server shows ``seen``. If so, :meth:`written` takes the outcome.

        ``seen`` and ``wanted`` are compared as they are: leave out what should not count, such as times."""
        slip = self._entries.setdefault(key, StatusThrottleEntry())
        if seen == wanted:
            slip.repeats = 0
            return False
        if wanted != slip.written:
            slip.repeats = 0
        elif seen == slip.observed:
            return False
        else:  # another client reverted it
            wait_s = ExponentialBackoff(self._intervals_s[key[0]], _LONGEST_S).delay_s(slip.repeats + 1)
            if now_s < slip.since_s + wait_s:
                self._put(key, slip, slip.since_s + wait_s)
                return False
            slip.repeats = min(slip.repeats + 1, 16)
        slip.busy = True
        slip.since_s = now_s
        return True

    def written(self, key: Key, wanted: Object, echo: Object | None, now_s: float) -> None:
        """``echo``: how it stands on the server now; None if it was not written, and is worth another try."""
        slip = self._entries.get(key)
        if slip is None:
            return
        slip.busy = False
        if echo is not None:
            slip.written, slip.observed = wanted, echo
        if echo is None:
            self._put(key, slip, now_s + _AGAIN_S)
        elif slip.due_s is not None:
            self._put(key, slip, slip.due_s)

    def _put(self, key: Key, slip: StatusThrottleEntry, due_s: float) -> None:
        slip.due_s = due_s if slip.due_s is None else min(slip.due_s, due_s)
        self._due.put(key, slip.due_s)
