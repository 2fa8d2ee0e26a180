"""The embedded server compared with a real kube-apiserver and an etcd that syncs: same client, same machine.

The rounds alternate between the two, so that other load on the machine affects both. A rate is the median of the
rounds; CPU is the sum over them. Writes the table in ``docs/benchmarks.md``.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from bench import report
from bench.client import Http, Target, connect
from bench.process import Cpu, add
from harness.embedded_server import EmbeddedServer
from harness.real_server import HOW_TO_GET_THEM, RealServer, binaries

ROUNDS: Final = 5
CONNECTIONS: Final = 8
CREATES: Final = 2000  # in each round
GETS: Final = 4000
LISTED: Final = 10_000
LISTS: Final = 5
WATCHERS: Final = 50
WATCHED_CREATES: Final = 100
PODS: Final = "/api/v1/namespaces/bench/pods"
POD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
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


class Served(Protocol):
    """A running server, started by ``tests/harness``."""

    name: str
    url: str
    token: str
    ca: Path

    def pids(self) -> dict[str, int]: ...


class Round(msgspec.Struct, frozen=True):
    """One figure of one round, and its CPU time."""

    figure: float
    cpu_s: Mapping[str, float]
    count: int


Measure = Callable[[Target], Awaitable[tuple[float, int]]]
"""Returns the figure, and the number of operations that it is about."""


async def _in_turns(servers: Sequence[Served], measure: Measure, rounds: int) -> dict[str, list[Round]]:
    found: dict[str, list[Round]] = {server.name: [] for server in servers}
    for number in range(rounds + 1):
        for server in servers:
            cpu = Cpu(server.pids())
            figure, count = await measure(_target(server))
            if number:  # the first round warms up
                found[server.name].append(Round(figure, cpu.used_s(), count))
    return found


def _target(server: Served) -> Target:
    return Target(server.url, server.token, str(server.ca))


async def _spread(target: Target, count: int, ask: Callable[[Http, int], Awaitable[Any]]) -> tuple[float, int]:
    """Requests per second over some connections, each with one request at a time."""
    clients = [await connect(target) for _ in range(CONNECTIONS)]

    async def work(client: Http, first: int) -> None:
        for number in range(first, count, CONNECTIONS):
            await ask(client, number)

    began = time.perf_counter()
    await asyncio.gather(*(work(client, first) for first, client in enumerate(clients)))
    took_s = time.perf_counter() - began
    for client in clients:
        client.close()
    return count / took_s, count


def _expect(client: Http, status: int, body: bytes) -> None:
    if client.status != status:
        raise RuntimeError(f"{client.status} instead of {status}: {body[:300]!r}")


async def creates(target: Target) -> tuple[float, int]:
    body = msgspec.json.encode(POD)

    async def ask(client: Http, number: int) -> None:
        _expect(client, 201, await client.request("POST", PODS, body))

    return await _spread(target, CREATES, ask)


async def gets(target: Target) -> tuple[float, int]:
    names = await _names(target)

    async def ask(client: Http, number: int) -> None:
        _expect(client, 200, await client.request("GET", f"{PODS}/{names[number % len(names)]}"))

    return await _spread(target, GETS, ask)


async def lists(target: Target, fields: str = "") -> tuple[float, int]:
    client = await connect(target)
    began = time.perf_counter()
    for _ in range(LISTS):
        _expect(client, 200, await client.request("GET", f"{PODS}?limit={LISTED}", fields=fields))
    took_s = time.perf_counter() - began
    client.close()
    return took_s / LISTS * 1000, LISTS


async def compressed_lists(target: Target) -> tuple[float, int]:
    return await lists(target, "Accept-Encoding: gzip\r\n")


async def deliveries(target: Target) -> tuple[float, int]:
    """The 99th percentile, in milliseconds, of the time from a create request until each of the watchers has the
    event."""
    sent: dict[bytes, float] = {}
    delays: list[float] = []
    everything = asyncio.get_running_loop().create_future()

    def watcher() -> Callable[[bytes], None]:
        rest = b""

        def events(data: bytes) -> None:
            nonlocal rest
            now = time.perf_counter()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                at = line.index(b'"name":"') + 8
                delays.append(now - sent[line[at : line.index(b'"', at)]])
            if len(delays) == WATCHERS * WATCHED_CREATES:
                everything.set_result(None)

        return events

    writer = await connect(target)
    position = msgspec.json.decode(await writer.request("GET", f"{PODS}?limit=1"))["metadata"]["resourceVersion"]
    watchers = [await connect(target) for _ in range(WATCHERS)]
    for client in watchers:
        client.watch(f"{PODS}?watch=true&resourceVersion={position}", watcher())
    for number in range(WATCHED_CREATES):
        name = f"watched-{time.monotonic_ns()}-{number}"
        body = msgspec.json.encode({**POD, "metadata": {"name": name}})
        sent[name.encode()] = time.perf_counter()
        _expect(writer, 201, await writer.request("POST", PODS, body))
    async with asyncio.timeout(60):
        await everything
    for client in (writer, *watchers):
        client.close()
    return statistics.quantiles(delays, n=100)[98] * 1000, len(delays)


async def _names(target: Target) -> list[str]:
    client = await connect(target)
    page = msgspec.json.decode(await client.request("GET", f"{PODS}?limit=500"))
    client.close()
    return [item["metadata"]["name"] for item in page["items"]]


async def _prepare(target: Target) -> None:
    client = await connect(target)
    await client.request("POST", "/api/v1/namespaces", b'{"metadata":{"name":"bench"}}')
    _expect(client, 201, b"")
    client.close()


async def _fill(target: Target, count: int) -> None:
    client = await connect(target)
    meta = msgspec.json.decode(await client.request("GET", f"{PODS}?limit=1"))["metadata"]
    client.close()
    there = meta.get("remainingItemCount", 0) + 1
    body = msgspec.json.encode(POD)

    async def ask(client: Http, number: int) -> None:
        _expect(client, 201, await client.request("POST", PODS, body))

    if there < count:
        await _spread(target, count - there, ask)


class Comparison(msgspec.Struct, frozen=True):
    title: str
    unit: str
    more_is_better: bool
    bar: float
    """The ratio to the figure of the real server: a minimum, or a maximum where less is better."""
    measure: Measure
    filled: bool = False
    """Whether the pods of the long list must exist."""


COMPARISONS: Final = (
    Comparison(f"pod creates, {CONNECTIONS} connections", "/s", True, 1.0, creates),
    Comparison(f"GETs of single pods, {CONNECTIONS} connections", "/s", True, 1.0, gets),
    Comparison(f"LIST of {LISTED:,} pods", "ms", False, 1.0, lists, filled=True),
    Comparison(f"LIST of {LISTED:,} pods, gzip", "ms", False, 1.0, compressed_lists, filled=True),
    Comparison(f"watch delivery p99, {WATCHERS} watchers", "ms", False, 2.0, deliveries, filled=True),
)


async def compare(servers: Sequence[Served]) -> list[report.Row]:
    for server in servers:
        await _prepare(_target(server))
    rows: list[report.Row] = []
    for comparison in COMPARISONS:
        if comparison.filled:
            for server in servers:
                await _fill(_target(server), LISTED)
        found = await _in_turns(servers, comparison.measure, ROUNDS)
        rows.append(_row(comparison, found))
        print(f"  {rows[-1].line()}", flush=True)
    return rows


def _row(comparison: Comparison, found: Mapping[str, Sequence[Round]]) -> report.Row:
    real, ours = (found[name] for name in ("real", "embedded"))
    figures = [statistics.median(each.figure for each in rounds) for rounds in (real, ours)]
    ratio = figures[1] / figures[0]
    return report.Row(
        title=comparison.title,
        unit=comparison.unit,
        real=figures[0],
        ours=figures[1],
        ratio=ratio,
        bar=comparison.bar,
        met=ratio >= comparison.bar if comparison.more_is_better else ratio <= comparison.bar,
        more_is_better=comparison.more_is_better,
        real_cpu_us=_cpu_us(real),
        our_cpu_us=_cpu_us(ours),
    )


def _cpu_us(rounds: Sequence[Round]) -> dict[str, float]:
    count = sum(each.count for each in rounds)
    return {name: used / count * 1e6 for name, used in add(each.cpu_s for each in rounds).items()}


def main() -> None:
    programs = binaries()
    if programs is None:
        print(f"\nthe real Kubernetes binaries are absent: {HOW_TO_GET_THEM}")
        return
    print(f"\nembedded server and kube-apiserver + etcd (with fsync) in turns, {ROUNDS} rounds each")
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as name:
        folder = Path(name)
        real = RealServer(
            folder / "real",
            programs,
            fsync=True,
            flags=("--enable-priority-and-fairness=false", "--max-requests-inflight=0"),
        )
        ours = EmbeddedServer(folder / "embedded")
        try:
            rows = report.run(compare((real, ours)))
        finally:
            ours.stop()
            real.stop()
    report.write("compared with kube-apiserver v1.35.8 + etcd v3.6.16", report.comparison_table(rows))
