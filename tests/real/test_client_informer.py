"""An informer and a writer on both servers, while the server is killed and comes back.

Each test has its own server, whose address does not change. In the end the informer has the objects of a list, and has
delivered no event twice or in the wrong order; the outcome that the writer reported for each write is true.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from harness.embedded_server import EmbeddedServer
from harness.processes import free_ports
from harness.real_server import RealServer
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.io.informer import Informer, InformerEvent, ObjectApplied, ObjectDeleted
from headgate.client.io.writer import Writer
from headgate.client.kubeconfig import RESTConfig
from headgate.client.write_status import WriteOutcome
from headgate.http.transport import HTTPRequest
from headgate.kube.api_resources import CONFIG_MAPS, NODES, PODS

pytestmark = pytest.mark.real

Object = dict[str, Any]
COUNT = 620  # more than one page
PATIENCE_S = 90.0


class Stage:
    """A server that can be killed and started again."""

    def __init__(self, server: RealServer | EmbeddedServer, again: Callable[[], None]) -> None:
        self.server = server
        self.again = again


@pytest.fixture(params=["real", "embedded"], scope="module")
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp(f"informer-{request.param}")
    if request.param == "real":
        real = RealServer(folder, request.getfixturevalue("kube_binaries"))
        yield Stage(real, real.restart)
        real.stop()
        return
    flags = ("--listen", f"127.0.0.1:{free_ports(1)[0]}")
    embedded = EmbeddedServer(folder, flags=flags)
    yield Stage(embedded, lambda: embedded.restart(flags))
    embedded.stop()


class Follower:
    """Keeps the delivered objects, and fails if an event contradicts them."""

    def __init__(self) -> None:
        self.revisions: dict[str, int] = {}
        self._newest: dict[str, int] = {}
        self._heard = asyncio.Event()

    def hear(self, event: InformerEvent) -> None:
        if isinstance(event, ObjectApplied):
            metadata = event.object["metadata"]
            revision = int(metadata["resourceVersion"])
            assert revision > self._newest.get(metadata["uid"], 0), "told backwards, or twice"
            assert "data" not in event.object, "told more than was asked for"
            self.revisions[metadata["name"]] = self._newest[metadata["uid"]] = revision
        elif isinstance(event, ObjectDeleted):
            del self.revisions[event.name]
        self._heard.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._heard.clear()
            await self._heard.wait()


def connect(server: RealServer | EmbeddedServer) -> HTTPTransport:
    found = find_rest_config(str(server.kubeconfig))
    assert isinstance(found, RESTConfig), found
    return HTTPTransport(found)


def writer(transport: HTTPTransport) -> Writer:
    return Writer(transport, jitter=random.random, sleep=asyncio.sleep, attempts=12)


async def create(write: Writer, name: str) -> str:
    verdict = await write.create(CONFIG_MAPS, "default", {"metadata": {"name": name}, "data": {"key": "value"}})
    assert verdict.done, verdict
    uid: str = msgspec.json.decode(verdict.body)["metadata"]["uid"]
    return uid


async def listed(transport: HTTPTransport) -> dict[str, int]:
    response = await transport.request(HTTPRequest("GET", CONFIG_MAPS.collection_path("default")))
    items = msgspec.json.decode(response.body)["items"]
    return {each["metadata"]["name"]: int(each["metadata"]["resourceVersion"]) for each in items}


def test_an_informer_outlives_its_server(stage: Stage) -> None:
    async def run() -> None:
        transport, follower = connect(stage.server), Follower()
        write = writer(transport)
        problems: list[str] = []
        uids = await asyncio.gather(*(create(write, f"map-{number}") for number in range(COUNT)))
        task = asyncio.create_task(
            Informer(
                transport,
                CONFIG_MAPS.collection_path("default"),
                follower.hear,
                jitter=random.random,
                sleep=asyncio.sleep,
                fields=("metadata.labels",),
                report=problems.append,
            ).run()
        )
        async with asyncio.timeout(PATIENCE_S):
            await follower.until(lambda: len(follower.revisions) >= COUNT)
            await asyncio.to_thread(stage.server.kill)
            cut_off = asyncio.create_task(write.patch(CONFIG_MAPS, "default", "map-0", uids[0], {"data": {"a": "b"}}))
            await asyncio.to_thread(stage.again)
            assert (await cut_off).done, "it is repeated until the server is back"
            assert (await write.delete(CONFIG_MAPS, "default", "map-1", uids[1])).done
            stranger = await write.delete(CONFIG_MAPS, "default", "map-2", uids[3])
            assert stranger.outcome is WriteOutcome.REPLACED, stranger
            await create(write, "later")
            await follower.until(lambda: "later" in follower.revisions and "map-1" not in follower.revisions)
            expected = await listed(transport)
            await follower.until(lambda: follower.revisions == expected)
        assert not task.done()
        assert problems, "a server that died is worth a word"
        task.cancel()
        await asyncio.wait([task])
        await transport.close()

    asyncio.run(run())


def test_writes_have_the_outcomes_of_the_table(stage: Stage) -> None:
    async def run() -> None:
        transport = connect(stage.server)
        write = writer(transport)
        pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "image": "app"}]}}
        made = await write.create(PODS, "default", pod)
        uid = msgspec.json.decode(made.body)["metadata"]["uid"]
        for name in ("one", "two"):
            assert (await write.create(NODES, "", {"metadata": {"name": name}})).done
        other = "11111111-2222-3333-4444-555555555555"
        label = {"metadata": {"labels": {"a": "b"}}}
        outcomes = {
            "a patch of another uid": await write.patch(PODS, "default", "web", other, label),
            "steps for another uid": await write.json_patch(PODS, "default", "web", other, []),
            "a bind of another uid": await write.bind("default", "web", other, "one"),
            "an eviction of another uid": await write.evict("default", "web", other),
            "a patch": await write.patch(PODS, "default", "web", uid, label, "strategic"),
            "a patch of the status": await write.patch(
                PODS, "default", "web", uid, {"status": {"nominatedNodeName": "one"}}, "merge", "status"
            ),
            "steps": await write.json_patch(
                PODS, "default", "web", uid, [{"op": "add", "path": "/metadata/labels/c", "value": "d"}]
            ),
            "a bind": await write.bind("default", "web", uid, "one"),
            "the same bind again": await write.bind("default", "web", uid, "one"),
            "a bind elsewhere": await write.bind("default", "web", uid, "two"),
            "a forbidden change": await write.patch(PODS, "default", "web", uid, {"spec": {"nodeName": "two"}}),
            "an eviction": await write.evict("default", "web", uid, grace_s=0),
            "a bind of nothing": await write.bind("default", "web", uid, "one"),
            "the same name twice": await write.create(NODES, "", {"metadata": {"name": "one"}}),
        }
        assert {what: verdict.outcome for what, verdict in outcomes.items()} == {
            "a patch of another uid": WriteOutcome.REPLACED,
            "steps for another uid": WriteOutcome.CONFLICT,
            "a bind of another uid": WriteOutcome.REPLACED,
            "an eviction of another uid": WriteOutcome.REPLACED,
            "a patch": WriteOutcome.DONE,
            "a patch of the status": WriteOutcome.DONE,
            "steps": WriteOutcome.DONE,
            "a bind": WriteOutcome.DONE,
            "the same bind again": WriteOutcome.DONE,
            "a bind elsewhere": WriteOutcome.CONFLICT,
            "a forbidden change": WriteOutcome.REFUSED,
            "an eviction": WriteOutcome.DONE,
            "a bind of nothing": WriteOutcome.GONE,
            "the same name twice": WriteOutcome.CONFLICT,
        }, {what: (verdict.status, verdict.message) for what, verdict in outcomes.items()}
        await transport.close()

    asyncio.run(run())
