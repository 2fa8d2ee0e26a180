"""Watches every pod of a server from the start, over restarts of the server, and reports every revision once.

The components that work on the pods may be killed, disconnected or given wrong answers meanwhile. This watch connects
to the server directly and resumes where it was. Subclasses check the revisions (``scheduler_audit.py``,
``workload_audit.py``).
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any

from harness.server import Server

Object = dict[str, Any]

_PODS = "/api/v1/pods"
_WATCH_S = 2
_GONE = 410
_STARTING = (429, 500, 503, 504)
"""What a kube-apiserver answers while its caches are filled."""


class ServerNotReady(Exception):
    """The server is there, and cannot answer yet."""


class PodWatch(threading.Thread):
    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._stopping = False
        listed = server.request("GET", _PODS).json()
        assert not listed["items"], "this has to begin before the pods do"
        self._revision = listed["metadata"]["resourceVersion"]
        self.pods: dict[str, Object] = {}
        """As they were last seen, by name."""
        self.problems: list[str] = []

    def run(self) -> None:
        try:
            while not self._stopping:
                self._follow()
        except Exception as problem:
            self.problems.append(f"nobody watches any more: {problem!r}")
            raise

    def _follow(self) -> None:
        try:
            self._watch()
        except (OSError, http.client.HTTPException, ValueError, ServerNotReady):
            time.sleep(0.05)  # the server is away, or starts

    def finish(self) -> None:
        """Stops; raises if anything was wrong at any time."""
        self._stopping = True
        self.join(30)
        assert not self.is_alive()
        assert not self.problems, self.problems

    def _skip_other_writes(self) -> bool:
        """Continues at the revision of a list if no pod has changed since the last event. A kube-apiserver that was
        restarted serves no older revisions than those after its start, and other objects were written before that."""
        answer = self._server.request("GET", _PODS)
        if answer.status != 200:
            raise ServerNotReady(answer.status)
        listed = answer.json()
        known = {name: pod["metadata"]["resourceVersion"] for name, pod in self.pods.items()}
        if {pod["metadata"]["name"]: pod["metadata"]["resourceVersion"] for pod in listed["items"]} != known:
            return False
        self._revision = listed["metadata"]["resourceVersion"]
        return True

    def judge(self, kind: str, pod: Object) -> None:
        """One change: ``ADDED``, ``MODIFIED`` or ``DELETED``; ``pods`` has it already."""

    def _watch(self) -> None:
        path = f"{_PODS}?watch=1&resourceVersion={self._revision}&timeoutSeconds={_WATCH_S}"
        watch = self._server.watch(path)
        try:
            if watch.status in _STARTING:
                raise ServerNotReady(watch.status)
            if watch.status != 200:
                self._take("ERROR", json.loads(watch.lines(1)[0]))
                return
            for line in iter(lambda: watch.lines(1), []):
                event = json.loads(line[0])
                self._take(event["type"], event["object"])
        finally:
            watch.close()

    def _take(self, kind: str, pod: Object) -> None:
        if kind == "ERROR":
            if pod.get("code") != _GONE or not self._skip_other_writes():
                self.problems.append(f"the watch was refused: {pod}")
                self._stopping = True
            return
        self._revision = pod["metadata"]["resourceVersion"]
        if kind == "DELETED":
            self.pods.pop(pod["metadata"]["name"], None)
        else:
            self.pods[pod["metadata"]["name"]] = pod
        self.judge(kind, pod)
