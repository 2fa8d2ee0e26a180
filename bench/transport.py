"""What a request costs its client: our HTTP transport beside aiohttp, 32 small POSTs in flight, with and without TLS.

The server is another process that always answers the same. CPU is this process's own; rounds alternate, the median of
each counts, so that a busy machine spoils neither.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import aiohttp

from bench import report
from harness.authority import Authority
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
async def ours(url: str) -> AsyncIterator[Post]:
    transport = HTTPTransport(RESTConfig(server=url, insecure=True, token="secret"), pool=IN_FLIGHT)
    request = HTTPRequest("POST", PATH, "", HEADERS, BODY)

    async def post() -> int:
        return (await transport.request(request)).status

    yield post
    await transport.close()


@asynccontextmanager
async def with_aiohttp(url: str) -> AsyncIterator[Post]:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connector = aiohttp.TCPConnector(limit=IN_FLIGHT, ssl=context)
    headers = {**HEADERS, "authorization": "Bearer secret"}
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def post() -> int:
            async with session.post(f"{url}{PATH}", data=BODY, headers=headers) as answer:
                await answer.read()
                return answer.status

        yield post


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


async def compare(url: str) -> dict[str, tuple[float, float]]:
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "aiohttp": []}
    async with ours(url) as our_post, with_aiohttp(url) as their_post:
        for _ in range(ROUNDS):
            for name, post in (("ours", our_post), ("aiohttp", their_post)):
                found[name].append(await measure(post))
    return {name: (median(rate for rate, _ in each), median(cpu for _, cpu in each)) for name, each in found.items()}


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        certificate = str(Authority("bench").issue(Path(folder) / "pair.pem", "bench"))
        for how, file in (("http", ""), ("https", certificate)):
            with answering(file) as port:
                for name, (rate, cpu_us) in report.run(compare(f"{how}://127.0.0.1:{port}")).items():
                    print(f"transport: {how:5} {name:8} {cpu_us:6.1f} µs CPU per request, {rate:8,.0f}/s")
                    rows.append([f"{how}, {name}", f"{cpu_us:.1f} µs", f"{rate:,.0f}/s"])
    report.record("transport", report.table(("what", "CPU per request", "requests"), rows))
