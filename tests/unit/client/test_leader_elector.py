"""Leader election of processes with a fake Lease server: work starts, stops, and moves to another process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.client.io.leader_elector import ConnectTransport, LeaderElector
from headgate.client.leader_election import LeaderElectionConfig
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport, Unreachable

Object = dict[str, Any]
TIMING = LeaderElectionConfig(lease_s=1, renew_s=0.5, retry_s=0.05)


class Server:
    def __init__(self) -> None:
        self.lease: Object | None = None
        self.cut_off: set[str] = set()
        self._revision = 0
        self._one_at_a_time = threading.Lock()

    def connect(self, name: str) -> ConnectTransport:
        async def handle(request: HTTPRequest) -> HTTPResponse:
            await asyncio.sleep(0)
            if name in self.cut_off:
                raise Unreachable("cut off")
            with self._one_at_a_time:
                return self.answer(request)

        @contextlib.asynccontextmanager
        async def opened() -> AsyncIterator[Transport]:
            yield InProcessTransport(handle)

        return opened

    def answer(self, request: HTTPRequest) -> HTTPResponse:
        if request.method == "GET":
            return (
                HTTPResponse(200, {}, json.dumps(self.lease).encode()) if self.lease else HTTPResponse(404, {}, b"{}")
            )
        body = json.loads(request.body)
        now = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if body["metadata"].get("resourceVersion") != now:
            return HTTPResponse(409, {}, b"{}")
        self._revision += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._revision)}}
        return HTTPResponse(200, {}, json.dumps(self.lease).encode())


class Candidate:
    def __init__(self, server: Server, name: str, work: Callable[[], Awaitable[None]] | None = None) -> None:
        self.elector = LeaderElector(server.connect(name), "kube-system", "headgate", name, TIMING)
        self.started = 0
        self.working = asyncio.Event()
        self.idle = asyncio.Event()
        self._work = work
        self.task = asyncio.create_task(self.elector.run(self.lead))

    async def lead(self) -> None:
        assert self.elector.write_budget_s() > 0
        self.started += 1
        self.working.set()
        try:
            await (self._work() if self._work else asyncio.Event().wait())
        finally:
            self.working.clear()
            self.idle.set()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def play(test: Callable[[Server], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(20):
            await test(Server())

    asyncio.run(run())


def test_a_leader_that_stops_releases_the_lease_and_the_next_starts_at_once() -> None:
    async def test(server: Server) -> None:
        first = Candidate(server, "first")
        await first.working.wait()
        second = Candidate(server, "second")
        await first.stop()
        assert first.idle.is_set()
        assert first.elector.write_budget_s() == 0.0
        assert server.lease is not None
        assert server.lease["spec"]["holderIdentity"] in ("", "second")
        await second.working.wait()
        assert server.lease["spec"]["leaseTransitions"] == 1
        await second.stop()

    play(test)


def test_a_leader_that_is_cut_off_stops_its_work_before_the_next_starts() -> None:
    async def test(server: Server) -> None:
        first, second = Candidate(server, "first"), Candidate(server, "second")
        waits = [asyncio.create_task(each.working.wait()) for each in (first, second)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        leader, other = (first, second) if first.working.is_set() else (second, first)
        server.cut_off.add("first" if leader is first else "second")
        await leader.idle.wait()
        assert leader.elector.write_budget_s() == 0.0
        assert not other.working.is_set()
        await other.working.wait()
        for task in waits:
            task.cancel()
        await leader.stop()
        await other.stop()

    play(test)


def test_work_that_fails_starts_again_while_the_lease_lasts() -> None:
    async def fail() -> None:
        raise ValueError("a defect")

    async def test(server: Server) -> None:
        candidate = Candidate(server, "only", fail)
        while candidate.started < 3:
            await asyncio.sleep(0.01)
        await candidate.stop()

    play(test)


def test_work_that_blocks_its_event_loop_for_longer_than_the_lease_keeps_it() -> None:
    budgets: list[float] = []

    async def test(server: Server) -> None:
        async def block() -> None:
            for _ in range(3):
                time.sleep(TIMING.lease_s)  # as a slow plugin does; no other task of this loop runs meanwhile
                budgets.append(candidate.elector.write_budget_s())
            await asyncio.Event().wait()

        candidate = Candidate(server, "slow", block)
        async with asyncio.timeout(20 * TIMING.lease_s):  # an elector that lost the Lease begins again and again
            while len(budgets) < 3:
                await asyncio.sleep(0.01)
        assert min(budgets) > 0
        assert candidate.started == 1
        assert server.lease is not None
        assert server.lease["spec"]["leaseTransitions"] == 0
        await candidate.stop()

    play(test)


def test_a_leader_that_loses_the_lease_while_its_loop_is_blocked_stops_before_it_is_a_candidate_again() -> None:
    notes: list[tuple[float, str]] = []

    async def test(server: Server) -> None:
        async def block() -> None:
            if notes:
                await asyncio.Event().wait()
            server.cut_off = {"slow"}
            began_s = time.monotonic()
            while slow.elector.write_budget_s() > 0:
                assert time.monotonic() - began_s < 2 * TIMING.lease_s
                time.sleep(0.01)
            # The thread of the other candidate is elected meanwhile. When it is gone, this one could have the Lease.
            while server.lease is None or server.lease["spec"]["holderIdentity"] != "other":
                assert time.monotonic() - began_s < 10 * TIMING.lease_s
                time.sleep(0.01)
            server.cut_off = {"other"}
            time.sleep(2 * TIMING.lease_s)
            notes.append((slow.elector.write_budget_s(), server.lease["spec"]["holderIdentity"]))
            await asyncio.Event().wait()

        server.cut_off = {"other"}
        other = Candidate(server, "other")
        slow = Candidate(server, "slow", block)
        while slow.started < 2:
            await asyncio.sleep(0.01)
        assert notes == [(0.0, "other")]
        assert server.lease is not None
        assert server.lease["spec"]["holderIdentity"] == "slow"
        await other.stop()
        await slow.stop()

    play(test)


@pytest.mark.parametrize(
    "timing", [LeaderElectionConfig(renew_s=15.0), LeaderElectionConfig(retry_s=9.0), LeaderElectionConfig(retry_s=0.0)]
)
def test_times_that_make_no_sense_are_refused(timing: LeaderElectionConfig) -> None:
    with pytest.raises(ValueError, match="must be longer"):
        LeaderElector(Server().connect("x"), "n", "l", "i", timing)
