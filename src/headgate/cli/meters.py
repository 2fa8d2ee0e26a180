"""What the components of one process measure beside the scheduler, and where it is shown: one page for all of them."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

import headgate
from headgate.control.board import Board
from headgate.control.health.answers import Check
from headgate.control.health.shell import serving
from headgate.jobs.metrics import JobMetrics
from headgate.quota.metrics.board import QuotaMetrics

F = TypeVar("F", bound=Callable[..., Any])


def metrics_option(command: F) -> F:
    """The command gets ``metrics_listen``."""
    return click.option(
        "--metrics-listen",
        default="",
        metavar="HOST:PORT",
        help="Serve /metrics, /healthz, /livez and /readyz there, over HTTP and to anybody. [default: nowhere]",
    )(command)


class Meters:
    """``board``: what is shown; the components that run add themselves."""

    def __init__(self) -> None:
        self.board = Board()
        self.quota = QuotaMetrics(time.perf_counter, f"headgate-{headgate.__version__}")
        self.jobs = JobMetrics()

    def failures_of(self, component: str) -> Callable[[BaseException], None]:
        """To be told whenever the component failed and starts again: health shows it if that is a loop."""
        return functools.partial(self.board.restarts.failed, component)

    def show_quota(self) -> None:
        self.board.add(self.quota.page)

    def show_jobs(self) -> None:
        self.board.add(lambda: self.jobs.page(time.time()))


async def show(
    board: Board, at: tuple[str, int], stack: contextlib.AsyncExitStack, further: Mapping[str, Check] | None = None
) -> str:
    """Serves metrics and health until the stack is closed; answers with the address. May raise OSError."""
    host, port = at
    port = await stack.enter_async_context(serving(board.answers(further), host, port))
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
