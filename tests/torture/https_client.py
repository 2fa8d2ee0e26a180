"""An HTTPS client for threads: one connection, the standard library, and one exception for a lost connection.

The address may change (a killed server returns on another port); ``Target`` holds the current one.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.cluster import Cluster


class Lost(Exception):
    """The connection broke: whether the request was carried out is not known."""


class Target:
    """The present address of the server. A client that lost its connection waits here for the next one."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._changed = threading.Condition()
        self._cluster: Cluster | None = None
        self._generation = 0
        self.closed = False

    def start(self) -> Cluster:
        cluster = Cluster(self.data, "--components", "apiserver")
        with self._changed:
            self._cluster = cluster
            self._generation += 1
            self._changed.notify_all()
        return cluster

    def close(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def current(self, after: int) -> tuple[int, Cluster] | None:
        """The first server later than generation ``after``; ``None`` once there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed or self._generation > after)
            if self._generation <= after or self._cluster is None:
                return None
            return self._generation, self._cluster


class Client:
    """One connection to the server of one generation."""

    def __init__(self, cluster: Cluster) -> None:
        address = urlsplit(cluster.url)
        context = ssl.create_default_context(cafile=str(cluster.data / "seen-ca.crt"))
        assert address.hostname is not None
        self._connection = http.client.HTTPSConnection(address.hostname, address.port, timeout=120, context=context)
        self._headers = {"Authorization": f"Bearer {cluster.token}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, data, self._headers)
            answer = self._connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as problem:
            self._connection.close()
            raise Lost(str(problem)) from problem

    def watch(self, path: str) -> Iterator[dict[str, Any]]:
        """Events until the server ends the watch; raises ``Lost`` if it goes away."""
        try:
            self._connection.request("GET", path, None, self._headers)
            answer = self._connection.getresponse()
            while line := answer.readline():
                if not line.endswith(b"\n"):
                    raise Lost("half an event")
                yield json.loads(line)
            raise Lost("the watch ended")
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise Lost(str(problem)) from problem
        finally:
            self._connection.close()

    def close(self) -> None:
        self._connection.close()
