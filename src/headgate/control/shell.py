"""Serves controllers: one watch per resource for all of them, one queue, a few workers.

What is served decides what is watched: discovery is read at the start and again when a CustomResourceDefinition
changes, and watches come and go with the kinds. A controller that fails on one object or key is logged and goes on with
the others; the object is delivered again (``client/redelivery.py``), the key worked on again, later each time.
Everything it knows comes from the server, so one that is killed anywhere starts again and finishes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from headgate.client.backoff import Backoff
from headgate.client.events.shell import EventWriter, Said
from headgate.client.informer import Applied, Event, Informer, Removed, Synced
from headgate.client.redelivery import Redelivery
from headgate.client.time_slice import give_way
from headgate.client.transport import Transport, Unreachable
from headgate.client.writer import Writer
from headgate.control.queue import WorkQueue
from headgate.control.requests import answer_of, request_of
from headgate.kube.resource import CUSTOM_RESOURCE_DEFINITIONS, Resource
from headgate.owners import effects
from headgate.owners.contract import Again, Controller, Done, Interest, Key, Later, Verdict, Wake, asked_for
from headgate.owners.effects import UNREACHABLE, Answer, Discover, Effect, Emit, Together
from headgate.owners.served import Served

Object = dict[str, Any]
Job = tuple[Controller, Key]
Sleep = Callable[[float], Awaitable[None]]
Topic = tuple[Resource, str]  # a resource, and which of its objects

_log: Final = logging.getLogger(__name__)
_WORKERS: Final = 32  # they mostly wait for the disk, and a commit is shared by whoever waits
_SYNC_S: Final = 30.0
_DISCOVERY_RETRY_S: Final = 1.0
_DISCOVERY_AGAIN_S: Final = 2.0
_RESTART_S: Final = 1.0
_NOT_SERVED_S: Final = 10.0
"""How long a kind may be listed by discovery and answer 404: when its definition is deleted, discovery lags behind."""
_AT_ONCE: Final = 64
"""Requests of one batch that are on their way at a time."""
_NOT_LEARNT: Final = "what the server serves could not be taken in, and is read again"
_EVENT_ATTEMPTS: Final = 2
_EVENT_WRITERS: Final = 8
"""Many controllers speak: one that waits for each commit would be heard too late."""
_EVENTS_KEPT: Final = 16_384
_WAKES_AT_ONCE: Final = 500
"""Wakes of one event that are queued before other tasks get their turn."""
_BREATH_S: Final = 0.25
"""How long an Event waits for a moment without work: where there is always some it still gets its turn."""


async def keep_running(
    make: Callable[[], Sequence[Controller]],
    transport: Transport,
    *,
    sleep: Sleep = asyncio.sleep,
    failed: Callable[[BaseException], None] = lambda broken: None,
) -> None:
    """Runs controllers until it is cancelled. Should they fail as a whole, ``failed`` is told, and new ones start, that
    know nothing yet."""
    while True:
        try:
            await Controllers(make(), transport, sleep=sleep).run()
        except Exception as broken:
            _log.exception("controllers: they failed, and start again")
            failed(broken)
        await sleep(_RESTART_S)


class _Feed:
    """One watch, and the controllers that it is delivered to."""

    def __init__(self, fields: frozenset[str], listeners: Sequence[Redelivery]) -> None:
        self.fields = fields
        self.listeners = listeners
        self.synced = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.not_found_since_s: float | None = None
        self.has_complained = False

    def close(self) -> None:
        if self.task is not None:
            self.task.cancel()
        for listener in self.listeners:
            listener.close()


class _Wakes(msgspec.Struct):
    """What an event or a verdict wakes, as far as it is not queued yet."""

    controller: Controller
    rest: Iterator[Wake]
    ended: Callable[[Exception | None], None]
    """Told once, if they took more than one turn: how it ended."""
    failed: Exception | None = None


class Controllers:
    def __init__(
        self,
        controllers: Sequence[Controller],
        transport: Transport,
        *,
        workers: int = _WORKERS,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._controllers = controllers
        self._transport = transport
        self._workers = workers
        self._sleep = sleep
        self._feeds: dict[Topic, _Feed] = {}
        writer = Writer(transport, jitter=random.random, sleep=sleep, attempts=_EVENT_ATTEMPTS)
        self._events = EventWriter(writer, most=_EVENTS_KEPT, workers=_EVENT_WRITERS, turn=self._rest)
        self._kinds_changed = asyncio.Event()
        self._learning = Backoff(_DISCOVERY_RETRY_S)
        self._unqueued: Final[deque[_Wakes]] = deque()
        self._has_unqueued: Final = asyncio.Event()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        self._queue: WorkQueue[Job] = WorkQueue()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._queue_the_rest())
                await self._discover(group)
                group.create_task(self._follow_kinds(group))
                await self._wait_for_lists()
                group.create_task(self._events.run())
                for _ in range(self._workers):
                    group.create_task(self._work_for_ever())
        finally:
            self._queue.close()
            for feed in self._feeds.values():
                feed.close()

    # -- what is served --------------------------------------------------------------------------------------------

    async def _follow_kinds(self, group: asyncio.TaskGroup) -> None:
        """A definition may come and go within moments, and whoever missed its kind never learns what became of its
        objects: so every change is looked at when it comes."""
        while True:
            await self._kinds_changed.wait()
            while self._kinds_changed.is_set():
                self._kinds_changed.clear()
                await self._discover(group)
                await self._changed_within(_DISCOVERY_AGAIN_S)
            # A definition is announced before its kind is served: look once more when the dust has settled.
            await self._discover(group)

    async def _changed_within(self, wait_s: float) -> None:
        changed, waited = asyncio.create_task(self._kinds_changed.wait()), asyncio.ensure_future(self._sleep(wait_s))
        try:
            await asyncio.wait([changed, waited], return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            waited.cancel()

    async def _discover(self, group: asyncio.TaskGroup) -> None:
        while True:
            answers = [await self._ask(Discover("/api")), await self._ask(Discover("/apis"))]
            problem = "; ".join(each.message for each in answers if not each.ok)
            if not problem:
                try:
                    served = Served.read(answer.body for answer in answers)
                    break
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    problem = f"the answer is no discovery document: {type(error).__name__}: {error}"
            _log.warning("controllers: discovery failed: %s", problem)
            await self._sleep(_DISCOVERY_RETRY_S)
        failed = [controller for controller in self._controllers if not self._learns(controller, served)]
        if not failed:
            self._learning.reset()
        else:
            self._discover_later()
        self._tune(group, served)

    def _discover_later(self) -> None:
        wait_s = self._learning.next(random.random())
        asyncio.get_running_loop().call_later(wait_s, self._kinds_changed.set)

    def _learns(self, controller: Controller, served: Served) -> bool:
        """False if it failed: discovery is read again then, later each time."""

        def ended(error: Exception | None) -> None:
            if error is not None:
                _log.error("%s: %s", controller.name, _NOT_LEARNT, exc_info=error)
                self._discover_later()

        try:
            self._wake(controller, controller.learn(served), ended)
        except Exception:
            _log.exception("%s: %s", controller.name, _NOT_LEARNT)
            return False
        return True

    def _tune(self, group: asyncio.TaskGroup, served: Served) -> None:
        """Start the watches that are missing, stop those that nobody needs any more."""
        wanted: dict[Topic, tuple[list[Interest], list[Controller]]] = {}
        for controller in self._controllers:
            for interest in controller.interests():
                interests, listeners = wanted.setdefault(_topic(interest), ([], []))
                interests.append(interest)
                listeners.append(controller)
        if any(row.resource == CUSTOM_RESOURCE_DEFINITIONS for row in served.preferred):
            own = Interest(CUSTOM_RESOURCE_DEFINITIONS, frozenset({"metadata.generation"}))
            wanted.setdefault(_topic(own), ([own], []))
        for topic in [topic for topic in self._feeds if topic not in wanted]:
            self._feeds.pop(topic).close()
        for topic, (interests, listeners) in wanted.items():
            if topic not in self._feeds:
                deliveries = [self._delivery(controller, topic[0]) for controller in listeners]
                feed = self._feeds[topic] = _Feed(asked_for(interests), deliveries)
                feed.task = group.create_task(self._follow(topic[0], self._informer(topic, feed)))

    def _delivery(self, controller: Controller, resource: Resource) -> Redelivery:
        def handle(event: Event) -> None:
            wakes = _told(controller, resource, event, time.time())
            if not self._wake(controller, wakes, lambda error: delivery.finish(event, error)):
                delivery.postpone(event)

        delivery = Redelivery(controller.name, resource.plural, handle)
        return delivery

    async def _follow(self, resource: Resource, informer: Informer) -> None:
        """A watch that fails in a way that it does not know goes on where it was, and the others do not notice."""
        backoff = Backoff(_DISCOVERY_RETRY_S)
        while True:
            try:
                await informer.run()
            except Exception:
                _log.exception("controllers: the watch of %s failed, and goes on", resource.plural)
            await self._sleep(backoff.next(random.random()))

    def _informer(self, topic: Topic, feed: _Feed) -> Informer:
        resource, selector = topic
        return Informer(
            self._transport,
            resource.collection(),
            lambda event: self._heard(resource, feed, event),
            jitter=random.random,
            sleep=self._sleep,
            query={"fieldSelector": selector} if selector else {},
            fields=feed.fields,
            not_found=lambda problem: self._not_served(feed, problem),
            report=lambda problem: _log.warning("controllers: %s", problem),
        )

    def _not_served(self, feed: _Feed, problem: str) -> None:
        """A kind whose definition was deleted answers 404 until discovery is read again, which ends its watch. That is
        no problem; a kind that discovery goes on to list, and that is not there, is one."""
        now_s = time.monotonic()
        if feed.not_found_since_s is None:
            feed.not_found_since_s = now_s
            self._kinds_changed.set()
        elif now_s - feed.not_found_since_s > _NOT_SERVED_S and not feed.has_complained:
            feed.has_complained = True
            _log.warning("controllers: discovery lists a kind that is not served: %s", problem)

    async def _wait_for_lists(self) -> None:
        """Work starts when everything has been heard once; one kind that cannot be listed must not stop the others."""
        waits = [asyncio.create_task(feed.synced.wait()) for feed in self._feeds.values()]
        _, late = await asyncio.wait(waits, timeout=_SYNC_S)
        for task in late:
            task.cancel()
        if late:
            _log.warning("controllers: %d kinds could not be listed yet; going on without them", len(late))

    # -- events in -------------------------------------------------------------------------------------------------

    def _heard(self, resource: Resource, feed: _Feed, event: Event) -> None:
        feed.not_found_since_s, feed.has_complained = None, False
        if isinstance(event, Synced):
            feed.synced.set()
        elif resource == CUSTOM_RESOURCE_DEFINITIONS:
            self._kinds_changed.set()
        for listener in feed.listeners:
            listener.deliver(event)

    def _wake(self, controller: Controller, wakes: Iterable[Wake], ended: Callable[[Exception | None], None]) -> bool:
        """False if there are more than fit into one turn of the event loop: ``ended`` is told about the rest."""
        unqueued = _Wakes(controller, iter(wakes), ended)
        if self._queue_some(unqueued):
            return True
        self._unqueued.append(unqueued)
        self._has_unqueued.set()
        return False

    def _queue_some(self, wakes: _Wakes) -> bool:
        """Whether that was all. A wake that cannot be queued costs itself: the others are queued, then it is raised."""
        count = 0
        for wake in islice(wakes.rest, _WAKES_AT_ONCE):
            count += 1
            try:
                self._queue.add((wakes.controller, wake.key), wake.after_s)
            except Exception as error:
                _log.error("%s: %s cannot be woken: %s: %s", wakes.controller.name, wake, type(error).__name__, error)
                wakes.failed = error
        if count == _WAKES_AT_ONCE:
            return False
        if wakes.failed is not None:
            raise wakes.failed
        return True

    async def _queue_the_rest(self) -> None:
        while True:
            await self._has_unqueued.wait()
            while self._unqueued:
                await give_way()
                first = self._unqueued[0]
                failed: Exception | None = None
                try:
                    if not self._queue_some(first):
                        continue
                except Exception as error:
                    failed = error
                self._unqueued.popleft()
                first.ended(failed)
            self._has_unqueued.clear()

    # -- work ------------------------------------------------------------------------------------------------------

    async def _work_for_ever(self) -> None:
        while True:
            job = await self._queue.take()
            try:
                await give_way()
                self._judge(job, await self._work(*job))
            except Exception as error:
                # One key that a controller cannot digest must not stop the others.
                wait_s = self._queue.again(job, random.random())
                text = "%s: work on %s failed and is tried again in %.3f s: %s: %s"
                _log.exception(text, job[0].name, job[1], wait_s, type(error).__name__, error)
            finally:
                self._queue.done(job)

    async def _work(self, controller: Controller, key: Key) -> Verdict:
        steps = controller.work(key, time.time())
        try:
            effect = next(steps)
            while True:
                answer = await self._perform(effect)
                await give_way()
                effect = steps.send(answer)
        except StopIteration as done:
            verdict: Verdict = done.value
            return verdict

    def _judge(self, job: Job, verdict: Verdict) -> None:
        match verdict:
            case Done(wakes):
                self._wake(job[0], wakes, lambda error: self._woken(job, error))
                self._queue.succeeded(job)
            case Later(after_s):
                self._queue.add(job, after_s)
                self._queue.succeeded(job)
            case Again(why):
                wait_s = self._queue.again(job, random.random())
                _log.debug("%s: %s is tried again in %.3f s: %s", job[0].name, job[1], wait_s, why)
            case _:
                raise TypeError(f"the work ended with {verdict!r}, which is no verdict")

    def _woken(self, job: Job, error: Exception | None) -> None:
        if error is not None:
            wait_s = self._queue.again(job, random.random())
            _log.error("%s: %s is worked on again in %.3f s: %s", job[0].name, job[1], wait_s, error, exc_info=error)

    # -- effects out -----------------------------------------------------------------------------------------------

    async def _perform(self, effect: Effect) -> Answer:
        match effect:
            case Emit(about, type_, reason, message, component):
                self._events.tell(Said(about, reason, message, type_, component))
                return Answer(202, {}, time.time())
            case Together(requests):
                return await self._ask_together(requests)
            case _:
                return await self._ask(effect)

    async def _rest(self) -> None:
        """Waits for a moment in which there is nothing to do, but not for ever."""
        if not self._queue.at_rest.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BREATH_S):
                    await self._queue.at_rest.wait()

    async def _ask_together(self, requests: Sequence[effects.Request]) -> Answer:
        """A few at a time: a batch must not hold up what everybody else wants."""
        answers: list[Answer | None] = [None] * len(requests)
        waiting = iter(enumerate(requests))

        async def take_turns() -> None:
            for place, request in waiting:
                answers[place] = await self._ask(request)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(_AT_ONCE, len(requests))):
                group.create_task(take_turns())
        return Answer(200, {}, time.time(), tuple(each for each in answers if each is not None))

    async def _ask(self, effect: effects.Request) -> Answer:
        try:
            response = await self._transport.request(request_of(effect))
        except Unreachable as error:
            return Answer(UNREACHABLE, {"message": str(error)}, time.time())
        return answer_of(effect, response, time.time())


def _topic(interest: Interest) -> Topic:
    return interest.resource, interest.field_selector


def _told(controller: Controller, resource: Resource, event: Event, now_s: float) -> Iterable[Wake]:
    match event:
        case Applied(obj):
            return controller.applied(resource, obj, now_s)
        case Removed(namespace, name, uid):
            return controller.removed(resource, namespace, name, uid, now_s)
        case Synced(revision):
            return controller.synced(resource, revision, now_s)
