"""Runs controllers: one watch per resource for all of them, one work queue, a few workers.

Discovery decides what is watched: it is read at the start and again when a CustomResourceDefinition changes, and
watches start and stop with the kinds. A controller that fails on one object or key is logged and continues with the
others; the object is delivered again (``client/io/redelivery.py``), the key is requeued with back-off. All state comes
from the server, so a controller that is killed at any point resumes after a restart.
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
from headgate.client.io.event_recorder import EventRecorder, EventToEmit
from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied, ObjectDeleted
from headgate.client.io.redelivery import Redelivery
from headgate.client.io.time_slice import yield_if_slice_spent
from headgate.client.io.writer import Writer
from headgate.controllers.framework import effects
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import (
    UNREACHABLE,
    Discover,
    Effect,
    EffectResponse,
    EmitEvent,
    ParallelRequests,
)
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    Key,
    RequeueAfter,
    RequeueWithBackoff,
    Result,
    WatchSpec,
    watched_fields,
)
from headgate.http.transport import Transport, Unreachable
from headgate.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from headgate.runtime.effect_requests import request_of, response_of
from headgate.runtime.work_queue import WorkQueue

Object = dict[str, Any]
QueueItem = tuple[Controller, Key]
Sleep = Callable[[float], Awaitable[None]]
WatchKey = tuple[APIResource, str]  # a resource, and which of its objects

_log: Final = logging.getLogger(__name__)
_WORKERS: Final = 32  # they mostly wait for the disk, and a commit is shared by all that wait
_SYNC_S: Final = 30.0
_DISCOVERY_RETRY_S: Final = 1.0
_DISCOVERY_AGAIN_S: Final = 2.0
_RESTART_S: Final = 1.0
_NOT_SERVED_S: Final = 10.0
"""How long a kind may be listed by discovery and answer 404: when its definition is deleted, discovery lags behind."""
_AT_ONCE: Final = 64
"""Requests of one batch that are on their way at a time."""
_DISCOVERY_HANDLER_FAILED: Final = "what the server serves could not be taken in, and is read again"
_EVENT_ATTEMPTS: Final = 2
_EVENT_WRITERS: Final = 8
"""Many controllers speak: one that waits for each commit would be heard too late."""
_EVENTS_KEPT: Final = 16_384
_ENQUEUES_PER_TURN: Final = 500
"""Wakes of one event that are queued before other tasks get their turn."""
_IDLE_WAIT_S: Final = 0.25
"""How long an Event waits for a moment without work: where there is always some it still gets its turn."""


async def run_controllers(
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
            await ControllerManager(make(), transport, sleep=sleep).run()
        except Exception as broken:
            _log.exception("controllers: they failed, and start again")
            failed(broken)
        await sleep(_RESTART_S)


class _SharedInformer:
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


class _PendingEnqueues(msgspec.Struct):
    """What an event or a verdict wakes, as far as it is not queued yet."""

    controller: Controller
    rest: Iterator[Enqueue]
    ended: Callable[[Exception | None], None]
    """Told once, if they took more than one turn: how it ended."""
    failed: Exception | None = None


class ControllerManager:
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
        self._informers: dict[WatchKey, _SharedInformer] = {}
        writer = Writer(transport, jitter=random.random, sleep=sleep, attempts=_EVENT_ATTEMPTS)
        self._events = EventRecorder(
            writer, max_events=_EVENTS_KEPT, workers=_EVENT_WRITERS, before_write=self._wait_until_idle
        )
        self._kinds_changed = asyncio.Event()
        self._discovery_backoff = Backoff(_DISCOVERY_RETRY_S)
        self._pending_enqueues: Final[deque[_PendingEnqueues]] = deque()
        self._has_pending_enqueues: Final = asyncio.Event()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        self._queue: WorkQueue[QueueItem] = WorkQueue()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._enqueue_rest())
                await self._discover(group)
                group.create_task(self._follow_kinds(group))
                await self._wait_for_lists()
                group.create_task(self._events.run())
                for _ in range(self._workers):
                    group.create_task(self._worker())
        finally:
            self._queue.close()
            for feed in self._informers.values():
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
            answers = [await self._request(Discover("/api")), await self._request(Discover("/apis"))]
            problem = "; ".join(each.message for each in answers if not each.ok)
            if not problem:
                try:
                    served = DiscoveredKinds.read(answer.body for answer in answers)
                    break
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    problem = f"the answer is no discovery document: {type(error).__name__}: {error}"
            _log.warning("controllers: discovery failed: %s", problem)
            await self._sleep(_DISCOVERY_RETRY_S)
        failed = [controller for controller in self._controllers if not self._notify_discovery(controller, served)]
        if not failed:
            self._discovery_backoff.reset()
        else:
            self._discover_later()
        self._update_watches(group, served)

    def _discover_later(self) -> None:
        wait_s = self._discovery_backoff.next(random.random())
        asyncio.get_running_loop().call_later(wait_s, self._kinds_changed.set)

    def _notify_discovery(self, controller: Controller, served: DiscoveredKinds) -> bool:
        """False if it failed: discovery is read again then, later each time."""

        def ended(error: Exception | None) -> None:
            if error is not None:
                _log.error("%s: %s", controller.name, _DISCOVERY_HANDLER_FAILED, exc_info=error)
                self._discover_later()

        try:
            self._enqueue(controller, controller.discovered(served), ended)
        except Exception:
            _log.exception("%s: %s", controller.name, _DISCOVERY_HANDLER_FAILED)
            return False
        return True

    def _update_watches(self, group: asyncio.TaskGroup, served: DiscoveredKinds) -> None:
        """Start the watches that are missing, stop those that no controller needs any more."""
        wanted: dict[WatchKey, tuple[list[WatchSpec], list[Controller]]] = {}
        for controller in self._controllers:
            for interest in controller.watches():
                interests, listeners = wanted.setdefault(_watch_key(interest), ([], []))
                interests.append(interest)
                listeners.append(controller)
        if any(row.resource == CUSTOM_RESOURCE_DEFINITIONS for row in served.preferred):
            own = WatchSpec(CUSTOM_RESOURCE_DEFINITIONS, frozenset({"metadata.generation"}))
            wanted.setdefault(_watch_key(own), ([own], []))
        for topic in [topic for topic in self._informers if topic not in wanted]:
            self._informers.pop(topic).close()
        for topic, (interests, listeners) in wanted.items():
            if topic not in self._informers:
                deliveries = [self._delivery(controller, topic[0]) for controller in listeners]
                feed = self._informers[topic] = _SharedInformer(watched_fields(interests), deliveries)
                feed.task = group.create_task(self._follow(topic[0], self._informer(topic, feed)))

    def _delivery(self, controller: Controller, resource: APIResource) -> Redelivery:
        def handle(event: InformerEvent) -> None:
            wakes = _handle_event(controller, resource, event, time.time())
            if not self._enqueue(controller, wakes, lambda error: delivery.finish(event, error)):
                delivery.postpone(event)

        delivery = Redelivery(controller.name, resource.plural, handle)
        return delivery

    async def _follow(self, resource: APIResource, informer: Informer) -> None:
        """A watch that fails in a way that it does not know goes on where it was, and the others do not notice."""
        backoff = Backoff(_DISCOVERY_RETRY_S)
        while True:
            try:
                await informer.run()
            except Exception:
                _log.exception("controllers: the watch of %s failed, and goes on", resource.plural)
            await self._sleep(backoff.next(random.random()))

    def _informer(self, topic: WatchKey, feed: _SharedInformer) -> Informer:
        resource, selector = topic
        return Informer(
            self._transport,
            resource.collection_path(),
            lambda event: self._observe(resource, feed, event),
            jitter=random.random,
            sleep=self._sleep,
            query={"fieldSelector": selector} if selector else {},
            fields=feed.fields,
            not_found=lambda problem: self._not_served(feed, problem),
            report=lambda problem: _log.warning("controllers: %s", problem),
        )

    def _not_served(self, feed: _SharedInformer, problem: str) -> None:
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
        waits = [asyncio.create_task(feed.synced.wait()) for feed in self._informers.values()]
        _, late = await asyncio.wait(waits, timeout=_SYNC_S)
        for task in late:
            task.cancel()
        if late:
            _log.warning("controllers: %d kinds could not be listed yet; going on without them", len(late))

    # -- events in -------------------------------------------------------------------------------------------------

    def _observe(self, resource: APIResource, feed: _SharedInformer, event: InformerEvent) -> None:
        feed.not_found_since_s, feed.has_complained = None, False
        if isinstance(event, ListSynced):
            feed.synced.set()
        elif resource == CUSTOM_RESOURCE_DEFINITIONS:
            self._kinds_changed.set()
        for listener in feed.listeners:
            listener.deliver(event)

    def _enqueue(
        self, controller: Controller, wakes: Iterable[Enqueue], ended: Callable[[Exception | None], None]
    ) -> bool:
        """False if there are more than fit into one turn of the event loop: ``ended`` is told about the rest."""
        unqueued = _PendingEnqueues(controller, iter(wakes), ended)
        if self._enqueue_some(unqueued):
            return True
        self._pending_enqueues.append(unqueued)
        self._has_pending_enqueues.set()
        return False

    def _enqueue_some(self, wakes: _PendingEnqueues) -> bool:
        """Whether that was all. A wake that cannot be queued costs itself: the others are queued, then it is raised."""
        count = 0
        for wake in islice(wakes.rest, _ENQUEUES_PER_TURN):
            count += 1
            try:
                self._queue.add((wakes.controller, wake.key), wake.after_s)
            except Exception as error:
                _log.error("%s: %s cannot be woken: %s: %s", wakes.controller.name, wake, type(error).__name__, error)
                wakes.failed = error
        if count == _ENQUEUES_PER_TURN:
            return False
        if wakes.failed is not None:
            raise wakes.failed
        return True

    async def _enqueue_rest(self) -> None:
        while True:
            await self._has_pending_enqueues.wait()
            while self._pending_enqueues:
                await yield_if_slice_spent()
                first = self._pending_enqueues[0]
                failed: Exception | None = None
                try:
                    if not self._enqueue_some(first):
                        continue
                except Exception as error:
                    failed = error
                self._pending_enqueues.popleft()
                first.ended(failed)
            self._has_pending_enqueues.clear()

    # -- work ------------------------------------------------------------------------------------------------------

    async def _worker(self) -> None:
        while True:
            job = await self._queue.get()
            try:
                await yield_if_slice_spent()
                self._handle_result(job, await self._reconcile(*job))
            except Exception as error:
                # One key that a controller cannot digest must not stop the others.
                wait_s = self._queue.add_rate_limited(job, random.random())
                text = "%s: work on %s failed and is tried again in %.3f s: %s: %s"
                _log.exception(text, job[0].name, job[1], wait_s, type(error).__name__, error)
            finally:
                self._queue.done(job)

    async def _reconcile(self, controller: Controller, key: Key) -> Result:
        steps = controller.reconcile(key, time.time())
        try:
            effect = next(steps)
            while True:
                answer = await self._perform(effect)
                await yield_if_slice_spent()
                effect = steps.send(answer)
        except StopIteration as done:
            verdict: Result = done.value
            return verdict

    def _handle_result(self, job: QueueItem, verdict: Result) -> None:
        match verdict:
            case Done(wakes):
                self._enqueue(job[0], wakes, lambda error: self._enqueued(job, error))
                self._queue.forget(job)
            case RequeueAfter(after_s):
                self._queue.add(job, after_s)
                self._queue.forget(job)
            case RequeueWithBackoff(why):
                wait_s = self._queue.add_rate_limited(job, random.random())
                _log.debug("%s: %s is tried again in %.3f s: %s", job[0].name, job[1], wait_s, why)
            case _:
                raise TypeError(f"the work ended with {verdict!r}, which is no verdict")

    def _enqueued(self, job: QueueItem, error: Exception | None) -> None:
        if error is not None:
            wait_s = self._queue.add_rate_limited(job, random.random())
            _log.error("%s: %s is worked on again in %.3f s: %s", job[0].name, job[1], wait_s, error, exc_info=error)

    # -- effects out -----------------------------------------------------------------------------------------------

    async def _perform(self, effect: Effect) -> EffectResponse:
        match effect:
            case EmitEvent(about, type_, reason, message, component):
                self._events.emit(EventToEmit(about, reason, message, type_, component))
                return EffectResponse(202, {}, time.time())
            case ParallelRequests(requests):
                return await self._request_in_parallel(requests)
            case _:
                return await self._request(effect)

    async def _wait_until_idle(self) -> None:
        """Waits for a moment in which there is nothing to do, but not for ever."""
        if not self._queue.idle.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_WAIT_S):
                    await self._queue.idle.wait()

    async def _request_in_parallel(self, requests: Sequence[effects.RequestEffect]) -> EffectResponse:
        """A few at a time: a batch must not hold up other keys."""
        answers: list[EffectResponse | None] = [None] * len(requests)
        waiting = iter(enumerate(requests))

        async def take_turns() -> None:
            for place, request in waiting:
                answers[place] = await self._request(request)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(_AT_ONCE, len(requests))):
                group.create_task(take_turns())
        return EffectResponse(200, {}, time.time(), tuple(each for each in answers if each is not None))

    async def _request(self, effect: effects.RequestEffect) -> EffectResponse:
        try:
            response = await self._transport.request(request_of(effect))
        except Unreachable as error:
            return EffectResponse(UNREACHABLE, {"message": str(error)}, time.time())
        return response_of(effect, response, time.time())


def _watch_key(interest: WatchSpec) -> WatchKey:
    return interest.resource, interest.field_selector


def _handle_event(
    controller: Controller, resource: APIResource, event: InformerEvent, now_s: float
) -> Iterable[Enqueue]:
    match event:
        case ObjectApplied(obj):
            return controller.applied(resource, obj, now_s)
        case ObjectDeleted(namespace, name, uid):
            return controller.removed(resource, namespace, name, uid, now_s)
        case ListSynced(revision):
            return controller.synced(resource, revision, now_s)
