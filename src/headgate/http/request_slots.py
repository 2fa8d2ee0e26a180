"""The limit of concurrent requests: a number of slots, and a first-in first-out queue of waiting requests.

No I/O. A free slot goes to the request that has waited longest.
"""

from __future__ import annotations

import asyncio
from collections import deque


class RequestSlots:
    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Takes a slot if one is free; returns whether it did."""
        if self._free:
            self._free -= 1
            return True
        return False

    async def wait(self) -> None:
        """Waits for a slot and takes it."""
        slot = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                self.release()  # the slot was assigned just before the cancellation
            raise

    def release(self) -> None:
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_result(None)
                return
        self._free += 1
