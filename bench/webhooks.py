"""The cost of an admission review: the API server's webhook client calls Headgate's webhook server, 8 at a time.

The server is another process (`reviewing.py`). The review is of a pod of about 2 kB that gets a queue gate.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from statistics import median
from typing import IO, Final

import msgspec

from bench import report
from headgate.apiserver.io.webhook_client import WebhookClient
from headgate.apiserver.request.messages import WebhookCall

COUNT: Final = 4000
CONNECTIONS: Final = 8
WARM_UP: Final = 50
ROUNDS: Final = 5
POD: Final = {
    "metadata": {"name": "p", "labels": {"app": "x"}, "annotations": {"headgate.dev/queue": "a"}},
    "spec": {
        "schedulerName": "s",
        "containers": [
            {
                "name": "c",
                "image": "i",
                "env": [{"name": f"E{number}", "value": "v" * 40} for number in range(20)],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }
        ],
    },
}
REVIEW: Final = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "n",
        "object": POD,
    },
}


class Figures(msgspec.Struct, frozen=True):
    per_s: float
    p50_ms: float
    p99_ms: float
    server_us: float
    client_us: float


class Reviewing:
    """The server's process."""

    def __init__(self, into: IO[str], out: IO[str]) -> None:
        self._into, self._out = into, out
        found = json.loads(out.readline())
        url = f"https://127.0.0.1:{found['port']}/pods/mutate?timeout=5s"
        self.call = WebhookCall(url, msgspec.json.encode(REVIEW), 5.0, found["ca"].encode())

    def cpu_s(self) -> float:
        self._into.write("\n")
        self._into.flush()
        return float(self._out.readline())


async def measure(server: Reviewing) -> Figures:
    client = WebhookClient()
    took_s: list[float] = []

    async def work(count: int) -> None:
        for _ in range(count):
            began_s = time.perf_counter()
            (response,) = await client.call((server.call,))
            if response.status != 200:
                raise RuntimeError(f"the webhook server answered {response}")
            took_s.append(time.perf_counter() - began_s)

    await asyncio.gather(*(work(WARM_UP) for _ in range(CONNECTIONS)))
    took_s.clear()
    server_s, client_s, wall_s = server.cpu_s(), time.process_time(), time.perf_counter()
    await asyncio.gather(*(work(COUNT // CONNECTIONS) for _ in range(CONNECTIONS)))
    wall_s, client_s = time.perf_counter() - wall_s, time.process_time() - client_s
    server_s = server.cpu_s() - server_s
    await client.close()
    took_s.sort()
    done = len(took_s)
    p50_s, p99_s = took_s[done // 2], took_s[done * 99 // 100]
    return Figures(done / wall_s, p50_s * 1e3, p99_s * 1e3, server_s / done * 1e6, client_s / done * 1e6)


def main() -> None:
    command = [sys.executable, "-m", "bench.reviewing"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        server = Reviewing(process.stdin, process.stdout)
        rounds = [report.run(measure(server)) for _ in range(ROUNDS)]
    found = Figures(*(median(getattr(each, name) for each in rounds) for name in Figures.__struct_fields__))
    row = [
        f"{found.per_s:,.0f}/s",
        f"{found.p50_ms:.1f} ms",
        f"{found.p99_ms:.1f} ms",
        f"{found.server_us:.0f} µs",
        f"{found.client_us:.0f} µs",
    ]
    print(f"webhooks: {', '.join(row)}")
    columns = ("connections", "reviews", "p50", "p99", "server CPU per review", "client CPU per review")
    report.record("webhooks", report.table(columns, [[str(CONNECTIONS), *row]]))
