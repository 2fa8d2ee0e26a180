"""What the runners of the scheduler and of the gate controller share: restarts, a wake-up event, kinds served late."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from headgate.client.io.cancellation import raise_if_cancelled
from headgate.client.io.informer import InformerEvent, ListSynced
from headgate.client.io.writer import Writer
from headgate.http.transport import Transport
from headgate.kube.api_resources import APIResource
from headgate.runtime.health.registry import HealthRegistry

MAX_SLEEP_S: Final = 60.0
LIVE_PODS: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
"""The query of a watch of pods that hold resources, or will."""
_RESTART_S: Final = 1.0

_log: Final = logging.getLogger(__name__)


class Runner(Protocol):
    async def run(self) -> None: ...


R = TypeVar("R", bound=Runner)


async def run_with_restarts(
    component: str,
    make: Callable[[Writer], R],
    transport: Transport,
    write_budget_s: Callable[[], float],
    health: HealthRegistry,
    set_running: Callable[[R | None], None],
) -> None:
    """Runs until it is cancelled. A runner that raises an error is replaced by a new one, which starts from the API
    state alone. ``set_running`` is called with the present runner."""
    health.process_metrics.add_component(component)
    while True:
        writer = Writer(transport, write_budget_s=write_budget_s, jitter=random.random, sleep=asyncio.sleep)
        try:
            runner = make(writer)
            set_running(runner)
            await runner.run()
        except Exception as error:
            raise_if_cancelled()
            _log.exception("the component %s failed and starts again", component)
            health.component_failed(component, error)
        finally:
            set_running(None)
        await asyncio.sleep(_RESTART_S)


class WakeUp:
    """Ends the sleep of a loop that has nothing to do."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set: Final = self._event.set
        self.clear: Final = self._event.clear

    async def wait(self, limit_s: float) -> None:
        """Waits until :attr:`set` is called after :attr:`clear`, for ``limit_s`` at most. Other tasks run meanwhile."""
        if limit_s <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(min(limit_s, MAX_SLEEP_S)):
                await self._event.wait()
        except TimeoutError:
            pass


class LateKinds:
    """Kinds that the API server did not serve, with their events until their first list is complete."""

    def __init__(self) -> None:
        self._events: dict[APIResource, list[InformerEvent]] = {}

    def add(self, resource: APIResource) -> None:
        self._events[resource] = []

    def ready(self, resource: APIResource, event: InformerEvent) -> tuple[InformerEvent, ...]:
        """The events to process now: none of a late kind before its list is complete, then all."""
        kept = self._events.get(resource)
        if kept is None:
            return (event,)
        kept.append(event)
        return tuple(self._events.pop(resource)) if isinstance(event, ListSynced) else ()


def warn(problem: str) -> None:
    _log.warning("%s", problem)
