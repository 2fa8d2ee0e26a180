"""Checks every revision of queues, Workloads, Jobs and pods against the guarantees of quota, in the order of writes.

:class:`QuotaAudit` watches a server from the start, over restarts, and passes all changes at the end to the checker of
``headgate audit`` (``headgate.audit.quota_judge``), ordered by resource version.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any

from harness.server import Server
from headgate.audit.quota_judge import QuotaJudge

Object = dict[str, Any]

_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
PATHS = {
    "cohorts": f"{_KUEUE}/cohorts",
    "clusterqueues": f"{_KUEUE}/clusterqueues",
    "workloads": f"{_KUEUE}/workloads",
    "jobs": "/apis/batch/v1/jobs",
    "pods": "/api/v1/pods",
}
_WATCH_S = 2


class _Watch(threading.Thread):
    """Of one resource: every revision once."""

    def __init__(self, server: Server, plural: str) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._plural = plural
        listed = server.request("GET", PATHS[plural]).json()
        self.revision = str(listed["metadata"]["resourceVersion"])
        self.heard: list[tuple[str, str, Object]] = [(plural, "ADDED", each) for each in listed["items"]]
        self.problem = ""
        self.is_stopping = False

    def run(self) -> None:
        while not self.is_stopping and not self.problem:
            try:
                self._watch()
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.05)  # the server is away

    def _watch(self) -> None:
        query = f"watch=1&resourceVersion={self.revision}&timeoutSeconds={_WATCH_S}"
        watch = self._server.watch(f"{PATHS[self._plural]}?{query}")
        try:
            for line in iter(lambda: watch.lines(1), []):
                event = json.loads(line[0])
                if event["type"] == "ERROR":
                    self.problem = f"the watch of {self._plural} was refused: {event['object']}"
                    return
                self.revision = event["object"]["metadata"]["resourceVersion"]
                self.heard.append((self._plural, event["type"], event["object"]))
        finally:
            watch.close()


class QuotaAudit:
    """Begins before the load does."""

    def __init__(self, server: Server) -> None:
        self.judge = QuotaJudge()
        self._watches = {plural: _Watch(server, plural) for plural in PATHS}

    def start(self) -> None:
        for each in self._watches.values():
            each.start()

    def changes(self, plural: str) -> int:
        return len(self._watches[plural].heard)

    def finish(self) -> QuotaJudge:
        """Stops; raises if anything was wrong at any time."""
        for each in self._watches.values():
            each.is_stopping = True
        for each in self._watches.values():
            each.join(30)
            assert not each.is_alive()
        assert not any(each.problem for each in self._watches.values()), [
            each.problem for each in self._watches.values()
        ]
        heard = [event for each in self._watches.values() for event in each.heard]
        for event in sorted(heard, key=lambda event: int(event[2]["metadata"]["resourceVersion"])):
            self.judge.take(*event)
        assert not self.judge.problems, self.judge.problems
        return self.judge
