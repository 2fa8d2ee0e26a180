"""The runner of hollow kubelets with a fake server, on a virtual clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import pytest

from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse, Unreachable
from headgate.kube.timestamps import parse_micro_time
from headgate.nodes.effects import Effect
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.io.kubelet_runner import HollowKubeletRunner
from headgate.nodes.node_template import NodeTemplate, make_nodes
from headgate.nodes.options import HollowOptions
from headgate.nodes.pod_record import HollowPod
from unit.nodes.fake_cluster import T0, a_node, a_pod
from unit.nodes.virtual_loop import run

Object = dict[str, Any]


class Server:
    """Keeps nodes, pods and leases; knows create, status patches that replace whole fields, delete, list and watch."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.requests: list[str] = []
        self.watches: dict[str, list[asyncio.Queue[bytes]]] = {}
        self.refuse: Callable[[HTTPRequest], int | None] = lambda request: None
        self.revision = 0

    async def handle(self, request: HTTPRequest) -> HTTPResponse | AsyncGenerator[bytes, None]:
        if "watch=true" in request.query:
            self.requests.append(f"WATCH {request.path}?{request.query.split('&')[0]}")
            return self.watch(request.path)
        await asyncio.sleep(0.01)
        self.requests.append(f"{request.method} {request.path}")
        status = self.refuse(request)
        if status == 0:
            raise Unreachable("cut off")
        if status is not None:
            return HTTPResponse(status, {}, b'{"message":"no"}')
        return self.answer(request)

    def answer(self, request: HTTPRequest) -> HTTPResponse:
        body: Object = json.loads(request.body or b"{}")
        path = request.path.removesuffix("/status")
        if request.method == "GET":
            items = [obj for name, obj in sorted(self.objects.items()) if name.startswith(collection(path))]
            return respond(200, {"metadata": {"resourceVersion": str(self.revision)}, "items": items})
        if request.method == "POST":
            return respond(201, self.put(f"{path}/{body['metadata']['name']}", body))
        current = self.objects.get(path)
        if current is None:
            return respond(404, {"message": "gone"})
        if request.method == "DELETE":
            del self.objects[path]
            self.deliver("DELETED", path, current)
            return respond(200, current)
        if "/leases/" in path:
            return respond(200, self.put(path, {**current, "spec": {**current["spec"], **body["spec"]}}))
        status = {**current.get("status", {}), **body.get("status", {})}
        return respond(200, self.put(path, {**current, "status": status}))

    def put(self, path: str, obj: Object) -> Object:
        self.revision += 1
        kind = "MODIFIED" if path in self.objects else "ADDED"
        metadata = {"uid": f"u{self.revision}", **obj["metadata"], "resourceVersion": str(self.revision)}
        self.objects[path] = {**obj, "metadata": metadata}
        self.deliver(kind, path, self.objects[path])
        return self.objects[path]

    def deliver(self, kind: str, path: str, obj: Object) -> None:
        line = json.dumps({"type": kind, "object": obj}).encode() + b"\n"
        for watched, queues in self.watches.items():
            if path.startswith(collection(watched)):
                for queue in queues:
                    queue.put_nowait(line)

    async def watch(self, path: str) -> AsyncGenerator[bytes, None]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.watches.setdefault(path, []).append(queue)
        while True:
            yield await queue.get()


def collection(path: str) -> str:
    """Pods of all namespaces are found under one path, whatever their own."""
    return "/api/v1/namespaces/" if path == "/api/v1/pods" else path


def respond(status: int, body: Object) -> HTTPResponse:
    return HTTPResponse(status, {}, json.dumps(body).encode())


class Wall:
    """A wall clock that goes with the loop's, and that a test can set."""

    def __init__(self) -> None:
        self.offset_s = T0

    def __call__(self) -> float:
        return self.offset_s + asyncio.get_running_loop().time()


def play(
    kubelets: HollowKubelets, scenario: Callable[[Server], Coroutine[Any, Any, None]], wall: Wall | None = None
) -> Server:
    server = Server()

    async def main() -> None:
        runner = asyncio.create_task(
            HollowKubeletRunner(kubelets, InProcessTransport(server.handle), writers=4, wall=wall or Wall()).run()
        )
        await scenario(server)
        runner.cancel()
        await asyncio.wait([runner])

    run(main())
    return server


