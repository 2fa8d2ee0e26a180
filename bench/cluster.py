"""Fills a real API server with nodes and pods for measurements of schedulers, reads the progress, and empties it.

Lists of one item show whether all pods have a node, so that these requests cost the server little. The pods of a round
are in one namespace, which is emptied afterwards; parked pods have another namespace and stay.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec

from harness.real_server import RealServer
from headgate.client import write_requests
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.kubeconfig import RESTConfig
from headgate.http.transport import HTTPRequest, HTTPResponse, encode_query
from headgate.kube.api_resources import NAMESPACES, NODES, PODS

CONNECTIONS: Final = 16
MEASURED: Final = "measured"
PARKED: Final = "parked"
GATE: Final = "bench.example/hold"
_GLANCE_S: Final = 0.04
_GLANCE_SHARE: Final = 0.02
"""A list request costs the server as much as one or two bindings: the longer a round takes, the less often it is
sent."""
_ALLOCATABLE: Final = {"cpu": "4", "memory": "32Gi", "pods": "110"}


class Stuck(Exception):
    """An expected state was not reached in time."""


class Cluster:
    """Must be created inside a running event loop."""

    def __init__(self, server: RealServer) -> None:
        self.server = server
        self.transport = HTTPTransport(access_to(str(server.kubeconfig)), pool=CONNECTIONS)

    async def prepare(self, nodes: int) -> None:
        for name in (MEASURED, PARKED):
            await self._send(write_requests.create(NAMESPACES, "", {"metadata": {"name": name}}))

        async def make(number: int) -> None:
            await self._send(write_requests.create(NODES, "", _node(number)))

        await self.each(range(nodes), make)

    async def make_pods(self, count: int, scheduler: str, namespace: str = MEASURED, *, gated: bool = False) -> None:
        async def make(number: int) -> None:
            await self._send(write_requests.create(PODS, namespace, _pod(number, scheduler, gated)))

        await self.each(range(count), make)

    async def park(self, count: int, scheduler: str) -> None:
        await self.make_pods(count, scheduler, PARKED, gated=True)

    async def unpark(self) -> None:
        await self._remove(PARKED)

    async def each(self, numbers: Iterable[int], do: Callable[[int], Awaitable[None]]) -> None:
        """Sends as many requests at once as there are connections."""
        left = iter(numbers)

        async def work() -> None:
            for number in left:
                await do(number)

        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(work())

    async def empty(self) -> None:
        await self._remove(MEASURED)

    async def _remove(self, namespace: str) -> None:
        body = b'{"gracePeriodSeconds":0}'
        await self._send(
            HTTPRequest("DELETE", PODS.collection_path(namespace), "", write_requests.JSON, body, timeout_s=120)
        )

    async def first_bound(self, limit_s: float) -> float:
        """When the first pod had a node."""

        async def one() -> bool:
            return not await self._none("spec.nodeName!=")

        return await self.until(one, limit_s, "no pod got a node")

    async def all_bound(self, limit_s: float) -> float:
        """When every pod of the round had a node."""
        return await self.until(lambda: self._none("spec.nodeName="), limit_s, "pods are left without a node")

    async def bound(self, count: int, limit_s: float) -> float:
        """When this number of pods had a node."""

        async def enough() -> bool:
            query = encode_query({"limit": str(count), "fieldSelector": "spec.nodeName!="})
            response = await self._send(
                HTTPRequest("GET", PODS.collection_path(MEASURED), query, write_requests.ACCEPT)
            )
            return len(msgspec.json.decode(response.body)["items"]) >= count

        return await self.until(enough, limit_s, f"fewer than {count} pods have a node")

    async def until(self, happened: Callable[[], Awaitable[bool]], limit_s: float, otherwise: str) -> float:
        began_s = time.perf_counter()
        while not await happened():
            took_s = time.perf_counter() - began_s
            if took_s > limit_s:
                raise Stuck(f"{otherwise} after {limit_s:.0f} s")
            await asyncio.sleep(max(_GLANCE_S, took_s * _GLANCE_SHARE))
        return time.perf_counter()

    async def uids(self) -> dict[str, str]:
        """Pods of the round, by name."""
        response = await self._send(HTTPRequest("GET", PODS.collection_path(MEASURED), "", write_requests.ACCEPT))
        items = msgspec.json.decode(response.body)["items"]
        return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}

    async def close(self) -> None:
        await self.transport.close()

    async def _none(self, selector: str) -> bool:
        query = encode_query({"limit": "1", "fieldSelector": selector})
        response = await self._send(HTTPRequest("GET", PODS.collection_path(MEASURED), query, write_requests.ACCEPT))
        return not msgspec.json.decode(response.body)["items"]

    async def _send(self, request: HTTPRequest) -> HTTPResponse:
        return await send(self.transport, request)


async def send(transport: HTTPTransport, request: HTTPRequest) -> HTTPResponse:
    response = await transport.request(request)
    if not response.ok:
        raise RuntimeError(f"{request.method} {request.path}: {response.status} {response.body[:300]!r}")
    return response


def access_to(kubeconfig: str) -> RESTConfig:
    config = find_rest_config(kubeconfig)
    if isinstance(config, str):
        raise ValueError(config)
    return config


def pod_name(number: int) -> str:
    return f"pod-{number:05}"


def node_name(number: int) -> str:
    return f"node-{number:05}"


def _node(number: int) -> dict[str, Any]:
    name = node_name(number)
    labels = {"topology.kubernetes.io/zone": f"zone-{number % 3}", "kubernetes.io/hostname": name}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": _ALLOCATABLE, "allocatable": _ALLOCATABLE, "conditions": [ready]},
    }


def _pod(number: int, scheduler: str, gated: bool) -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m", "memory": "500Mi"}, "limits": {"memory": "500Mi"}}
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "containers": [{"name": "main", "image": "registry.example/app:1", "resources": resources}],
    }
    if gated:
        spec["schedulingGates"] = [{"name": GATE}]
    return {"metadata": {"name": pod_name(number), "labels": {"app": "bench"}}, "spec": spec}
