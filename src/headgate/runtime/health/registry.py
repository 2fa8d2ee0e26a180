"""What health checks and metrics show of this process: the state of its scheduler, restarts of components, and metrics.

A failed scheduler is replaced by a new one, and a replica that does not lead has none: it is ready, and reports no
scheduler metrics. Other components register their own metrics. A component that fails as a whole is restarted from the
API state alone; one that fails repeatedly does no work, so its restarts are counted and its check fails. ``handler.py``
renders the pages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from headgate.kube.metrics import CONTENT_TYPE
from headgate.runtime.health.handler import Check, HealthHandler, HealthPage
from headgate.scheduling.scheduler import Scheduler

FAILURES: Final = 3
"""So many failures are a loop, each at most :data:`QUIET_S` after the one before it."""
QUIET_S: Final = 60.0
"""A component that has not failed for so long is well."""


class _Failures(msgspec.Struct, frozen=True):
    count: int
    last_s: float
    why: str


class RestartCounter:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, _Failures] = {}

    def failed(self, component: str, why: BaseException) -> None:
        """The component ended by this exception, and is about to start again."""
        now_s = self._clock()
        before = self._failures.get(component)
        count = 1 if before is None or now_s - before.last_s > QUIET_S else before.count + 1
        self._failures[component] = _Failures(count, now_s, _shown(why))

    def problem(self) -> str:
        """Which components restart in a loop, and why; empty if none does."""
        now_s = self._clock()
        return "; ".join(
            f"{component} failed {each.count} times and restarts, last {now_s - each.last_s:.0f}s ago by {each.why}"
            for component, each in sorted(self._failures.items())
            if each.count >= FAILURES and now_s - each.last_s <= QUIET_S
        )


def _shown(why: BaseException) -> str:
    """Of tasks that ran together: what ended the first of them."""
    while isinstance(why, BaseExceptionGroup):
        why = why.exceptions[0]
    return f"{type(why).__name__}: {why}"


class RunningScheduler(Protocol):
    @property
    def scheduler(self) -> Scheduler: ...

    def unsynced(self) -> list[str]:
        """The resources that were not heard of in full yet."""
        ...


class HealthRegistry:
    def __init__(self) -> None:
        self.restarts = RestartCounter()
        self._running: RunningScheduler | None = None
        self._pages: list[Callable[[], bytes]] = []

    def add_metrics_page(self, write: Callable[[], bytes]) -> None:
        """A page of metrics that no other has."""
        self._pages.append(write)

    def set_scheduler(self, works: RunningScheduler | None) -> None:
        self._running = works

    def handler(self, further: Mapping[str, Check] | None = None) -> HealthHandler:
        """``further``: what else in this process has to be well for it to be ready."""
        alive: dict[str, Check] = {"ping": _always_healthy, "restarts": self.restarts.problem}
        ready = {**alive, "informer-sync": self._synced, **(further or {})}
        return HealthHandler(
            {"/livez": alive, "/healthz": alive, "/readyz": ready},
            {"/metrics": HealthPage(CONTENT_TYPE, self._page)},
        )

    def _synced(self) -> str:
        late = [] if self._running is None else self._running.unsynced()
        return f"not listed yet: {', '.join(late)}" if late else ""

    def _page(self) -> bytes:
        own = b"" if self._running is None else self._running.scheduler.metrics_exposition(time.monotonic())
        return own + b"".join(write() for write in self._pages)


def _always_healthy() -> str:
    return ""
