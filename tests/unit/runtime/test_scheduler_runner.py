"""The scheduler's runner and dispatcher, with the embedded server and with a transport that delays responses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from clusters import a_node, a_pod
from headgate.client.io.writer import Writer
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport
from headgate.runtime.scheduler.api_dispatcher import APIDispatcher
from headgate.runtime.scheduler.runner import SchedulerRunner
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.framework.effects import Bind, EmitPodEvent, SetStatus
from headgate.scheduling.scheduler import Scheduler
from unit.runtime.serving import a_server, ask, until
from unit.scheduling.world import configured

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


def a_scheduler(report: Callable[[str], None] = lambda problem: None) -> Scheduler:
    return Scheduler(*configured(()), report=report)


def writer(transport: Transport) -> Writer:
    return Writer(transport, jitter=random.random, sleep=asyncio.sleep)


class HoldingTransport:
    """Answers every write with 201, in the order in which the test lets them through."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.status = 201

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        self.requests.append(request.path.removeprefix(f"{PODS}/"))
        await self.gate.wait()
        return HTTPResponse(self.status, {}, b"{}")

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return HTTPResponse(404, {}, b"")

    async def close(self) -> None:
        pass


def pod_of(name: str) -> PodInfo:
    pod = read_pod(a_pod(name), ShapeTable())
    assert isinstance(pod, PodInfo)
    return pod


