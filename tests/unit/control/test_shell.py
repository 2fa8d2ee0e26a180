"""The shell that serves controllers: on the embedded server in this process, and on servers that misbehave."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from embedded import TOKEN, Embedded
from headgate.apiserver.shell import Endpoint
from headgate.cli.inprocess import in_process
from headgate.client.transport import Lines, Request, Response, Transport, Unreachable
from headgate.control.queue import WorkQueue
from headgate.control.shell import Controllers, Sleep, keep_running
from headgate.kube.resource import CONFIG_MAPS, EVENTS, Resource
from headgate.owners.collector import Collector
from headgate.owners.contract import Again, Controller, Done, Interest, Later, Steps, Wake
from headgate.owners.effects import Emit, Get
from headgate.owners.namespaces import Namespaces
from headgate.store.journal.shell import Journal
from headgate.store.shell import Committer

Object = dict[str, Any]
PATIENCE_S = 20.0


@asynccontextmanager
async def a_server() -> AsyncIterator[Transport]:
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal.open(Path(folder))
        embedded = Embedded(store=journal.load(lambda done, total: None), namespace="")
        endpoint = Endpoint(embedded.api)
        committer = Committer(embedded.api.store, journal, publish=endpoint.publish)
        endpoint.attach(committer)
        try:
            yield in_process(endpoint, TOKEN, "test")
        finally:
            endpoint.stop()
            await committer.close()


async def ask(transport: Transport, method: str, path: str, body: Object | None = None) -> tuple[int, Object]:
    data = b"" if body is None else msgspec.json.encode(body)
    response = await transport.request(Request(method, path, "", {"content-type": "application/json"}, data))
    return response.status, msgspec.json.decode(response.body)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not (await condition() if asyncio.iscoroutinefunction(condition) else condition()):
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(transport: Transport, *controllers: Controller, sleep: Sleep = asyncio.sleep) -> AsyncIterator[None]:
    task = asyncio.create_task(Controllers(controllers, transport, sleep=sleep).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is not None:
            raise task.exception() or RuntimeError


class Watcher(Controller):
    """Works on every ConfigMap that it hears of, by name, and remembers."""

    name = "watcher"

    def __init__(self, verdicts: Iterable[Any] = ()) -> None:
        self.worked: list[str] = []
        self.heard: list[Object] = []
        self.gone: list[str] = []
        self.verdicts = iter(verdicts)

    def interests(self) -> Iterable[Interest]:
        return (Interest(CONFIG_MAPS, frozenset({"data"})),)

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        self.heard.append(obj)
        return (Wake(obj["metadata"]["name"]),)

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        self.gone.append(name)
        return ()

    def work(self, key: str, now_s: float) -> Steps:
        self.worked.append(key)
        yield Get(CONFIG_MAPS, "default", key)
        verdict = next(self.verdicts, Done())
        if isinstance(verdict, Exception):
            raise verdict
        return verdict


async def with_namespace(transport: Transport) -> None:
    status, _ = await ask(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    assert status == 201


MAPS = "/api/v1/namespaces/default/configmaps"


def test_families_and_namespaces_end_in_a_running_process() -> None:
    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            _, owner = await ask(server, "POST", MAPS, {"metadata": {"name": "owner"}})
            named = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
            await ask(server, "POST", MAPS, {"metadata": {"name": "child", "ownerReferences": [named]}})
            async with running(server, Collector(), Namespaces()):
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


@pytest.mark.parametrize("verdict", [Again("no"), Later(0.01), ValueError("a bug")])
def test_work_that_is_not_done_is_done_again(verdict: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            await ask(server, "POST", MAPS, {"metadata": {"name": "m"}})
            watcher = Watcher([verdict, verdict])
            async with running(server, watcher):
                await until(lambda: watcher.worked == ["m", "m", "m"])
                await ask(server, "POST", MAPS, {"metadata": {"name": "n"}})
                await until(lambda: watcher.worked[3:] == ["n"])

    asyncio.run(main())
    assert ("a bug" in caplog.text) == isinstance(verdict, ValueError)


def test_an_event_is_written_once_and_then_counted() -> None:
    class Crier(Watcher):
        def work(self, key: str, now_s: float) -> Steps:
            about = {"kind": "ConfigMap", "namespace": "default", "name": "m", "uid": "u", "apiVersion": "v1"}
            for _ in range(3):
                yield Emit(about, "Warning", "Loud", "it is loud", "crier")
            self.worked.append(key)
            return Done()

    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            await ask(server, "POST", MAPS, {"metadata": {"name": "m"}})
            crier = Crier()
            async with running(server, crier):
                await until(lambda: crier.worked)
                (event,) = (await ask(server, "GET", EVENTS.collection("default")))[1]["items"]
                assert (event["reason"], event["count"], event["source"]) == ("Loud", 3, {"component": "crier"})
                await ask(server, "DELETE", EVENTS.object("default", event["metadata"]["name"]))
                await ask(server, "POST", MAPS, {"metadata": {"name": "again"}})
                await until(lambda: len(crier.worked) == 2)
                (event,) = (await ask(server, "GET", EVENTS.collection("default")))[1]["items"]
                assert event["count"] == 3

    asyncio.run(main())


class Shaky:
    """A transport on which many requests are lost."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._dice = random.Random(7)

    async def request(self, request: Request) -> Response:
        if self._dice.random() < 0.4:
            raise Unreachable("the line is dead")
        return await self._inner.request(request)

    async def stream(self, request: Request, *, idle_s: float) -> Lines | Response:
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
            async with running(Shaky(server), Collector(), sleep=at_once):

                async def gone() -> bool:
                    return (await ask(server, "GET", f"{MAPS}/child"))[0] == 404

                await until(gone)

    asyncio.run(main())


