"""A component that is cancelled ends, also if it fails at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from headgate.cli.wiring.controllers import run_jobs
from headgate.cli.wiring.metrics import ProcessMetrics
from headgate.cli.wiring.scheduler import default_configuration, installed_plugins, scheduler_factory
from headgate.client.io.cancellation import raise_if_cancelled
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.jobs.settings import DEFAULT
from headgate.kube.feature_gates import FeatureGates
from headgate.runtime.scheduler.runner import run_scheduler

_ENDS_S = 20.0


class _Broken:
    """A transport whose every request raises an error that no client expects."""

    def __init__(self) -> None:
        self.failed = asyncio.Event()
        self.transport = InProcessTransport(self._handle, {})

    async def _handle(self, request: object) -> Any:
        self.failed.set()
        raise ValueError("a defect")


async def _cancel_after_a_failure(component: Coroutine[Any, Any, None], broken: _Broken, turns: int) -> None:
    task = asyncio.create_task(component)
    await broken.failed.wait()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=_ENDS_S)
    ended = task.done()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.01)
    assert ended


@pytest.mark.parametrize("turns", range(6))
def test_controllers_that_fail_while_they_are_cancelled_end(turns: int) -> None:
    async def scenario() -> None:
        broken = _Broken()
        component = run_jobs(broken.transport, FeatureGates(), DEFAULT, ProcessMetrics())
        await _cancel_after_a_failure(component, broken, turns)

    asyncio.run(scenario())


@pytest.mark.parametrize("turns", range(6))
def test_a_scheduler_that_fails_while_it_is_cancelled_ends(turns: int) -> None:
    found = installed_plugins(pytest.fail)
    make = scheduler_factory(default_configuration(("headgate",), found), found, FeatureGates())
    assert not isinstance(make, str)

    async def scenario() -> None:
        broken = _Broken()
        await _cancel_after_a_failure(run_scheduler(make, broken.transport), broken, turns)

    asyncio.run(scenario())


def test_a_cancelled_task_is_cancelled_also_after_another_error() -> None:
    async def work() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_fail())
                group.create_task(_end_slowly())
        except* ValueError:
            raise_if_cancelled()
        raise AssertionError("the cancellation is lost")

    async def scenario() -> None:
        task = asyncio.create_task(work())
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


async def _fail() -> None:
    raise ValueError


async def _end_slowly() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        for _ in range(10):
            await asyncio.sleep(0)
