"""Kinds that plugins watch: they are listed before pods are tried, and reported if they are not served or forbidden."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clusters import a_node, a_pod
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport
from headgate.kube.api_resources import APIResource
from headgate.runtime.scheduler.runner import SchedulerRunner
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.cluster_events import ADD, ClusterEvent, named, on
from headgate.scheduling.framework.interface import Rejection
from headgate.scheduling.scheduler import Scheduler
from unit.runtime.serving import a_server, ask, until
from unit.runtime.test_controller_manager_kinds import DEFINITION
from unit.runtime.test_scheduler_runner import writer
from unit.scheduling.world import configured

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
WIDGETS = APIResource("example.com", "v1", "widgets", namespaced=True)
LIST = WIDGETS.collection_path()
Answer = Callable[[HTTPRequest], Awaitable[HTTPResponse | None]]


class HeldByWidget:
    """Rejects a pod as long as there is a Widget of its name."""

    name = "HeldByWidget"

    def __init__(self) -> None:
        self.watched = {WIDGETS: ("metadata.labels",)}
        self.widgets: set[str] = set()

    def applied(self, resource: APIResource, wire: Object, /) -> Iterable[ClusterEvent]:
        self.widgets.add(wire["metadata"]["name"])
        return (ClusterEvent(named(WIDGETS), ADD, new=wire),)

    def removed(self, resource: APIResource, namespace: str, name: str, /) -> Iterable[ClusterEvent]:
        self.widgets.discard(name)
        return ()

    def pre_enqueue(self, pod: PodInfo, /) -> Rejection | None:
        return Rejection(self.name, "there is a widget", on(named(WIDGETS), ADD)) if pod.name in self.widgets else None


class FilteringTransport:
    """A transport in front of a server; ``answer`` may answer requests about widgets instead of the server."""

    def __init__(self, transport: Transport, answer: Answer) -> None:
        self._transport = transport
        self._answer = answer

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        if request.path in (LIST, "/apis/example.com/v1"):
            response = await self._answer(request)
            if response is not None:
                return response
        return await self._transport.request(request)

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self._transport.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        await self._transport.close()


@asynccontextmanager
async def scheduling(transport: Transport, plugin: HeldByWidget) -> AsyncIterator[SchedulerRunner]:
    runner = SchedulerRunner(
        lambda report: Scheduler(*configured([plugin]), report=report), transport, writer(transport)
    )
    running = asyncio.create_task(runner.run())
    try:
        yield runner
    finally:
        running.cancel()
        await asyncio.wait([running])


async def with_objects(transport: Transport, *pods: str) -> None:
    await ask(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    await ask(transport, "POST", "/api/v1/nodes", a_node("a"))
    for name in pods:
        await with_pod(transport, name)


async def with_pod(transport: Transport, name: str) -> None:
    pod = a_pod(name, {"cpu": "1m"})
    del pod["metadata"]["uid"]
    status, told = await ask(transport, "POST", PODS, pod)
    assert status == 201, told


async def serve_widgets(transport: Transport, *names: str) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await ask(transport, "POST", path, DEFINITION))[0] == 201

    async def served() -> bool:
        return (await ask(transport, "GET", LIST))[0] == 200

    await until(served)
    for name in names:
        wire = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}
        status, told = await ask(transport, "POST", WIDGETS.collection_path("default"), wire)
        assert status == 201, told


async def node_of(transport: Transport, name: str) -> str:
    return str((await ask(transport, "GET", f"{PODS}/{name}"))[1]["spec"].get("nodeName", ""))


async def bound(transport: Transport, name: str) -> None:
    async def is_bound() -> bool:
        return await node_of(transport, name) == "a"

    await until(is_bound)


def forbidden(request: HTTPRequest) -> HTTPResponse:
    message = 'widgets.example.com is forbidden: User "x" cannot list resource "widgets" in API group "example.com"'
    return HTTPResponse(403, {}, json.dumps({"kind": "Status", "code": 403, "message": message}).encode())


def test_no_pod_is_asked_about_before_the_kind_that_a_plugin_watches_is_listed() -> None:
    async def scenario() -> None:
        allowed = asyncio.Event()
        asked = asyncio.Event()

        async def late(request: HTTPRequest) -> HTTPResponse | None:
            asked.set()
            await allowed.wait()
            return None

        async with a_server() as transport:
            await with_objects(transport, "held", "free")
            await serve_widgets(transport, "held")
            async with scheduling(FilteringTransport(transport, late), HeldByWidget()) as runner:
                await asked.wait()
                await until(lambda: runner.unsynced() == ["pods", "widgets"])
                for _ in range(200):
                    await asyncio.sleep(0)
                assert (runner.synced.is_set(), len(runner.scheduler.queue)) == (False, 0)
                allowed.set()
                await bound(transport, "free")
                assert await node_of(transport, "held") == ""

    asyncio.run(scenario())


def test_a_kind_that_is_not_served_is_named_and_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with a_server() as transport:
            await with_objects(transport, "p")
            async with scheduling(transport, HeldByWidget()):
                await bound(transport, "p")

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    (line,) = [each.getMessage() for each in caplog.records if "widgets" in each.getMessage()]
    assert line.startswith(f"{LIST} returned 404")
    assert "HeldByWidget watches this kind" in line


def test_a_kind_that_is_served_later_counts_when_all_of_it_is_listed() -> None:
    async def scenario() -> None:
        plugin = HeldByWidget()
        made, half, rest = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def in_pages(request: HTTPRequest) -> HTTPResponse | None:
            if not made.is_set():
                return HTTPResponse(404, {}, b"{}")
            if "continue" in request.query:
                half.set()
                await rest.wait()
            query = request.query.replace("limit=500", "limit=1")
            return await transport.request(HTTPRequest("GET", LIST, query, request.headers))

        async with a_server() as transport:
            await with_objects(transport, "first")
            async with scheduling(FilteringTransport(transport, in_pages), plugin) as runner:
                await bound(transport, "first")
                await serve_widgets(transport, "w1", "w2")
                made.set()
                async with asyncio.timeout(20):
                    await half.wait()
                assert (plugin.widgets, runner.unsynced()) == (set(), [])
                rest.set()
                await until(lambda: plugin.widgets == {"w1", "w2"})
                await with_pod(transport, "w1")
                await with_pod(transport, "second")
                await bound(transport, "second")
                assert await node_of(transport, "w1") == ""

    asyncio.run(scenario())


def test_a_missing_right_is_named_and_pods_wait_until_it_is_granted(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        granted = asyncio.Event()

        async def guarded(request: HTTPRequest) -> HTTPResponse | None:
            return forbidden(request) if request.path == LIST and not granted.is_set() else None

        async with a_server() as transport:
            await with_objects(transport, "held", "free")
            await serve_widgets(transport, "held")
            async with scheduling(FilteringTransport(transport, guarded), HeldByWidget()) as runner:
                await until(lambda: "no pod is scheduled before" in caplog.text)
                assert runner.unsynced() == ["pods", "widgets"]
                granted.set()
                await bound(transport, "free")
                assert await node_of(transport, "held") == ""

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    line = next(each.getMessage() for each in caplog.records if "no pod is scheduled" in each.getMessage())
    assert 'cannot list resource "widgets"' in line
    assert "; HeldByWidget watches it, so " in line


def test_a_kind_that_is_forbidden_and_not_in_discovery_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async def guarded(request: HTTPRequest) -> HTTPResponse | None:
            return forbidden(request) if request.path == LIST else None

        async with a_server() as transport:
            await with_objects(transport, "p")
            async with scheduling(FilteringTransport(transport, guarded), HeldByWidget()):
                await bound(transport, "p")

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert "HeldByWidget watches this kind" in caplog.text
