"""The metrics of the components of one process beside the scheduler: one page for all of them."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

import headgate
from headgate.jobs.metrics import JobMetrics
from headgate.quota.metrics.quota_metrics import QuotaMetrics
from headgate.runtime.health.handler import Check
from headgate.runtime.health.registry import HealthRegistry
from headgate.runtime.health.server import serve_health

F = TypeVar("F", bound=Callable[..., Any])


def metrics_option(command: F) -> F:
    """The command gets ``metrics_listen``."""
    return click.option(
        "--metrics-listen",
        default="",
        metavar="HOST:PORT",
        help="Serve /metrics, /healthz, /livez and /readyz there, over HTTP without authentication. [default: nowhere]",
    )(command)


class ProcessMetrics:
    """``health``: the registry that is served; the running components add themselves."""

    def __init__(self) -> None:
        self.health = HealthRegistry()
        self.quota = QuotaMetrics(time.perf_counter, f"headgate-{headgate.__version__}")
        self.jobs = JobMetrics()

    def failures_of(self, component: str) -> Callable[[BaseException], None]:
        """A callback for failures of the component; a restart loop fails the health check."""
        return functools.partial(self.health.restarts.failed, component)

    def show_quota(self) -> None:
        self.health.add_metrics_page(self.quota.page)

    def show_jobs(self) -> None:
        self.health.add_metrics_page(lambda: self.jobs.page(time.time()))


async def serve_metrics(
    health: HealthRegistry,
    address: tuple[str, int],
    stack: contextlib.AsyncExitStack,
    extra_checks: Mapping[str, Check] | None = None,
) -> str:
    """Serves metrics and health until the stack is closed. Returns the address. May raise OSError."""
    host, port = address
    port = await stack.enter_async_context(serve_health(health.handler(extra_checks), host, port))
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
