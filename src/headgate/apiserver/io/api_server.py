"""Runs ``handle``: performs its effects, wakes watches, and provides the time, uids and random numbers.

A transport calls an :class:`APIServer`: HTTP (``apiserver/io/http_server.py``), or a client in the same process. This
module decides nothing about requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import msgspec

from headgate.apimachinery import api_errors
from headgate.apiserver.authn.authenticator import authenticate
from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.custom.catalog import CRD_RESOURCE
from headgate.apiserver.handler import RequestSteps, handle
from headgate.apiserver.io.webhook_client import WebhookClient
from headgate.apiserver.metrics import APIServerMetrics
from headgate.apiserver.request.messages import (
    CallWebhooks,
    Commit,
    ContinueInThread,
    Effect,
    Moment,
    RecordAuditEvent,
    ServerRequest,
    ServerResponse,
    WebhookAnswer,
    WebhookCall,
)
from headgate.apiserver.state import ServerState
from headgate.apiserver.watch.index import WatchIndex
from headgate.apiserver.watch.stream import WatchStream
from headgate.apiserver.watch.watcher import WatchCursor
from headgate.apiserver.work_estimator import ExecutionPlace, continues_in_thread, execution_place
from headgate.store import Revision, StoreChange
from headgate.store.io.committer import Committer
from headgate.store.io.journal import CommitFailed
from headgate.store.io.store_lock import StoreLock

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_CHUNK_BYTES: Final = 256 * 1024


_WatchEntry = tuple[WatchStream, Callable[[], None]]  # a watch, and the function that wakes its transport
PendingResponse = Coroutine[Any, Any, "ServerResponse | WatchCursor"]


def _new_suffix() -> str:
    return "".join(random.choices(_SUFFIX_ALPHABET, k=5))


def _new_uid() -> str:
    return str(uuid.uuid4())


class _Step(msgspec.Struct, frozen=True):
    """The next effect of a request, or its response."""

    effect: Effect | None
    response: Any = None


def _advance(steps: RequestSteps, result: object) -> _Step:
    try:
        return _Step(steps.send(result))
    except StopIteration as done:
        return _Step(None, done.value)


def _advance_without_gc(steps: RequestSteps, result: object) -> _Step:
    """A long step creates a million objects that die with it. The garbage collector would scan them again and again,
    and stop all threads each time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _advance(steps, result)
    finally:
        if was_enabled:
            gc.enable()