def parsed(text: str) -> float:
    micros = parse_micro_time(text if "." in text else text.replace("Z", ".000000Z"))
    assert not isinstance(micros, str)
    return micros / 1e6


NODE, POD = "/api/v1/nodes/n", "/api/v1/namespaces/a/pods/p"


def test_nodes_are_made_and_come_up_with_two_watches_in_all() -> None:
    async def scenario(server: Server) -> None:
        await asyncio.sleep(5)

    server = play(HollowKubelets(HollowOptions(), make_nodes(20, NodeTemplate())), scenario)
    assert len(server.objects) == 20
    assert all(node["status"]["conditions"][-1]["status"] == "True" for node in server.objects.values())
    watches = sorted(line for line in server.requests if line.startswith("WATCH"))
    assert watches == ["WATCH /api/v1/nodes?watch=true", "WATCH /api/v1/pods?fieldSelector=spec.nodeName%21%3D"]
    assert server.requests.count("POST /api/v1/nodes") == 20


def test_a_pod_runs_completes_and_is_removed_when_deleted_on_time() -> None:
    phases: list[str] = []

    async def scenario(server: Server) -> None:
        server.put(NODE, a_node())
        server.put(POD, a_pod(annotations={"run-for": "1h"}))
        await asyncio.sleep(3599)
        phases.append(server.objects[POD]["status"]["phase"])
        await asyncio.sleep(2)
        phases.append(server.objects[POD]["status"]["phase"])
        pod = server.objects[POD]
        stamp = {**pod["metadata"], "deletionTimestamp": "2020-01-01T00:00:00Z"}
        server.put(POD, {**pod, "metadata": stamp})
        await asyncio.sleep(1)

    server = play(HollowKubelets(), scenario)
    assert phases == ["Running", "Succeeded"]
    assert POD not in server.objects
    assert server.requests[-1] == f"DELETE {POD}"


def test_writes_that_do_not_arrive_are_made_again_and_those_refused_for_good_are_not() -> None:
    answers: dict[str, list[int]] = {NODE: [0, 503], POD: [409]}

    async def scenario(server: Server) -> None:
        def refuse(request: HTTPRequest) -> int | None:
            planned = answers.get(request.path.removesuffix("/status"))
            return planned.pop(0) if planned else None

        server.refuse = refuse
        server.put(NODE, a_node())
        server.put(POD, a_pod())
        await asyncio.sleep(60)

    server = play(HollowKubelets(), scenario)
    assert server.objects[NODE]["status"]["conditions"][-1]["status"] == "True"
    assert server.requests.count(f"PATCH {NODE}/status") == 3
    assert server.requests.count(f"PATCH {POD}/status") == 1


