"""Runs of a load against a server that loses responses, is overloaded, refuses, or is interrupted."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headgate.cli.loads.load_objects import LoadShape, PlannedObject, planned_objects
from headgate.cli.loads.load_runner import LoadResult, LoadRunner, find_load
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Unreachable

SHAPE = LoadShape("burst", "team", {"pod": 20}, image="example.com/main")
PODS = "/api/v1/namespaces/team/pods"


def status(code: int, reason: str, message: str = "", headers: dict[str, str] | None = None) -> HTTPResponse:
    body = {"kind": "Status", "reason": reason, "message": message or reason}
    return HTTPResponse(code, headers or {}, json.dumps(body).encode())


class FakeServer:
    """Stores objects by path. ``fault`` is asked before and after each write, and may raise or give a response."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.creations: Counter[str] = Counter()
        self.requests = self.most_at_once = self.now = 0
        self.before: Callable[[HTTPRequest], HTTPResponse | None] = lambda request: None
        self.after: Callable[[HTTPRequest], None] = lambda request: None

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        self.requests += 1
        self.now += 1
        self.most_at_once = max(self.most_at_once, self.now)
        try:
            await asyncio.sleep(0)
            response = self.before(request) or self._handle(request)
            self.after(request)
            return response
        finally:
            self.now -= 1

    def _handle(self, request: HTTPRequest) -> HTTPResponse:
        if request.method == "POST":
            obj = json.loads(request.body)
            path = f"{request.path}/{obj['metadata']['name']}"
            if path in self.objects:
                return status(409, "AlreadyExists")
            self.objects[path] = obj
            self.creations[path] += 1
            return HTTPResponse(201, {}, request.body)
        if request.method == "DELETE":
            found = self.objects.pop(request.path, None)
            return status(404, "NotFound") if found is None else HTTPResponse(200, {}, b"{}")
        if request.path in self.objects:
            return HTTPResponse(200, {}, json.dumps(self.objects[request.path]).encode())
        items = [each for path, each in self.objects.items() if path.startswith(f"{request.path}/")]
        return HTTPResponse(200, {}, json.dumps({"metadata": {}, "items": items}).encode())

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        raise NotImplementedError

    async def close(self) -> None: ...


def run(
    server: FakeServer, shape: LoadShape = SHAPE, *, retry_s: float = 10.0, rate: float = 0.0, interrupt_after: int = 0
) -> LoadResult:
    async def main() -> LoadResult:
        def progress(done: int) -> None:
            if interrupt_after and done >= interrupt_after:
                runner.interrupt()

        runner = LoadRunner(server, shape.name, concurrency=4, rate=rate, retry_s=retry_s, progress=progress)
        return await runner.create(planned_objects(shape))

    return asyncio.run(main())


def test_every_object_is_created_once_and_no_more_requests_are_open_than_allowed() -> None:
    server = FakeServer()
    result = run(server)
    assert (result.done, result.problem) == (Counter(pod=20), "")
    assert set(server.creations.values()) == {1}
    assert server.most_at_once == 4


def test_lost_responses_create_nothing_twice() -> None:
    server, lost = FakeServer(), set[str]()

    def lose_once(request: HTTPRequest) -> None:
        name = json.loads(request.body)["metadata"]["name"] if request.method == "POST" else ""
        if name and name not in lost:
            lost.add(name)
            raise Unreachable("the connection broke")

    server.after = lose_once
    result = run(server)
    assert result.done == Counter(pod=20), "a pod whose response was lost is one of this run"
    assert result.existed == Counter()
    assert server.creations.total() == len(server.objects) == 20


def test_an_overloaded_server_is_asked_again_after_the_time_that_it_names() -> None:
    server, seen = FakeServer(), Counter[str]()

    def overloaded(request: HTTPRequest) -> HTTPResponse | None:
        name = json.loads(request.body)["metadata"]["name"]
        seen[name] += 1
        return status(429, "TooManyRequests", headers={"retry-after": "0"}) if seen[name] == 1 else None

    server.before = overloaded
    assert run(server).done == Counter(pod=20)
    assert set(seen.values()) == {2}


def test_the_same_load_again_creates_what_is_missing() -> None:
    server = FakeServer()
    run(server)
    del server.objects[f"{PODS}/burst-pod-00007"]
    result = run(server)
    assert (result.done, result.existed) == (Counter(pod=1), Counter(pod=19))


def test_an_object_of_others_with_that_name_ends_the_run() -> None:
    server = FakeServer()
    server.objects[f"{PODS}/burst-pod-00003"] = {"metadata": {"name": "burst-pod-00003", "labels": {}}}
    result = run(server)
    assert "pod burst-pod-00003 exists already and is not of this load" in result.problem
    assert result.done["pod"] < 20


def test_a_missing_right_ends_the_run_at_once_and_is_named() -> None:
    server = FakeServer()
    server.before = lambda request: status(403, "Forbidden", 'pods is forbidden: User "u" cannot create')
    result = run(server)
    assert "missing right: create pods in namespace team" in result.problem
    assert server.requests <= 4


def test_a_server_that_does_not_respond_ends_the_run_after_the_given_time() -> None:
    server = FakeServer()

    def lose(request: HTTPRequest) -> None:
        raise Unreachable("no response came in time")

    server.after = lose
    result = run(server, retry_s=0.3)
    assert "no success in 0.3 s: no response came in time" in result.problem
    assert {each.removeprefix("pod ") for each in result.unknown} >= {
        path.rpartition("/")[2] for path in server.objects
    }, "everything that may exist is named"


def test_an_interruption_finishes_what_is_on_its_way_and_counts_everything_that_exists() -> None:
    server = FakeServer()
    result = run(server, interrupt_after=5)
    assert result.is_interrupted
    assert 5 <= result.done["pod"] == len(server.objects) < 20
    assert result.unknown == []


def test_a_rate_is_not_exceeded() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        runner = LoadRunner(FakeServer(), "burst", concurrency=4, rate=100.0, retry_s=1.0, progress=lambda done: None)
        began_s = loop.time()
        await runner.create(planned_objects(SHAPE))
        return loop.time() - began_s

    assert asyncio.run(main()) >= 0.19


def test_a_deletion_removes_what_is_found_and_accepts_what_is_gone() -> None:
    server = FakeServer()
    run(server)
    for obj in server.objects.values():
        obj["metadata"] |= {"uid": f"uid-{obj['metadata']['name']}", "namespace": "team"}

    async def main() -> LoadResult:
        found, problems = await find_load(server, "burst", "team", ("pod",))
        assert (len(found), problems) == (20, [])
        del server.objects[f"{PODS}/burst-pod-00001"]
        runner = LoadRunner(server, "burst", concurrency=4, rate=0, retry_s=1.0, progress=lambda done: None)
        return await runner.delete(found)

    assert asyncio.run(main()).done == Counter(pod=20)
    assert server.objects == {}


@pytest.mark.parametrize("code", [403, 404])
def test_a_kind_that_cannot_be_listed_is_named_and_one_that_is_not_served_is_not(code: int) -> None:
    server = FakeServer()
    server.before = lambda request: status(code, "x", 'queues is forbidden: User "u"')

    async def main() -> tuple[list[PlannedObject], list[str]]:
        return await find_load(server, "burst", "team", ("queue",))

    found, problems = asyncio.run(main())
    assert found == []
    assert [each.startswith("missing right: list queues") for each in problems] == ([True] if code == 403 else [])
