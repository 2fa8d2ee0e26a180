"""A thread with an event loop of its own, for work that must not wait for the main event loop.

The engines of a leader compute for up to seconds in the main event loop. ``runtime/webhooks/service.py`` answers API
servers in a separate thread meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class EventLoopThread(Generic[T]):
    """Runs one coroutine. The methods are called in the main event loop."""

    def __init__(self, name: str, loop_factory: LoopFactory | None = None) -> None:
        self._name: Final = name
        self._loop: Final = (loop_factory or asyncio.new_event_loop)()
        self._work: asyncio.Task[T] | None = None
        self._is_cancelled = False

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs the coroutine of ``work`` in the thread, and returns its result. If the caller is cancelled, the
        coroutine is cancelled, and the caller waits for its end."""
        main_loop = asyncio.get_running_loop()
        ended: asyncio.Future[T] = main_loop.create_future()

        def run_in_thread() -> None:
            finish: Callable[[], object]
            try:
                with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                    finish = functools.partial(ended.set_result, runner.run(self._run(work)))
            except asyncio.CancelledError:
                finish = ended.cancel
            except BaseException as error:
                finish = functools.partial(ended.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the main loop is closed: the process ends
                main_loop.call_soon_threadsafe(finish)

        threading.Thread(target=run_in_thread, name=self._name, daemon=True).start()
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError:
            self.call(self._cancel)
            await asyncio.wait([ended])
            raise
        return ended.result()

    def call(self, callback: Callable[[], None]) -> None:
        """Calls the function in the thread, soon; not at all if the thread has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    # -- in the thread

    async def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._work = asyncio.current_task()
        if self._is_cancelled:
            raise asyncio.CancelledError
        return await work()

    def _cancel(self) -> None:
        self._is_cancelled = True
        if self._work is not None:
            self._work.cancel()
