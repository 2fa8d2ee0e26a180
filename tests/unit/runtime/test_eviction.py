"""Eviction of preemption victims: the writes, their order, and the possible responses of the server."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from clusters import a_node, a_pod
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream
from headgate.runtime.scheduler.api_dispatcher import evict_victims
from headgate.runtime.scheduler.runner import SchedulerRunner
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.framework.effects import Preempt
from unit.runtime.serving import a_server, ask, until
from unit.runtime.test_scheduler_runner import a_scheduler, writer

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
OTHER_UID = {"kind": "Status", "details": {"causes": [{"field": "metadata.uid"}]}}


class Server:
    """Answers the writes about each pod as the test wants, and remembers them."""

    def __init__(self, **answers: tuple[str, int, Object]) -> None:
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[Object] = []
        self.at_once = self.most_at_once = 0
        self._answers = answers

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        path = request.path.removeprefix(f"{PODS}/")
        self.requests.append((request.method, path))
        self.bodies.append(msgspec.json.decode(request.body))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        method, code, body = self._answers.get(path.partition("/")[0], ("", 200, {}))
        found = (code, body) if method == request.method else (200, {})
        return HTTPResponse(found[0], {}, msgspec.json.encode(found[1]))

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        raise AssertionError("nothing is watched")

    async def close(self) -> None: ...


def pod_of(name: str, **status: Any) -> PodInfo:
    pod = read_pod(a_pod(name, schedulerName="ours", status=status), ShapeTable())
    assert isinstance(pod, PodInfo)
    return pod


def told(server: Server, *victims: PodInfo) -> tuple[list[str], bool]:
    return asyncio.run(evict_victims(writer(server), Preempt(pod_of("p"), "a", victims)))


def test_a_victim_gets_a_condition_and_is_then_deleted_by_its_uid() -> None:
    server = Server()
    assert told(server, pod_of("v")) == (["uid-v"], True)
    assert server.requests == [("PATCH", "v/status"), ("DELETE", "v")]
    said, deleted = server.bodies
    (condition,) = said["status"]["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "ours: preempting to accommodate a higher priority pod",
        "observedGeneration": 0,
    }
    assert said["metadata"]["uid"] == "uid-v"
    assert deleted == {"preconditions": {"uid": "uid-v"}}


def test_a_pod_that_was_to_go_before_keeps_the_time_since_when() -> None:
    server = Server()
    told(server, pod_of("v", conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "Other"}]))
    assert "lastTransitionTime" not in server.bodies[0]["status"]["conditions"][0]


@pytest.mark.parametrize(
    ("answer", "is_evicted", "ok"),
    [
        (("PATCH", 404, {}), False, True),
        (("PATCH", 422, OTHER_UID), False, True),
        (("PATCH", 403, {}), False, False),
        (("DELETE", 404, {}), False, True),
        (
            ("DELETE", 409, {"message": "Precondition failed: UID in precondition: a, UID in object meta: b"}),
            False,
            True,
        ),
        (("DELETE", 403, {}), False, False),
    ],
)
def test_a_deleted_victim_needs_no_condition_and_a_failed_condition_is_a_failure(
    answer: tuple[str, int, Object], is_evicted: bool, ok: bool
) -> None:
    server = Server(v=answer)
    found = told(server, pod_of("v"), pod_of("w"))
    assert found == (["uid-v", "uid-w"] if is_evicted else ["uid-w"], ok)
    assert (("DELETE", "v") in server.requests) is (answer[0] == "DELETE")


def test_conditions_of_many_victims_are_written_a_few_at_a_time() -> None:
    server = Server()
    uids, ok = told(server, *(pod_of(f"v{i}") for i in range(50)))
    assert (len(uids), ok) == (50, True)
    assert server.most_at_once == 8


def test_a_preemptor_gets_its_node_when_its_victims_are_gone() -> None:
    async def scenario() -> None:
        async with a_server() as transport, asyncio.TaskGroup() as group:
            await ask(transport, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
            await ask(transport, "POST", "/api/v1/nodes", a_node("a", cpu="2"))
            for name, value in (("low", 1), ("high", 10)):
                described = {"metadata": {"name": name}, "value": value}
                await ask(transport, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", described)

            async def create(name: str, cpu: str, priority: str) -> None:
                pod = a_pod(name, {"cpu": cpu}, priorityClassName=priority, terminationGracePeriodSeconds=0)
                del pod["metadata"]["uid"]
                status, response = await ask(transport, "POST", PODS, pod)
                assert status == 201, response

            async def placed(name: str) -> bool:
                _, pod = await ask(transport, "GET", f"{PODS}/{name}")
                return bool(pod["spec"].get("nodeName") == "a")

            async def both_placed() -> bool:
                return await placed("v") and await placed("w")

            async def preemptor_placed() -> bool:
                return await placed("p")

            running = group.create_task(SchedulerRunner(a_scheduler, transport, writer(transport)).run())
            for name in "vw":
                await create(name, "1", "low")
            await until(both_placed)
            await create("p", "2", "high")
            await until(preemptor_placed)
            _, left = await ask(transport, "GET", PODS)
            assert [each["metadata"]["name"] for each in left["items"]] == ["p"]

            async def all_evicted() -> bool:
                _, events = await ask(transport, "GET", "/api/v1/namespaces/default/events")
                about = {each["involvedObject"]["name"] for each in events["items"] if each["reason"] == "Preempted"}
                return about == {"v", "w"}

            await until(all_evicted)
            running.cancel()

    asyncio.run(scenario())
