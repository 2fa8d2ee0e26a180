"""Runs ``handle``: performs its effects, wakes watches, and provides time and fresh identities.

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
from headgate.apiserver.custom.catalog import DEFINITIONS
from headgate.apiserver.handler import Answering, handle
from headgate.apiserver.io.webhook_client import WebhookClient
from headgate.apiserver.request.messages import (
    CallWebhooks,
    Commit,
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
from headgate.apiserver.work_estimator import ExecutionPlace, execution_place, has_long_answers
from headgate.store import Revision, StoreChange
from headgate.store.io.committer import Committer
from headgate.store.io.journal import CommitFailed
from headgate.store.io.store_lock import StoreLock

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_CHUNK_BYTES: Final = 256 * 1024


_Follower = tuple[WatchStream, Callable[[], None]]
Pending = Coroutine[Any, Any, "ServerResponse | WatchCursor"]


def _new_suffix() -> str:
    return "".join(random.choices(_SUFFIX_ALPHABET, k=5))


def _new_uid() -> str:
    return str(uuid.uuid4())


class _Step(msgspec.Struct, frozen=True):
    """What a request wants done before it goes on, or its answer."""

    effect: Effect | None
    answer: Any = None


def _advance(steps: Answering, result: object) -> _Step:
    try:
        return _Step(steps.send(result))
    except StopIteration as done:
        return _Step(None, done.value)


def _advance_uncollected(steps: Answering, result: object) -> _Step:
    """A long step makes a million objects, which all go with it. The garbage collector would look at all of them again
    and again, each time holding up every thread."""
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
    ) -> None:
        """``record`` takes audit events."""
        self._api: Final = api
        self._record: Final = record
        self._clock: Final = clock
        self._committer: Committer | None = None
        self._followers: Final[dict[str, WatchIndex[_Follower]]] = {}  # by resource
        self._waiting: Final[list[tuple[Revision, asyncio.Future[bool]]]] = []
        self._webhooks: Final = WebhookClient()
        self._questions: Final[set[asyncio.Task[None]]] = set()
        self._alone: Final = StoreLock()  # until there is a committer
        self._worker: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headgate-request")
        self.stopping = False

    def attach(self, committer: Committer) -> None:
        """The committer needs ``publish`` to be made, and the endpoint needs the committer: hence two steps."""
        self._committer = committer
        self._api.health.add("storage", committer.problem)

    def publish(self, changes: Sequence[StoreChange]) -> None:
        """What just became visible: wake the watches of those resources, and who waits for a revision."""
        by_resource: dict[str, list[StoreChange]] = {}
        for change in changes:
            by_resource.setdefault(change.item.resource, []).append(change)
        if DEFINITIONS in by_resource:
            # A change of a definition ends the watches of its kind, whose own resource did not change.
            for resource in self._followers:
                self._wake_all(resource)
        for resource, its_changes in by_resource.items():
            followers = self._followers.get(resource)
            if followers is not None:
                before = Revision(its_changes[0].revision - 1)
                for stream, wake in followers.matching(its_changes):
                    stream.wake(before)
                    wake()
        if self._waiting:
            committed = self._api.store.committed
            for wanted, future in self._waiting:
                if wanted <= committed and not future.done():
                    future.set_result(True)

    def stop(self) -> None:
        """End every watch; answers under way are still given."""
        self.stopping = True
        for followers in self._followers.values():
            for _, wake in followers.all_watches():
                wake()

    async def close(self) -> None:
        """Let go of the connections to webhooks."""
        for question in self._questions:
            question.cancel()
        await self._webhooks.close()
        await self._exclusion.wait_until_free()
        self._worker.shutdown()

    def user_of(self, request: ServerRequest) -> UserInfo | None:
        """The user of a request, before the request is parsed; ``None`` if it gets a 401 in any case."""
        return authenticate(self._api.tokens, request, self._clock())

    async def answer(self, request: ServerRequest) -> ServerResponse | WatchCursor:
        """What the server says to a request."""
        answered = self.begin(request)
        return await answered if isinstance(answered, Coroutine) else answered

    def begin(self, request: ServerRequest) -> ServerResponse | WatchCursor | Pending:
        """The answer if it needs no waiting, as most reads do; else what must be awaited to have it."""
        moment = Moment(self._clock(), _new_uid, _new_suffix, random.randrange)
        steps = handle(self._api, request, moment)
        place = execution_place(self._api, request)
        if place == "thread" or (place == "turn" and self._exclusion.held):
            return self._drive(steps, place)
        step = _advance(steps, None)
        return self._served(step.answer) if step.effect is None else self._drive(steps, place, step.effect)

    async def _drive(
        self, steps: Answering, place: ExecutionPlace, effect: Effect | None = None
    ) -> ServerResponse | WatchCursor:
        while True:
            result = None
            if effect is not None:
                result = await self._perform(effect)
                if has_long_answers(effect, result):
                    place = "thread"
            if place == "thread":
                step = await self._in_thread(steps, result)
            else:
                if place == "turn":
                    await self._exclusion.wait_until_free()
                step = _advance(steps, result)
            if step.effect is None:
                return self._served(step.answer)
            effect = step.effect

    async def _in_thread(self, steps: Answering, result: object) -> _Step:
        """One step beside the event loop. It runs to its end even if no task waits for it, and others wait for it."""
        await self._exclusion.acquire()
        loop = asyncio.get_running_loop()
        try:
            self._api.catch_up()
            job = self._worker.submit(_advance_uncollected, steps, result)
        except BaseException:
            self._exclusion.release()
            raise
        job.add_done_callback(lambda _: loop.call_soon_threadsafe(self._exclusion.release))
        return await asyncio.shield(asyncio.wrap_future(job))

    @property
    def _exclusion(self) -> StoreLock:
        return self._alone if self._committer is None else self._committer.lock

    def _served(self, answer: ServerResponse | WatchCursor) -> ServerResponse | WatchCursor:
        """A watch may have to ask a webhook, long after it was answered."""
        if isinstance(answer, WatchCursor):
            answer.ask = partial(self._ask, answer.resource)
        return answer

    def _wake_all(self, resource: str) -> None:
        """Have every watch of a resource look, whatever it has seen."""
        followers = self._followers.get(resource)
        for stream, wake in followers.all_watches() if followers is not None else ():
            stream.wake(Revision(0))
            wake()

    def _ask(self, resource: str, call: WebhookCall, tell: Callable[[WebhookAnswer], None]) -> None:
        async def ask() -> None:
            tell((await self._webhooks.call((call,)))[0])
            self._wake_all(resource)

        task = asyncio.get_running_loop().create_task(ask())
        self._questions.add(task)
        task.add_done_callback(self._questions.discard)

    async def _perform(self, effect: Effect) -> object:
        match effect:
            case Commit(revision):
                return await self._commit(revision)
            case CallWebhooks(calls):
                return await self._webhooks.call(calls)
            case RecordAuditEvent(event):
                return None if self._record is None else self._record(event)
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
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(entry)

    def follow(self, stream: WatchStream, wake: Callable[[], None]) -> Callable[[], None]:
        """Have ``wake`` called whenever the stream may have something to give; the result ends that."""
        followers = self._followers.setdefault(stream.resource, WatchIndex())
        follower = (stream, wake)
        followers.add(follower, stream.interest)
        return lambda: followers.remove(follower, stream.interest)

    async def events(self, watch: WatchCursor) -> AsyncGenerator[bytes, None]:
        """The stream of a watch until it ends, times out or the server stops; several events may come as one chunk."""
        wake = asyncio.Event()
        loop = asyncio.get_running_loop()
        stream = WatchStream(watch, loop.time())
        unfollow = self.follow(stream, wake.set)
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
            unfollow()
