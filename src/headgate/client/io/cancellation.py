"""Cancellation of a task that restarts its work after an error."""

from __future__ import annotations

import asyncio


def raise_if_cancelled() -> None:
    """Raises ``CancelledError`` if the current task was cancelled.

    If a task is cancelled while its TaskGroup ends after a failure, the group raises only the failure. A handler that
    starts the work again calls this first; otherwise the task would never end.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
