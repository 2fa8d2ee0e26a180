"""The limit of concurrent requests: a number of slots, and a first-in first-out queue of waiting requests.

Pure but for the futures. A free slot goes to the request that waits longest.
"""

from __future__ import annotations

import asyncio
from collections import deque


class RequestSlots:
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
                self.release()  # it came together with the cancellation
            raise

    def release(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
