"""Deletes expired events periodically, and waits until the deletions are on disk."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from headgate.apiserver.registry.event_expiry import EventExpiryQueue
from headgate.store import Store
from headgate.store.io.committer import Committer
from headgate.store.io.journal import CommitFailed

_log: Final = logging.getLogger(__name__)

_MAX_PAUSE_S: Final = 10.0
_MIN_PAUSE_S: Final = 0.2


class EventExpirer:
    def __init__(
        self,
        expiry: EventExpiryQueue,
        store: Store,
        committer: Committer,
        ttl_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._expiry: Final = expiry
        self._store: Final = store
        self._committer: Final = committer
        self._pause_s: Final = min(max(ttl_s / 20, _MIN_PAUSE_S), _MAX_PAUSE_S)
        self._clock: Final = clock

    async def run(self) -> None:
        """Deletes expired events periodically, until the task is cancelled."""
        while True:
            count = await self.run_once()
            await asyncio.sleep(0 if count else self._pause_s)

    async def run_once(self) -> int:
        """Deletes one batch of expired events. Returns their number; 0 if the commit failed."""
        await self._committer.lock.wait_until_free()
        count = self._expiry.tick(self._clock())
        if count:
            try:
                await self._committer.flush(self._store.applied)
            except CommitFailed as problem:
                _log.warning("events cannot be expired: %s", problem)
                self._expiry.put_back()
                return 0
        return count
