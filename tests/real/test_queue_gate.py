"""The queue-allocation gate, story by story, on the embedded server and on the real one.

The scheduler is `headgate run`, as a user starts it. Pods are born with annotation and gate, as the webhook leaves them
(`test_admission*.py` tells the webhook's stories). Statements of the design carry their ids: A1, R7 ...
Waiting is for a state, never for a time; that something does *not* happen is told by something later that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import a_node, a_pod
from harness.either import MAKES, started
from harness.embedded import HEADGATE
from harness.processes import Process
from harness.scheduling import SchedulerProcess, create_nodes, is_bound, scheduled_reason, send, wait_for
from harness.server import Server
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME, STAMP
from headgate.capacity.stamp import read_stamp

pytestmark = pytest.mark.real

Object = dict[str, Any]

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
FOREIGN = "example.com/hold"


def a_queue(name: str, **spec: Any) -> Object:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


class Place:
    """A server with the kinds of queues, one node with much room, and a scheduler beside it."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self._installed(folder)
        create_nodes(server, [a_node("node", cpu="100", memory="100Gi")])
        self.scheduler = SchedulerProcess(server, folder / "scheduler.log", "--no-leader-elect")
        self._number = 0

    def _installed(self, folder: Path) -> None:
        command = [str(HEADGATE), "install-crds", "--kubeconfig", str(self.server.kubeconfig)]
        installing = Process(command, folder / "install.log")
        assert installing.wait(60) == 0, installing.tail()

    def queue(self, cpu: str) -> str:
        self._number += 1
        name = f"queue-{self._number}"
        spec = {"capability": {"cpu": cpu}} if cpu else {}
        queue = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": spec,
        }
        send(self.server, "POST", QUEUES, queue)
        return name

    def pod(self, name: str, queue: str, cpu: str = "1", gates: tuple[str, ...] = (GATE,), **spec: Any) -> Object:
        pod = a_pod(name, {"cpu": cpu} if cpu else {}, schedulerName="headgate", **spec)
        if gates:
            pod["spec"]["schedulingGates"] = [{"name": each} for each in gates]
        pod["metadata"] = {"name": name, "annotations": {OPT_IN: "true", QUEUE_NAME: queue}}
        return send(self.server, "POST", PODS, pod)

    def get(self, name: str) -> Object:
        return send(self.server, "GET", f"{PODS}/{name}")

    def patch(self, name: str, body: Object, subresource: str = "") -> Object:
        return send(self.server, "PATCH", f"{PODS}/{name}{subresource}", body, MERGE)

    def delete(self, name: str) -> None:
        send(self.server, "DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    def until_bound(self, *names: str) -> None:
        wait_for(lambda: all(is_bound(self.get(name)) for name in names), self.scheduler)

    def until_unschedulable(self, name: str) -> Object:
        def seen() -> Object | None:
            pod = self.get(name)
            return pod if scheduled_reason(pod) == "Unschedulable" else None

        found: Object = wait_for(seen, self.scheduler)
        return found

    def is_gated(self, name: str) -> bool:
        pod = self.get(name)
        gated = bool(pod["spec"].get("schedulingGates"))
        assert scheduled_reason(pod) == "SchedulingGated" or not gated, "a gated pod must never look like a shortage"
        return gated


@pytest.fixture(scope="module", params=MAKES)
def place(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp(f"gate-{request.param}")
    with started(request.param, folder, kube_binaries) as server:
        made = Place(server, folder)
        yield made
        made.scheduler.stop()


@pytest.fixture(autouse=True)
def swept(place: Place) -> Iterator[None]:
    yield
    for pod in send(place.server, "GET", PODS)["items"]:
        place.delete(pod["metadata"]["name"])


def gates_of(pod: Object) -> list[str]:
    return [each["name"] for each in pod["spec"].get("schedulingGates") or ()]


def test_a1_with_room_in_its_queue_and_a_node_the_pod_is_lifted_stamped_and_bound(place: Place) -> None:
    queue = place.queue("2")
    made = place.pod("p", queue, "1500m")
    place.until_bound("p")
    pod = place.get("p")
    stamp = read_stamp(pod["metadata"]["annotations"][STAMP], made["metadata"]["uid"])
    assert stamp is not None
    assert (stamp.queue, stamp.requests) == (queue, {"cpu": 1500})
    assert gates_of(pod) == []


def test_a2_in_a_full_queue_the_gate_stays_and_says_so_after_a_while(place: Place) -> None:
    queue = place.queue("1")
    place.pod("first", queue)
    place.until_bound("first")
    place.pod("second", queue)

    def told() -> str:
        pod = place.get("second")
        assert scheduled_reason(pod) == "SchedulingGated"
        message = pod["status"]["conditions"][0].get("message") or ""
        return message if queue in message else ""

    message = wait_for(told, place.scheduler)
    assert "cpu" in message
    assert place.is_gated("second")


def test_a3_a_foreign_gate_is_waited_for_and_never_touched(place: Place) -> None:
    queue = place.queue("1")
    place.pod("held", queue, gates=("example.com/other", GATE, FOREIGN))
    place.pod("p", queue)
    place.until_bound("p")
    place.delete("p")
    place.patch("held", {"spec": {"schedulingGates": [{"name": GATE}, {"name": FOREIGN}]}})
    place.pod("q", queue)
    place.until_bound("q")
    assert gates_of(place.get("held")) == [GATE, FOREIGN]
    place.patch("held", {"spec": {"schedulingGates": [{"name": GATE}]}})
    place.delete("q")
    place.until_bound("held")


def test_a4_a_gate_without_the_annotation_is_never_lifted_and_the_pod_says_why(place: Place) -> None:
    pod = a_pod("p", {"cpu": "1"}, schedulerName="headgate", schedulingGates=[{"name": GATE}])
    pod["metadata"] = {"name": "p"}
    send(place.server, "POST", PODS, pod)

    def told() -> bool:
        conditions = place.get("p")["status"]["conditions"]
        return "annotation" in (conditions[0].get("message") or "")

    wait_for(told, place.scheduler)
    assert place.is_gated("p")


def test_a7_a_pod_re_created_under_the_same_name_keeps_its_gate_until_its_own_turn(place: Place) -> None:
    queue = place.queue("1")
    for _ in range(5):
        first = place.pod("p", queue)
        place.delete("p")
        place.pod("other", queue)
        second = place.pod("p", queue)
        wait_for(lambda: is_bound(place.get("p")) or is_bound(place.get("other")), place.scheduler)
        bound = [name for name in ("p", "other") if is_bound(place.get(name))]
        assert len(bound) == 1, "the queue has room for one"
        stamp = place.get("p")["metadata"]["annotations"].get(STAMP)
        assert read_stamp(stamp, first["metadata"]["uid"]) is None
        assert (read_stamp(stamp, second["metadata"]["uid"]) is not None) == ("p" in bound)
        place.delete("p")
        place.delete("other")


def test_a8_with_quota_and_no_node_the_pod_is_a_true_shortage(place: Place) -> None:
    queue = place.queue("1")
    place.pod("p", queue, nodeSelector={"disk": "fast"})
    pod = place.until_unschedulable("p")
    assert gates_of(pod) == []
    assert pod["metadata"]["annotations"][STAMP]


def test_a9_a_pod_that_asks_for_nothing_is_let_in_to_a_full_queue(place: Place) -> None:
    queue = place.queue("1")
    place.pod("full", queue)
    place.until_bound("full")
    place.pod("p", queue, cpu="")
    place.until_bound("p")


def test_a10_a_resource_that_no_node_has_yet_is_admitted_and_becomes_a_shortage(place: Place) -> None:
    queue = place.queue("")
    place.pod("p", queue, cpu="", containers=[gpu_container()])
    place.until_unschedulable("p")


def gpu_container() -> Object:
    amounts = {"example.com/gpu": "1"}
    return {"name": "main", "image": "app", "resources": {"requests": amounts, "limits": amounts}}


@pytest.mark.parametrize("end", ["deleted", "completed"])
def test_r7_the_three_pods_of_the_design(place: Place, end: str) -> None:
    """Each asks for all that the queue has; the second for a node that is not there yet."""
    queue = place.queue("1")
    place.pod("pod-1", queue)
    place.until_bound("pod-1")
    place.pod("pod-2", queue, nodeSelector={"disk": "not-yet"})
    assert place.is_gated("pod-2")
    if end == "deleted":
        place.delete("pod-1")
    else:
        place.patch("pod-1", {"status": {"phase": "Succeeded"}}, "/status")
    place.until_unschedulable("pod-2")
    place.pod("pod-3", queue)
    other = place.queue("1")
    place.pod("later", other)
    place.until_bound("later")
    assert place.is_gated("pod-3"), "the second pod's promise holds its place"
    place.delete("pod-2")
    place.until_bound("pod-3")


def test_r8_the_parent_counts_what_all_its_children_promised(place: Place) -> None:
    parent, name = place.queue("1"), "child"
    for number in range(2):
        queue = a_queue(f"{parent}-{name}-{number}", parent=parent, capability={"cpu": "1"})
        send(place.server, "POST", QUEUES, queue)
    place.pod("p0", f"{parent}-{name}-0", nodeSelector={"disk": "not-yet"})
    place.until_unschedulable("p0")
    place.pod("p1", f"{parent}-{name}-1")
    other = place.queue("1")
    place.pod("later", other)
    place.until_bound("later")
    assert place.is_gated("p1")
    place.delete("p0")
    place.until_bound("p1")


def test_a_limit_that_is_raised_lets_the_next_one_in(place: Place) -> None:
    queue = place.queue("1")
    place.pod("p1", queue)
    place.until_bound("p1")
    place.pod("p2", queue)
    send(place.server, "PATCH", f"{QUEUES}/{queue}", {"spec": {"capability": {"cpu": "2"}}}, MERGE)
    place.until_bound("p2")
