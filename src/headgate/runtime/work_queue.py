"""The work queue of the controllers, like the rate-limiting queue of client-go's ``workqueue``.

Only one worker at a time processes a key. A key that is added while it waits is not queued twice. A key that is added
while it is processed is processed again afterwards. A key may be added with a delay; if it is added several times, the
earliest time counts. The queue stores that time itself, because the handle that ``call_at`` returns may not have it
(uvloop returns a plain ``Handle`` for a delay below 1 ms).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

from headgate.client.backoff import Backoff

K = TypeVar("K", bound=Hashable)

_FIRST_RETRY_S: Final = 0.005
_MAX_RETRY_S: Final = 60.0


class WorkQueue(Generic[K]):
    """It must be created in a running event loop."""

    def __init__(self) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._ready: Final[asyncio.Queue[K]] = asyncio.Queue()
        self._waiting: Final[set[K]] = set()
        self._processing: Final[set[K]] = set()
        self._delayed: Final[dict[K, tuple[float, asyncio.Handle]]] = {}  # due time of the loop's clock, and its timer
        self._backoffs: Final[dict[K, Backoff]] = {}
        self.idle: Final = asyncio.Event()
        """Set while no key is processed or waits for a worker."""
        self.idle.set()

    def add(self, key: K, after_s: float = 0.0) -> None:
        if after_s > 0:
            self._delay(key, after_s)
            return
        delayed = self._delayed.pop(key, None)
        if delayed is not None:
            delayed[1].cancel()
        if key in self._waiting:
            return
        self._waiting.add(key)
        self.idle.clear()
        if key not in self._processing:
            self._ready.put_nowait(key)

    def add_rate_limited(self, key: K, jitter: float, max_s: float = math.inf) -> float:
        """Adds the key after a failure, with back-off. Returns the delay. ``max_s``: another limit for this delay, to
        which the jitter is added."""
        wait_s = self._backoffs.setdefault(key, Backoff(_FIRST_RETRY_S, _MAX_RETRY_S)).next(jitter, max_s)
        self.add(key, wait_s)
        return wait_s

    def forget(self, key: K) -> None:
        """Resets the back-off of the key."""
        self._backoffs.pop(key, None)

    def retry_now(self, keys: Iterable[K]) -> None:
        """Ends the delays of these keys, and resets their back-off."""
        for key in keys:
            self.forget(key)
            if key in self._delayed:
                self.add(key)

    async def get(self) -> K:
        key = await self._ready.get()
        self._waiting.discard(key)
        self._processing.add(key)
        return key

    def done(self, key: K) -> None:
        self._processing.discard(key)
        if key in self._waiting:
            self._ready.put_nowait(key)
        elif not self._processing and not self._waiting:
            self.idle.set()

    def close(self) -> None:
        for _, handle in self._delayed.values():
            handle.cancel()
        self._delayed.clear()

    def _delay(self, key: K, after_s: float) -> None:
        if key in self._waiting:
            return
        due_s = self._loop.time() + after_s
        delayed = self._delayed.get(key)
        if delayed is not None:
            if delayed[0] <= due_s:
                return
            delayed[1].cancel()
        self._delayed[key] = due_s, self._loop.call_at(due_s, self.add, key)
