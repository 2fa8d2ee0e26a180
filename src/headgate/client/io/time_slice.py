"""Lets a task that never waits yield to other tasks after about 10 ms in one turn of the event loop.

A request to a server in the same process, an event from its watch or a step of a controller may complete without
suspending, so a task with thousands of them would block the event loop. Each of them calls :func:`yield_if_slice_spent`
first. The time is measured per turn of the event loop, not per task: if many tasks resume in one turn, each does one
piece of work and then yields.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Final

SLICE_S: Final = 0.01


class _Turn(threading.local):
    """The turn of the event loop that runs in this thread: when the first call in it was made."""

    loop: asyncio.AbstractEventLoop | None = None
    began_s: float | None = None

    def is_spent(self) -> bool:
        loop = asyncio.get_running_loop()
        if self.loop is not loop:
            self.loop, self.began_s = loop, None
        if self.began_s is None:
            self.began_s = time.monotonic()
            loop.call_soon(self._end)  # called in the next turn
            return False
        return time.monotonic() - self.began_s > SLICE_S

    def _end(self) -> None:
        self.began_s = None


_turn: Final = _Turn()


async def yield_if_slice_spent() -> None:
    """Suspends the task for one turn of the event loop if the time of this turn is spent."""
    if _turn.is_spent():
        await asyncio.sleep(0)
