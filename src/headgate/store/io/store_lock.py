"""``StoreLock``: while one thread works with the store, the event loop leaves it as it is.

A long step of a request runs in a worker thread, so that the loop can answer others meanwhile. For as long as that step
runs the store must not change under it: no other write is staged, nothing is committed, rolled back or compacted. The
loop may read what is committed. Whatever short work has gathered is done before the next long step begins.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final


class StoreLock:
    """Used in the event loop only; the thread itself does not know of it."""

    def __init__(self) -> None:
        self.held = False
        self._deferred: Final[deque[Callable[[], None]]] = deque()
        self._short: Final[deque[asyncio.Future[None]]] = deque()
        self._long: Final[deque[asyncio.Future[None]]] = deque()

    def run_when_free(self, act: Callable[[], None]) -> None:
        """Do something that changes the store: now, or as soon as no thread uses it, in order."""
        if self.held:
            self._deferred.append(act)
        else:
            act()

    async def wait_until_free(self) -> None:
        """Wait until the loop may change the store. What follows must not wait before it has done so."""
        while self.held:
            await self._turn(self._short)

    async def acquire(self) -> None:
        """Wait for the store, and keep it until :meth:`release`."""
        while self.held or self._short:
            await self._turn(self._long)
        self.held = True

    def release(self) -> None:
        self.held = False
        while self._deferred:
            self._deferred.popleft()()
        # Short work first: its turns come before those of whoever waits for a long one.
        for waiting in (*self._short, *self._long):
            if not waiting.done():
                waiting.set_result(None)

    async def _turn(self, line: deque[asyncio.Future[None]]) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        finally:
            line.remove(turn)
            if not self.held and not self._short:
                self._wake_long()

    def _wake_long(self) -> None:
        """The last short turn is over: a waiting long one may try."""
        for waiting in self._long:
            if not waiting.done():
                waiting.set_result(None)
                return
