"""A change of the wall clock does not change the age of objects for an autoscaler model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.timestamps import format_time, parse_time
from headgate.nodes.autoscalers.cluster_autoscaler import ClusterAutoscaler
from headgate.nodes.io.autoscaler_runner import AutoscalerRunner

START_S = 1_700_000_000.0


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_a_new_pod_is_new_after_the_wall_clock_was_set(by_s: float) -> None:
    ages: list[float] = []

    class Model(ClusterAutoscaler):
        def pod_applied(self, wire: dict[str, Any], now_s: float) -> None:
            created = parse_time(wire["metadata"]["creationTimestamp"])
            assert not isinstance(created, str)
            ages.append(now_s - created)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        began_s, set_by_s = loop.time(), 0.0
        more = asyncio.Event()

        def wall() -> float:
            return START_S + loop.time() - began_s + set_by_s

        def a_pod(revision: int) -> dict[str, Any]:
            metadata = {"namespace": "a", "name": f"p{revision}", "uid": str(revision)}
            created = {"resourceVersion": str(revision), "creationTimestamp": format_time(wall())}
            return {"metadata": metadata | created, "spec": {"containers": []}, "status": {}}

        async def watch(request: HTTPRequest) -> AsyncGenerator[bytes, None]:
            if request.path.endswith("/pods"):
                await more.wait()
                yield msgspec.json.encode({"type": "ADDED", "object": a_pod(2)}) + b"\n"
            await asyncio.Event().wait()

        async def handle(request: HTTPRequest) -> HTTPResponse | AsyncGenerator[bytes, None]:
            if "watch=true" in request.query:
                return watch(request)
            items = [a_pod(1)] if request.path.endswith("/pods") else []
            return HTTPResponse(200, {}, msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items}))

        async def until(count: int) -> None:
            async with asyncio.timeout(20):
                while len(ages) < count:
                    await asyncio.sleep(0.001)

        task = asyncio.create_task(AutoscalerRunner(Model([]), InProcessTransport(handle), "model", wall=wall).run())
        await until(1)
        set_by_s = by_s
        more.set()
        await until(2)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    assert all(-1 <= age <= 15 for age in ages), ages
