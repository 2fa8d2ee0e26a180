"""The response stream of one watch: the bytes to send, bookmarks, and the end of the watch.

This module does no I/O: the HTTP server provides the time and sends the bytes that :meth:`WatchStream.take` returns. It
calls ``take`` again when the API server wakes it, or at ``due_s``, the time of the next bookmark or of the end.
``apiserver/watch/watcher.py`` builds the events.
"""

from __future__ import annotations

from typing import Final

from headgate.apiserver.watch.watcher import WatchCursor
from headgate.store import Revision

_BOOKMARK_EVERY_S: Final = 60.0
_LATE_S: Final = 0.05  # clients report a watch that ends too early, but not one that ends late


class WatchStream:
    """One watch being served."""

    def __init__(self, watch: WatchCursor, now_s: float) -> None:
        self._watch: Final = watch
        self._end_s: Final = now_s + watch.timeout_s + _LATE_S
        self._bookmark_due_s = now_s + _BOOKMARK_EVERY_S if watch.wants_bookmarks else self._end_s
        self._has_changes = True  # whether there may be changes in its scope that were not sent
        self.resource: Final = watch.resource
        self.scope: Final = watch.scope
        self.ended = False

    @property
    def due_s(self) -> float:
        """When ``take`` must be called next, if nothing wakes the stream earlier."""
        return min(self._end_s, self._bookmark_due_s)

    @property
    def behind(self) -> bool:
        """Whether there is more to send."""
        return self._watch.behind

    def wake(self, before: Revision) -> None:
        """Changes after ``before`` may be in the scope of the watch; earlier ones are not in it, or were sent."""
        if not self._has_changes:
            self._watch.catch_up(before)
            self._has_changes = True

    def take(self, now_s: float, limit_bytes: int) -> bytes:
        """The bytes to send now, with several events. Sets ``ended`` if the watch has ended."""
        chunk = b""
        if self._has_changes:
            chunk = self._watch.take(limit_bytes)
            self._has_changes = self._watch.behind
        else:
            self._watch.catch_up()
        if self._watch.ended or now_s >= self._end_s:
            self.ended = True
        elif now_s >= self._bookmark_due_s and not self._watch.behind:
            self._bookmark_due_s = now_s + _BOOKMARK_EVERY_S
            chunk += self._watch.bookmark()
        return chunk
