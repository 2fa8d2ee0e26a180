"""An informer and a faulty server: in the end it has the server's state, and it never reported an older version.

The server refuses, sends invalid bytes, cuts lists and watches at any byte, loses history between pages, repeats old
events, and changes meanwhile. Sleeping takes no time here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from random import Random
from typing import Any
from urllib.parse import parse_qs

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.client.io.informer import Informer, InformerEvent, ObjectApplied, ObjectDeleted
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse, Unreachable

Object = dict[str, Any]
NAMES = "abcdefgh"
PAGE = 3


def status(code: int, **headers: str) -> HTTPResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HTTPResponse(code, named, json.dumps({"kind": "Status", "code": code, "message": "no"}).encode())


class Hostile:
    def __init__(self, chance: Random, troubles: int) -> None:
        self.chance = chance
        self.troubles = troubles  # how many are left
        self.revision = 100
        self.objects: dict[str, Object] = {}
        self.history: list[tuple[int, str, Object]] = []
        self.forgotten = 0
        self.snapshots: dict[str, list[Object]] = {}
        self.over = asyncio.Event()

    def trouble(self, likely: float) -> bool:
        if self.troubles <= 0 or self.chance.random() >= likely:
            return False
        self.troubles -= 1
        return True

    def change(self) -> None:
        name = self.chance.choice(NAMES)
        self.revision += self.chance.randint(1, 3)
        known = self.objects.get(name)
        uid = known["metadata"]["uid"] if known else f"{name}-{self.revision}"
        metadata = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(self.revision)}
        obj = {"metadata": metadata, "spec": {"x": self.revision}}
        if known and self.chance.random() < 0.4:
            del self.objects[name]
            self.history.append((self.revision, "DELETED", obj))
        else:
            self.objects[name] = obj
            self.history.append((self.revision, "MODIFIED" if known else "ADDED", obj))

    async def handle(self, request: HTTPRequest) -> HTTPResponse | AsyncGenerator[bytes, None]:
        await asyncio.sleep(0)
        query = {key: values[0] for key, values in parse_qs(request.query).items()}
        for _ in range(self.chance.randint(0, 4) if self.troubles > 0 else 0):
            self.change()
        if self.trouble(0.3):
            return self.refuse()
        if query.get("watch"):
            position = int(query["resourceVersion"])
            return status(410) if position < self.forgotten else self.watch(position)
        return self.list(query)

    def refuse(self) -> HTTPResponse:
        kind = self.chance.choice(["lost", "500", "429", "410", "html", "half"])
        if kind == "lost":
            raise Unreachable("cut off")
        if kind == "429":
            return status(429, retry_after=self.chance.choice(["1", "99999999999", "soon"]))
        if kind in ("500", "410"):
            return status(int(kind))
        return HTTPResponse(200, {}, b"<html>" if kind == "html" else b'{"metadata":{"resourceVersion":"9')

    def list(self, query: dict[str, str]) -> HTTPResponse:
        if "continue" in query:
            if query["continue"] not in self.snapshots or self.trouble(0.3):
                self.snapshots.clear()
                return status(410)
            revision, items = query["continue"], self.snapshots.pop(query["continue"])
        else:
            revision, items = str(self.revision), list(self.objects.values())
        size = PAGE if "limit" in query else len(items)
        page, rest = items[:size], items[size:]
        if rest:
            self.snapshots[revision] = rest
        metadata = {"resourceVersion": revision, "continue": revision if rest else ""}
        return HTTPResponse(200, {}, json.dumps({"metadata": metadata, "items": page}).encode())

    async def watch(self, position: int) -> AsyncGenerator[bytes, None]:
        for revision, kind, obj in list(self.history):
            if revision <= position and not self.trouble(0.2):  # else: it is delivered again
                continue
            line = json.dumps({"type": kind, "object": obj}).encode() + b"\n"
            if self.trouble(0.1):
                line = self.chance.choice(
                    [b"garbage\n", b"{}\n", b'{"type":"ADDED","object":{}}\n', b"\n" + line, line[1:]]
                )
            if self.trouble(0.1):
                yield line[: self.chance.randrange(len(line))]
                raise Unreachable("cut off in the middle")
            cut = self.chance.randrange(len(line))
            yield line[:cut]
            yield line[cut:]
            if revision > position and self.trouble(0.1):
                bookmark = {"metadata": {"resourceVersion": str(revision)}}
                yield json.dumps({"type": "BOOKMARK", "object": bookmark}).encode() + b"\n"
        if self.trouble(0.5):
            self.forgotten = self.revision
            self.history.clear()
            yield json.dumps({"type": "ERROR", "object": {"code": 410, "message": "too old"}}).encode() + b"\n"
        if self.troubles <= 0:
            self.over.set()
            await asyncio.Event().wait()
        self.troubles -= 1  # a quiet end is one too, or this would never end


class Consumer:
    """Keeps the delivered objects, and fails if an event contradicts them."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.newest: dict[str, int] = {}  # by uid

    def hear(self, event: InformerEvent) -> None:
        if isinstance(event, ObjectApplied):
            metadata = event.object["metadata"]
            name, uid, revision = metadata["name"], metadata["uid"], int(metadata["resourceVersion"])
            assert revision > self.newest.get(uid, 0), "told backwards, or twice"
            assert name not in self.objects or self.objects[name]["metadata"]["uid"] == uid, "nobody said it was gone"
            self.newest[uid] = revision
            self.objects[name] = event.object
        elif isinstance(event, ObjectDeleted):
            assert self.objects.pop(event.name)["metadata"]["uid"] == event.uid


@settings(max_examples=300)
@given(st.integers(0, 1 << 32), st.integers(0, 40))
def test_whatever_the_server_does_in_the_end_all_is_known(seed: int, troubles: int) -> None:
    async def run() -> None:
        server, consumer = Hostile(Random(seed), troubles), Consumer()
        for _ in range(10):
            server.change()

        async def sleep(seconds: float) -> None:
            assert 0 <= seconds <= 120
            await asyncio.sleep(0)

        informer = Informer(
            InProcessTransport(server.handle), "/api/v1/pods", consumer.hear, jitter=server.chance.random, sleep=sleep
        )
        task = asyncio.create_task(informer.run())
        over = asyncio.create_task(server.over.wait())
        await asyncio.wait([task, over], return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        task.cancel()
        done, _ = await asyncio.wait([task])
        assert all(each.cancelled() for each in done), done
        assert consumer.objects == server.objects

    asyncio.run(run())
