"""The raw limit of the API server: a loop that only binds, and one that removes a gate and then binds.

The loop decides nothing, watches nothing and emits no Events. The rate of a scheduler is compared with this largest
possible rate on the machine. ``python -m bench.limits KUBECONFIG COUNT`` is the process that removes the gates of pods
while a scheduler is measured: it prints ``ready``, waits for a line on standard input, and begins.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bench import report
from bench.cluster import GATE, MEASURED, Cluster, access_to, node_name, pod_name, send
from headgate.client import write_requests
from headgate.client.io.http_transport import HTTPTransport
from headgate.http.transport import HTTPRequest
from headgate.kube.api_resources import PODS

PATCHERS: Final = 8
_LIFTED: Final[dict[str, Any]] = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
_LIFTED_BYTES: Final = msgspec.json.encode(_LIFTED)


async def bind_all(cluster: Cluster, nodes: int, uids: Mapping[str, str], *, lift: bool) -> None:
    async def one(number: int) -> None:
        name = pod_name(number)
        if lift:
            await send(cluster.transport, _lift(name))
        await send(cluster.transport, write_requests.bind(MEASURED, name, uids[name], node_name(number % nodes)))

    await cluster.each(range(len(uids)), one)


def _lift(name: str) -> HTTPRequest:
    return HTTPRequest(
        "PATCH", PODS.object_path(MEASURED, name), "", write_requests.PATCH_HEADERS["strategic"], _LIFTED_BYTES
    )


async def lift_all(kubeconfig: str, count: int) -> None:
    transport = HTTPTransport(access_to(kubeconfig), pool=PATCHERS)
    print("ready", flush=True)
    sys.stdin.readline()
    left = iter(range(count))

    async def patcher() -> None:
        for number in left:
            await send(transport, _lift(pod_name(number)))

    await asyncio.gather(*(patcher() for _ in range(PATCHERS)))
    await transport.close()


if __name__ == "__main__":
    report.run(lift_all(sys.argv[1], int(sys.argv[2])))
