"""The controller manager while kinds are added and removed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from functools import partial

import pytest

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.reconcile import ALL_FIELDS, Controller, Done, Enqueue, ReconcileSteps, WatchSpec
from headgate.controllers.garbage_collector.controller import GarbageCollector
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport
from headgate.kube.api_resources import CONFIG_MAPS, APIResource
from headgate.runtime import controller_manager
from unit.runtime.serving import MAPS, Object, a_server, ask, running, until, with_namespace

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

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        response = await self._transport.request(request)
        if request.path == "/apis":
            is_there = b'"widgets"' in response.body
            if self.seen and not is_there:
                asyncio.get_running_loop().call_later(0.2, self._missed.set)
            self.seen |= is_there
        return response

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        lines = await self._transport.stream(request, idle_s=idle_s)
        if isinstance(lines, HTTPResponse) or "widgets" not in request.path:
            return lines
        return _Late(lines, self._missed)

    async def close(self) -> None:
        await self._transport.close()


class _Late:
    def __init__(self, lines: LineStream, missed: asyncio.Event) -> None:
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
            late, collector = LateWatch(server), GarbageCollector()
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


class WatchesMaps(Controller):
    """It watches config maps, in the second case only if the kind of widgets is served."""

    def __init__(self, name: str, *, needs_widgets: bool) -> None:
        self.name = name
        self._needs_widgets = needs_widgets
        self._is_served = not needs_widgets
        self.heard: list[str] = []

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        plurals = {each.resource.plural for each in served.by_name.values()}
        self._is_served = not self._needs_widgets or "widgets" in plurals
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        return [WatchSpec(CONFIG_MAPS, ALL_FIELDS)] if self._is_served else []

    def listing(self, resource: APIResource) -> Iterable[Enqueue]:
        self.heard.append("listing")
        return ()

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        self.heard.append(obj["metadata"]["name"])
        return ()

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        self.heard.append("synced")
        return ()

    def reconcile(self, key: object, now_s: float) -> ReconcileSteps:
        yield from ()
        return Done()


def test_a_controller_that_needs_a_kind_later_than_others_gets_all_its_objects() -> None:
    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            assert (await ask(server, "POST", MAPS, {"metadata": {"name": "early"}}))[0] == 201
            first, late = WatchesMaps("first", needs_widgets=False), WatchesMaps("late", needs_widgets=True)
            async with running(server, first, late):
                await until(lambda: "synced" in first.heard)
                assert late.heard == []
                definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                assert (await ask(server, "POST", definitions, DEFINITION))[0] == 201
                await until(lambda: "synced" in late.heard)
                assert (await ask(server, "POST", MAPS, {"metadata": {"name": "later"}}))[0] == 201
                await until(lambda: "later" in first.heard and "later" in late.heard)
            assert late.heard == ["listing", "early", "synced", "later"]
            assert first.heard == ["listing", "early", "synced", "later"]

    asyncio.run(main())


def test_a_kind_that_comes_and_goes_within_moments_takes_along_what_its_objects_own() -> None:
    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            async with running(server, GarbageCollector()):
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


class Refusing:
    """A transport that counts 404 responses to requests for widgets, and also returns 404 for ``refused``."""

    def __init__(self, transport: Transport, refused: str = "no path") -> None:
        self._transport = transport
        self._refused = refused
        self.not_found = 0

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        if request.path.endswith(self._refused):
            self.not_found += 1
            return HTTPResponse(404, {}, b"404 page not found\n")
        response = await self._transport.request(request)
        self.not_found += response.status == 404 and request.path.endswith("widgets")
        return response

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        response = await self._transport.stream(request, idle_s=idle_s)
        self.not_found += isinstance(response, HTTPResponse) and response.status == 404
        return response

    async def close(self) -> None:
        await self._transport.close()


def test_a_definition_that_is_deleted_leaves_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            transport, collector = Refusing(server), GarbageCollector()

            def is_forgotten(uid: str) -> bool:
                return not collector.graph.get(uid)

            def has_refused_since(count: int) -> bool:
                return transport.not_found > count

            async with running(transport, collector):
                for _ in range(3):
                    assert (await ask(server, "POST", definitions, DEFINITION))[0] == 201
                    kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
                    status, widget = await ask(server, "POST", WIDGETS, {**kind, "metadata": {"name": "w"}})
                    assert status == 201, widget
                    uid = widget["metadata"]["uid"]
                    await until(partial(collector.graph.get, uid))
                    before = transport.not_found
                    assert (await ask(server, "DELETE", f"{definitions}/widgets.example.com"))[0] == 200
                    await until(partial(is_forgotten, uid))
                    await until(partial(has_refused_since, before))

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == []


def test_a_kind_that_discovery_lists_and_that_is_not_served_is_reported_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_manager, "_NOT_SERVED_S", 0.0)

    async def at_once(seconds: float) -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        async with a_server() as server:
            await with_namespace(server)
            transport = Refusing(server, "/configmaps")
            async with running(transport, GarbageCollector(), sleep=at_once):
                await until(lambda: transport.not_found > 20)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    said = [record.getMessage() for record in caplog.records]
    expected = (
        "controllers: discovery lists a kind that is not served: /api/v1/configmaps returned 404: 404 page not found"
    )
    assert said == [expected]
