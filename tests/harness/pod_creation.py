"""Pods that are created at a constant rate while something else happens, and what became of each creation."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from types import TracebackType
from typing import Any

from clusters import a_pod
from harness.server import JSON_TYPE, Server
from headgate.capacity.names import GATE, OPT_IN
from headgate.capacity.names import QUEUE_NAME as VOLCANO_QUEUE
from headgate.jobs.names import ADMISSION_GATE, QUEUE_NAME

RATE = 60.0
CLIENTS = 12


class PodCreator:
    """Creates pods of a namespace until it is closed, or ``limit`` pods. Every ``kueue_every``-th pod names one of
    Kueue's queues, unless all are to opt in to the queue gate (``only_queue``)."""

    def __init__(
        self,
        server: Server,
        namespace: str = "default",
        *,
        kueue_every: int = 2,
        only_queue: str = "",
        limit: int = 1_000_000,
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self._server, self._namespace, self._only_queue, self._limit = server, namespace, only_queue, limit
        self._kueue_every = kueue_every
        self._lock = threading.Lock()
        self._number = 0
        self._begun_s = time.monotonic()
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._work) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> PodCreator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._closing.set()
        self.join()

    def join(self) -> None:
        """Until all clients have ended: they were closed, or there are as many pods as wanted."""
        for thread in self._threads:
            thread.join(60)

    def _work(self) -> None:
        while not self._closing.is_set():
            with self._lock:
                number, self._number = self._number, self._number + 1
            if number >= self._limit:
                return
            time.sleep(max(0.0, self._begun_s + number / RATE - time.monotonic()))
            outcome = self._create(number)
            with self._lock:
                self.outcomes[outcome] += 1

    def _create(self, number: int) -> str:
        name = f"pod-{number}"
        names_queue = not self._only_queue and number % self._kueue_every == 1
        pod: dict[str, Any] = a_pod(name, {"cpu": "100m" if self._only_queue else "1"}, schedulerName="headgate")
        annotations = {OPT_IN: "true"} | ({VOLCANO_QUEUE: self._only_queue} if self._only_queue else {})
        metadata = {"labels": {QUEUE_NAME: "team"}} if names_queue else {"annotations": annotations}
        body = json.dumps({**pod, "metadata": {"name": name, **metadata}}).encode()
        answer = self._server.request("POST", f"/api/v1/namespaces/{self._namespace}/pods", JSON_TYPE, body)
        if answer.status != 201:
            return f"refused: {answer.body[:500]!r}"
        gate = ADMISSION_GATE if names_queue else GATE
        return "gated" if {"name": gate} in answer.json()["spec"].get("schedulingGates", []) else f"without {gate}"
