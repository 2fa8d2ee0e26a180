"""Health while components fail and restart: one failure is ignored, a restart loop fails the check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from harness.fake_protocol import response_to
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.runtime.controller_manager import run_controllers
from headgate.runtime.health.registry import QUIET_S, HealthRegistry, RestartCounter
from headgate.runtime.health.server import health_limits
from headgate.runtime.scheduler.runner import SchedulerFactory, run_scheduler
from headgate.scheduling.scheduler import Scheduler


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_component_that_fails_now_and_then_is_well() -> None:
    clock = Clock()
    restarts = RestartCounter(clock)
    for _ in range(10):
        restarts.failed("scheduler", ValueError("x"))
        clock.now_s += QUIET_S + 1
        assert restarts.problem() == ""


def test_a_component_that_restarts_in_a_loop_is_named_with_its_error_until_it_is_quiet() -> None:
    clock = Clock()
    restarts = RestartCounter(clock)
    for _ in range(2):
        restarts.failed("scheduler", ValueError("first"))
        clock.now_s += 1
    assert restarts.problem() == ""
    restarts.failed("scheduler", ExceptionGroup("tasks", [ValueError("broken plugin")]))
    restarts.failed("jobs", ValueError("once"))
    clock.now_s += 5
    expected = "scheduler failed 3 times and restarts, last 5s ago by ValueError: broken plugin"
    assert restarts.problem() == expected
    clock.now_s += QUIET_S
    assert restarts.problem() == ""


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_every_path_of_health_fails_while_a_component_restarts_in_a_loop(path: str) -> None:
    health = HealthRegistry()
    head = f"GET {path} HTTP/1.1\r\n\r\n".encode()
    assert response_to(health.handler(), head, health_limits()).startswith(b"HTTP/1.1 200 ")
    for _ in range(3):
        health.restarts.failed("quota", ValueError("x"))
    response = response_to(health.handler(), head, health_limits())
    assert response.startswith(b"HTTP/1.1 500 ")
    assert b"[-]restarts failed: quota failed 3 times" in response


async def nothing_is_served(request: HTTPRequest) -> HTTPResponse:
    return HTTPResponse(404, {}, b"")


def test_a_scheduler_that_cannot_be_made_is_tried_again_and_counts_as_failed() -> None:
    health = HealthRegistry()

    def make(complain: Callable[[str], None]) -> Scheduler:
        raise ValueError("a plugin broke")

    asyncio.run(tried_once(make, health))
    for _ in range(2):
        health.restarts.failed("scheduler", ValueError("a plugin broke"))
    assert "scheduler failed 3 times" in health.restarts.problem()


async def tried_once(make: SchedulerFactory, health: HealthRegistry) -> None:
    keeping = asyncio.create_task(run_scheduler(make, InProcessTransport(nothing_is_served, {}), health=health))
    await asyncio.sleep(0)
    assert not keeping.done()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


def test_controllers_that_fail_are_counted() -> None:
    health = HealthRegistry()
    slept = 0

    async def sleep(wait_s: float) -> None:
        nonlocal slept
        slept += 1
        if slept == 3:
            raise asyncio.CancelledError

    def failed(broken: BaseException) -> None:
        health.restarts.failed("controllers", broken)

    def make() -> list[object]:
        raise ValueError("x")

    keeping = run_controllers(make, InProcessTransport(nothing_is_served, {}), sleep=sleep, failed=failed)  # type: ignore[arg-type]  # it makes nothing
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(keeping)
    assert "controllers failed 3 times" in health.restarts.problem()
