"""``StoreLock``: while a worker thread uses the store, the event loop does not change it.

A long step of a request runs in a worker thread, so that the event loop can process other requests. While that step
runs the store must not change: no other write is staged, and nothing is committed, rolled back or compacted. The event
loop may read committed objects. Short steps that wait for the lock run before the next long step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final


class StoreLock:
    """Used only in the event loop; the worker thread does not use it."""

    def __init__(self) -> None:
        self.held = False
        self._deferred: Final[deque[Callable[[], None]]] = deque()  # actions that run as soon as the lock is free
        self._short: Final[deque[asyncio.Future[None]]] = deque()  # waiters of `wait_until_free`
        self._long: Final[deque[asyncio.Future[None]]] = deque()  # waiters of `acquire`

    def run_when_free(self, action: Callable[[], None]) -> None:
        """Runs an action that changes the store: now, or, in order, as soon as no thread uses the store."""
        if self.held:
            self._deferred.append(action)
        else:
            action()

    async def wait_until_free(self) -> None:
        """Waits until the loop may change the store. The caller must make its change before it awaits again."""
        while self.held:
            await self._wait_in(self._short)

    async def acquire(self) -> None:
        """Waits for the store, and holds it until :meth:`release`."""
        while self.held or self._short:
            await self._wait_in(self._long)
        self.held = True

    def release(self) -> None:
        self.held = False
        while self._deferred:
            self._deferred.popleft()()
        # Short work runs before the next long step.
        for waiter in (*self._short, *self._long):
            if not waiter.done():
                waiter.set_result(None)

    async def _wait_in(self, queue: deque[asyncio.Future[None]]) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(waiter)
        try:
            await waiter
        finally:
            queue.remove(waiter)
            if not self.held and not self._short:
                self._wake_long()

    def _wake_long(self) -> None:
        """No more short work waits: wakes the next long step."""
        for waiter in self._long:
            if not waiter.done():
                waiter.set_result(None)
                return
