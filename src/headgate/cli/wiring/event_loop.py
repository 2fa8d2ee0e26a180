"""The event loop that long-running commands use, and tasks that run beside their work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop if it is installed (a request costs a third less), else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run_in_background(stack: contextlib.AsyncExitStack, coroutine: Coroutine[Any, Any, None]) -> None:
    """Runs the coroutine until the stack is closed."""
    stack.push_async_callback(_cancel, asyncio.create_task(coroutine))


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
