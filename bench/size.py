"""A hundred thousand pods: how long ``headgate up`` takes to be ready with them, and how much memory they need.

The data folder is filled with copies, as rows, of one pod that was created through the API; the rate of creates is
measured elsewhere. The measured process is started as users start it.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from bench import report
from bench.creates import HEADERS, server
from bench.process import cpu_s, resident_bytes
from harness.embedded_server import EmbeddedServer
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.store import StoreChange
from headgate.store.io.journal import Journal
from headgate.store.log_rows import CommitBatch

COUNT: Final = 100_000
BYTES: Final = 2_000
START_S: Final = 5.0
MEMORY_BYTES: Final = 1 << 30
_AT_ONCE: Final = 5_000
_NAME: Final = "pod-000000"


async def _one_pod(folder: Path) -> None:
    """Creates a pod that has the wanted length when it is stored."""
    pod: dict[str, Any] = {
        "metadata": {"name": _NAME, "labels": {"app": "bench"}, "annotations": {"padding": ""}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    }
    async with server(folder) as endpoint:
        tried = await _post(endpoint, pod, "dryRun=All")
        pod["metadata"]["annotations"]["padding"] = "x" * (BYTES - len(tried))
        await _post(endpoint, pod)


async def _post(endpoint: APIServer, pod: dict[str, Any], query: str = "") -> bytes:
    asked = ServerRequest("POST", "/api/v1/namespaces/bench/pods", query, HEADERS, msgspec.json.encode(pod))
    response = await endpoint.answer(asked)
    assert isinstance(response, ServerResponse)
    assert response.status == 201, response.body
    return response.body


def _fill(folder: Path) -> int:
    asyncio.run(_one_pod(folder))
    journal = Journal.open(folder)
    store = journal.load()
    pod = store.read("pods", "bench", _NAME)
    assert pod is not None
    old_revision, old_uid = f'"resourceVersion":"{pod.revision}"'.encode(), pod.uid.encode()
    for first in range(1, COUNT, _AT_ONCE):
        changes: list[StoreChange] = []
        for number in range(first, min(first + _AT_ONCE, COUNT)):
            name, uid, revision = f"pod-{number:06d}", f"{number:08x}{pod.uid[8:]}", store.next_revision()
            data = pod.data.replace(_NAME.encode(), name.encode()).replace(old_uid, uid.encode())
            data = data.replace(old_revision, f'"resourceVersion":"{revision}"'.encode())
            fields = {**pod.fields, "metadata.name": name} if "metadata.name" in pod.fields else pod.fields
            item = msgspec.structs.replace(
                pod, name=name, uid=uid, revision=revision, data=data, labels=dict(pod.labels), fields=dict(fields)
            )
            changes.append(store.stage(item))
        journal.write(CommitBatch(changes=changes, oldest=store.oldest, superseded=()))
        store.commit(changes[-1].revision)
    journal.close(store.committed)
    return len(pod.data)


def main() -> None:
    print(f"\n{COUNT:,} pods")
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as name:
        folder = Path(name)
        size = _fill(folder / "data")
        began = time.perf_counter()
        running = EmbeddedServer(folder)
        took_s = time.perf_counter() - began
        try:
            (pid,) = running.pids().values()
            at_start, used_s = resident_bytes(pid), cpu_s(pid)
            listed = running.request("GET", "/api/v1/pods?limit=1").json()
            assert listed["metadata"]["remainingItemCount"] == COUNT - 1
        finally:
            running.stop()
    rows = [
        ["CPU until ready", f"{used_s:.1f} s", "", ""],
        ["ready after", f"{took_s:.1f} s", f"≤ {START_S:.0f} s", "yes" if took_s <= START_S else "**no**"],
        [
            "resident memory",
            f"{at_start / 2**20:,.0f} MiB",
            f"≤ {MEMORY_BYTES / 2**20:,.0f} MiB",
            "yes" if at_start <= MEMORY_BYTES else "**no**",
        ],
    ]
    for row in rows:
        print(f"  {row[0]:20} {row[1]:>12}  {row[2]}")
    report.write(
        "100,000 pods",
        [f"{COUNT:,} pods of {size:,} bytes.", "", *report.table(("what", "figure", "bar", "met"), rows)],
    )