def test_controllers_that_fail_as_a_whole_start_again_from_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Watcher):
        def interests(self) -> Iterable[Interest]:
            raise RuntimeError("a bug")

    async def at_once(seconds: float) -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            await ask(server, "POST", MAPS, {"metadata": {"name": "m"}})
            made: list[Watcher] = [Watcher(), Broken(), Broken()]
            last = made[0]
            task = asyncio.create_task(keep_running(lambda: [made.pop()], server, sleep=at_once))
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
        assert await queue.take() == "a"
        queue.add("a")
        assert await queue.take() == "b"
        queue.done("b")
        queue.done("a")
        assert await queue.take() == "a"
        queue.done("a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.take(), 0)

    asyncio.run(main())


def test_the_earliest_time_counts_and_failures_wait_longer_each_time() -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a", 100.0)
        queue.add("a", 0.001)
        queue.add("a", 50.0)
        assert await asyncio.wait_for(queue.take(), PATIENCE_S) == "a"
        queue.done("a")
        assert [queue.again("b", 0.0) for _ in range(4)] == [0.005, 0.01, 0.02, 0.04]
        queue.succeeded("b")
        assert queue.again("b", 0.0) == 0.005
        queue.add("b")
        assert await queue.take() == "b"
        queue.close()

    asyncio.run(main())


WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
DEFINITION: Object = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


class LateWatch:
    """A transport whose watch of widgets tells of their end only after discovery was seen without them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.seen = False
        self._missed = asyncio.Event()

    async def request(self, request: Request) -> Response:
        answer = await self._transport.request(request)
        if request.path == "/apis":
            is_there = b'"widgets"' in answer.body
            if self.seen and not is_there:
                asyncio.get_running_loop().call_later(0.2, self._missed.set)
            self.seen |= is_there
        return answer

    async def stream(self, request: Request, *, idle_s: float) -> Lines | Response:
        lines = await self._transport.stream(request, idle_s=idle_s)
        if isinstance(lines, Response) or "widgets" not in request.path:
            return lines
        return _Late(lines, self._missed)

    async def close(self) -> None:
        await self._transport.close()


class _Late:
    def __init__(self, lines: Lines, missed: asyncio.Event) -> None:
        self._lines = lines
        self._missed = missed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for line in self._lines:
            if b'"DELETED"' in line:
                await self._missed.wait()
            yield line

    async def close(self) -> None:
        await self._lines.close()


def test_the_end_of_objects_is_heard_although_their_kind_is_gone_by_then() -> None:
    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            late, collector = LateWatch(server), Collector()
            async with running(late, collector):
                assert (await ask(server, "POST", definitions, DEFINITION))[0] == 201
                await until(lambda: late.seen)
                kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
                status, widget = await ask(server, "POST", WIDGETS, {**kind, "metadata": {"name": "owner"}})
                assert status == 201, widget
                named = {**kind, "name": "owner", "uid": widget["metadata"]["uid"]}
                _, owned = await ask(server, "POST", MAPS, {"metadata": {"name": "map", "ownerReferences": [named]}})
                uids = [each["metadata"]["uid"] for each in (widget, owned)]
                await until(lambda: all(map(collector.graph.get, uids)))
                assert (await ask(server, "DELETE", f"{definitions}/widgets.example.com"))[0] == 200

                async def is_gone() -> bool:
                    return (await ask(server, "GET", f"{MAPS}/map"))[0] == 404

                await until(is_gone)

    asyncio.run(main())


def test_a_kind_that_comes_and_goes_within_moments_takes_along_what_its_objects_own() -> None:
    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            async with running(server, Collector()):
                for number in range(4):  # the later ones while the dust of the first has not settled
                    group = f"e{number}.example.com"
                    spec = {**DEFINITION["spec"], "group": group}
                    made = {"metadata": {"name": f"widgets.{group}"}, "spec": spec}
                    assert (await ask(server, "POST", definitions, made))[0] == 201
                    kind = {"apiVersion": f"{group}/v1", "kind": "Widget"}
                    path = f"/apis/{group}/v1/namespaces/default/widgets"
                    status, widget = await ask(server, "POST", path, {**kind, "metadata": {"name": "owner"}})
                    assert status == 201, widget
                    named = {**kind, "name": "owner", "uid": widget["metadata"]["uid"]}
                    owned = {"metadata": {"name": f"map-{number}", "ownerReferences": [named]}}
                    assert (await ask(server, "POST", MAPS, owned))[0] == 201
                    await asyncio.sleep(0.1)  # it is there for a moment
                    assert (await ask(server, "DELETE", f"{definitions}/widgets.{group}"))[0] == 200

                async def are_gone() -> bool:
                    return not (await ask(server, "GET", MAPS))[1]["items"]

                await until(are_gone)

    asyncio.run(main())
