"""The controller manager, with the embedded server and with failing servers."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.controllers.framework.effects import EmitEvent, Get, ParallelRequests
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.garbage_collector.controller import GarbageCollector
from headgate.controllers.namespaces import NamespaceController
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport, Unreachable
from headgate.kube.api_resources import CONFIG_MAPS, EVENTS, APIResource
from headgate.runtime import controller_manager, work_queue
from headgate.runtime.controller_manager import run_controllers
from headgate.runtime.work_queue import WorkQueue
from unit.runtime.serving import MAPS, PATIENCE_S, Object, a_server, ask, running, until, with_namespace


class Watcher(Controller):
    """Works on every ConfigMap that it hears of, by name, and remembers."""

    name = "watcher"

    def __init__(self, verdicts: Iterable[Any] = ()) -> None:
        self.worked: list[str] = []
        self.heard: list[Object] = []
        self.gone: list[str] = []
        self.verdicts = iter(verdicts)

    def watches(self) -> Iterable[WatchSpec]:
        return (WatchSpec(CONFIG_MAPS, frozenset({"data"})),)

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        self.heard.append(obj)
        return (Enqueue(obj["metadata"]["name"]),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        self.gone.append(name)
        return ()

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        self.worked.append(key)
        yield Get(CONFIG_MAPS, "default", key)
        result = next(self.verdicts, Done())
        if isinstance(result, Exception):
            raise result
        return result


def test_families_and_namespaces_end_in_a_running_process() -> None:
    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            _, owner = await ask(server, "POST", MAPS, {"metadata": {"name": "owner"}})
            named = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
            await ask(server, "POST", MAPS, {"metadata": {"name": "child", "ownerReferences": [named]}})
            async with running(server, GarbageCollector(), NamespaceController()):
                await ask(server, "DELETE", f"{MAPS}/owner", {"propagationPolicy": "Foreground"})

                async def childless() -> bool:
                    return not (await ask(server, "GET", MAPS))[1]["items"]

                await until(childless)
                await ask(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
                await ask(server, "DELETE", "/api/v1/namespaces/x")

                async def gone() -> bool:
                    return (await ask(server, "GET", "/api/v1/namespaces/x"))[0] == 404

                await until(gone)

    asyncio.run(main())


def test_a_watch_tells_only_what_was_asked_for() -> None:
    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            await ask(server, "POST", MAPS, {"metadata": {"name": "m", "labels": {"a": "b"}}, "data": {"k": "v"}})
            watcher = Watcher()
            async with running(server, watcher):
                await until(lambda: watcher.worked)
                (seen,) = watcher.heard
                assert seen["data"] == {"k": "v"}
                assert set(seen["metadata"]) == {"name", "namespace", "uid", "resourceVersion"}
                await ask(server, "DELETE", f"{MAPS}/m")
                await until(lambda: watcher.gone == ["m"])

    asyncio.run(main())


@pytest.mark.parametrize("result", [RequeueWithBackoff("no"), RequeueAfter(0.01), ValueError("a bug")])
def test_work_that_is_not_done_is_done_again(result: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            await ask(server, "POST", MAPS, {"metadata": {"name": "m"}})
            watcher = Watcher([result, result])
            async with running(server, watcher):
                await until(lambda: watcher.worked == ["m", "m", "m"])
                await ask(server, "POST", MAPS, {"metadata": {"name": "n"}})
                await until(lambda: watcher.worked[3:] == ["n"])

    asyncio.run(main())
    assert ("a bug" in caplog.text) == isinstance(result, ValueError)


def test_keys_that_a_failed_reconcile_returns_are_reconciled() -> None:
    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            await ask(server, "POST", MAPS, {"metadata": {"name": "m"}})
            watcher = Watcher([RequeueWithBackoff("no", [Enqueue("other")])])
            async with running(server, watcher):
                await until(lambda: sorted(watcher.worked) == ["m", "m", "other"])

    asyncio.run(main())


def test_an_event_is_written_once_and_then_counted() -> None:
    class EmittingController(Watcher):
        def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
            about = {"kind": "ConfigMap", "namespace": "default", "name": "m", "uid": "u", "apiVersion": "v1"}
            for _ in range(3):
                yield EmitEvent(about, "Warning", "Loud", "it is loud", "crier")
            self.worked.append(key)
            return Done()

    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            await ask(server, "POST", MAPS, {"metadata": {"name": "m"}})
            controller = EmittingController()

            async def told() -> list[Object]:
                found: list[Object] = (await ask(server, "GET", EVENTS.collection_path("default")))[1]["items"]
                return [each for each in found if each["count"] == 3]

            async with running(server, controller):
                await until(told)
                (event,) = await told()
                assert (event["reason"], event["source"]) == ("Loud", {"component": "crier"})
                await ask(server, "DELETE", EVENTS.object_path("default", event["metadata"]["name"]))
                await ask(server, "POST", MAPS, {"metadata": {"name": "again"}})
                await until(told)

    asyncio.run(main())


class FailingTransport:
    """A transport on which many requests are lost."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._random = random.Random(7)

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        if self._random.random() < 0.4:
            raise Unreachable("the line is dead")
        return await self._inner.request(request)

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self._inner.stream(request, idle_s=idle_s)

    async def close(self) -> None: ...


