"""The webhook server in its thread: it answers while the main event loop is busy, and starts again after a failure."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable

import pytest

from harness.processes import free_ports
from headgate.admission.settings import AdmissionSettings
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport
from headgate.runtime.webhooks.service import WebhookHealth, WebhookServerConfig, WebhookService
from headgate.runtime.webhooks.target import WebhookTarget
from unit.runtime.webhooks.fake_api_server import CONFIGURATIONS, MUTATING, SECRET, FakeAPIServer
from unit.runtime.webhooks.test_server import REVIEW

PATIENCE_S = 20.0
BUSY_S = 1.0


async def make_settings(transport: Transport) -> AdmissionSettings:
    return AdmissionSettings(frozenset({"s"}))


class Running:
    def __init__(self, api: FakeAPIServer, port: int, *, gives_up: bool = False) -> None:
        self.api = api
        self.port = port
        self.health = WebhookHealth()
        self.task: asyncio.Task[str] | None = None
        self.connections: list[http.client.HTTPSConnection] = []
        target = WebhookTarget(url=f"https://127.0.0.1:{port}")
        config = WebhookServerConfig(target, "127.0.0.1", port, ("headgate-system", "headgate-webhooks"))
        self.service = WebhookService(
            api.connect, make_settings, config, lambda line: None, self.health, gives_up=gives_up
        )

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait([self.task])

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.01)

    def connection(self) -> http.client.HTTPSConnection:
        bundle = base64.b64decode(self.api.objects[SECRET]["data"]["ca.crt"]).decode()
        trust = ssl.create_default_context(cadata=bundle)
        opened = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S, context=trust)
        self.connections.append(opened)
        return opened


@contextlib.asynccontextmanager
async def running(api: FakeAPIServer, port: int = 0) -> AsyncIterator[Running]:
    started = Running(api, port or free_ports(1)[0])
    started.task = asyncio.create_task(started.service.run())
    try:
        yield started
    finally:
        await started.stop()
        for each in started.connections:
            each.close()


def review(connection: http.client.HTTPSConnection) -> tuple[bool, str | None]:
    """Whether it was allowed, and the header ``Connection`` of the response."""
    connection.request("POST", "/pods/mutate", REVIEW)
    response = connection.getresponse()
    return json.loads(response.read())["response"]["allowed"], response.getheader("Connection")


def test_reviews_are_answered_while_the_main_event_loop_is_busy() -> None:
    async def scenario() -> None:
        async with running(FakeAPIServer()) as served:
            await served.until(lambda: not served.health.problem())
            answered_s: list[float] = []

            def ask() -> None:
                connection = served.connection()
                for _ in range(20):
                    review(connection)
                    answered_s.append(time.monotonic())

            asking = threading.Thread(target=ask)
            began_s = time.monotonic()
            asking.start()
            while time.monotonic() - began_s < BUSY_S:  # the engines of a leader compute as long as this
                sum(range(1000))
            asking.join()
            assert len(answered_s) == 20
            assert answered_s[0] - began_s < BUSY_S / 2

    asyncio.run(scenario())


@pytest.mark.parametrize(("delay_s", "connection"), [(0.0, "close"), (600.0, None)])
def test_a_server_that_begins_to_stop_is_not_ready_still_answers_and_closes_connections_later(
    delay_s: float, connection: str | None
) -> None:
    """Until half of the delay is over, the Service may lead a new connection to the same server."""

    async def scenario() -> None:
        async with running(FakeAPIServer()) as served:
            await served.until(lambda: not served.health.problem())
            before = served.connection()
            assert await asyncio.to_thread(review, before) == (True, None)
            served.service.begin_shutdown(delay_s)
            await served.until(lambda: served.health.problem() == "the webhook server is stopping")
            assert await asyncio.to_thread(review, before) == (True, connection)
            assert await asyncio.to_thread(review, served.connection()) == (True, connection)
            assert b"headgate_webhook_ready 0\n" in served.health.metrics_page()

    asyncio.run(scenario())


def test_a_review_in_progress_is_answered_before_the_server_ends() -> None:
    """Its owner is being read when the server stops."""
    api = FakeAPIServer()
    reading, may_answer = threading.Event(), threading.Event()
    answer = api.answer

    async def scenario() -> None:
        async def slow(request: HTTPRequest) -> HTTPResponse:
            if request.path.endswith("/podgroups/g"):
                reading.set()
                await asyncio.to_thread(may_answer.wait)
            return await answer(request)

        api.answer = slow  # type: ignore[method-assign]
        body = json.loads(REVIEW)
        body["request"]["object"]["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
        async with running(api) as served:
            await served.until(lambda: not served.health.problem())
            connection = served.connection()
            connection.request("POST", "/pods/mutate", json.dumps(body).encode())
            assert await asyncio.to_thread(reading.wait, PATIENCE_S)
            asyncio.get_running_loop().call_later(1.0, may_answer.set)
            getting = asyncio.create_task(asyncio.to_thread(connection.getresponse))
            await asyncio.sleep(0)
            ended = asyncio.create_task(served.stop())
            response = await getting
            assert (response.status, response.getheader("Connection")) == (200, "close")
            response.read()
            await ended

    asyncio.run(scenario())


def test_a_server_whose_port_is_in_use_is_started_again_and_says_why_it_is_not_ready() -> None:
    async def scenario() -> None:
        with socket.socket() as taken:
            (port,) = free_ports(1)
            taken.bind(("127.0.0.1", port))
            taken.listen()
            async with running(FakeAPIServer(), port) as served:
                await served.until(lambda: "cannot listen on" in served.health.problem())
                assert b"headgate_webhook_start_failures_total 1\n" in served.health.metrics_page()
                taken.close()
                await served.until(lambda: not served.health.problem())
                assert await asyncio.to_thread(review, served.connection()) == (True, None)

    asyncio.run(scenario())


@pytest.mark.parametrize("path", [SECRET, MUTATING])
def test_a_missing_right_is_named_and_when_it_is_granted_the_server_becomes_ready(path: str) -> None:
    async def scenario() -> None:
        api = FakeAPIServer()
        api.refused.add(path)
        async with running(api) as served:
            await served.until(lambda: "forbidden here" in served.health.problem())
            assert b"headgate_webhook_ready 0\n" in served.health.metrics_page()
            api.refused.clear()
            await served.until(lambda: not served.health.problem())
            assert any(each.startswith(CONFIGURATIONS) for each in api.objects)

    asyncio.run(scenario())


def test_a_process_with_no_other_component_ends_with_the_problem() -> None:
    api = FakeAPIServer()
    api.refused.add(SECRET)
    problem = asyncio.run(Running(api, free_ports(1)[0], gives_up=True).service.run())
    assert "forbidden here" in problem


def test_absent_queues_are_not_read_from_the_api_server() -> None:
    async def scenario() -> None:
        async with running(FakeAPIServer()) as served:
            await served.until(lambda: not served.health.problem())
            before = len(served.api.requests)
            connection = served.connection()
            for _ in range(3):
                await asyncio.to_thread(review, connection)
            read = [path for _, path in served.api.requests[before:] if "queues" in path]
            assert read == []

    asyncio.run(scenario())
