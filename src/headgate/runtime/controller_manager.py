"""The controller manager: one watch per resource for all controllers, one work queue, and a few workers.

The manager reads discovery at the start and again when a CustomResourceDefinition changes. It passes the served kinds
to the controllers, and starts and stops watches accordingly. If a controller raises an error on an object, the manager
logs it and delivers the object again (``client/io/redelivery.py``); a key is requeued with back-off. Other objects and
keys are not affected. Keys that failed because no connection to the API server could be opened are tried again as soon
as it responds. All state comes from the API server, so a controller that is killed at any point resumes after a
restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from headgate.client.backoff import Backoff
from headgate.client.io.cancellation import raise_if_cancelled
from headgate.client.io.event_recorder import EventRecorder, EventToEmit
from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied, ObjectDeleted
from headgate.client.io.redelivery import Redelivery
from headgate.client.io.time_slice import yield_if_slice_spent
from headgate.client.io.writer import Writer
from headgate.client.permissions import is_missing_right
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
from headgate.runtime.reachability import ReachabilityTransport
from headgate.runtime.work_queue import WorkQueue

Object = dict[str, Any]
QueueItem = tuple[Controller, Key]
Sleep = Callable[[float], Awaitable[None]]
WatchKey = tuple[APIResource, str]  # a resource and a field selector

_log: Final = logging.getLogger(__name__)
_WORKERS: Final = 32
"""There are many workers because they mostly wait for responses, and the embedded API server commits the writes of all
workers in one transaction."""
_SYNC_TIMEOUT_S: Final = 30.0
_DISCOVERY_RETRY_S: Final = 1.0
_DISCOVERY_RESYNC_S: Final = 2.0
_RESTART_S: Final = 1.0
_STABLE_S: Final = 60.0
"""A watch that ran this long before it failed starts again without the back-off of earlier failures."""
_SERVER_START_S: Final = 30.0
_SERVER_START_RETRY_S: Final = 1.0
"""For this long after a refused connection, keys that fail are tried again after this time, and jitter, at the latest:
an API server that starts answers 403, 429 and 503 for some seconds."""
_NOT_SERVED_S: Final = 10.0
"""How long the watch of a kind in discovery may return 404 without a warning. Discovery still has the kind for some
time after its definition is deleted."""
_OF_DEFINITIONS: Final = frozenset({"metadata.generation"})
"""The fields that are watched of CustomResourceDefinitions if no controller needs others."""
_MAX_PARALLEL: Final = 64
"""How many requests of one ``ParallelRequests`` are in flight at a time."""
_DISCOVERY_HANDLER_FAILED: Final = "the discovery result could not be processed; discovery is read again"
_EVENT_ATTEMPTS: Final = 2
_EVENT_WRITERS: Final = 8
"""There are several writers because many controllers emit Events, and each writer waits until its Event is
committed."""
_MAX_PENDING_EVENTS: Final = 16_384
_ENQUEUES_AT_ONCE: Final = 500
"""How many keys are enqueued for one watch event before the event loop runs other tasks."""
_IDLE_WAIT_S: Final = 0.25
"""How long an Event waits for an idle work queue; after that it is written anyway."""


async def run_controllers(
    make: Callable[[], Sequence[Controller]],
    transport: Transport,
    *,
    sleep: Sleep = asyncio.sleep,
    failed: Callable[[BaseException], None] = lambda error: None,
) -> None:
    """Runs controllers until it is cancelled. If the controller manager raises an error, ``failed`` is called, and a
    new manager with new controllers starts from the API state alone."""
    while True:
        try:
            await ControllerManager(make(), transport, sleep=sleep).run()
        except Exception as error:
            raise_if_cancelled()
            _log.exception("controllers: the controller manager failed; it starts again with new controllers")
            failed(error)
        await sleep(_RESTART_S)


class _SharedInformer:
    """One watch, and the controllers that receive its events."""

    def __init__(
        self, fields: frozenset[str], controllers: Sequence[Controller], listeners: Sequence[Redelivery]
    ) -> None:
        self.fields = fields
        self.controllers = controllers
        self.listeners = listeners
        self.synced = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.not_found_since_s: float | None = None
        self.has_warned = False

    def close(self) -> None:
        if self.task is not None:
            self.task.cancel()
        for listener in self.listeners:
            listener.close()


class _PendingEnqueues(msgspec.Struct):
    """The keys that a controller returned for one watch event or reconcile, and that are not in the work queue yet."""

    controller: Controller
    rest: Iterator[Enqueue]
    done: Callable[[Exception | None], None]
    """Called once, with the error or None, when all keys are enqueued; not called if they could be enqueued at once."""
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
        self._transport: Final = ReachabilityTransport(transport, self._retry_unreached)
        self._workers = workers
        self._sleep = sleep
        # Usually one for each key; another one for controllers that need the kind only after others do.
        self._informers: dict[WatchKey, list[_SharedInformer]] = {}
        writer = Writer(self._transport, jitter=random.random, sleep=sleep, attempts=_EVENT_ATTEMPTS)
        self._events = EventRecorder(
            writer, max_events=_MAX_PENDING_EVENTS, workers=_EVENT_WRITERS, before_write=self._wait_until_idle
        )
        self._reported_rights: Final[set[str]] = set()
        self._kinds_changed = asyncio.Event()
        self._discovery_backoff = Backoff(_DISCOVERY_RETRY_S)
        self._unreached: Final[set[QueueItem]] = set()  # keys that failed while connections were refused
        self._pending_enqueues: Final[deque[_PendingEnqueues]] = deque()
        self._has_pending_enqueues: Final = asyncio.Event()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        self._queue: WorkQueue[QueueItem] = WorkQueue()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._enqueue_rest())
                await self._discover(group)
                group.create_task(self._run_discovery(group))
                await self._wait_for_lists()
                group.create_task(self._events.run())
                for _ in range(self._workers):
                    group.create_task(self._worker())
        finally:
            self._queue.close()
            for informer in self._all_informers():
                informer.close()

    # -- discovery and watches -------------------------------------------------------------------------------------

    async def _run_discovery(self, group: asyncio.TaskGroup) -> None:
        """Reads discovery after every change of a CustomResourceDefinition. A definition may exist only for a short
        time, and a controller that missed its kind would never process its objects."""
        while True:
            await self._kinds_changed.wait()
            while self._kinds_changed.is_set():
                self._kinds_changed.clear()
                await self._discover(group)
                await self._wait_for_change(_DISCOVERY_RESYNC_S)
            # A definition exists before its kind is served, so discovery is read once more after the last change.
            await self._discover(group)

    async def _wait_for_change(self, wait_s: float) -> None:
        changed, timeout = asyncio.create_task(self._kinds_changed.wait()), asyncio.ensure_future(self._sleep(wait_s))
        try:
            await asyncio.wait([changed, timeout], return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            timeout.cancel()

    async def _discover(self, group: asyncio.TaskGroup) -> None:
        while True:
            responses = [await self._request(Discover("/api")), await self._request(Discover("/apis"))]
            problem = "; ".join(each.message for each in responses if not each.ok)
            if not problem:
                try:
                    served = DiscoveredKinds.read(response.body for response in responses)
                    break
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    problem = f"the response is not a discovery document: {type(error).__name__}: {error}"
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
        """Passes the served kinds to the controller. Returns false if the controller raised an error; discovery is then
        read again with back-off."""

        def done(error: Exception | None) -> None:
            if error is not None:
                _log.error("%s: %s", controller.name, _DISCOVERY_HANDLER_FAILED, exc_info=error)
                self._discover_later()

        try:
            self._enqueue(controller, controller.discovered(served), done)
        except Exception:
            _log.exception("%s: %s", controller.name, _DISCOVERY_HANDLER_FAILED)
            return False
        return True

    def _update_watches(self, group: asyncio.TaskGroup, served: DiscoveredKinds) -> None:
        """Starts the watches that are missing, and stops those that no controller needs any more. A controller that
        needs a kind later than others gets its own watch, which lists all objects for it."""
        wanted: dict[WatchKey, dict[Controller, list[WatchSpec]]] = {}
        for controller in self._controllers:
            for spec in controller.watches():
                wanted.setdefault(_watch_key(spec), {}).setdefault(controller, []).append(spec)
        if any(row.resource == CUSTOM_RESOURCE_DEFINITIONS for row in served.preferred):
            wanted.setdefault((CUSTOM_RESOURCE_DEFINITIONS, ""), {})
        for watch_key in [watch_key for watch_key in self._informers if watch_key not in wanted]:
            for informer in self._informers.pop(watch_key):
                informer.close()
        for watch_key, specs in wanted.items():
            known = self._informers.setdefault(watch_key, [])
            served_controllers = {each for informer in known for each in informer.controllers}
            missing = [each for each in specs if each not in served_controllers]
            if not known or missing:
                known.append(self._started_informer(group, watch_key, {each: specs[each] for each in missing}))

    def _started_informer(
        self, group: asyncio.TaskGroup, watch_key: WatchKey, specs: Mapping[Controller, Sequence[WatchSpec]]
    ) -> _SharedInformer:
        resource = watch_key[0]
        fields = watched_fields(spec for each in specs.values() for spec in each) if specs else _OF_DEFINITIONS
        informer = _SharedInformer(fields, list(specs), [self._delivery(each, resource) for each in specs])
        for controller in specs:
            self._enqueue(controller, controller.listing(resource), _ignore)
        informer.task = group.create_task(self._run_informer(resource, self._informer(watch_key, informer)))
        return informer

    def _all_informers(self) -> list[_SharedInformer]:
        return [informer for informers in self._informers.values() for informer in informers]

    def _delivery(self, controller: Controller, resource: APIResource) -> Redelivery:
        """Delivers the events of a resource to the controller, and delivers an event again after an error."""

        def handle(event: InformerEvent) -> None:
            enqueues = _handle_event(controller, resource, event, time.time())
            if not self._enqueue(controller, enqueues, lambda error: delivery.finish(event, error)):
                delivery.postpone(event)

        delivery = Redelivery(controller.name, resource.plural, handle)
        return delivery

    async def _run_informer(self, resource: APIResource, informer: Informer) -> None:
        """Runs an informer, and runs it again after an unexpected error. Other watches are not affected."""
        backoff = Backoff(_DISCOVERY_RETRY_S)
        while True:
            started_s = time.monotonic()
            try:
                await informer.run()
            except Exception:
                _log.exception("controllers: the watch of %s failed; it starts again", resource.plural)
            if time.monotonic() - started_s >= _STABLE_S:
                backoff.reset()
            await self._sleep(backoff.next(random.random()))

    def _informer(self, watch_key: WatchKey, informer: _SharedInformer) -> Informer:
        resource, selector = watch_key
        return Informer(
            self._transport,
            resource.collection_path(),
            lambda event: self._observe(resource, informer, event),
            jitter=random.random,
            sleep=self._sleep,
            query={"fieldSelector": selector} if selector else {},
            fields=informer.fields,
            not_found=lambda problem: self._handle_not_served(informer, problem),
            report=self._report,
        )

    def _report(self, problem: str) -> None:
        """Logs a problem of a watch. A missing right stays missing until an administrator grants it, so it is logged
        once, and not at each retry."""
        if is_missing_right(problem):
            if problem in self._reported_rights:
                return
            self._reported_rights.add(problem)
        _log.warning("controllers: %s", problem)

    def _handle_not_served(self, informer: _SharedInformer, problem: str) -> None:
        """A kind whose definition was deleted returns 404 until discovery is read again, which stops its watch. Only a
        kind that stays in discovery and is not served is reported."""
        now_s = time.monotonic()
        if informer.not_found_since_s is None:
            informer.not_found_since_s = now_s
            self._kinds_changed.set()
        elif now_s - informer.not_found_since_s > _NOT_SERVED_S and not informer.has_warned:
            informer.has_warned = True
            _log.warning("controllers: discovery lists a kind that is not served: %s", problem)

    async def _wait_for_lists(self) -> None:
        """Waits until all watches have delivered their list, at most :data:`_SYNC_TIMEOUT_S`: one kind that cannot be
        listed must not stop the others."""
        waits = [asyncio.create_task(informer.synced.wait()) for informer in self._all_informers()]
        _, late = await asyncio.wait(waits, timeout=_SYNC_TIMEOUT_S)
        for task in late:
            task.cancel()
        if late:
            _log.warning("controllers: %d kinds could not be listed yet; controllers start without them", len(late))

    # -- watch events ----------------------------------------------------------------------------------------------

    def _observe(self, resource: APIResource, informer: _SharedInformer, event: InformerEvent) -> None:
        informer.not_found_since_s, informer.has_warned = None, False
        if isinstance(event, ListSynced):
            informer.synced.set()
        elif resource == CUSTOM_RESOURCE_DEFINITIONS:
            self._kinds_changed.set()
        for listener in informer.listeners:
            listener.deliver(event)

    def _enqueue(
        self, controller: Controller, enqueues: Iterable[Enqueue], done: Callable[[Exception | None], None]
    ) -> bool:
        """Adds keys to the work queue. Returns False if there are too many for one turn of the event loop: the rest is
        added later, and then ``done`` is called."""
        pending = _PendingEnqueues(controller, iter(enqueues), done)
        if self._enqueue_some(pending):
            return True
        self._pending_enqueues.append(pending)
        self._has_pending_enqueues.set()
        return False

    def _enqueue_some(self, pending: _PendingEnqueues) -> bool:
        """Returns whether all keys are queued. If a key cannot be queued, its error is raised after the last key."""
        count = 0
        for enqueue in islice(pending.rest, _ENQUEUES_AT_ONCE):
            count += 1
            try:
                self._queue.add((pending.controller, enqueue.key), enqueue.after_s)
            except Exception as error:
                _log.error(
                    "%s: %s cannot be queued: %s: %s", pending.controller.name, enqueue, type(error).__name__, error
                )
                pending.failed = error
        if count == _ENQUEUES_AT_ONCE:
            return False
        if pending.failed is not None:
            raise pending.failed
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
                first.done(failed)
            self._has_pending_enqueues.clear()

    # -- workers ---------------------------------------------------------------------------------------------------

    async def _worker(self) -> None:
        while True:
            item = await self._queue.get()
            try:
                await yield_if_slice_spent()
                refused_before = self._transport.refused_connections
                result = await self._reconcile(*item)
                was_refused = self._transport.refused_connections > refused_before
                self._handle_result(item, result, was_refused=was_refused)
            except Exception as error:
                # An error on one key must not stop the worker.
                wait_s = self._queue.add_rate_limited(item, random.random())
                text = "%s: the reconcile of %s failed and is tried again in %.3f s: %s: %s"
                _log.exception(text, item[0].name, item[1], wait_s, type(error).__name__, error)
            finally:
                self._queue.done(item)

    async def _reconcile(self, controller: Controller, key: Key) -> Result:
        steps = controller.reconcile(key, time.time())
        try:
            effect = next(steps)
            while True:
                response = await self._perform(effect)
                await yield_if_slice_spent()
                effect = steps.send(response)
        except StopIteration as done:
            result: Result = done.value
            return result

    def _handle_result(self, item: QueueItem, result: Result, *, was_refused: bool) -> None:
        """``was_refused``: a connection was refused meanwhile, perhaps that of another key."""
        match result:
            case Done(enqueues):
                self._enqueue(item[0], enqueues, lambda error: self._handle_enqueue_error(item, error))
                self._queue.forget(item)
            case RequeueAfter(after_s):
                self._queue.add(item, after_s)
                self._queue.forget(item)
            case RequeueWithBackoff(reason, enqueues):
                self._enqueue(item[0], enqueues, lambda error: self._handle_enqueue_error(item, error))
                if was_refused:
                    self._unreached.add(item)
                is_starting = not was_refused and self._transport.refused_within(_SERVER_START_S)
                max_s = _SERVER_START_RETRY_S if is_starting else math.inf
                wait_s = self._queue.add_rate_limited(item, random.random(), max_s)
                _log.debug("%s: %s is tried again in %.3f s: %s", item[0].name, item[1], wait_s, reason)
            case _:
                raise TypeError(f"the reconciler returned {result!r}, which is not a Result")

    def _handle_enqueue_error(self, item: QueueItem, error: Exception | None) -> None:
        if error is not None:
            wait_s = self._queue.add_rate_limited(item, random.random())
            text = (
                "%s: keys that the reconcile of %s returned could not be queued; it is reconciled again in %.3f s: %s"
            )
            _log.error(text, item[0].name, item[1], wait_s, error, exc_info=error)

    # -- effects ---------------------------------------------------------------------------------------------------

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
        """Waits until the work queue is idle, at most :data:`_IDLE_WAIT_S`: reconciles come before Events."""
        if not self._queue.idle.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_WAIT_S):
                    await self._queue.idle.wait()

    async def _request_in_parallel(self, requests: Sequence[effects.RequestEffect]) -> EffectResponse:
        """Sends :data:`_MAX_PARALLEL` requests at a time, so that a large batch does not delay other keys."""
        responses: list[EffectResponse | None] = [None] * len(requests)
        rest = iter(enumerate(requests))

        async def work() -> None:
            for index, request in rest:
                responses[index] = await self._request(request)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(_MAX_PARALLEL, len(requests))):
                group.create_task(work())
        return EffectResponse(200, {}, time.time(), tuple(each for each in responses if each is not None))

    async def _request(self, effect: effects.RequestEffect) -> EffectResponse:
        try:
            response = await self._transport.request(request_of(effect))
        except Unreachable as error:
            return EffectResponse(UNREACHABLE, {"message": str(error)}, time.time(), was_sent=error.sent)
        return response_of(effect, response, time.time())

    def _retry_unreached(self) -> None:
        """The API server has responded."""
        if self._unreached:
            self._queue.retry_now(self._unreached)
            self._unreached.clear()


def _ignore(error: Exception | None) -> None:
    """Nothing follows when the keys are enqueued."""


def _watch_key(spec: WatchSpec) -> WatchKey:
    return spec.resource, spec.field_selector


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
