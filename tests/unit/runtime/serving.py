"""Controllers and an embedded server in this process, for tests of the controller manager."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from embedded import TOKEN, Embedded
from headgate.apiserver.io.api_server import APIServer
from headgate.cli.embedded.server import in_process
from headgate.controllers.framework.reconcile import Controller
from headgate.http.transport import HTTPRequest, Transport
from headgate.runtime.controller_manager import ControllerManager, Sleep
from headgate.store.io.committer import Committer
from headgate.store.io.journal import Journal

Object = dict[str, Any]
PATIENCE_S = 20.0
MAPS = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def a_server() -> AsyncIterator[Transport]:
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal.open(Path(folder))
        embedded = Embedded(store=journal.load(lambda done, total: None), namespace="")
        endpoint = APIServer(embedded.api)
        committer = Committer(embedded.api.store, journal, publish=endpoint.publish)
        endpoint.attach(committer)
        try:
            yield in_process(endpoint, TOKEN, "test")
        finally:
            endpoint.stop()
            await committer.close()


async def ask(transport: Transport, method: str, path: str, body: Object | None = None) -> tuple[int, Object]:
    data = b"" if body is None else msgspec.json.encode(body)
    response = await transport.request(HTTPRequest(method, path, "", {"content-type": "application/json"}, data))
    return response.status, msgspec.json.decode(response.body)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not (await condition() if asyncio.iscoroutinefunction(condition) else condition()):
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(transport: Transport, *controllers: Controller, sleep: Sleep = asyncio.sleep) -> AsyncIterator[None]:
    task = asyncio.create_task(ControllerManager(controllers, transport, sleep=sleep).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            raise task.exception() or RuntimeError


async def with_namespace(transport: Transport) -> None:
    status, _ = await ask(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    assert status == 201
