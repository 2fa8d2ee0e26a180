"""When the work queue is idle (Events are written then), and when a key is due."""

from __future__ import annotations

import asyncio

import pytest

from event_loops import Run, on_both_loops
from headgate.runtime.work_queue import WorkQueue


def test_a_queue_is_at_rest_when_nothing_waits_and_nothing_is_worked_on() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        assert queue.idle.is_set()
        queue.add("a")
        assert not queue.idle.is_set()
        key = await queue.get()
        assert not queue.idle.is_set(), "it is worked on"
        queue.done(key)
        assert queue.idle.is_set()

    asyncio.run(scenario())


def test_a_key_that_is_woken_while_it_is_worked_on_leaves_no_rest() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        key = await queue.get()
        queue.add("a")
        queue.done(key)
        assert not queue.idle.is_set()
        queue.done(await queue.get())
        assert queue.idle.is_set()

    asyncio.run(scenario())


def test_what_is_due_later_disturbs_no_rest() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a", after_s=3600)
        assert queue.idle.is_set()
        queue.close()

    asyncio.run(scenario())


@on_both_loops
@pytest.mark.parametrize(("first_s", "then_s"), [(0.0001, 0.5), (0.5, 0.0001), (0.0001, 0.0001), (0.0004, 0.0002)])
def test_a_key_that_is_due_within_a_millisecond_can_be_delayed_again(run: Run, first_s: float, then_s: float) -> None:
    """uvloop answers such a delay with a handle that does not know its time."""

    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a", after_s=first_s)
        queue.add("a", after_s=then_s)
        async with asyncio.timeout(10):
            assert await queue.get() == "a"
        queue.done("a")
        assert queue.idle.is_set()
        queue.close()

    run(scenario())


@on_both_loops
def test_the_earliest_of_many_delays_counts(run: Run) -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for after_s in (3600.0, 1800.0, 0.0003, 0.02, 0.0001, 3600.0):
            queue.add("a", after_s=after_s)
        queue.add("b", after_s=3600.0)
        async with asyncio.timeout(10):
            assert await queue.get() == "a"
        queue.done("a")
        await asyncio.sleep(0.05)
        assert queue.idle.is_set(), "the later ones were replaced by the earliest"
        queue.close()

    run(scenario())


def test_a_key_that_is_retried_now_waits_no_longer_and_begins_its_backoff_again() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for _ in range(30):
            queue.add_rate_limited("a", 0.0)
        assert queue.add_rate_limited("a", 0.0) == 60.0
        assert queue.add_rate_limited("a", 0.5, max_s=1.0) == 1.5
        queue.retry_now(["a", "not queued"])
        assert await queue.get() == "a"
        queue.done("a")
        assert queue.idle.is_set(), "the other key was not queued"
        assert queue.add_rate_limited("a", 0.0) < 0.01
        queue.close()

    asyncio.run(scenario())
