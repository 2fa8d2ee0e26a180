"""The body of a stream of events: takes events from ``stream.py`` when the connection can send more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.dashboard.io.feed import ViewsFeed
from headgate.dashboard.rights import ViewerRights
from headgate.dashboard.stream import COMMENT, COMMENT_S, ViewerStream, encode_event


class EventStream:
    """A ``StreamedBody``. ``closed`` is called once, when no more parts are taken."""

    def __init__(self, feed: ViewsFeed, stream: ViewerStream, closed: Callable[[], None]) -> None:
        self._feed: Final = feed
        self._stream: Final = stream
        self._closed: Final = closed
        self._wake: Callable[[], None] = lambda: None
        self._reader: int | None = None
        self._rest = b""
        self._due_s = 0.0
        self._final = b""
        self._is_over = False

    def begin(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._reader = self._feed.enter(wake)

    def set_rights(self, rights: ViewerRights) -> None:
        if rights != self._stream.rights:
            self._stream.set_rights(rights)
            self._wake()

    def finish(self, status: int, text: str) -> None:
        """Ends the stream, with an event that says why."""
        self._final = encode_event("end", {"status": status, "text": text})
        self._wake()

    def take(self, now_s: float, limit_bytes: int) -> bytes:
        if not self._rest and self._final:
            self._rest, self._final, self._is_over = self._final, b"", True
        elif not self._rest and not self._is_over:
            self._rest = self._stream.next_connection_event(self._feed.connection)
            if self._feed.is_synced:
                self._rest += self._stream.next_event(self._feed.views, self._feed.epoch)
            if not self._rest and now_s >= self._due_s:
                self._rest = COMMENT
        part, self._rest = self._rest[:limit_bytes], self._rest[limit_bytes:]
        if part:
            self._due_s = now_s + COMMENT_S
        return part

    @property
    def ended(self) -> bool:
        return self._is_over and not self._rest

    @property
    def behind(self) -> bool:
        return bool(self._rest or self._final)

    @property
    def due_s(self) -> float:
        return self._due_s

    def close(self) -> None:
        if self._reader is not None:
            self._feed.leave(self._reader)
            self._reader = None
            self._closed()
