"""Watches every pod of a server from the beginning, on whatever server comes after it, and judges every revision.

A pod that has a node keeps it and never gets another; no node ever has more on it than it can hold. Whoever is
scheduling may be killed, cut off or lied to meanwhile: this watch goes straight to the server and resumes where it was.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from harness.server import Server

Object = dict[str, Any]

_PODS = "/api/v1/pods"
_WATCH_S = 2


class Audit(threading.Thread):
    """``room``: how much cpu each node has, in whole ones, as all pods ask for it."""

    def __init__(self, server: Server, room: Mapping[str, int]) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._room = room
        self._used: Counter[str] = Counter()
        self._stopping = False
        listed = server.request("GET", _PODS).json()
        assert not listed["items"], "this has to begin before the pods do"
        self._revision = listed["metadata"]["resourceVersion"]
        self.node_of: dict[str, str] = {}
        """By uid, of all pods that ever got a node."""
        self.pods: dict[str, Object] = {}
        """As they were last seen, by name."""
        self.problems: list[str] = []

    @property
    def bound(self) -> int:
        return len(self.node_of)

    def run(self) -> None:
        while not self._stopping:
            try:
                self._watch()
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.05)  # the server is away

    def finish(self) -> None:
        """Stops; raises if anything was wrong at any time."""
        self._stopping = True
        self.join(30)
        assert not self.is_alive()
        assert not self.problems, self.problems

    def _watch(self) -> None:
        path = f"{_PODS}?watch=1&resourceVersion={self._revision}&timeoutSeconds={_WATCH_S}"
        watch = self._server.watch(path)
        try:
            for line in iter(lambda: watch.lines(1), []):
                event = json.loads(line[0])
                self._take(event["type"], event["object"])
        finally:
            watch.close()

    def _take(self, kind: str, pod: Object) -> None:
        if kind == "ERROR":
            self.problems.append(f"the watch was refused: {pod}")
            self._stopping = True
            return
        self._revision = pod["metadata"]["resourceVersion"]
        name, uid, node = pod["metadata"]["name"], pod["metadata"]["uid"], pod["spec"].get("nodeName") or ""
        before = self.node_of.get(uid, "")
        if before and node != before:
            self.problems.append(f"{name} went from {before} to {node or 'nowhere'} at {self._revision}")
        if node and not before:
            self.node_of[uid] = node
            self._used[node] += cpu_of(pod)
        if kind == "DELETED":
            self.pods.pop(name, None)
            self._used[node] -= cpu_of(pod)
        else:
            self.pods[name] = pod
        if self._used[node] > self._room.get(node, 0) and node:
            self.problems.append(f"{node} has {self._used[node]} on it at {self._revision}, and room for less")


def cpu_of(pod: Object) -> int:
    return sum(int(each["resources"]["requests"]["cpu"]) for each in pod["spec"]["containers"])
