"""The health checks and metrics pages of this process.

A replica that is not the leader has no scheduler: it is ready, and has no scheduler metrics. Other components register
their own metrics. A component that raises an error is created again from the objects in the API.
:class:`RestartCounter` counts these failures; if a component fails repeatedly, the check ``restarts`` fails.
``handler.py`` renders the pages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from headgate.kube.metrics import CONTENT_TYPE
from headgate.runtime.health.handler import Check, HealthHandler, HealthPage
from headgate.runtime.health.process_metrics import ProcessMetricsPage
from headgate.scheduling.scheduler import Scheduler

FAILURES: Final = 3
"""A component restarts in a loop after this number of failures, each at most :data:`QUIET_S` after the previous one."""
QUIET_S: Final = 60.0
"""A component that has not failed for this time is healthy."""


class _Failures(msgspec.Struct, frozen=True):
    count: int
    last_s: float
    error: str


class RestartCounter:
    """Counts the failures of each component, and finds components that restart in a loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, _Failures] = {}

    def failed(self, component: str, error: BaseException) -> None:
        """Counts a failure of the component, which is then restarted."""
        now_s = self._clock()
        before = self._failures.get(component)
        count = 1 if before is None or now_s - before.last_s > QUIET_S else before.count + 1
        self._failures[component] = _Failures(count, now_s, _first_error(error))

    def problem(self) -> str:
        """The components that restart in a loop, and why; empty if there is none."""
        now_s = self._clock()
        return "; ".join(
            f"{component} failed {each.count} times and restarts, last {now_s - each.last_s:.0f}s ago by {each.error}"
            for component, each in sorted(self._failures.items())
            if each.count >= FAILURES and now_s - each.last_s <= QUIET_S
        )


def _first_error(error: BaseException) -> str:
    """The error as text; for an exception group, its first error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


class RunningScheduler(Protocol):
    @property
    def scheduler(self) -> Scheduler: ...

    def unsynced(self) -> list[str]:
        """The resources whose list was not delivered yet."""
        ...


class RunningGateController(Protocol):
    def metrics_exposition(self) -> bytes: ...

    def unsynced(self) -> list[str]:
        """The resources whose list was not delivered yet."""
        ...


class HealthRegistry:
    """``process_metrics``: the metrics of this process, which every replica serves."""

    def __init__(self) -> None:
        self.process_metrics = ProcessMetricsPage()
        self.restarts = RestartCounter()
        self._running: RunningScheduler | None = None
        self._gates: RunningGateController | None = None
        self._pages: list[Callable[[], bytes]] = []

    def add_metrics_page(self, write: Callable[[], bytes]) -> None:
        """Adds metrics to ``/metrics``. No other page may have metrics of the same name."""
        self._pages.append(write)

    def component_failed(self, component: str, error: BaseException) -> None:
        """Counts a failure of the component, which is then restarted."""
        self.process_metrics.failed(component)
        self.restarts.failed(component, error)

    def set_scheduler(self, runner: RunningScheduler | None) -> None:
        self._running = runner

    def set_gate_controller(self, runner: RunningGateController | None) -> None:
        self._gates = runner

    def handler(self, extra_checks: Mapping[str, Check] | None = None) -> HealthHandler:
        """``extra_checks``: further checks for readiness."""
        alive: dict[str, Check] = {"ping": _always_healthy, "restarts": self.restarts.problem}
        ready = {**alive, "informer-sync": self._synced, **(extra_checks or {})}
        return HealthHandler(
            {"/livez": alive, "/healthz": alive, "/readyz": ready},
            {"/metrics": HealthPage(CONTENT_TYPE, self._page)},
        )

    def _synced(self) -> str:
        late = [name for each in (self._running, self._gates) if each is not None for name in each.unsynced()]
        return f"not listed yet: {', '.join(late)}" if late else ""

    def _page(self) -> bytes:
        scheduler_metrics = (
            b"" if self._running is None else self._running.scheduler.metrics_exposition(time.monotonic())
        )
        gate_metrics = b"" if self._gates is None else self._gates.metrics_exposition()
        pages = (scheduler_metrics, gate_metrics, self.process_metrics.page(), *(write() for write in self._pages))
        return b"".join(pages)


def _always_healthy() -> str:
    return ""
