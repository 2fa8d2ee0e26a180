"""A handler that fails on an object gets that object again; other objects are delivered meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from event_loops import Run, on_both_loops
from headgate.client.io.redelivery import Redelivery
from headgate.client.known_objects import InformerEvent, ListSynced, ObjectApplied, ObjectDeleted


class Handler:
    """Takes events in, unless ``fails`` says otherwise."""

    def __init__(self, fails: Callable[[InformerEvent], bool]) -> None:
        self.fails = fails
        self.handled: list[InformerEvent] = []
        self.attempts = 0

    def __call__(self, event: InformerEvent) -> None:
        self.attempts += 1
        if self.fails(event):
            raise RuntimeError("a bug")
        self.handled.append(event)


def an_object(name: str, uid: str = "u", **fields: Any) -> ObjectApplied:
    return ObjectApplied({"metadata": {"namespace": "ns", "name": name, "uid": uid}, **fields})


def delivery(handler: Handler) -> Redelivery:
    return Redelivery("some-controller", "pods", handler, first_retry_s=0.0001)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


@on_both_loops
def test_an_event_that_failed_is_delivered_again_and_the_others_at_once(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        broken = True
        handler = Handler(lambda event: broken and event == an_object("bad"))
        events = delivery(handler)
        events.deliver(an_object("bad"))
        events.deliver(an_object("good", "u2"))
        assert handler.handled == [an_object("good", "u2")]
        await until(lambda: handler.attempts > 4)
        broken = False
        await until(lambda: an_object("bad") in handler.handled)
        assert len(events) == 0

    with caplog.at_level(logging.ERROR):
        run(scenario())
    first = caplog.records[0].getMessage()
    assert first.startswith("some-controller: pods ns/bad could not be processed and is tried again in 0.0 s")
    assert "RuntimeError: a bug" in first
    assert [bool(record.exc_info) for record in caplog.records[:3]] == [True, False, False], "one traceback is enough"


@on_both_loops
def test_a_newer_event_of_the_same_object_takes_the_place_of_the_one_that_failed(run: Run) -> None:
    async def scenario() -> None:
        handler = Handler(lambda event: event == an_object("a", state=1))
        events = delivery(handler)
        events.deliver(an_object("a", state=1))
        events.deliver(an_object("a", state=2))
        assert handler.handled == [an_object("a", state=2)]
        assert len(events) == 0
        attempts = handler.attempts
        await asyncio.sleep(0.02)
        assert handler.attempts == attempts, "an older state was delivered after a newer one"

    run(scenario())


@on_both_loops
def test_of_two_events_of_one_object_that_failed_the_newer_one_is_delivered_again(run: Run) -> None:
    async def story() -> None:
        broken = True
        handler = Handler(lambda event: broken)
        events = delivery(handler)
        events.deliver(an_object("a", state=1))
        events.deliver(an_object("a", state=2))
        broken = False
        await until(lambda: bool(handler.handled))
        assert handler.handled == [an_object("a", state=2)]
        assert len(events) == 0

    run(story())


@on_both_loops
def test_a_removal_that_failed_is_delivered_again_though_a_successor_has_come(run: Run) -> None:
    async def scenario() -> None:
        broken = True
        removal = ObjectDeleted("ns", "a", "u1")
        handler = Handler(lambda event: broken and event == removal)
        events = delivery(handler)
        events.deliver(removal)
        events.deliver(an_object("a", "u2"))
        assert handler.handled == [an_object("a", "u2")]
        broken = False
        await until(lambda: removal in handler.handled)

    run(scenario())


@on_both_loops
def test_a_list_that_could_not_be_handled_is_delivered_again(run: Run) -> None:
    async def scenario() -> None:
        broken = True
        handler = Handler(lambda event: broken)
        events = delivery(handler)
        events.deliver(ListSynced("7"))
        broken = False
        await until(lambda: handler.handled == [ListSynced("7")])

    run(scenario())


@on_both_loops
def test_nothing_is_delivered_again_after_the_end(run: Run) -> None:
    async def scenario() -> None:
        handler = Handler(lambda event: True)
        events = delivery(handler)
        events.deliver(an_object("a"))
        events.close()
        attempts = handler.attempts
        await asyncio.sleep(0.02)
        assert handler.attempts == attempts

    run(scenario())


@on_both_loops
def test_an_object_without_an_identity_is_retried_as_well(run: Run) -> None:
    async def scenario() -> None:
        handler = Handler(lambda event: handler.attempts < 3)
        delivery(handler).deliver(ObjectApplied({"metadata": {"name": 7}}))
        await until(lambda: handler.handled == [ObjectApplied({"metadata": {"name": 7}})])

    run(scenario())


class Postponing:
    """Needs another turn for each event, while ``postpones`` says so; what becomes of it is up to the test."""

    def __init__(self, first_retry_s: float = 0.0001) -> None:
        self.handled: list[InformerEvent] = []
        self.postpones = True
        self.events = Redelivery("some-controller", "pods", self, jitter=lambda: 0.0, first_retry_s=first_retry_s)

    def __call__(self, event: InformerEvent) -> None:
        self.handled.append(event)
        if self.postpones:
            self.events.postpone(event)


@on_both_loops
def test_an_event_that_failed_after_it_was_postponed_is_delivered_again(run: Run) -> None:
    async def scenario() -> None:
        handler = Postponing()
        event = an_object("a", state=1)
        handler.events.deliver(event)
        handler.events.finish(event, RuntimeError("a bug"))
        await until(lambda: len(handler.handled) == 2)
        handler.events.finish(event, RuntimeError("a bug"))
        await until(lambda: len(handler.handled) == 3)
        handler.events.finish(event, None)
        assert len(handler.events) == 0
        await asyncio.sleep(0.02)
        assert handler.handled == [event] * 3

    run(scenario())


@on_both_loops
def test_a_postponed_event_that_fails_after_a_newer_one_was_delivered_is_not_delivered_again(run: Run) -> None:
    async def scenario() -> None:
        handler = Postponing()
        older, newer = an_object("a", state=1), an_object("a", state=2)
        handler.events.deliver(older)
        handler.events.finish(older, RuntimeError("a bug"))
        handler.events.deliver(newer)
        handler.events.finish(older, RuntimeError("a bug"))
        await asyncio.sleep(0.02)
        assert handler.handled == [older, newer]
        handler.events.finish(newer, None)
        assert len(handler.events) == 0

    run(scenario())


@on_both_loops
def test_a_postponed_event_that_fails_after_the_end_is_not_delivered_again(run: Run) -> None:
    async def scenario() -> None:
        handler = Postponing()
        handler.events.deliver(an_object("a"))
        handler.events.close()
        handler.events.finish(handler.handled[0], RuntimeError("a bug"))
        await asyncio.sleep(0.02)
        assert len(handler.handled) == 1

    run(scenario())


@on_both_loops
def test_a_postponed_event_that_fails_after_a_newer_one_was_taken_in_at_once_is_not_delivered_again(run: Run) -> None:
    async def scenario() -> None:
        handler = Postponing()
        older, newer = an_object("a", state=1), an_object("a", state=2)
        handler.events.deliver(older)
        handler.postpones = False
        handler.events.deliver(newer)
        handler.events.finish(older, RuntimeError("a bug"))
        await asyncio.sleep(0.02)
        assert handler.handled == [older, newer]
        assert len(handler.events) == 0

    run(scenario())


def test_an_event_that_fails_each_time_after_it_was_postponed_is_delivered_later_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        handler = Postponing(first_retry_s=0.01)
        event = an_object("a")
        handler.events.deliver(event)

        def has_handled(events: int) -> bool:
            return len(handler.handled) >= events

        for delivered in range(1, 5):
            handler.events.finish(event, RuntimeError("a bug"))
            await until(partial(has_handled, delivered + 1))

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    waits_s = [record.args[3] for record in caplog.records if isinstance(record.args, tuple)]
    assert waits_s == [0.01, 0.02, 0.04, 0.08]
