"""A long request in the worker thread never keeps the event loop waiting for the interpreter lock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

import interpreter_lock
from costs.test_long_requests import served
from headgate.apiserver.handler import MAX_BODY_BYTES
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.request.messages import ServerRequest
from large_bodies import PREPARED, bodies
from sized_requests import IN_T, PODS, a_map, a_pod, a_service, send

pytestmark = pytest.mark.measured

_BOUND_S = 0.1
_LARGE = bodies()
_DENSE = MAX_BODY_BYTES // 2
"""Longer bodies may have fewer values."""


def _things(items: Any) -> ServerRequest:
    thing = {"apiVersion": "large.example/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"items": items}}
    return send("POST", "/apis/large.example/v1/namespaces/large/things", thing)


def _large(kind: str) -> ServerRequest:
    given = _LARGE[kind]
    body = given.body.replace(b"{}", b"x")
    path, _, query = given.path.replace("{}", "x").partition("?")
    return msgspec.structs.replace(send(given.method, path, body, given.content_type), query=query)


def _deep_path() -> ServerRequest:
    item = {"key": "k", "path": "a/" * (MAX_BODY_BYTES // 2 - 1_000) + "b"}
    return send("POST", PODS, a_pod(volumes=[{"name": "v", "configMap": {"name": "c", "items": [item]}}]))


def _service_ports() -> ServerRequest:
    ports = [{"port": number % 65_535 + 1, "name": f"p{number}"} for number in range(_DENSE // 32)]
    return send("POST", f"{IN_T}/services", a_service(ports=ports))


def _labels() -> ServerRequest:
    return send("POST", f"{IN_T}/configmaps", a_map(1, labels={f"k{number}": "v" for number in range(_DENSE // 14)}))


_REQUESTS: dict[str, Callable[[], ServerRequest]] = {
    **{kind: partial(_large, kind) for kind in _LARGE},
    "lists in lists": lambda: _things([[[[]]]] * (_DENSE // 9 - 100)),
    "empty maps": lambda: _things({str(number): {} for number in range(_DENSE // 12)}),
    "numbers": lambda: _things([1.5] * (_DENSE // 4 - 100)),
    "a path of many parts": _deep_path,
    "ports of a Service": _service_ports,
    "labels": _labels,
}


def _worker() -> int | None:
    return next((each.ident for each in threading.enumerate() if each.name.startswith("headgate-request")), None)


async def _watch(observer: interpreter_lock.Observer) -> None:
    while True:
        observer.look(_worker())
        await asyncio.sleep(interpreter_lock.TICK_S)


async def _longest_s(given: ServerRequest) -> float:
    async with served() as endpoint:
        for path, body in PREPARED:
            await _answer(endpoint, send("POST", path, body))
        await _answer(endpoint, send("GET", "/openapi/v2"))  # starts the thread
        observer = interpreter_lock.Observer()
        watching = asyncio.create_task(_watch(observer))
        await asyncio.sleep(0)
        status = await _answer(endpoint, given)
        watching.cancel()
        assert status != 413, "the largest body that is taken"
        return observer.longest_s


async def _answer(endpoint: APIServer, request: ServerRequest) -> int:
    answer = await endpoint.answer(request)
    return int(getattr(answer, "status", 0))


@pytest.mark.parametrize("name", _REQUESTS)
def test_no_long_request_keeps_the_interpreter_lock(name: str) -> None:
    given = _REQUESTS[name]()
    assert interpreter_lock.is_shared(_BOUND_S, lambda: asyncio.run(_longest_s(given)))
