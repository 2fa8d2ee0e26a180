"""The cost of a request for the client: the HTTP transport, 32 small POSTs in flight, with and without TLS.

The server is another process that always sends the same response. CPU is that of this process; the result is the median
of the rounds.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from bench import report
from harness.certificate_authority import Authority
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import HTTPRequest

COUNT: Final = 6000
IN_FLIGHT: Final = 32
ROUNDS: Final = 5
PATH: Final = "/api/v1/namespaces/default/pods/a-pod-with-a-name/binding"
BODY: Final = b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"node-1"}}'
HEADERS: Final = {"content-type": "application/json", "accept": "application/json"}

Post = Callable[[], Awaitable[int]]


@contextmanager
def answering(certificate: str) -> Iterator[int]:
    command = [sys.executable, "-m", "bench.answering", *([certificate] if certificate else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


@asynccontextmanager
async def posting(url: str) -> AsyncIterator[Post]:
    transport = HTTPTransport(RESTConfig(server=url, insecure=True, token="secret"), pool=IN_FLIGHT)
    request = HTTPRequest("POST", PATH, "", HEADERS, BODY)

    async def post() -> int:
        return (await transport.request(request)).status

    yield post
    await transport.close()


async def measure(post: Post) -> tuple[float, float]:
    """Requests per second, and CPU µs for one."""

    async def work(count: int) -> None:
        for _ in range(count):
            if await post() != 201:
                raise RuntimeError("the answering server did not answer 201")

    await asyncio.gather(*(work(5) for _ in range(IN_FLIGHT)))
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work(COUNT // IN_FLIGHT) for _ in range(IN_FLIGHT)))
    done = COUNT // IN_FLIGHT * IN_FLIGHT
    return done / (time.perf_counter() - wall_s), (time.process_time() - cpu_s) / done * 1e6


async def measure_rounds(url: str) -> tuple[float, float]:
    async with posting(url) as post:
        rounds = [await measure(post) for _ in range(ROUNDS)]
    return median(rate for rate, _ in rounds), median(cpu_us for _, cpu_us in rounds)


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        certificate = str(Authority("bench").issue(Path(folder) / "pair.pem", "bench"))
        for how, file in (("http", ""), ("https", certificate)):
            with answering(file) as port:
                rate, cpu_us = report.run(measure_rounds(f"{how}://127.0.0.1:{port}"))
                print(f"transport: {how:5} {cpu_us:6.1f} µs CPU per request, {rate:8,.0f}/s")
                rows.append([how, f"{cpu_us:.1f} µs", f"{rate:,.0f}/s"])
    report.record("transport", report.table(("what", "CPU per request", "requests"), rows))
