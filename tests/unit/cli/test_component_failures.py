"""A component that restarts in a loop fails the health checks of its process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headgate.cli.embedded.cluster_options import ClusterOptions
from headgate.cli.embedded.credentials import AccessOptions
from headgate.cli.embedded.server import serve
from headgate.cli.wiring.controllers import run_builtin_controllers, run_jobs, run_quota
from headgate.cli.wiring.metrics import ProcessMetrics
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.server import listen
from headgate.http.transport import HTTPRequest, HTTPResponse, Transport
from headgate.jobs.settings import DEFAULT
from headgate.kube.feature_gates import FeatureGates

RUNS: dict[str, Callable[[Transport, ProcessMetrics], Coroutine[Any, Any, None]]] = {
    "controllers": lambda transport, metrics: run_builtin_controllers("", transport, FeatureGates(), metrics),
    "quota": lambda transport, metrics: run_quota(transport, FeatureGates(), DEFAULT, metrics),
    "jobs": lambda transport, metrics: run_jobs(transport, FeatureGates(), DEFAULT, metrics),
}


async def break_down(request: HTTPRequest) -> HTTPResponse:
    raise ValueError("a defect")


@pytest.mark.parametrize("component", RUNS)
def test_a_component_that_fails_is_counted(component: str) -> None:
    async def scenario() -> None:
        metrics = ProcessMetrics()
        running = asyncio.create_task(RUNS[component](InProcessTransport(break_down, {}), metrics))
        restarts = metrics.health_registry.restarts
        for _ in range(2):
            restarts.failed(component, ValueError("before"))
        async with asyncio.timeout(20):
            while f"{component} failed 3 times" not in restarts.problem():
                assert not running.done()
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        assert "ValueError: a defect" in restarts.problem()

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_the_embedded_server_is_not_healthy_while_a_component_restarts_in_a_loop(path: str, tmp_path: Path) -> None:
    options = ClusterOptions.parse(
        data=tmp_path / "data",
        listen="127.0.0.1:0",
        kubeconfig=tmp_path / "kubeconfig",
        components="apiserver",
        node_count=0,
        node_resources={"cpu": "1", "memory": "1Gi"},
        extra_resources=(),
        features=FeatureGates(),
        access=AccessOptions(),
    )
    assert isinstance(options, ClusterOptions)

    async def scenario() -> None:
        with listen(options.host, options.port) as sock:
            async with contextlib.AsyncExitStack() as stack:
                served = await serve(options, sock, lambda line: None, stack)
                client = served.client("test")
                response = await client.request(HTTPRequest("GET", path, "", {}))
                assert (response.status, response.body) == (200, b"ok")
                for _ in range(3):
                    served.metrics.health_registry.restarts.failed("scheduler", ValueError("a defect"))
                response = await client.request(HTTPRequest("GET", path, "", {}))
                assert response.status == 500
                assert b"[-]components failed" in response.body

    asyncio.run(scenario())
