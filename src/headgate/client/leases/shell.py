"""Takes part in an election: reads and writes the Lease, starts the work when elected and stops it before the end.

``Elector.room_s`` is the fence that ``client/writer.py`` asks before every write. The work is a coroutine function; it
is cancelled when leadership ends, and awaited before this candidate stands again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from headgate.client.leases.election import Ask, Election, Timing, Wait, Write
from headgate.client.leases.record import Stored, lease_of, read_lease
from headgate.client.outcome import message_of
from headgate.client.transport import Request, Response, Transport, Unreachable
from headgate.kube import wire_json
from headgate.kube.resource import LEASES
from headgate.kube.timestamps import format_micro_time

Object = dict[str, Any]

_log: Final = logging.getLogger(__name__)
_ANSWER_S: Final = 5.0
_JSON: Final = {"accept": "application/json", "content-type": "application/json"}
# A leader that slept with its machine must not believe that no time has passed.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_MISSING: Final = 404
_CONTENDED: Final = 409


def clock_s() -> float:
    return time.clock_gettime(_CLOCK)


def new_identity() -> str:
    """Names the machine for people; the rest makes it this process's alone."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Elector:
    """One candidate. ``identity`` must be unique among all processes that ever stand."""

    def __init__(
        self, transport: Transport, namespace: str, name: str, identity: str, timing: Timing | None = None
    ) -> None:
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._timing = timing or Timing()
        problem = self._timing.problem()
        if problem:
            raise ValueError(problem)
        self._election = Election(identity, self._timing)
        self._work: asyncio.Task[None] | None = None

    def room_s(self) -> float:
        """How long a write that starts now may take; 0: nothing may be written."""
        return self._election.room_s(clock_s())

    @property
    def leader(self) -> str:
        return self._election.leader

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Stands for election until it is cancelled; then the lease is given back."""
        try:
            while True:
                await self._advance()
                leads = self._election.may_write(clock_s())
                if leads and (self._work is None or self._work.done()):
                    _log.info("%s/%s: elected", self._namespace, self._name)
                    self._work = asyncio.create_task(self._lead(lead))
                elif not leads and self._work is not None:
                    _log.warning("Lease %s/%s: no longer elected", self._namespace, self._name)
                    await self._stop()
        finally:
            await self._leave()

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        try:
            await lead()
        except Exception:
            _log.exception("%s/%s: the leader's work failed and starts again", self._namespace, self._name)

    async def _advance(self) -> None:
        election = self._election
        step = election.step(clock_s(), format_micro_time(time.time()))
        match step:
            case Wait(until_s):
                await asyncio.sleep(max(0.0, min(until_s, self._ends_s()) - clock_s()))
            case Ask():
                path = LEASES.object(self._namespace, self._name)
                self._hear(await self._send(Request("GET", path, "", _JSON)))
            case Write(_, before):
                self._hear(await self._send(self._request(step)), created=before is None)

    def _ends_s(self) -> float:
        """When we must look up at the latest: leadership ends by itself."""
        now_s = clock_s()
        return self._election.held_until_s if self._election.may_write(now_s) else now_s + self._timing.lease_s

    async def _send(self, request: Request) -> Response | None:
        limit_s = max(0.1, min(_ANSWER_S, self._ends_s() - clock_s()))
        try:
            async with asyncio.timeout(limit_s):
                return await self._transport.request(msgspec.structs.replace(request, timeout_s=limit_s))
        except TimeoutError:
            _log.warning("%s/%s: no answer within %.1f s", self._namespace, self._name, limit_s)
        except Unreachable as error:
            _log.warning("%s/%s: %s", self._namespace, self._name, error)
        return None

    def _hear(self, response: Response | None, *, created: bool = False) -> None:
        now_s, jitter = clock_s(), random.random()
        if response is not None and response.ok:
            stored = _stored(response)
            if stored is not None:
                self._election.seen(stored, now_s, jitter)
                return
        if response is not None and response.status == _MISSING and not created:  # else: its namespace is missing
            self._election.seen(None, now_s, jitter)
            return
        if response is not None and response.status != _CONTENDED:
            _log.warning(
                "Lease %s/%s: answered %d: %s", self._namespace, self._name, response.status, message_of(response)
            )
        contended = response is not None and response.status == _CONTENDED
        self._election.failed(now_s, jitter, contended=contended)

    def _request(self, write: Write) -> Request:
        before = write.before.lease if write.before is not None else None
        body = msgspec.json.encode(lease_of(write.record, self._namespace, self._name, before))
        if before is None:
            return Request("POST", LEASES.collection(self._namespace), "", _JSON, body)
        return Request("PUT", LEASES.object(self._namespace, self._name), "", _JSON, body)

    async def _stop(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
            await asyncio.wait([work])

    async def _leave(self) -> None:
        release = self._election.release(format_micro_time(time.time()))
        await self._stop()
        if release is not None:
            with contextlib.suppress(Unreachable, TimeoutError):
                async with asyncio.timeout(_ANSWER_S):
                    await self._transport.request(self._request(release))


def _stored(response: Response) -> Stored | None:
    try:
        lease: Object = wire_json.Decoder(dict).decode(response.body)
    except msgspec.DecodeError:
        return None
    return read_lease(lease) if isinstance(lease.get("metadata"), dict) else None
