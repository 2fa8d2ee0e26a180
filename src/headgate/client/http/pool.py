"""How many requests may be under way: a number of slots, and a line of those who wait for one, first come first served.

Pure but for the futures. A slot that becomes free goes straight to whoever waits longest, so nobody overtakes.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Slots:
    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """A slot, if one is free at once."""
        if self._free:
            self._free -= 1
            return True
        return False

    async def wait(self) -> None:
        """A slot, as soon as it is our turn."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()  # it came together with the cancellation
            raise

    def give_back(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
