"""Runs the screen on a terminal: waits for keys, changes of the cluster, a new size and the passing of time, and draws.

``top_screen.py`` decides what a key does, ``dashboard/io/feed.py`` keeps the rows up to date, ``details.py`` reads and
explains one object. A picture is drawn at once after a key, and a few times a second after changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from headgate.dashboard.io.feed import ViewsFeed
from headgate.terminal.bars import Glyphs
from headgate.terminal.drawing import draw
from headgate.terminal.io.tty import Terminal
from headgate.terminal.keys import KeyDecoder
from headgate.terminal.screen_text import ScreenLine, encode_changes
from headgate.terminal.top_screen import Target, TopScreen

ReadDetail = Callable[[Target], Coroutine[Any, Any, list[str]]]
_log: Final = logging.getLogger(__name__)
_TICK_S: Final = 1.0
_ESCAPE_S: Final = 0.05
"""So long after a lone escape, no sequence follows."""
_LEAST_PAUSE_S: Final = 0.2
"""Between two pictures of changes."""
_DETAIL_S: Final = 2.0
_REMARK_S: Final = 10.0


class ScreenOptions(msgspec.Struct, frozen=True):
    """``colour``: whether colours are written."""

    glyphs: Glyphs
    colour: bool


class _Remarks(logging.Handler):
    """Log lines would destroy the picture: the last one is shown in its last line for some seconds."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""
        self.at_s = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        self.text, self.at_s = record.getMessage(), time.monotonic()


class Session:
    def __init__(
        self,
        screen: TopScreen,
        feed: ViewsFeed,
        terminal: Terminal,
        options: ScreenOptions,
        read_detail: ReadDetail,
    ) -> None:
        self._screen: Final = screen
        self._feed: Final = feed
        self._terminal: Final = terminal
        self._options: Final = options
        self._read_detail: Final = read_detail
        self._decoder: Final = KeyDecoder()
        self._remarks: Final = _Remarks()
        self._wake: Final = asyncio.Event()
        self._before: list[ScreenLine] | None = None
        self._has_ended = False
        self._has_keys = False
        self._changed = True
        self._drawn_s = 0.0
        self._ticked_s = 0.0
        self._escape: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None
        self._read: tuple[Target | None, float] = None, 0.0

    async def run(self) -> None:
        """Until the user quits, or a signal or the end of the terminal ends it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end)
        loop.add_signal_handler(signal.SIGWINCH, self._redraw)
        root = logging.getLogger()
        handlers = root.handlers
        root.handlers = [self._remarks, *([] if sys.stderr.isatty() else handlers)]
        reader = self._feed.enter(self.rows_changed)
        try:
            with self._terminal.opened():
                loop.add_reader(self._terminal.keys, self._keys_arrived)
                try:
                    await self._loop()
                finally:
                    loop.remove_reader(self._terminal.keys)
        finally:
            root.handlers = handlers
            self._feed.leave(reader)
            if self._reading is not None:
                self._reading.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._reading

    def rows_changed(self) -> None:
        self._changed = True
        self._wake.set()

    def _end(self) -> None:
        self._has_ended = True
        self._wake.set()

    def _redraw(self) -> None:
        self._before = None
        self._has_keys = True
        self._wake.set()

    def _keys_arrived(self) -> None:
        data = self._terminal.read()
        if not data:
            self._end()
            return
        if self._escape is not None:
            self._escape.cancel()
        self._press(self._decoder.feed(data))
        if self._decoder.is_pending:
            self._escape = asyncio.get_running_loop().call_later(_ESCAPE_S, lambda: self._press(self._decoder.flush()))

    def _press(self, keys: list[str]) -> None:
        for key in keys:
            effect = self._screen.press(key)
            self._update()  # the next key may be about the rows of another view
            match effect:
                case "quit":
                    self._end()
                case "suspend":
                    self._terminal.suspend()
                    self._before = None
                case "redraw":
                    self._before = None
        self._has_keys = True
        self._wake.set()

    async def _loop(self) -> None:
        while not self._has_ended:
            now_s = time.monotonic()
            if now_s - self._ticked_s >= _TICK_S:
                self._ticked_s = now_s
                self._screen.sample(self._feed.epoch, time.time(), self._feed.views)
                self._changed = True  # ages
            if self._has_keys or (self._changed and now_s - self._drawn_s >= _LEAST_PAUSE_S):
                self._draw()
            due_s = self._ticked_s + _TICK_S
            if self._changed:
                due_s = min(due_s, self._drawn_s + _LEAST_PAUSE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(due_s - time.monotonic(), 0.001)):
                    await self._wake.wait()
            self._wake.clear()

    def _draw(self) -> None:
        screen = self._screen
        self._has_keys = self._changed = False
        self._drawn_s = time.monotonic()
        screen.connection = self._feed.connection
        screen.remark = self._remarks.text if self._drawn_s - self._remarks.at_s < _REMARK_S else ""
        self._update()
        self._explain()
        columns, rows = self._terminal.size()
        lines = draw(screen, columns, rows, time.time(), self._options.glyphs)
        self._terminal.write(encode_changes(self._before, lines, columns, colour=self._options.colour))
        self._before = lines

    def _update(self) -> None:
        self._screen.update(self._feed.views, self._feed.pages, self._feed.epoch, self._feed.is_synced)

    def _explain(self) -> None:
        """Reads the details of another object at once, and those of the same one again after some time."""
        screen, now_s = self._screen, time.monotonic()
        if screen.is_paused and self._read[0] == screen.target:
            return
        screen.refresh_detail(time.time())
        if screen.target is None:
            self._read = None, 0.0
        target, read_s = self._read
        if screen.target is None or (screen.target == target and now_s - read_s < _DETAIL_S):
            return
        if self._reading is None or self._reading.done():
            self._read = screen.target, now_s
            self._reading = asyncio.create_task(self._read_target(screen.target))

    async def _read_target(self, target: Target) -> None:
        try:
            lines = await self._read_detail(target)
        except Exception as error:  # one object that cannot be explained must not end the program
            _log.exception("%s %s/%s cannot be explained", target.kind, target.namespace, target.name)
            lines = [f"it cannot be explained: {type(error).__name__}: {error}"]
        self._screen.set_detail(target, lines)
        self.rows_changed()
