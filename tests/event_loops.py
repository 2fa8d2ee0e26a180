"""Both event loops that Headgate supports: a test with the parameter ``run`` runs on each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

Run = Callable[[Coroutine[Any, Any, None]], None]


def _runner(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Run:
    def run(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(main)

    return run


on_both_loops = pytest.mark.parametrize(
    "run", [_runner(asyncio.new_event_loop), _runner(uvloop.new_event_loop)], ids=["asyncio", "uvloop"]
)