def unschedulable(pod: PodInfo) -> SetStatus:
    return SetStatus(pod, {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"})


def test_pods_are_bound_conditions_written_and_events_posted() -> None:
    async def scenario() -> None:
        async with a_server() as transport, asyncio.TaskGroup() as group:
            await ask(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
            await ask(transport, "POST", "/api/v1/nodes", a_node("a"))
            for name, cpu in (("small", "1"), ("huge", "64")):
                pod = a_pod(name, {"cpu": cpu})
                del pod["metadata"]["uid"]
                status, told = await ask(transport, "POST", PODS, pod)
                assert status == 201, told
            runner = SchedulerRunner(a_scheduler, transport, writer(transport))
            running = group.create_task(runner.run())

            async def is_settled() -> bool:
                _, small = await ask(transport, "GET", f"{PODS}/small")
                _, huge = await ask(transport, "GET", f"{PODS}/huge")
                _, events = await ask(transport, "GET", "/api/v1/namespaces/default/events")
                reasons = sorted(each["reason"] for each in events["items"])
                conditions = huge["status"].get("conditions") or [{}]
                return (
                    small["spec"].get("nodeName") == "a"
                    and conditions[0].get("reason") == "Unschedulable"
                    and reasons == ["FailedScheduling", "Scheduled"]
                )

            await until(is_settled)
            running.cancel()

    asyncio.run(scenario())


def test_a_condition_that_waits_is_dropped_when_its_pod_gets_a_node() -> None:
    async def scenario() -> None:
        transport = HoldingTransport()
        dispatcher = APIDispatcher(a_scheduler(), writer(transport), lambda: None)
        pod = pod_of("p")
        dispatcher.perform([unschedulable(pod), Bind(pod, "a")])
        async with asyncio.TaskGroup() as group:
            running = group.create_task(dispatcher.run())
            await until(lambda: transport.requests and not dispatcher.in_flight)
            running.cancel()
        assert transport.requests == ["p/binding"]

    asyncio.run(scenario())


@pytest.mark.parametrize("reason", ["PreEnqueueRejected", "WaitingOnPermit", "WaitingOnPreBind"])
def test_a_pod_that_a_plugin_holds_is_logged_with_the_reason(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="headgate.runtime.scheduler.pod_writes")

    async def scenario() -> None:
        dispatcher = APIDispatcher(a_scheduler(), writer(HoldingTransport()), lambda: None)
        pod = pod_of("p")
        dispatcher.perform([EmitPodEvent(pod, "Normal", reason, "Scheduling", 'plugin "Holds": maintenance')])
        dispatcher.perform([EmitPodEvent(pod, "Normal", "Scheduled", "Binding", "assigned to a")])

    asyncio.run(scenario())
    assert caplog.messages == ['pod default/p is held: plugin "Holds": maintenance']


def test_a_pod_that_the_end_of_a_binding_wakes_finds_the_capacity_free() -> None:
    async def scenario() -> None:
        seen: list[int] = []
        dispatcher = APIDispatcher(a_scheduler(), writer(HoldingTransport()), lambda: seen.append(dispatcher.in_flight))
        dispatcher.perform([Bind(pod_of("p"), "a")])
        await until(lambda: not dispatcher.in_flight)
        assert seen[-1:] == [0]

    asyncio.run(scenario())


def test_a_binding_waits_for_the_condition_that_is_being_written() -> None:
    async def scenario() -> None:
        transport = HoldingTransport()
        transport.gate.clear()
        dispatcher = APIDispatcher(a_scheduler(), writer(transport), lambda: None)
        pod = pod_of("p")
        async with asyncio.TaskGroup() as group:
            running = group.create_task(dispatcher.run())
            dispatcher.perform([unschedulable(pod)])
            await until(lambda: transport.requests == ["p/status"])
            dispatcher.perform([Bind(pod, "a"), Bind(pod_of("q"), "a")])
            await until(lambda: "q/binding" in transport.requests)
            assert transport.requests == ["p/status", "q/binding"]
            transport.gate.set()
            await until(lambda: not dispatcher.in_flight)
            running.cancel()
        assert transport.requests == ["p/status", "q/binding", "p/binding"]

    asyncio.run(scenario())


def test_a_condition_that_could_not_be_written_is_written_later_unless_the_pod_has_a_node_by_then() -> None:
    async def scenario() -> None:
        transport = HoldingTransport()
        transport.status = 503
        once = Writer(transport, jitter=random.random, sleep=asyncio.sleep, attempts=1)
        dispatcher = APIDispatcher(a_scheduler(), once, lambda: None)
        p, q = pod_of("p"), pod_of("q")
        async with asyncio.TaskGroup() as group:
            running = group.create_task(dispatcher.run())
            transport.gate.clear()
            dispatcher.perform([unschedulable(p), unschedulable(q)])
            await until(lambda: len(transport.requests) == 2)
            dispatcher.perform([Bind(q, "a")])
            transport.gate.set()
            await until(lambda: not dispatcher.in_flight)
            transport.status = 200
            await until(lambda: transport.requests.count("p/status") == 2)
            running.cancel()
        assert transport.requests.count("q/status") == 1

    asyncio.run(scenario())


def test_events_wait_while_bindings_are_in_progress_but_not_without_end() -> None:
    async def scenario() -> None:
        transport = HoldingTransport()
        dispatcher = APIDispatcher(a_scheduler(), writer(transport), lambda: None)
        pod = pod_of("p")
        async with asyncio.TaskGroup() as group:
            running = group.create_task(dispatcher.run())
            transport.gate.clear()
            dispatcher.perform([EmitPodEvent(pod, "Normal", "Scheduled", "Binding", "done"), Bind(pod, "a")])
            await until(lambda: transport.requests == ["p/binding"])
            await until(lambda: len(transport.requests) == 2)  # its patience is over: the binding is still not answered
            assert dispatcher.in_flight == 1
            transport.gate.set()
            running.cancel()
        assert transport.requests[1].endswith("/events")

    asyncio.run(scenario())


def test_a_defect_while_binding_stops_everything_instead_of_losing_the_pod() -> None:
    class Defect(HoldingTransport):
        async def request(self, request: HTTPRequest) -> HTTPResponse:
            raise ZeroDivisionError("a defect")

    async def scenario() -> None:
        dispatcher = APIDispatcher(a_scheduler(), writer(Defect()), lambda: None)
        dispatcher.perform([Bind(pod_of("p"), "a")])
        with pytest.raises(ExceptionGroup) as found:
            await dispatcher.run()
        assert isinstance(found.value.exceptions[0], ZeroDivisionError)

    asyncio.run(scenario())


class RecordingTransport:
    """A wire that notes how writes were answered."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.answers: list[int] = []

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        response = await self._transport.request(request)
        self.answers.append(response.status)
        return response

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        return await self._transport.stream(request, idle_s=idle_s)

    async def close(self) -> None:
        pass


def test_an_event_that_is_emitted_once_has_its_own_name() -> None:
    async def answered(transport: Transport) -> list[int]:
        noted = RecordingTransport(transport)
        dispatcher = APIDispatcher(a_scheduler(), writer(noted), lambda: None)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(dispatcher.run())
            dispatcher.perform([EmitPodEvent(pod_of("p"), "Normal", "SchedulingGated", "Scheduling", "x", once=True)])
            await until(lambda: noted.answers)
            running.cancel()
        return noted.answers

    async def scenario() -> None:
        async with a_server() as transport:
            await ask(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
            assert await answered(transport) == [201]
            assert await answered(transport) == [409]  # a second process, which knows nothing of the first

    asyncio.run(scenario())


def test_the_body_of_a_condition_moves_its_time_only_when_its_status_moves() -> None:
    async def written(scheduled: Object | None) -> Object:
        bodies: list[bytes] = []

        class Reads(HoldingTransport):
            async def request(self, request: HTTPRequest) -> HTTPResponse:
                bodies.append(request.body)
                return await super().request(request)

        transport = Reads()
        dispatcher = APIDispatcher(a_scheduler(), writer(transport), lambda: None)
        status = {} if scheduled is None else {"conditions": [{"type": "PodScheduled", **scheduled}]}
        pod = read_pod(a_pod("p", status=status), ShapeTable())
        assert isinstance(pod, PodInfo)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(dispatcher.run())
            dispatcher.perform([unschedulable(pod)])
            await until(lambda: bodies)
            running.cancel()
        (condition,) = msgspec.json.decode(bodies[0])["status"]["conditions"]
        return dict(condition)

    assert "lastTransitionTime" in asyncio.run(written(None))
    assert "lastTransitionTime" not in asyncio.run(written({"status": "False", "reason": "SchedulingGated"}))
