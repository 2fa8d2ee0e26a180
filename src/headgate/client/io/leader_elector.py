"""Takes part in a leader election: it reads and writes the Lease, starts the work when elected, and stops it when the
leadership ends.

A separate thread with its own event loop and connections renews the Lease, so work that blocks the main event loop for
longer than the Lease duration (for example a slow scheduler plugin) does not lose the Lease. ``client/io/writer.py``
calls ``LeaderElector.write_budget_s`` before every write. It depends on the last renewal, so a leader that loses the
Lease while its event loop is blocked writes nothing more. The work is a coroutine function; it is cancelled when
leadership ends, and the thread does not try to get the Lease again before the work has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import random
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import msgspec

from headgate.client import write_requests
from headgate.client.io.cancellation import raise_if_cancelled
from headgate.client.leader_election import (
    ElectionCandidate,
    ElectionWait,
    LeaderElectionConfig,
    ReadLease,
    StoredLease,
    WriteLease,
    lease_of,
    read_lease,
)
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport, Unreachable
from headgate.kube.api_resources import LEASES
from headgate.kube.serializer import wire_json
from headgate.kube.timestamps import format_micro_time

Object = dict[str, Any]
ConnectTransport = Callable[[], AbstractAsyncContextManager[Transport]]
"""Opens a transport in the event loop that runs, and closes it."""

_log: Final = logging.getLogger(__name__)
_RESPONSE_TIMEOUT_S: Final = 5.0
# The clock must also count while the machine is suspended.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


def clock_s() -> float:
    return time.clock_gettime(_CLOCK)


def new_identity() -> str:
    """The host name, for readers of the Lease, and a uuid that makes it unique."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """One candidate. ``identity`` must be unique among all processes that ever take part. ``connect`` is called in the
    renewing thread, and only that thread uses the transport.
    """

    def __init__(
        self,
        connect: ConnectTransport,
        namespace: str,
        name: str,
        identity: str,
        config: LeaderElectionConfig | None = None,
    ) -> None:
        self._config = config or LeaderElectionConfig()
        problem = self._config.problem()
        if problem:
            raise ValueError(problem)
        self._connect = connect
        self._namespace = namespace
        self._name = name
        self._election = ElectionCandidate(identity, self._config)
        self._is_stopping = False

    def write_budget_s(self) -> float:
        """How long a write that starts now may take; 0: it may not start. May be called in any thread."""
        return 0.0 if self._is_stopping else max(0.0, self._election.write_budget_s(clock_s()))

    @property
    def leader(self) -> str:
        return self._election.leader

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Takes part in the election until it is cancelled, then releases the Lease."""
        self._is_stopping = False
        renewal = _Renewal(self._election, self._connect, self._namespace, self._name, self._config)
        renewal.start()
        work: asyncio.Task[None] | None = None
        try:
            while True:
                if await renewal.next_change():
                    _log.debug("Lease %s/%s: elected", self._namespace, self._name)
                    work = asyncio.create_task(self._lead(lead))
                else:
                    _log.warning("Lease %s/%s: no longer elected", self._namespace, self._name)
                    if work is not None:
                        await _end(work)
                    work = None
                    renewal.resume()
        finally:
            self._is_stopping = True
            renewal.stop_renewing()
            if work is not None:
                await _end(work)
            await renewal.release()

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await lead()
            except Exception:
                raise_if_cancelled()
                _log.exception("Lease %s/%s: the leader's work failed and starts again", self._namespace, self._name)
            await asyncio.sleep(self._config.retry_s)