def test_a_line_that_breaks_all_the_time_only_makes_it_slower() -> None:
    async def at_once(seconds: float) -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            _, owner = await ask(server, "POST", MAPS, {"metadata": {"name": "owner"}})
            named = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
            await ask(server, "POST", MAPS, {"metadata": {"name": "child", "ownerReferences": [named]}})
            await ask(server, "DELETE", f"{MAPS}/owner")
            async with running(FailingTransport(server), GarbageCollector(), sleep=at_once):

                async def gone() -> bool:
                    return (await ask(server, "GET", f"{MAPS}/child"))[0] == 404

                await until(gone)

    asyncio.run(main())


def test_controllers_that_fail_as_a_whole_start_again_from_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Watcher):
        def watches(self) -> Iterable[WatchSpec]:
            raise RuntimeError("a bug")

    async def at_once(seconds: float) -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            await ask(server, "POST", MAPS, {"metadata": {"name": "m"}})
            made: list[Watcher] = [Watcher(), Broken(), Broken()]
            last = made[0]
            task = asyncio.create_task(run_controllers(lambda: [made.pop()], server, sleep=at_once))
            await until(lambda: last.worked == ["m"])
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    asyncio.run(main())
    assert caplog.text.count("RuntimeError: a bug") == 2


def test_a_key_waits_once_is_worked_on_alone_and_comes_again_if_it_was_woken_meanwhile() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add("a")
        queue.add("b")
        assert await queue.get() == "a"
        queue.add("a")
        assert await queue.get() == "b"
        queue.done("b")
        queue.done("a")
        assert await queue.get() == "a"
        queue.done("a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 0)

    asyncio.run(main())


def test_the_earliest_time_counts_and_failures_wait_longer_each_time() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a", 100.0)
        queue.add("a", 0.001)
        queue.add("a", 50.0)
        assert await asyncio.wait_for(queue.get(), PATIENCE_S) == "a"
        queue.done("a")
        assert [queue.add_rate_limited("b", 0.0) for _ in range(4)] == [0.005, 0.01, 0.02, 0.04]
        queue.forget("b")
        assert queue.add_rate_limited("b", 0.0) == 0.005
        queue.add("b")
        assert await queue.get() == "b"
        queue.close()

    asyncio.run(main())


class CountingTransport:
    """A transport that answers requests for ConfigMaps when all that can come at the same time have come."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._waiting = 0
        self.most = 0

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        if "/configmaps/crowd-" in request.path:
            self._waiting += 1
            self.most = max(self.most, self._waiting)
            for _ in range(20):
                await asyncio.sleep(0)
            self._waiting -= 1
        return await self._inner.request(request)

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self._inner.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize(("asked", "at_once"), [(0, 0), (1, 1), (3, 3), (200, 64)])
def test_requests_of_one_step_go_out_a_bounded_number_at_a_time_and_answers_keep_their_order(
    asked: int, at_once: int
) -> None:
    class RequestingController(Watcher):
        answers: tuple[Any, ...] = ()

        def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
            response = yield ParallelRequests(tuple(Get(CONFIG_MAPS, "default", f"crowd-{n}") for n in range(asked)))
            self.answers = response.parts
            self.worked.append(key)
            return Done()

    async def main() -> tuple[int, tuple[Any, ...]]:
        async with a_server() as server:
            await with_namespace(server)
            await ask(server, "POST", MAPS, {"metadata": {"name": "m"}})
            transport, controller = CountingTransport(server), RequestingController()
            async with running(transport, controller):
                await until(lambda: controller.worked)
            return transport.most, controller.answers

    most, answers = asyncio.run(main())
    assert most == at_once
    assert [each.body["message"] for each in answers] == [
        f'configmaps "crowd-{number}" not found' for number in range(asked)
    ]


class OutageTransport:
    """A transport to a server that refuses connections, then answers 503 while it starts."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.is_refusing = False
        self.is_starting = False

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        if self.is_refusing:
            raise Unreachable("connection refused", sent=False, connected=False)
        return HTTPResponse(503, {}, b"{}") if self.is_starting else await self._transport.request(request)

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        if self.is_refusing:
            raise Unreachable("connection refused", sent=False, connected=False)
        return (
            HTTPResponse(503, {}, b"{}") if self.is_starting else await self._transport.stream(request, idle_s=idle_s)
        )

    async def close(self) -> None:
        await self._transport.close()


class RetryingWatcher(Watcher):
    """Works on a ConfigMap until the server has answered with it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        self.worked.append(key)
        response = yield Get(CONFIG_MAPS, "default", key)
        if not response.ok:
            return RequeueWithBackoff(response.message)
        self.done.append(key)
        return Done()


def test_a_key_that_failed_during_an_outage_is_reconciled_as_soon_as_the_server_responds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The back-off of an hour stands for that of a long outage."""
    monkeypatch.setattr(work_queue, "_FIRST_RETRY_S", 3600.0)
    monkeypatch.setattr(work_queue, "_MAX_RETRY_S", 3600.0)

    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            outage = OutageTransport(server)
            watcher = RetryingWatcher()
            async with running(outage, watcher):
                await ask(server, "POST", MAPS, {"metadata": {"name": "before"}})
                await until(lambda: watcher.done == ["before"])
                outage.is_refusing = True
                await ask(server, "POST", MAPS, {"metadata": {"name": "m"}})  # its watch is still open
                await until(lambda: watcher.worked == ["before", "m"])
                outage.is_refusing = False
                outage.is_starting = True
                await ask(server, "POST", MAPS, {"metadata": {"name": "n"}})
                await until(lambda: watcher.worked.count("m") == 2 and "n" in watcher.worked)
                assert watcher.done == ["before"]
                outage.is_starting = False
                await until(lambda: sorted(watcher.done) == ["before", "m", "n"])

    asyncio.run(main())


def test_a_watch_that_failed_long_ago_starts_again_without_its_former_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(controller_manager, "time", SimpleNamespace(monotonic=lambda: now_s[0], time=time.time))
    monkeypatch.setattr(controller_manager, "random", SimpleNamespace(random=lambda: 0.0))
    runs = iter([0.0, 0.0, 0.0, 3600.0, 0.0])
    slept: list[float] = []

    class FailingInformer:
        def __init__(self, *arguments: Any, **options: Any) -> None: ...

        async def run(self) -> None:
            lasts_s = next(runs, None)
            if lasts_s is None:
                await asyncio.Event().wait()
            now_s[0] += lasts_s or 0.0
            raise RuntimeError("a bug")

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def main() -> None:
        monkeypatch.setattr(controller_manager, "Informer", FailingInformer)
        async with a_server() as server, running(server, Watcher(), sleep=sleep):
            await until(lambda: len(slept) == 5)

    asyncio.run(main())
    assert slept == [1.0, 2.0, 4.0, 1.0, 2.0]


def test_a_missing_right_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    manager = controller_manager.ControllerManager([], FailingTransport(SimpleNamespace()))
    right = 'pods is forbidden: User "u" cannot list resource "pods"'
    for problem in (right, right, "the connection broke", "the connection broke", right):
        manager._report(problem)
    found = [each.getMessage().removeprefix("controllers: ") for each in caplog.records]
    assert found == [right, "the connection broke", "the connection broke"]
