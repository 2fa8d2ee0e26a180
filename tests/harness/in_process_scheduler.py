"""A scheduler in this process, in a thread of its own, with plugins of a test, on any API server over HTTP.

A test reads the state of the scheduler in that thread, between two of its steps. A scheduler with built-in plugins only
is better started as a process (`harness/scheduler_process.py`).
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from harness.server import Server
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.io.writer import Writer, no_fence
from headgate.client.kubeconfig import RESTConfig
from headgate.runtime.scheduler.runner import SchedulerRunner
from headgate.scheduling.pod_lifecycle import PodState
from headgate.scheduling.scheduler import Scheduler
from unit.scheduling.world import configured

T = TypeVar("T")


class InProcessScheduler:
    """It serves `default-scheduler`, with these plugins at all points that they have methods for."""

    def __init__(self, server: Server, *plugins: Any, known: Iterable[Any] = (), **document: Any) -> None:
        self._server = server
        self._configured = configured(plugins, known, **document)
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._problem: BaseException | None = None

    def __enter__(self) -> InProcessScheduler:
        self._thread.start()
        self._started.wait()
        if self._problem is not None:
            raise self._problem
        return self

    def __exit__(self, *raised: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()
        if self._problem is not None:
            raise self._problem

    async def _run(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        access = find_rest_config(str(self._server.kubeconfig))
        assert isinstance(access, RESTConfig)
        transport = HTTPTransport(access)
        try:
            writer = Writer(transport, write_budget_s=no_fence, jitter=random.random, sleep=asyncio.sleep)
            shell = SchedulerRunner(lambda report: Scheduler(*self._configured, report=report), transport, writer)
            self._scheduler = shell.scheduler
            working = asyncio.create_task(shell.run())
            ending = asyncio.create_task(self._done.wait())
            async with asyncio.timeout(30):
                await shell.synced.wait()
            self._started.set()
            await asyncio.wait([working, ending], return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                self._problem = working.exception()
            working.cancel()
            await asyncio.wait([working])
        except Exception as problem:
            self._problem = problem
        finally:
            self._started.set()
            await transport.close()

    def ask(self, question: Callable[[Scheduler], T]) -> T:
        async def answer() -> T:
            return question(self._scheduler)

        return asyncio.run_coroutine_threadsafe(answer(), self._loop).result(30)

    def pending(self) -> dict[str, int]:
        """How many pods are in each queue."""
        return self.ask(lambda scheduler: scheduler.queue.counters.pending())

    def where(self, uid: str) -> PodState | None:
        def find(scheduler: Scheduler) -> PodState | None:
            queued = scheduler.queue.get(uid)
            return None if queued is None else queued.state

        return self.ask(find)

    def gates(self, uid: str) -> tuple[str, ...] | None:
        """The pod's gates, as far as the scheduler has heard."""

        def find(scheduler: Scheduler) -> tuple[str, ...] | None:
            queued = scheduler.queue.get(uid)
            return None if queued is None else queued.pod.gates

        return self.ask(find)

    def attempts(self, uid: str) -> int:
        def find(scheduler: Scheduler) -> int:
            queued = scheduler.queue.get(uid)
            return -1 if queued is None else queued.attempts

        return self.ask(find)
