"""An event loop in a thread of its own, for callers without one.

It runs the cluster of a test, and the connections of its client.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from headgate.cli.wiring.event_loop import loop_factory

T = TypeVar("T")


class LoopThread:
    def __init__(self, name: str) -> None:
        started: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        # A daemon: a test that forgets to close its cluster does not keep the process alive.
        self._thread: Final = threading.Thread(target=self._run, args=(started,), name=name, daemon=True)
        self._stop: asyncio.Event
        self._thread.start()
        self._loop: Final = started.result()

    def _run(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        self._stop = asyncio.Event()
        started.set_result(asyncio.get_running_loop())
        await self._stop.wait()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Runs the coroutine in the loop, and waits for its result."""
        future = self.submit(coroutine)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], None]) -> None:
        """Calls the function in the loop, and waits until it has returned."""

        async def steps() -> None:
            function()

        self.run(steps())

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
