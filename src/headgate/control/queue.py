"""Keys that need work: each is worked on by one worker at a time, as often as it must and no oftener.

A key that is woken while it waits is not put in twice; one that is woken while it is worked on is worked on again
afterwards. A key may be due later; the earliest time counts. The queue keeps that time itself: what ``call_at`` returns
need not know it (uvloop answers a delay below 1 ms with a plain ``Handle``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from headgate.client.backoff import Backoff

K = TypeVar("K", bound=Hashable)

_FIRST_RETRY_S: Final = 0.005
_LONGEST_RETRY_S: Final = 60.0


class WorkQueue(Generic[K]):
    """Make it inside a running event loop."""

    def __init__(self) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._ready: Final[asyncio.Queue[K]] = asyncio.Queue()
        self._waiting: Final[set[K]] = set()
        self._working: Final[set[K]] = set()
        self._later: Final[dict[K, tuple[float, asyncio.Handle]]] = {}  # when it is due, in the loop's time
        self._backoffs: Final[dict[K, Backoff]] = {}
        self.at_rest: Final = asyncio.Event()
        """Nothing is worked on, and nothing waits for a worker."""
        self.at_rest.set()

    def add(self, key: K, after_s: float = 0.0) -> None:
        if after_s > 0:
            self._delay(key, after_s)
            return
        delayed = self._later.pop(key, None)
        if delayed is not None:
            delayed[1].cancel()
        if key in self._waiting:
            return
        self._waiting.add(key)
        self.at_rest.clear()
        if key not in self._working:
            self._ready.put_nowait(key)

    def again(self, key: K, jitter: float) -> float:
        """After a failure: later each time. Returns how much later."""
        wait_s = self._backoffs.setdefault(key, Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)).next(jitter)
        self.add(key, wait_s)
        return wait_s

    def succeeded(self, key: K) -> None:
        self._backoffs.pop(key, None)

    async def take(self) -> K:
        key = await self._ready.get()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        self._working.discard(key)
        if key in self._waiting:
            self._ready.put_nowait(key)
        elif not self._working and not self._waiting:
            self.at_rest.set()

    def close(self) -> None:
        for _, handle in self._later.values():
            handle.cancel()
        self._later.clear()

    def _delay(self, key: K, after_s: float) -> None:
        if key in self._waiting:
            return
        due_s = self._loop.time() + after_s
        delayed = self._later.get(key)
        if delayed is not None:
            if delayed[0] <= due_s:
                return
            delayed[1].cancel()
        self._later[key] = due_s, self._loop.call_at(due_s, self.add, key)
