"""When a queue of keys is at rest: Events are written then, so that they hold up no work."""

from __future__ import annotations

import asyncio

from headgate.control.queue import WorkQueue


def test_a_queue_is_at_rest_when_nothing_waits_and_nothing_is_worked_on() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        assert queue.at_rest.is_set()
        queue.add("a")
        assert not queue.at_rest.is_set()
        key = await queue.take()
        assert not queue.at_rest.is_set(), "it is worked on"
        queue.done(key)
        assert queue.at_rest.is_set()

    asyncio.run(story())


def test_a_key_that_is_woken_while_it_is_worked_on_leaves_no_rest() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        key = await queue.take()
        queue.add("a")
        queue.done(key)
        assert not queue.at_rest.is_set()
        queue.done(await queue.take())
        assert queue.at_rest.is_set()

    asyncio.run(story())


def test_what_is_due_later_disturbs_no_rest() -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a", after_s=3600)
        assert queue.at_rest.is_set()
        queue.close()

    asyncio.run(story())
