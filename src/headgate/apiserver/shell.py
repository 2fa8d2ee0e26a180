"""Drives ``handle``: performs its effects, keeps watches fed, and gives it time and identities.

:class:`Endpoint` is what a transport talks to, whether it is HTTP (``apiserver/http/shell.py``) or a client in the
same process. It decides nothing about requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from headgate.apiserver.api import Api
from headgate.apiserver.handle import handle
from headgate.apiserver.messages import CallWebhooks, Commit, Effect, Moment, Request, Response
from headgate.apiserver.watching import Watch
from headgate.apiserver.webhooks.shell import Webhooks
from headgate.kube import status
from headgate.store import Change, Revision
from headgate.store.journal.shell import CommitFailed
from headgate.store.shell import Committer

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_BOOKMARK_EVERY_S: Final = 60.0
_LATE_S: Final = 0.05  # clients complain of a watch that ends before its time, never of one that ends after


def _new_suffix() -> str:
    return "".join(random.choices(_SUFFIX_ALPHABET, k=5))


def _new_uid() -> str:
    return str(uuid.uuid4())


class Endpoint:
    """The embedded server, without a socket."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.time) -> None:
        self._api: Final = api
        self._clock: Final = clock
        self._committer: Committer | None = None
        self._sleepers: Final[dict[str, set[asyncio.Event]]] = {}
        self._waiting: Final[list[tuple[Revision, asyncio.Future[bool]]]] = []
        self._webhooks: Final = Webhooks()
        self._stopping = False

    def attach(self, committer: Committer) -> None:
        """The committer needs ``publish`` to be made, and the endpoint needs the committer: hence two steps."""
        self._committer = committer

    def publish(self, changes: Sequence[Change]) -> None:
        """What just became visible: wake the watches of those resources, and who waits for a revision."""
        for resource in {change.item.resource for change in changes}:
            for event in self._sleepers.get(resource, ()):
                event.set()
        if self._waiting:
            committed = self._api.store.committed
            for wanted, future in self._waiting:
                if wanted <= committed and not future.done():
                    future.set_result(True)

    def stop(self) -> None:
        """End every watch; answers under way are still given."""
        self._stopping = True
        for events in self._sleepers.values():
            for event in events:
                event.set()

    async def close(self) -> None:
        """Let go of the connections to webhooks."""
        await self._webhooks.close()

    async def answer(self, request: Request) -> Response | Watch:
        moment = Moment(self._clock(), _new_uid, _new_suffix, random.randrange)
        steps = handle(self._api, request, moment)
        try:
            effect = next(steps)
            while True:
                effect = steps.send(await self._perform(effect))
        except StopIteration as done:
            answered: Response | Watch = done.value
            return answered

    async def _perform(self, effect: Effect) -> object:
        match effect:
            case Commit(revision):
                return await self._commit(revision)
            case CallWebhooks(calls):
                return await self._webhooks.call(calls)
            case _:
                return await self._wait(effect.revision, effect.timeout_s)

    async def _commit(self, revision: Revision) -> status.ApiError | None:
        if self._committer is None:
            return status.internal_error("the store is not open")
        try:
            await self._committer.flush(revision)
        except CommitFailed as problem:
            return (status.insufficient_storage if problem.full else status.internal_error)(str(problem))
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

    async def events(self, watch: Watch) -> AsyncGenerator[bytes, None]:
        """The stream of a watch until it ends, times out or the server stops; several events may come as one chunk."""
        wake = asyncio.Event()
        sleepers = self._sleepers.setdefault(watch.resource, set())
        sleepers.add(wake)
        loop = asyncio.get_running_loop()
        ends = loop.time() + watch.timeout_s + _LATE_S
        bookmark_due = loop.time() + _BOOKMARK_EVERY_S
        try:
            while not self._stopping:
                wake.clear()
                chunk = b"".join(watch.pull())
                if chunk:
                    yield chunk
                now = loop.time()
                if watch.ended or now >= ends:
                    return
                if watch.wants_bookmarks and now >= bookmark_due:
                    bookmark_due = now + _BOOKMARK_EVERY_S
                    yield watch.bookmark()
                until = min(ends, bookmark_due) if watch.wants_bookmarks else ends
                # Not wait_for: before Python 3.12 it can lose a cancellation that comes together with the event.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(until - now, 0)):
                        await wake.wait()
        finally:
            sleepers.discard(wake)
