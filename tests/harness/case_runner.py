"""Runs one case on one server: the steps in order, the saved values, the open watches, and the cleanup.

Responses are normalised. `server_pair.py` runs the same case on two servers and compares.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from harness.compare import Seen, seen
from harness.normalise import Normaliser
from harness.protobuf import PROTOBUF, protobuf
from harness.request_cases import JSON, AnyStep, Case, Edited, Open, Step, Stream, at, encoded, filled, merged
from harness.server import Answer, Server, Watch

EVENTUALLY_S = 10.0


class Run:
    """One case on one server."""

    def __init__(self, server: Server, namespace: str, addresses: Mapping[str, str] | None = None) -> None:
        """``addresses`` are names for what differs between the servers besides their own address."""
        self._server = server
        self._namespace = namespace
        self._addresses = addresses or {}
        self._normaliser = Normaliser(server.address, *self._addresses.values())
        self._saved: dict[str, Any] = {}
        self._watches: dict[str, Watch] = {}
        self._made: list[str] = []
        self.unmet: list[Step] = []
        """Those that waited for an answer which never came."""

    def run(self, case: Case) -> list[Seen]:
        try:
            if case.wants_namespace:
                self._make_namespace()
            return [self._step(step) for step in case.steps]
        finally:
            self._clean_up()

    def _make_namespace(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
        answer = self._server.request("POST", "/api/v1/namespaces", {"Content-Type": JSON}, encoded(body))
        if answer.status not in (201, 409):
            raise AssertionError(f"{self._server.name} does not make the namespace {self._namespace}: {answer}")

    def normal(self, value: Any) -> Any:
        """A value that came from the server by another way, with the same tokens as the answers."""
        return self._normaliser.value(value)

    def _step(self, step: AnyStep) -> Seen:
        if isinstance(step, Step):
            return self._request(step)
        if isinstance(step, Stream):
            watch = self._server.watch(self._fill(step.path), self._fill_headers(step.headers))
            try:
                return self._watched(watch, step.count)
            finally:
                watch.close()
        if isinstance(step, Open):
            watch = self._watches[step.name] = self._server.watch(
                self._fill(step.path), self._fill_headers(step.headers)
            )
            return self._watched(watch, 0)
        return self._watched(self._watches[step.name], step.count)

    def _request(self, step: Step) -> Seen:
        value = step.body
        if isinstance(value, Edited):
            saved = self._saved.get(value.saved)
            value = saved if value.change is None else merged(saved, value.change)
        path, body = self._fill(step.path), encoded(value)
        if body is not None and not isinstance(value, bytes):
            body = self._fill(body.decode()).encode()
        headers = self._fill_headers(step.headers)
        if body is not None and "Content-Type" not in headers:
            headers["Content-Type"] = JSON
        if body is not None and isinstance(value, dict) and headers["Content-Type"].startswith(PROTOBUF):
            body = protobuf(json.loads(body))
        metadata = value.get("metadata") if isinstance(value, dict) else None
        base = metadata.get("generateName") if isinstance(metadata, dict) else None
        if isinstance(base, str) and base:
            self._normaliser.expect_generated(base)
        answer = self._server.request(step.method, path, headers, body)
        deadline_s = time.monotonic() + EVENTUALLY_S
        while not _awaited(step, answer) and time.monotonic() < deadline_s:
            time.sleep(0.05)
            answer = self._server.request(step.method, path, headers, body)
        if not _awaited(step, answer):
            self.unmet.append(step)
        self._remember(step, path, answer)
        normal = seen(answer, self._normaliser)
        return Seen(normal.status, normal.headers, sorted_causes(normal.body)) if step.unordered else normal

    def _remember(self, step: Step, path: str, answer: Answer) -> None:
        if not step.save and (step.method == "GET" or answer.status != 201):
            return
        try:
            body = answer.json()
        except ValueError:
            body = None
        if step.save:
            self._saved[step.save] = body
        name = body.get("metadata", {}).get("name") if isinstance(body, dict) else None
        if answer.status == 201 and name and "/namespaces/" not in path:
            base = path.split("?")[0].rstrip("/")
            self._made.append(f"{base}/{name}" if step.method == "POST" else base)

    def _watched(self, watch: Watch, count: int | None) -> Seen:
        lines = watch.lines(count)
        content_type = dict(watch.headers).get("content-type", "")
        if watch.status != 200:
            return seen(Answer(watch.status, watch.headers, b"".join(lines)), self._normaliser)
        events = [self._normaliser.body(line, "json") for line in lines]
        # When a bookmark without a message comes is a matter of timing on both servers.
        kept = [event for event in events if not _is_idle_bookmark(event)]
        return Seen(watch.status, {"content-type": [content_type]}, kept)

    def _clean_up(self) -> None:
        for watch in self._watches.values():
            watch.close()
        for path in reversed(self._made):
            self._server.request("DELETE", f"{path}?gracePeriodSeconds=0")

    def _fill(self, text: str) -> str:
        for name, address in self._addresses.items():
            text = text.replace(f"{{{name}}}", address)
        return filled(text, self._namespace, self._saved)

    def _fill_headers(self, headers: Any) -> dict[str, str]:
        return {name: self._fill(value) for name, value in headers.items()}


def _is_idle_bookmark(event: Any) -> bool:
    if not isinstance(event, dict) or event.get("type") != "BOOKMARK":
        return False
    metadata = (event.get("object") or {}).get("metadata") or {}
    return "annotations" not in metadata


def sorted_causes(body: Any) -> Any:
    if not isinstance(body, dict) or body.get("reason") != "Invalid":
        return body
    details = dict(body.get("details") or {})
    causes = details.get("causes") or []
    if len(causes) < 2:
        return body
    details["causes"] = sorted(causes, key=lambda cause: json.dumps(cause, sort_keys=True))
    return {**body, "message": "(its errors in any order)", "details": details}


def _awaited(step: Step, answer: Answer) -> bool:
    """Whether this is the answer that the step waits for, if it waits for one."""
    if step.eventually is not None and answer.status != step.eventually:
        return False
    return step.holding is None or at(step.holding[0], answer.json()) == step.holding[1]
