"""Events: counted while they wait, limited in number and per object, and written in the background."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec

from headgate.client.event_backlog import EventBacklog
from headgate.client.io.event_recorder import EventRecorder, EventToEmit
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.client.io.writer import Writer
from headgate.http.transport import HTTPRequest, HTTPResponse

Object = dict[str, Any]


def event(name: str, message: str = "0/1 nodes are available", uid: str = "") -> EventToEmit:
    about = {"kind": "Pod", "namespace": "team", "name": name, "uid": uid or f"uid-{name}"}
    return EventToEmit(about, "FailedScheduling", message, "Warning", "headgate")


def test_the_same_happening_is_counted_while_it_waits() -> None:
    backlog: EventBacklog[EventToEmit] = EventBacklog()
    for _ in range(100):
        backlog.add(event("a"), 0.0)
    backlog.add(event("b"), 0.0)
    handled = [backlog.take(), backlog.take(), backlog.take()]
    assert [each and each.count for each in handled] == [100, 1, None]
    assert backlog.dropped == 0


def test_an_event_about_a_later_revision_of_the_same_object_is_counted() -> None:
    backlog: EventBacklog[EventToEmit] = EventBacklog()
    for revision in ("1", "2", "3"):
        occurred = event("a")
        backlog.add(msgspec.structs.replace(occurred, about={**occurred.about, "resourceVersion": revision}), 0.0)
    pending = backlog.take()
    assert pending is not None
    assert pending.count == 3
    assert backlog.take() is None


def test_of_too_many_the_oldest_goes() -> None:
    backlog: EventBacklog[EventToEmit] = EventBacklog(max_events=3)
    for number in range(5):
        backlog.add(event(str(number)), 0.0)
    waiting = backlog.take()
    assert waiting is not None
    assert waiting.event.about["name"] == "2"
    assert (len(backlog), backlog.dropped) == (2, 2)


def test_an_object_that_tells_too_much_is_cut_off_and_heard_again_later() -> None:
    backlog: EventBacklog[EventToEmit] = EventBacklog()
    for number in range(40):
        backlog.add(event("a", str(number)), 0.0)
    backlog.add(event("b"), 0.0)
    assert (len(backlog), backlog.dropped) == (26, 15)
    backlog.add(event("a", "later"), 301.0)
    assert len(backlog) == 27


class Server:
    """Accepts Events, and drops one when the test asks for it."""

    def __init__(self) -> None:
        self.events: dict[str, Object] = {}
        self.received = asyncio.Condition()
        self.refuse = False

    async def handle(self, request: HTTPRequest) -> HTTPResponse:
        async with self.received:
            self.received.notify_all()
            if self.refuse:
                return HTTPResponse(403, {}, b"{}")
            body = json.loads(request.body)
            if request.method == "POST":
                self.events[body["metadata"]["name"]] = body
                return HTTPResponse(201, {}, request.body)
            name = request.path.rpartition("/")[2]
            if name not in self.events:
                return HTTPResponse(404, {}, b"{}")
            self.events[name].update(body)
            return HTTPResponse(200, {}, b"{}")


def test_repeated_events_are_counted_and_deleted_events_are_created_again() -> None:
    async def run() -> None:
        server = Server()
        events = EventRecorder(Writer(InProcessTransport(server.handle), jitter=lambda: 0.0, sleep=asyncio.sleep))
        task = asyncio.create_task(events.run())

        async def until(count: int) -> None:
            async with asyncio.timeout(5), server.received:
                await server.received.wait_for(lambda: [e["count"] for e in server.events.values()] == [count])

        for _ in range(3):
            events.emit(event("a"))
        await until(3)
        events.emit(event("a"))
        await until(4)
        server.events.clear()
        events.emit(event("a"))
        await until(1)
        server.refuse = True
        events.emit(event("b"))
        async with asyncio.timeout(5):
            while not events.dropped:
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(run())
