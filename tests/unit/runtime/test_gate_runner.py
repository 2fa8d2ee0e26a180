"""The runner of the gate controller, with the embedded server and with a transport that records requests."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import msgspec

from clusters import a_pod
from headgate.capacity.names import GATE, OPT_IN, STAMP
from headgate.client.io.writer import Writer
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport
from headgate.runtime.gates.runner import GatedPodWrites, GateRunner
from headgate.runtime.health.registry import HealthRegistry
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.framework.effects import RemoveSchedulingGate, SetStatus
from headgate.scheduling.gates.gate_controller import GateController, GateSettings
from unit.runtime.serving import a_server, ask, until

PODS = "/api/v1/namespaces/default/pods"
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "no room"}


def a_controller(report: Callable[[str], None] = lambda problem: None) -> GateController:
    return GateController(["default-scheduler"], GateSettings(time_of_day=time.time), report)


def writer(transport: Transport) -> Writer:
    return Writer(transport, jitter=random.random, sleep=asyncio.sleep)


class RecordingTransport:
    """Answers every write with `status` as soon as the test lets it through."""

    def __init__(self, status: int = 200) -> None:
        self._status = status
        self.bodies: list[tuple[str, Any]] = []
        self.gate = asyncio.Event()

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        self.bodies.append((request.path.removeprefix(f"{PODS}/"), msgspec.json.decode(request.body)))
        await self.gate.wait()
        return HTTPResponse(self._status, {}, b"{}")

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return HTTPResponse(404, {}, b"")

    async def close(self) -> None:
        pass


def pod_of(name: str) -> PodInfo:
    wire = a_pod(name, schedulingGates=[{"name": GATE}])
    wire["metadata"]["resourceVersion"] = "7"
    pod = read_pod(wire, ShapeTable())
    assert isinstance(pod, PodInfo)
    return pod


def test_the_gate_of_a_pod_is_removed_on_a_server_without_queues() -> None:
    async def scenario() -> None:
        async with a_server() as transport, asyncio.TaskGroup() as group:
            await ask(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
            for name, scheduler in (("ours", "default-scheduler"), ("theirs", "other")):
                pod = a_pod(name, {"cpu": "1"}, schedulingGates=[{"name": GATE}], schedulerName=scheduler)
                del pod["metadata"]["uid"]
                pod["metadata"]["annotations"] = {OPT_IN: "true"}
                status, body = await ask(transport, "POST", PODS, pod)
                assert status == 201, body
            runner = GateRunner(a_controller, transport, writer(transport), write_queue_status=False)
            assert "pods" in runner.unsynced()
            running = group.create_task(runner.run())

            async def is_ungated() -> bool:
                _, ours = await ask(transport, "GET", f"{PODS}/ours")
                return not ours["spec"].get("schedulingGates") and STAMP in ours["metadata"]["annotations"]

            await until(is_ungated)
            _, theirs = await ask(transport, "GET", f"{PODS}/theirs")
            assert theirs["spec"]["schedulingGates"] == [{"name": GATE}]
            assert runner.unsynced() == []
            running.cancel()

    asyncio.run(scenario())


def test_a_condition_is_written_only_to_the_version_of_the_pod_that_was_seen() -> None:
    async def scenario() -> None:
        transport = RecordingTransport()
        transport.gate.set()
        writes = GatedPodWrites(a_controller(), writer(transport), lambda: None)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(writes.run())
            writes.perform([SetStatus(pod_of("p"), CONDITION)])
            await until(lambda: transport.bodies)
            running.cancel()
        ((path, body),) = transport.bodies
        assert path == "p/status"
        assert body["metadata"] == {"resourceVersion": "7", "uid": "uid-p"}

    asyncio.run(scenario())


def test_the_controller_decides_again_about_a_condition_that_the_server_did_not_write() -> None:
    async def scenario() -> None:
        transport = RecordingTransport(409)
        transport.gate.set()
        controller, woken = a_controller(), asyncio.Event()
        writes = GatedPodWrites(controller, writer(transport), woken.set)
        assert controller.next_deadline_s() is None
        async with asyncio.TaskGroup() as group:
            running = group.create_task(writes.run())
            writes.perform([SetStatus(pod_of("p"), CONDITION)])
            await woken.wait()
            running.cancel()
        assert controller.next_deadline_s() is not None

    asyncio.run(scenario())


def test_no_condition_is_written_after_the_removal_of_the_gate_has_begun() -> None:
    async def scenario() -> None:
        transport = RecordingTransport()
        writes = GatedPodWrites(a_controller(), writer(transport), lambda: None)
        pod, other = pod_of("p"), pod_of("other")
        writes.perform([SetStatus(pod, CONDITION), SetStatus(other, CONDITION), RemoveSchedulingGate(pod, "stamp")])
        async with asyncio.TaskGroup() as group:
            running = group.create_task(writes.run())
            transport.gate.set()
            await until(lambda: len(transport.bodies) == 2)
            running.cancel()
        assert sorted(path for path, _ in transport.bodies) == ["other/status", "p"]

    asyncio.run(scenario())


def test_a_process_is_ready_when_the_gate_controller_has_all_lists() -> None:
    class Running:
        def __init__(self) -> None:
            self.late = ["pods"]

        def unsynced(self) -> list[str]:
            return self.late

        def metrics_exposition(self) -> bytes:
            return b"headgate_queue_gated_pods 1\n"

    health = HealthRegistry()
    health.set_gate_controller(running := Running())
    assert health._synced() == "not listed yet: pods"
    running.late = []
    assert health._synced() == ""
    assert b"headgate_queue_gated_pods 1" in health._page()