class _Renewal:
    """The thread that reads and writes the Lease. Public methods are called in the main loop. Private methods run in
    the thread, and only they change the election."""

    def __init__(
        self,
        election: ElectionCandidate,
        connect: ConnectTransport,
        namespace: str,
        name: str,
        config: LeaderElectionConfig,
    ) -> None:
        self._election = election
        self._connect = connect
        self._namespace = namespace
        self._name = name
        self._config = config
        self._changes: asyncio.Queue[bool] = asyncio.Queue()
        self._main_loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._main_loop.create_future()
        self._loop = asyncio.new_event_loop()
        self._stopping, self._may_resume, self._work_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"lease {self._namespace}/{self._name}", daemon=True).start()

    async def next_change(self) -> bool:
        """Waits for a change and returns whether this candidate leads. Raises the error that ended the thread."""
        change = asyncio.create_task(self._changes.get())
        try:
            either: tuple[asyncio.Future[Any], ...] = (change, self._ended)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if change.done():
                return change.result()
            self._ended.result()
            raise RuntimeError(f"Lease {self._namespace}/{self._name}: renewal ended by itself")
        finally:
            change.cancel()

    def resume(self) -> None:
        """The work of the lost leadership has ended, so the thread may try to get the Lease again."""
        self._set_in_thread(self._may_resume)

    def stop_renewing(self) -> None:
        """The Lease is not renewed any more."""
        self._set_in_thread(self._stopping)

    async def release(self) -> None:
        """The work has ended: the thread releases the Lease and ends."""
        self._set_in_thread(self._work_ended)
        await asyncio.wait([self._ended])
        if self._ended.exception() is not None:
            _log.error("Lease %s/%s: renewal failed: %s", self._namespace, self._name, self._ended.exception())

    def _set_in_thread(self, event: asyncio.Event) -> None:
        with contextlib.suppress(RuntimeError):  # its loop is closed: the thread has ended
            self._loop.call_soon_threadsafe(event.set)

    # -- in the thread

    def _run(self) -> None:
        problem: Exception | None = None
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._run_candidate())
        except Exception as error:
            problem = error
        self._call_in_main_loop(functools.partial(self._finish, problem))

    def _finish(self, problem: Exception | None) -> None:
        if problem is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(problem)

    def _call_in_main_loop(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop of the work is closed: the process ends
            self._main_loop.call_soon_threadsafe(callback)

    async def _run_candidate(self) -> None:
        async with self._connect() as transport:
            renewing = asyncio.create_task(self._renew(transport))
            stopping = asyncio.create_task(self._stopping.wait())
            await asyncio.wait([renewing, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if renewing.done():
                renewing.result()
            renewing.cancel()
            await asyncio.wait([renewing])
            await self._release_lease(transport)

    async def _renew(self, transport: Transport) -> None:
        was_leading = False
        while True:
            await self._advance(transport)
            leads = self._election.may_write(clock_s())
            if leads == was_leading:
                continue
            was_leading = leads
            self._call_in_main_loop(functools.partial(self._changes.put_nowait, leads))
            if not leads:
                await self._may_resume.wait()
                self._may_resume.clear()

    async def _advance(self, transport: Transport) -> None:
        election = self._election
        step = election.step(clock_s(), format_micro_time(time.time()))
        match step:
            case ElectionWait(until_s):
                await asyncio.sleep(max(0.0, min(until_s, self._latest_wake_s()) - clock_s()))
            case ReadLease():
                path = LEASES.object_path(self._namespace, self._name)
                self._handle_response(await self._send(transport, HTTPRequest("GET", path, "", write_requests.ACCEPT)))
            case WriteLease(_, before):
                self._handle_response(await self._send(transport, self._request(step)), created=before is None)

    def _latest_wake_s(self) -> float:
        """When to wake up at the latest: a leadership that is not renewed ends."""
        now_s = clock_s()
        return self._election.held_until_s if self._election.may_write(now_s) else now_s + self._config.lease_s

    async def _send(self, transport: Transport, request: HTTPRequest) -> HTTPResponse | None:
        limit_s = max(0.1, min(_RESPONSE_TIMEOUT_S, self._latest_wake_s() - clock_s()))
        try:
            async with asyncio.timeout(limit_s):
                return await transport.request(msgspec.structs.replace(request, timeout_s=limit_s))
        except TimeoutError:
            _log.warning("Lease %s/%s: no response within %.1f s", self._namespace, self._name, limit_s)
        except Unreachable as error:
            _log.warning("Lease %s/%s: %s", self._namespace, self._name, error)
        return None

    def _handle_response(self, response: HTTPResponse | None, *, created: bool = False) -> None:
        now_s, jitter = clock_s(), random.random()
        if response is not None and response.ok:
            stored = _stored(response)
            if stored is not None:
                self._election.observed(stored, now_s, jitter)
                return
        if response is not None and response.status == _NOT_FOUND and not created:  # else: its namespace is missing
            self._election.observed(None, now_s, jitter)
            return
        if response is not None and response.status != _CONFLICT:
            _log.warning(
                "the API server returned %d for the Lease %s/%s: %s",
                response.status,
                self._namespace,
                self._name,
                message_of(response),
            )
        contended = response is not None and response.status == _CONFLICT
        self._election.failed(now_s, jitter, contended=contended)

    def _request(self, write: WriteLease) -> HTTPRequest:
        before = write.before.lease if write.before is not None else None
        lease = lease_of(write.record, self._namespace, self._name, before)
        if before is None:
            return write_requests.create(LEASES, self._namespace, lease)
        return write_requests.update(LEASES, self._namespace, self._name, lease)

    async def _release_lease(self, transport: Transport) -> None:
        """Releases the Lease once the work has ended. After the duration of the Lease no release is needed."""
        release = self._election.release(format_micro_time(time.time()))
        with contextlib.suppress(Unreachable, TimeoutError):
            async with asyncio.timeout(self._config.lease_s):
                await self._work_ended.wait()
            if release is not None:
                async with asyncio.timeout(_RESPONSE_TIMEOUT_S):
                    await transport.request(self._request(release))


async def _end(work: asyncio.Task[None]) -> None:
    work.cancel()
    await asyncio.wait([work])


def _stored(response: HTTPResponse) -> StoredLease | None:
    try:
        lease: Object = wire_json.WireDecoder(dict).decode(response.body)
    except msgspec.DecodeError:
        return None
    return read_lease(lease) if isinstance(lease.get("metadata"), dict) else None