class APIServer:
    """The embedded server, without a socket."""

    def __init__(
        self,
        api: ServerState,
        clock: Callable[[], float] = time.time,
        record: Callable[[dict[str, Any]], None] | None = None,
        metrics: APIServerMetrics | None = None,
    ) -> None:
        """``record`` is called with audit events. Without ``metrics`` nothing is measured."""
        self._api: Final = api
        self._metrics: Final = metrics
        if metrics is not None:
            metrics.watches = self._count_watches
        self._record: Final = record
        self._clock: Final = clock
        self._committer: Committer | None = None
        self._watches: Final[dict[str, WatchIndex[_WatchEntry]]] = {}  # by resource
        self._revision_waiters: Final[list[tuple[Revision, asyncio.Future[bool]]]] = []
        self._webhooks: Final = WebhookClient()
        self._webhook_tasks: Final[set[asyncio.Task[None]]] = set()
        self._own_lock: Final = StoreLock()  # used until there is a committer
        self._worker: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headgate-request")
        self.stopping = False

    def attach(self, committer: Committer) -> None:
        """Sets the committer. It is not a constructor argument because the committer needs ``publish``."""
        self._committer = committer
        self._api.health.add("storage", committer.problem)

    def publish(self, changes: Sequence[StoreChange]) -> None:
        """Changes became visible: wakes the watches of their resources, and requests that wait for a revision."""
        by_resource: dict[str, list[StoreChange]] = {}
        for change in changes:
            by_resource.setdefault(change.item.resource, []).append(change)
        if CRD_RESOURCE in by_resource:
            # A change of a CustomResourceDefinition ends the watches of its kind, whose own resource did not change.
            for resource in self._watches:
                self._wake_all(resource)
        for resource, resource_changes in by_resource.items():
            watch_index = self._watches.get(resource)
            if watch_index is not None:
                before = Revision(resource_changes[0].revision - 1)
                for stream, wake in watch_index.matching(resource_changes):
                    stream.wake(before)
                    wake()
        if self._revision_waiters:
            committed = self._api.store.committed
            for revision, future in self._revision_waiters:
                if revision <= committed and not future.done():
                    future.set_result(True)

    def stop(self) -> None:
        """Ends every watch. Responses in progress are still sent."""
        self.stopping = True
        for watch_index in self._watches.values():
            for _, wake in watch_index.all_watches():
                wake()

    async def close(self) -> None:
        """Closes the connections to webhooks."""
        for task in self._webhook_tasks:
            task.cancel()
        await self._webhooks.close()
        await self._lock.wait_until_free()
        self._worker.shutdown()

    def user_of(self, request: ServerRequest) -> UserInfo | None:
        """The user of a request, before the request is parsed; ``None`` if it gets a 401 in any case."""
        return authenticate(self._api.tokens, request, self._clock())

    async def answer(self, request: ServerRequest) -> ServerResponse | WatchCursor:
        """The response to a request."""
        started = self.begin(request)
        return await started if isinstance(started, Coroutine) else started

    def begin(self, request: ServerRequest) -> ServerResponse | WatchCursor | PendingResponse:
        """The response, if the request need not wait, like most reads; otherwise a coroutine that returns it."""
        if self._metrics is None:
            return self._begin(request)
        started_s = time.perf_counter()
        response = self._begin(request)
        if isinstance(response, Coroutine):
            return self._measured(request, response, started_s)
        self._measure(request, response, started_s)
        return response

    async def _measured(
        self, request: ServerRequest, pending: PendingResponse, started_s: float
    ) -> ServerResponse | WatchCursor:
        response = await pending
        self._measure(request, response, started_s)
        return response

    def _measure(self, request: ServerRequest, response: ServerResponse | WatchCursor, started_s: float) -> None:
        if self._metrics is not None:
            info, took_s = request.info, time.perf_counter() - started_s
            kinds = self._api.kinds
            kind = kinds.by_resource(info.group, info.version, info.resource) if info.is_resource_request else None
            status = 200 if isinstance(response, WatchCursor) else response.status
            self._metrics.request_handled(info, kind, status, took_s)

    def _count_watches(self) -> dict[str, int]:
        counts = {resource: len(each.all_watches()) for resource, each in self._watches.items()}
        return {resource: count for resource, count in counts.items() if count}

    def _begin(self, request: ServerRequest) -> ServerResponse | WatchCursor | PendingResponse:
        moment = Moment(self._clock(), _new_uid, _new_suffix, random.randrange)
        steps = handle(self._api, request, moment)
        place = execution_place(self._api, request)
        if place == "thread" or (place == "turn" and self._lock.held):
            return self._run_steps(steps, place)
        step = _advance(steps, None)
        return (
            self._with_webhook_calls(step.response)
            if step.effect is None
            else self._run_steps(steps, place, step.effect)
        )

    async def _run_steps(
        self, steps: RequestSteps, place: ExecutionPlace, effect: Effect | None = None
    ) -> ServerResponse | WatchCursor:
        while True:
            result = None
            if effect is not None:
                result = await self._perform(effect)
                if continues_in_thread(effect, result):
                    place = "thread"
            if place == "thread":
                step = await self._in_thread(steps, result)
            else:
                if place == "turn":
                    await self._lock.wait_until_free()
                step = _advance(steps, result)
            if step.effect is None:
                return self._with_webhook_calls(step.response)
            effect = step.effect

    async def _in_thread(self, steps: RequestSteps, result: object) -> _Step:
        """Runs one step in the worker thread, and holds the lock of the store meanwhile. The step runs to its end even
        if the request is cancelled."""
        await self._lock.acquire()
        loop = asyncio.get_running_loop()
        try:
            self._api.catch_up()
            future = self._worker.submit(_advance_without_gc, steps, result)
        except BaseException:
            self._lock.release()
            raise
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._lock.release))
        return await asyncio.shield(asyncio.wrap_future(future))

    @property
    def _lock(self) -> StoreLock:
        return self._own_lock if self._committer is None else self._committer.lock

    def _with_webhook_calls(self, response: ServerResponse | WatchCursor) -> ServerResponse | WatchCursor:
        """The response; a watch gets the function with which it can call conversion webhooks."""
        if isinstance(response, WatchCursor):
            response.call_webhook = partial(self._call_webhook, response.resource)
        return response

    def _wake_all(self, resource: str) -> None:
        """Wakes every watch of a resource, also those whose scope has no changes."""
        watch_index = self._watches.get(resource)
        for stream, wake in watch_index.all_watches() if watch_index is not None else ():
            stream.wake(Revision(0))
            wake()

    def _call_webhook(self, resource: str, call: WebhookCall, on_response: Callable[[WebhookAnswer], None]) -> None:
        async def call_webhook() -> None:
            on_response((await self._webhooks.call((call,)))[0])
            self._wake_all(resource)

        task = asyncio.get_running_loop().create_task(call_webhook())
        self._webhook_tasks.add(task)
        task.add_done_callback(self._webhook_tasks.discard)

    async def _perform(self, effect: Effect) -> object:
        match effect:
            case Commit(revision):
                return await self._commit(revision)
            case CallWebhooks(calls):
                return await self._webhooks.call(calls)
            case RecordAuditEvent(event):
                return None if self._record is None else self._record(event)
            case ContinueInThread():
                return None
            case _:
                return await self._wait(effect.revision, effect.timeout_s)

    async def _commit(self, revision: Revision) -> api_errors.StatusError | None:
        if self._committer is None:
            return api_errors.internal_error("the store is not open")
        try:
            await self._committer.flush(revision)
        except CommitFailed as problem:
            if problem.unknown:
                return api_errors.outcome_unknown(str(problem))
            return (api_errors.insufficient_storage if problem.full else api_errors.internal_error)(str(problem))
        return None

    async def _wait(self, revision: Revision, timeout_s: float) -> bool:
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        entry = (revision, future)
        self._revision_waiters.append(entry)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            return False
        finally:
            self._revision_waiters.remove(entry)

    def follow(self, stream: WatchStream, wake: Callable[[], None]) -> Callable[[], None]:
        """Calls ``wake`` whenever the stream may have events. The returned function ends that."""
        watch_index = self._watches.setdefault(stream.resource, WatchIndex())
        entry = (stream, wake)
        watch_index.add(entry, stream.scope)
        return lambda: watch_index.remove(entry, stream.scope)

    async def events(self, watch: WatchCursor) -> AsyncGenerator[bytes, None]:
        """The stream of a watch until it ends, times out or the server stops; several events may come as one chunk."""
        wake = asyncio.Event()
        loop = asyncio.get_running_loop()
        stream = WatchStream(watch, loop.time())
        remove_watch = self.follow(stream, wake.set)
        try:
            while not (self.stopping or stream.ended):
                wake.clear()
                chunk = stream.take(loop.time(), _CHUNK_BYTES)
                if chunk:
                    yield chunk
                if stream.ended or stream.behind:
                    continue
                # Not wait_for: before Python 3.12 it can lose a cancellation that comes together with the event.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(stream.due_s - loop.time(), 0)):
                        await wake.wait()
        finally:
            remove_watch()
