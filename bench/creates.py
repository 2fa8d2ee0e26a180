"""Durable creates per second on the embedded server, in process: decode, default, admit, validate, commit.

Several writers run at once, because concurrent writes share a commit. CPU is that of this process, all threads.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from bench import report
from headgate import schemas
from headgate.apimachinery.protobuf import MessageDecoder
from headgate.apiserver.authn.user import UserInfo
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.apiserver.state import ServerState
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.schema import Schemas
from headgate.store.io.committer import Committer
from headgate.store.io.journal import Journal

COUNT: Final = 320
WRITERS: Final = 32
ROUNDS: Final = 40
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
async def server(folder: Path) -> AsyncIterator[APIServer]:
    journal = Journal.open(folder)
    store = journal.load()
    tables = Schemas.load(schemas.read())
    api = ServerState(
        schemas=tables,
        messages=MessageDecoder.load(tables, schemas.read_numbers()),
        kinds=BUILTIN,
        store=store,
        features=FeatureGates(),
        users={"t": UserInfo("bench", ("system:masters",))},
        version={},
        disabled_plugins=("ServiceAccount",),  # no controller here creates service accounts
    )
    endpoint = APIServer(api)
    committer = Committer(store, journal, publish=endpoint.publish)
    endpoint.attach(committer)
    await post(endpoint, "/api/v1/namespaces", {"metadata": {"name": "bench"}})
    try:
        yield endpoint
    finally:
        await committer.close()


async def post(endpoint: APIServer, path: str, obj: dict[str, Any]) -> None:
    response = await endpoint.answer(ServerRequest("POST", path, headers=HEADERS, body=msgspec.json.encode(obj)))
    assert isinstance(response, ServerResponse)
    assert response.status == 201, response.body


class Round(msgspec.Struct, frozen=True):
    rate: float
    cpu_us: float


async def measure(path: str, obj: dict[str, Any]) -> list[Round]:
    """Creates per second, and CPU for each, in many short rounds."""
    rounds: list[Round] = []
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        async with server(Path(folder)) as endpoint:

            async def writer() -> None:
                for _ in range(COUNT // WRITERS):
                    await post(endpoint, path, obj)

            for number in range(ROUNDS + 1):
                wall, cpu = time.perf_counter(), time.process_time()
                await asyncio.gather(*(writer() for _ in range(WRITERS)))
                took_s, used_s = time.perf_counter() - wall, time.process_time() - cpu
                if number:  # the first round warms up
                    rounds.append(Round(COUNT / took_s, used_s / COUNT * 1e6))
    return rounds


def main() -> None:
    print(f"\nin-process durable creates, {WRITERS} writers, {ROUNDS} rounds of {COUNT} objects")
    rows: list[list[str]] = []
    for name, path, obj, bar in (
        ("small objects", "/api/v1/namespaces/bench/configmaps", SMALL, 3000),
        ("pods", "/api/v1/namespaces/bench/pods", POD, 1500),
    ):
        rounds = report.run(measure(path, obj))
        best, median = max(each.rate for each in rounds), statistics.median(each.rate for each in rounds)
        cpu_us = statistics.median(each.cpu_us for each in rounds)
        met = "yes" if median >= bar else "**no**"
        rows.append([name, f"{best:,.0f}/s", f"{median:,.0f}/s", f"≥ {bar:,}/s", met, f"{cpu_us:,.0f} µs"])
        print(f"  {name:14} best round {best:7,.0f}/s, median {median:7,.0f}/s, {cpu_us:4,.0f} µs of CPU each")
    heads = ("what", "best round", "median round", "bar", "met by the median", "CPU each, all threads, median round")
    report.write("durable creates", report.table(heads, rows))
