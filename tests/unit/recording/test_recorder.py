"""The recorder with a scripted cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.recording.changes import (
    HistoryEvent,
    RecordedChange,
    ResourceAbsent,
    ResourceSynced,
    SessionEnded,
    SessionStarted,
)
from headgate.recording.history import survey
from headgate.recording.io.discovery import MissingRights, list_cluster
from headgate.recording.io.recorder import ClusterRecorder
from headgate.recording.io.recording_file import RecordingReader, RecordingWriter
from headgate.recording.name_hashing import NameHasher
from headgate.recording.resources import BY_NAME
from unit.recording.histories import an_object

Object = dict[str, Any]
PODS, QUEUES = BY_NAME["pods"], BY_NAME["queues.scheduling.volcano.sh"]
WORKLOADS = BY_NAME["workloads.kueue.x-k8s.io"]


class FakeCluster:
    """Lists and watches from dictionaries. ``served``: paths of collections. ``forbidden``: those that are refused."""

    def __init__(self, *served: str) -> None:
        self.objects: dict[str, dict[str, Object]] = {path: {} for path in served}
        self.forbidden: set[str] = set()
        self.expired = False
        self.revision = 10
        self.watches: dict[str, list[asyncio.Queue[bytes | None]]] = {}
        self.transport = InProcessTransport(self.handle)

    async def handle(self, request: HTTPRequest) -> HTTPResponse | AsyncGenerator[bytes, None]:
        path = request.path
        if path not in self.objects:
            return self._discovery(path)
        if path in self.forbidden:
            return _status(403, "no")
        if "watch=true" not in request.query:
            body = {"metadata": {"resourceVersion": str(self.revision)}, "items": list(self.objects[path].values())}
            return HTTPResponse(200, {}, json.dumps(body).encode())
        if self.expired:
            self.expired = False
            return _status(410, "too old")
        return self._watch(path)

    def _discovery(self, path: str) -> HTTPResponse:
        plurals = [each.rpartition("/")[2] for each in self.objects if each.rpartition("/")[0] == path]
        if not plurals:
            return _status(404, "not found")
        return HTTPResponse(200, {}, json.dumps({"resources": [{"name": each} for each in plurals]}).encode())

    async def _watch(self, path: str) -> AsyncGenerator[bytes, None]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.watches.setdefault(path, []).append(queue)
        while (line := await queue.get()) is not None:
            yield line

    def write(self, path: str, obj: Object, kind: str = "MODIFIED") -> None:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        if kind == "DELETED":
            self.objects[path].pop(obj["metadata"]["name"], None)
        else:
            self.objects[path][obj["metadata"]["name"]] = obj
        for queue in self.watches.get(path, []):
            queue.put_nowait(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    def end_watches(self, path: str) -> None:
        for queue in self.watches.pop(path, []):
            queue.put_nowait(None)


def _status(code: int, message: str) -> HTTPResponse:
    return HTTPResponse(code, {}, json.dumps({"kind": "Status", "code": code, "message": message}).encode())


PODS_PATH, QUEUES_PATH = "/api/v1/pods", "/apis/scheduling.volcano.sh/v1beta1/queues"


def read(path: Path) -> list[HistoryEvent]:
    reader = RecordingReader(path)
    found = list(reader.events())
    assert reader.damage is None
    return found


def record(
    path: Path, cluster: FakeCluster, script: Callable[[ClusterRecorder], Any], *, hasher: NameHasher | None = None
) -> list[HistoryEvent]:
    """Records while the script runs, and returns what the file says then."""

    async def run() -> None:
        writer = RecordingWriter(path, hashed=hasher is not None)
        recorder = ClusterRecorder(
            cluster.transport, writer, (PODS, QUEUES), hasher=hasher, flush_s=0.01, absent_s=0.01
        )
        stop = asyncio.Event()
        task = asyncio.create_task(recorder.run(stop))
        try:
            await script(recorder)
        finally:
            stop.set()
            await task
            writer.close()

    asyncio.run(run())
    return read(path)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def states(events: list[HistoryEvent]) -> list[tuple[str, int, bool, bool]]:
    return [
        (each.key[1], each.revision, each.observed, each.deleted) for each in events if isinstance(each, RecordedChange)
    ]


def test_listed_states_and_changes_are_recorded_and_a_stop_is_noted(tmp_path: Path) -> None:
    cluster = FakeCluster(PODS_PATH, QUEUES_PATH)
    cluster.write(PODS_PATH, an_object("a", 1, spec={"nodeName": ""}))

    async def script(recorder: ClusterRecorder) -> None:
        await until(lambda: recorder.status.synced == 2 and PODS_PATH in cluster.watches)
        cluster.write(PODS_PATH, an_object("a", 1, spec={"nodeName": "n"}))
        cluster.write(PODS_PATH, an_object("a", 1, spec={"nodeName": "n"}, data="not recorded"))
        cluster.write(PODS_PATH, an_object("a", 1), "DELETED")
        await until(lambda: recorder.status.deletions == 1)

    events = record(tmp_path / "a.hgr", cluster, script)
    assert states(events) == [("a", 11, False, False), ("a", 12, True, False), ("a", 14, True, True)]
    assert isinstance(events[0], SessionStarted)
    assert isinstance(events[-1], SessionEnded)
    assert [each.resource for each in events if isinstance(each, ResourceSynced)].count("pods") == 1


def test_a_watch_that_expired_is_listed_again_and_the_differences_are_marked(tmp_path: Path) -> None:
    cluster = FakeCluster(PODS_PATH, QUEUES_PATH)
    cluster.write(PODS_PATH, an_object("gone", 1))
    cluster.write(PODS_PATH, an_object("changed", 1, spec={"priority": 1}))

    async def script(recorder: ClusterRecorder) -> None:
        await until(lambda: PODS_PATH in cluster.watches and recorder.status.synced == 2)
        watches = cluster.watches.pop(PODS_PATH)
        cluster.expired = True
        cluster.write(PODS_PATH, an_object("gone", 1), "DELETED")
        cluster.write(PODS_PATH, an_object("changed", 1, spec={"priority": 2}))
        for each in watches:
            each.put_nowait(None)
        await until(lambda: recorder.status.deletions == 1)

    path = tmp_path / "a.hgr"
    events = record(path, cluster, script)
    assert states(events)[2:] == [("changed", 14, False, False), ("gone", 0, False, True)]
    assert [each.resource for each in survey(lambda: events).gaps] == ["pods"]
    late = [each for each in events if isinstance(each, RecordedChange) and each.key[1] == "changed"][1]
    assert late.earliest_s <= late.at_s


def test_a_recorder_that_is_started_again_continues_and_records_the_difference(tmp_path: Path) -> None:
    cluster, path = FakeCluster(PODS_PATH, QUEUES_PATH), tmp_path / "a.hgr"
    for name in ("same", "changed", "gone", "remade"):
        cluster.write(PODS_PATH, an_object(name, 1, spec={"priority": 1}))

    async def wait(recorder: ClusterRecorder) -> None:
        await until(lambda: recorder.status.synced == 2)

    first = record(path, cluster, wait)
    cluster.watches = {}
    cluster.write(PODS_PATH, an_object("gone", 1), "DELETED")
    cluster.write(PODS_PATH, an_object("changed", 1, spec={"priority": 2}))
    cluster.write(PODS_PATH, an_object("remade", 1, "other", spec={"priority": 1}))
    second = record(path, cluster, wait)[len(first) :]
    assert sorted(states(second)) == [
        ("changed", 16, False, False),
        ("gone", 0, False, True),
        ("remade", 0, False, True),
        ("remade", 17, False, False),
    ]


def test_a_kind_that_is_not_served_is_noted_and_picked_up_when_it_appears(tmp_path: Path) -> None:
    cluster = FakeCluster(PODS_PATH)

    async def script(recorder: ClusterRecorder) -> None:
        await until(lambda: recorder.status.absent == 1 and recorder.status.synced == 1)
        cluster.objects[QUEUES_PATH] = {}
        cluster.write(QUEUES_PATH, an_object("team", 1, spec={"weight": 1}))
        await until(lambda: recorder.status.synced == 2)

    events = record(tmp_path / "a.hgr", cluster, script)
    assert [each.resource for each in events if isinstance(each, ResourceAbsent)] == [QUEUES.name]
    assert ("team", 11, False, False) in states(events)


def test_missing_rights_are_named_together_and_nothing_is_recorded(tmp_path: Path) -> None:
    cluster = FakeCluster(PODS_PATH, QUEUES_PATH)
    cluster.forbidden = {PODS_PATH, QUEUES_PATH}

    async def wait(recorder: ClusterRecorder) -> None:
        await asyncio.sleep(0)

    with pytest.raises(MissingRights) as refused:
        record(tmp_path / "a.hgr", cluster, wait)
    assert [text.partition(" (")[0] for text in refused.value.texts] == [
        "missing right: list pods in all namespaces",
        "missing right: list queues.scheduling.volcano.sh",
    ]
    assert read(tmp_path / "a.hgr") == []


def test_an_older_version_of_a_kind_is_read_if_the_newer_one_is_not_served() -> None:
    path = "/apis/kueue.x-k8s.io/v1beta1/workloads"
    cluster = FakeCluster(path)
    cluster.write(path, an_object("w", 1))
    events = asyncio.run(list_cluster(cluster.transport, (WORKLOADS, PODS), 5.0))
    assert states(events) == [("w", 11, False, False)]
    assert [each.resource for each in events if isinstance(each, ResourceAbsent)] == ["pods"]


def test_a_list_that_is_refused_is_a_missing_right_and_not_an_empty_cluster() -> None:
    cluster = FakeCluster(PODS_PATH, QUEUES_PATH)
    cluster.forbidden = {QUEUES_PATH}
    with pytest.raises(MissingRights, match="missing right: list queues"):
        asyncio.run(list_cluster(cluster.transport, (PODS, QUEUES), 5.0))


def test_names_are_hashed_before_they_are_written(tmp_path: Path) -> None:
    cluster = FakeCluster(PODS_PATH, QUEUES_PATH)
    cluster.write(PODS_PATH, an_object("trainer", 1, spec={"nodeName": "machine"}))
    hasher = NameHasher(b"k" * 32)

    async def script(recorder: ClusterRecorder) -> None:
        await until(lambda: PODS_PATH in cluster.watches and recorder.status.synced == 2)
        cluster.write(PODS_PATH, an_object("trainer", 1), "DELETED")
        await until(lambda: recorder.status.deletions == 1)

    events = record(tmp_path / "a.hgr", cluster, script, hasher=hasher)
    assert [name for name, *_ in states(events)] == [hasher.name("trainer")] * 2


def test_a_watch_that_is_lost_and_comes_back_is_said(tmp_path: Path) -> None:
    cluster = FakeCluster(PODS_PATH, QUEUES_PATH)
    lines: list[str] = []

    async def script(recorder: ClusterRecorder) -> None:
        def has(text: str) -> bool:
            lines.extend(recorder.status.watches.take_lines())
            return any(text in line for line in lines)

        await until(lambda: recorder.status.synced == 2 and PODS_PATH in cluster.watches)
        cluster.forbidden.add(PODS_PATH)
        cluster.end_watches(PODS_PATH)
        await until(lambda: has("not watched: pods"))
        assert recorder.status.watches.lost_names() == "pods"
        cluster.forbidden.clear()
        await until(lambda: has("watched again: pods, after"))
        assert not recorder.status.watches.lost_names()

    record(tmp_path / "r.hgr", cluster, script)
    assert len(lines) == 2
