"""The cost of controllers, in process: creates while they run, watch events, deletion of owners and of namespaces.

An owner is one ConfigMap that owns pods; it is deleted in the foreground. CPU is that of this process, server and
controllers together, so the cost of the controllers during creates is the difference of the first two rows.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.creates import POD, post, server
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.request.messages import ServerRequest, ServerResponse
from headgate.apiserver.watch.watcher import WatchCursor
from headgate.cli.embedded.server import in_process
from headgate.client import field_decoder
from headgate.controllers.framework.reconcile import Controller
from headgate.controllers.garbage_collector.controller import GarbageCollector
from headgate.controllers.garbage_collector.operations import METADATA
from headgate.controllers.namespaces import NamespaceController
from headgate.controllers.pod_gc import PodGCController
from headgate.controllers.service_accounts import ServiceAccountsController
from headgate.runtime.controller_manager import run_controllers

COUNT: Final = 2000
WRITERS: Final = 32
SYNC_S: Final = 2.0
MAPS: Final = "/api/v1/namespaces/bench/configmaps"
PODS: Final = "/api/v1/namespaces/bench/pods"
HEADERS: Final = {"authorization": "Bearer t", "content-type": "application/json"}
PARTIAL: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Watched(msgspec.Struct):
    object: msgspec.Raw


def controllers() -> list[Controller]:
    return [NamespaceController(), GarbageCollector(), PodGCController(), ServiceAccountsController()]


async def ask(endpoint: APIServer, method: str, path: str, body: Any = None) -> ServerResponse:
    data = b"" if body is None else msgspec.json.encode(body)
    response = await endpoint.answer(ServerRequest(method, path, headers=HEADERS, body=data))
    assert isinstance(response, ServerResponse)
    return response


async def until_gone(endpoint: APIServer, path: str) -> None:
    while (await ask(endpoint, "GET", path)).status != 404:
        await asyncio.sleep(0.01)


async def create_family(endpoint: APIServer) -> None:
    owner = msgspec.json.decode((await ask(endpoint, "POST", MAPS, {"metadata": {"name": "owner"}})).body)
    named = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    metadata = {"generateName": "p-", "ownerReferences": [{**named, "blockOwnerDeletion": True}]}

    async def writer() -> None:
        for _ in range(COUNT // WRITERS):
            await post(endpoint, PODS, {**POD, "metadata": metadata})

    await asyncio.gather(*(writer() for _ in range(WRITERS)))


async def handle(endpoint: APIServer, accept: str, fields: tuple[str, ...]) -> float:
    """CPU microseconds for one event, which the server makes and the client reads."""
    headers = {**HEADERS, "accept": accept}
    watch = await endpoint.answer(ServerRequest("GET", "/api/v1/pods", "watch=1&resourceVersion=1", headers))
    assert isinstance(watch, WatchCursor)
    decode, count, cpu = field_decoder.decoder(fields), 0, time.process_time()
    for line in watch.pull():
        decode(msgspec.json.decode(line, type=Watched).object)
        count += 1
    return (time.process_time() - cpu) / count * 1e6


async def measure(with_controllers: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        async with server(Path(folder)) as endpoint:
            task: asyncio.Task[None] | None = None
            if with_controllers:
                task = asyncio.create_task(run_controllers(controllers, in_process(endpoint, "t", "bench")))
                await asyncio.sleep(SYNC_S)
            cpu = time.process_time()
            await create_family(endpoint)
            beside = "beside controllers" if with_controllers else "alone"
            print(f"  creating a pod, {beside:19} {(time.process_time() - cpu) / COUNT * 1e6:6.0f} µs CPU")
            if task is None:
                for name, accept, fields in (
                    ("fields picked from whole objects", "application/json", METADATA),
                    ("metadata views", PARTIAL, METADATA),
                ):
                    print(f"  watch event of a pod, {name:33} {await handle(endpoint, accept, fields):5.1f} µs CPU")
                return
            await tidy(endpoint)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def tidy(endpoint: APIServer) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    await ask(endpoint, "DELETE", f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    await until_gone(endpoint, f"{MAPS}/owner")
    each = (time.process_time() - cpu) / COUNT * 1e6
    print(f"  {COUNT} pods of one owner are deleted in {time.perf_counter() - wall:.2f} s, {each:.0f} µs CPU each")
    for number in range(COUNT):
        await post(endpoint, MAPS, {"metadata": {"name": f"m{number}"}})
    wall, cpu = time.perf_counter(), time.process_time()
    await ask(endpoint, "DELETE", "/api/v1/namespaces/bench")
    await until_gone(endpoint, "/api/v1/namespaces/bench")
    each = (time.process_time() - cpu) / COUNT * 1e6
    print(f"  a namespace of {COUNT} goes in {time.perf_counter() - wall:.2f} s, {each:.0f} µs CPU each")
    cpu = time.process_time()
    await asyncio.sleep(SYNC_S)
    print(f"  at rest {(time.process_time() - cpu) / SYNC_S * 1e3:.2f} ms CPU per second")


def main() -> None:
    print(f"\ncontrollers in process, {COUNT} pods, {WRITERS} writers")
    for with_controllers in (False, True):
        asyncio.run(measure(with_controllers))
