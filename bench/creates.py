"""Durable creates per second on the embedded server, in process: decode, default, track, admit, validate, sync.

Several writers at once, because a commit is shared by whoever waits for it. CPU is the process's own, all threads.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from bench import report
from headgate import schemas
from headgate.apiserver.access.user import User
from headgate.apiserver.api import Api
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.messages import Request, Response
from headgate.apiserver.shell import Endpoint
from headgate.kube.features import Features
from headgate.kube.protobuf import Messages
from headgate.kube.schema import Schemas
from headgate.store.journal.shell import Journal
from headgate.store.shell import Committer

COUNT: Final = 3000
WRITERS: Final = 32
ROUNDS: Final = 5
SMALL: Final[dict[str, Any]] = {"metadata": {"generateName": "small-"}, "data": {"key": "value"}}
POD: Final[dict[str, Any]] = {
    "metadata": {"generateName": "pod-", "labels": {"app": "bench"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/app:1",
                "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}, "limits": {"memory": "500Mi"}},
                "env": [{"name": "MODE", "value": "bench"}],
            }
        ]
    },
}
HEADERS: Final = {"authorization": "Bearer t", "content-type": "application/json", "user-agent": "bench"}


@asynccontextmanager
async def server(folder: Path) -> AsyncIterator[Endpoint]:
    journal = Journal.open(folder)
    store = journal.load()
    tables = Schemas.load(schemas.read())
    api = Api(
        schemas=tables,
        messages=Messages.load(tables, schemas.read_numbers()),
        kinds=BUILTIN,
        store=store,
        features=Features(),
        users={"t": User("bench", ("system:masters",))},
        version={},
    )
    endpoint = Endpoint(api)
    committer = Committer(store, journal, publish=endpoint.publish)
    endpoint.attach(committer)
    await post(endpoint, "/api/v1/namespaces", {"metadata": {"name": "bench"}})
    try:
        yield endpoint
    finally:
        await committer.close()


async def post(endpoint: Endpoint, path: str, obj: dict[str, Any]) -> None:
    answer = await endpoint.answer(Request("POST", path, headers=HEADERS, body=msgspec.json.encode(obj)))
    assert isinstance(answer, Response)
    assert answer.status == 201, answer.body


async def measure(path: str, obj: dict[str, Any]) -> tuple[float, float]:
    """Creates per second, and CPU microseconds each."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        async with server(Path(folder)) as endpoint:

            async def writer() -> None:
                for _ in range(COUNT // WRITERS):
                    await post(endpoint, path, obj)

            wall, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*(writer() for _ in range(WRITERS)))
            done = COUNT // WRITERS * WRITERS
            return done / (time.perf_counter() - wall), (time.process_time() - cpu) / done * 1e6


def main() -> None:
    print(f"\nin-process durable creates, {WRITERS} writers, {COUNT} objects, best of {ROUNDS}")
    rows: list[list[str]] = []
    for name, path, obj, bar in (
        ("small objects", "/api/v1/namespaces/bench/configmaps", SMALL, 3000),
        ("pods", "/api/v1/namespaces/bench/pods", POD, 1500),
    ):
        rounds = [report.run(measure(path, obj)) for _ in range(ROUNDS)]
        rate, cpu_us = max(rate for rate, _ in rounds), min(cpu_us for _, cpu_us in rounds)
        met = "yes" if rate >= bar else "**no**"
        rows.append([name, f"{rate:,.0f}/s", f"≥ {bar:,}/s", met, f"{cpu_us:,.0f} µs", f"{1e6 / cpu_us:,.0f}/s"])
        print(f"  {name:14} {rows[-1][1]:>8}   {rows[-1][4]:>6} of CPU each")
    heads = ("what", "created", "bar", "met", "CPU each, all threads", "one core's worth of that")
    report.write("durable creates", report.table(heads, rows))
