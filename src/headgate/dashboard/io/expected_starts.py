"""When a unit will probably start, on request: the engines replay the present state in a thread of their own.

One estimate is computed at a time. ``PrepareStarts`` reads the cluster and returns what computes; it comes from the
command that serves the page, because only ``cli`` knows how the engines are put together.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from headgate.capacity.explanation import PodExplanation
from headgate.dashboard.io.details import find_detail
from headgate.dashboard.io.feed import ViewsFeed
from headgate.dashboard.io.viewers import Viewer, Viewers
from headgate.dashboard.redaction import redact_estimate
from headgate.dashboard.rights import ViewerRights
from headgate.estimates.estimator import StartEstimate
from headgate.http.transport import Transport, Unreachable
from headgate.quota.explain.description import WorkloadDescription
from headgate.runtime.health.access_reviews import Verdict

_log: Final = logging.getLogger(__name__)
Starts = Mapping[str, StartEstimate]
"""By namespace/name of a Workload; empty for the pod itself."""
Compute = Callable[[], Starts]
PrepareStarts = Callable[[Transport, PodExplanation | None, tuple[WorkloadDescription, ...], float], Awaitable[Compute]]


class ExpectedStarts:
    def __init__(self, feed: ViewsFeed, viewers: Viewers, prepare: PrepareStarts) -> None:
        self._feed: Final = feed
        self._viewers: Final = viewers
        self._prepare: Final = prepare
        self._lock: Final = asyncio.Lock()

    async def find(
        self, viewer: Viewer, rights: ViewerRights, kind: str, namespace: str, name: str
    ) -> Starts | Verdict:
        """An object that the viewer may not get looks like one that is not there."""
        async with self._lock:
            detail = await find_detail(self._feed, self._viewers, viewer, kind, namespace, name)
            if isinstance(detail, Verdict):
                return detail
            try:
                compute = await self._prepare(self._feed.transport, detail.pod, detail.workloads, time.time())
            except Unreachable:
                return Verdict(502, "the API server cannot be reached")
            try:
                found = await _in_thread(compute)
            except Exception as error:  # one object that no replay can read must not end the request without a reason
                _log.exception("dashboard: the start of %s %s/%s cannot be estimated", kind, namespace, name)
                return Verdict(500, f"its start cannot be estimated: {type(error).__name__}; the log says more")
        return {key: redact_estimate(each, rights, key) for key, each in found.items()}


async def _in_thread(compute: Compute) -> Starts:
    """The thread is a daemon, so that the process does not wait for it at its end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Starts] = loop.create_future()

    def finish(found: Starts | Exception) -> None:
        if done.done():  # cancelled
            return
        if isinstance(found, Exception):
            done.set_exception(found)
        else:
            done.set_result(found)

    def work() -> None:
        found: Starts | Exception
        try:
            found = compute()
        except Exception as error:  # the request fails with it
            found = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(finish, found)

    threading.Thread(target=work, name="expected-start", daemon=True).start()
    return await done
