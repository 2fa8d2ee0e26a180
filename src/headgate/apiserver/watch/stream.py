"""One watch over time: the bytes to send, and the next time to look although nothing changed.

Pure: the transport provides the time, sends what :meth:`WatchStream.take` returns, and calls again when the server
wakes it or ``due_s`` is reached. ``apiserver/watch/watcher.py`` builds the events.
"""

from __future__ import annotations

from typing import Final

from headgate.apiserver.watch.watcher import WatchCursor
from headgate.store import Revision

_BOOKMARK_EVERY_S: Final = 60.0
_LATE_S: Final = 0.05  # clients complain of a watch that ends before its time, never of one that ends after


class WatchStream:
    """One watch being served."""

    def __init__(self, watch: WatchCursor, now_s: float) -> None:
        self._watch: Final = watch
        self._ends_s: Final = now_s + watch.timeout_s + _LATE_S
        self._bookmark_due_s = now_s + _BOOKMARK_EVERY_S if watch.wants_bookmarks else self._ends_s
        self._woken = True  # something happened that concerns it and was not taken
        self.resource: Final = watch.resource
        self.interest: Final = watch.interest
        self.ended = False

    @property
    def due_s(self) -> float:
        return min(self._ends_s, self._bookmark_due_s)

    @property
    def behind(self) -> bool:
        """There is more to send already."""
        return self._watch.behind

    def wake(self, before: Revision) -> None:
        """Changes after ``before`` may concern it; nothing before them did that it was not told of."""
        if not self._woken:
            self._watch.catch_up(before)
            self._woken = True

    def take(self, now_s: float, limit_bytes: int) -> bytes:
        """What to send now, several events in one piece; afterwards ``ended`` says whether anything will follow."""
        chunk = b""
        if self._woken:
            chunk = self._watch.take(limit_bytes)
            self._woken = self._watch.behind
        else:
            self._watch.catch_up()
        if self._watch.ended or now_s >= self._ends_s:
            self.ended = True
        elif now_s >= self._bookmark_due_s and not self._watch.behind:
            self._bookmark_due_s = now_s + _BOOKMARK_EVERY_S
            chunk += self._watch.bookmark()
        return chunk
