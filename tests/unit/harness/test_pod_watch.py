"""The watch of all pods continues after the refusal of an old revision only if it has missed no pod."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from harness.pod_watch import PodWatch
from harness.server import Server

GONE = {"kind": "Status", "code": 410, "reason": "Expired"}


def _pod(revision: int) -> dict[str, Any]:
    return {"metadata": {"name": "a", "resourceVersion": str(revision)}}


class _Response:
    status = 200

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def json(self) -> dict[str, Any]:
        return self._body


class _Lines:
    """A watch that delivers these events and ends."""

    def __init__(self, events: list[dict[str, Any]], status: int = 200) -> None:
        self.status = status
        self._lines = [json.dumps(event).encode() for event in events]

    def lines(self, count: int) -> list[bytes]:
        taken, self._lines = self._lines[:count], self._lines[count:]
        return taken

    def close(self) -> None:
        pass


class _RestartedServer:
    """It has pod ``a`` at a revision, and refuses watches below its newest one."""

    def __init__(self) -> None:
        self.pods: list[dict[str, Any]] = []
        self.revision = 5
        self.watched: list[str] = []
        self.refuses_with = 200

    def request(self, method: str, path: str) -> _Response:
        return _Response({"items": self.pods, "metadata": {"resourceVersion": str(self.revision)}})

    def watch(self, path: str) -> _Lines:
        since = path.partition("resourceVersion=")[2].partition("&")[0]
        self.watched.append(since)
        if self.refuses_with != 200:
            return _Lines([{**GONE, "code": self.refuses_with}], self.refuses_with)
        if int(since) < self.revision:
            return _Lines([{"type": "ERROR", "object": GONE}])
        return _Lines([])


def _after_restart(pod_revision: int) -> tuple[PodWatch, _RestartedServer]:
    server = _RestartedServer()
    watch = PodWatch(cast(Server, server))
    watch._take("ADDED", _pod(6))
    server.pods, server.revision = [_pod(pod_revision)], 9
    watch._watch()
    return watch, server


def test_writes_of_other_objects_are_skipped() -> None:
    watch, server = _after_restart(pod_revision=6)
    watch._watch()
    assert watch.problems == []
    assert server.watched == ["6", "9"]


def test_a_pod_that_changed_meanwhile_is_a_problem() -> None:
    watch, _ = _after_restart(pod_revision=8)
    assert len(watch.problems) == 1
    assert "the watch was refused" in watch.problems[0]


@pytest.mark.parametrize("code", [403, 500])
def test_another_refusal_is_a_problem(code: int) -> None:
    watch = PodWatch(cast(Server, _RestartedServer()))
    watch._take("ERROR", {**GONE, "code": code})
    assert len(watch.problems) == 1


@pytest.mark.parametrize("code", [429, 500, 503, 504])
def test_a_server_that_starts_is_watched_again(code: int) -> None:
    server = _RestartedServer()
    watch = PodWatch(cast(Server, server))
    server.refuses_with = code
    watch._follow()
    assert (watch.problems, watch._stopping) == ([], False)
    server.refuses_with = 200
    watch._follow()
    assert server.watched == ["5", "5"]


def test_a_revision_that_is_refused_by_the_status_of_the_answer_is_too_old_as_well() -> None:
    server = _RestartedServer()
    watch = PodWatch(cast(Server, server))
    server.refuses_with, server.revision = 410, 9
    watch._follow()
    server.refuses_with = 200
    watch._follow()
    assert (watch.problems, server.watched) == ([], ["5", "9"])