def test_the_end_of_a_pod_is_reported_before_it_is_removed_even_if_the_report_fails_first() -> None:
    async def scenario(server: Server) -> None:
        failures = [503, 503]
        server.put(NODE, a_node())
        server.put(POD, a_pod())
        await asyncio.sleep(1)
        server.refuse = lambda request: failures.pop() if request.method == "PATCH" and failures else None
        pod = server.objects[POD]
        server.put(POD, {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2020-01-01T00:00:00Z"}})
        await asyncio.sleep(60)

    server = play(HollowKubelets(), scenario)
    writes = [line.split()[0] for line in server.requests if POD in line]
    assert writes == ["PATCH", "PATCH", "PATCH", "PATCH", "DELETE"]
    assert POD not in server.objects


def test_leases_are_made_and_then_renewed() -> None:
    async def scenario(server: Server) -> None:
        server.put(NODE, a_node())
        await asyncio.sleep(100)

    server = play(HollowKubelets(HollowOptions(controller_manager=True)), scenario)
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    assert server.requests.count(f"POST {leases}") == 1
    assert server.requests.count(f"PATCH {leases}/n") >= 10
    assert server.objects[f"{leases}/n"]["spec"]["leaseDurationSeconds"] == 40


@pytest.mark.parametrize("by_s", [3600.0, -3600.0, 0.5, -0.5])
def test_what_is_written_follows_the_wall_clock_when_that_is_set(by_s: float) -> None:
    wall = Wall()
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n"

    def ages(server: Server) -> dict[str, float]:
        """How long ago the write was sent to the server, by the wall clock."""
        node = server.objects[NODE]
        renewals = {each["lastHeartbeatTime"] for each in node["status"]["conditions"]}
        times = {"renewTime": server.objects[lease]["spec"]["renewTime"], "heartbeat": renewals.pop()}
        assert not renewals
        return {name: wall() - parsed(text) for name, text in times.items()}

    async def scenario(server: Server) -> None:
        server.put(NODE, a_node())
        server.put(POD, a_pod(annotations={"run-for": "2h"}))
        await asyncio.sleep(100)
        assert 0 <= ages(server)["renewTime"] <= 11
        wall.offset_s += by_s
        await asyncio.sleep(100)
        assert 0 <= ages(server)["renewTime"] <= 11
        assert -1 <= ages(server)["heartbeat"] <= 61
        server.put(POD + "2", a_pod("p2"))
        await asyncio.sleep(1)
        started = parsed(server.objects[POD + "2"]["status"]["startTime"])
        assert -1 <= wall() - started <= 3
        server.put(POD, server.objects[POD])  # an event about the pod sets its timers anew
        await asyncio.sleep(6990)
        assert server.objects[POD]["status"]["phase"] == "Running"
        await asyncio.sleep(20)
        assert server.objects[POD]["status"]["phase"] == "Succeeded", "it ran for as long as it was to"

    play(HollowKubelets(HollowOptions(controller_manager=True, report_s=30.0)), scenario, wall)


def test_one_object_that_makes_no_sense_does_not_stop_the_others() -> None:
    async def scenario(server: Server) -> None:
        server.put(NODE, a_node())
        server.put(POD + "-bad", {"metadata": {"name": "p-bad", "namespace": "a"}, "spec": {"nodeName": "n"}})
        server.put(POD, a_pod())
        await asyncio.sleep(1)

    assert play(HollowKubelets(), scenario).objects[POD]["status"]["phase"] == "Running"


def test_a_pod_that_could_not_be_taken_in_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    class Forgetful(HollowKubelets):
        left = 3

        def pod_applied(self, pod: Object, now_s: float) -> list[Effect]:
            if pod["metadata"]["name"] == "p" and self.left:
                self.left -= 1
                raise RuntimeError("a bug")
            return super().pod_applied(pod, now_s)

    async def scenario(server: Server) -> None:
        server.put(NODE, a_node())
        server.put(POD, a_pod())
        server.put(POD + "2", a_pod("p2"))
        await asyncio.sleep(0.05)
        assert server.objects[POD + "2"]["status"]["phase"] == "Running"
        await asyncio.sleep(5)

    assert play(Forgetful(), scenario).objects[POD]["status"]["phase"] == "Running"
    assert "hollow nodes: pod a/p could not be processed" in caplog.text


def test_a_timer_that_fails_rings_again_and_loses_no_other(caplog: pytest.LogCaptureFixture) -> None:
    kubelets = HollowKubelets()
    finish = kubelets._workers._timer_handlers["finish"]
    left = 3

    def fails_at_first(pod: HollowPod, now_s: float) -> None:
        nonlocal left
        if pod.name == "p":
            left -= 1
            if left >= 0:
                raise RuntimeError("a bug")
        finish(pod, now_s)

    kubelets._workers._timer_handlers["finish"] = fails_at_first

    async def scenario(server: Server) -> None:
        server.put(NODE, a_node())
        for path, name in ((POD, "p"), (POD + "2", "p2")):
            server.put(path, a_pod(name, annotations={"run-for": "10s"}))
        await asyncio.sleep(12)
        assert server.objects[POD + "2"]["status"]["phase"] == "Succeeded"
        assert server.objects[POD]["status"]["phase"] == "Running"
        await asyncio.sleep(30)

    assert play(kubelets, scenario).objects[POD]["status"]["phase"] == "Succeeded"
    assert "in the timer 'finish' of" in caplog.text


@pytest.mark.parametrize("turns", range(6))
def test_the_runner_stops_when_asked_even_if_an_event_happens_at_that_moment(turns: int) -> None:
    """Each number of turns of the loop lets the cancellation meet the timer's wait at another point."""

    async def main() -> None:
        beating = HollowKubelets(
            HollowOptions(controller_manager=True), make_nodes(1, NodeTemplate())
        )  # so that a timer is always set
        runner = HollowKubeletRunner(beating, InProcessTransport(Server().handle))
        task = asyncio.create_task(runner.run())
        await asyncio.sleep(10)
        runner._deadline_changed.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=60)
        assert done
        assert task.cancelled()

    run(main())
