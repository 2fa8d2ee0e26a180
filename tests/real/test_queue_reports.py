"""What `headgate run` says of queues and PodGroups in their status, on the embedded server and on a real one.

Pods get nodes from the scheduler and their phases from the test: no kubelet is there. Waiting is for a state.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import a_node, a_pod
from harness.queues import QUEUES, a_group, a_queue, install_crds, take_down
from harness.scheduler_process import SchedulerProcess, create_nodes, is_bound, send, wait_for
from harness.server import JSON_TYPE, Server
from harness.server_kinds import SERVER_KINDS, running_server
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, QUEUE_NAME
from headgate.capacity.status.status_reporter import INTERVALS_S

pytestmark = pytest.mark.real

Object = dict[str, Any]

EXAMPLES = Path(__file__).parents[2] / "examples" / "volcano"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
PATIENCE_S = 60.0


class ReportCluster:
    """A server with a node, and a scheduler that serves `volcano`."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        install_crds(server)
        create_nodes(server, [a_node("node", cpu="1000", memory="1000Gi", pods="500")])
        self.log = folder / "scheduler.log"
        self.scheduler = SchedulerProcess(server, self.log, "--no-leader-elect", "--scheduler-name", "volcano")

    def queue(self, name: str, **spec: Any) -> None:
        send(self.server, "POST", QUEUES, a_queue(name, **spec))

    def annotate(self, name: str, state: str) -> None:
        body = {"metadata": {"annotations": {"headgate.dev/state": state}}}
        send(self.server, "PATCH", f"{QUEUES}/{name}", body, MERGE)

    def pod(self, name: str, cpu: str = "1", group: str = "", queue: str = "", **spec: Any) -> None:
        gates = [{"name": GATE}]
        pod = a_pod(name, {"cpu": cpu}, schedulerName="volcano", schedulingGates=gates, **spec)
        pairs = {OPT_IN: "true", GROUP_NAMES[0]: group, QUEUE_NAME: queue}
        pod["metadata"] = {"name": name, "annotations": {key: value for key, value in pairs.items() if value}}
        send(self.server, "POST", PODS, pod)

    def set_phase(self, name: str, phase: str) -> None:
        send(self.server, "PATCH", f"{PODS}/{name}/status", {"status": {"phase": phase}}, MERGE)

    def delete(self, *names: str) -> None:
        for name in names:
            send(self.server, "DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    def pods(self) -> dict[str, Object]:
        return {each["metadata"]["name"]: each for each in send(self.server, "GET", PODS)["items"]}

    def status(self, path: str) -> Object:
        found: Object = send(self.server, "GET", path).get("status") or {}
        return found

    def wait(self, path: str, is_so: Callable[[Object], bool]) -> Object:
        found: list[Object] = []

        def look() -> bool:
            found[:] = [self.status(path)]
            return is_so(found[0])

        try:
            wait_for(look, limit_s=PATIENCE_S)
        except AssertionError as late:
            raise AssertionError(f"{path} came to {found[0]}\n{self.scheduler.tail()}") from late
        return found[0]


@pytest.fixture(scope="module", params=SERVER_KINDS)
def cluster(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReportCluster]:
    folder = tmp_path_factory.mktemp(request.param)
    with running_server(request.param, folder / "server", kube_binaries) as server:
        found = ReportCluster(server, folder)
        yield found
        found.scheduler.stop()


def exists(server: Server, path: str) -> bool:
    return server.request("GET", path).status == 200


def says(conditions: list[Object], type_: str) -> str:
    return next((str(each["reason"]) for each in conditions if each["type"] == type_), "")


def test_the_first_queues_are_made_and_all_are_open(cluster: ReportCluster) -> None:
    for name in ("root", "default"):
        path = f"{QUEUES}/{name}"
        wait_for(functools.partial(exists, cluster.server, path))
        cluster.wait(f"{QUEUES}/{name}", lambda status: status.get("state") == "Open")
    shown = cluster.server.kubectl(["get", "q"]).stdout
    assert [line.split()[:3] for line in shown.splitlines() if line.startswith("default")] == [
        ["default", "root", "Open"]
    ]


def test_what_is_held_and_what_is_promised_is_in_the_status_of_the_queue_and_above(cluster: ReportCluster) -> None:
    cluster.queue("top", capability={"cpu": "4"})
    cluster.queue("leaf", parent="top")
    cluster.pod("held", "1500m", queue="leaf")
    cluster.pod("promised", "500m", queue="leaf", nodeSelector={"no": "where"})
    cluster.pod("waits", "3", queue="leaf")
    for name in ("leaf", "top"):
        cluster.wait(
            f"{QUEUES}/{name}",
            lambda status: status.get("allocated") == {"cpu": "1500m"} and status.get("reserved") == {"cpu": "500m"},
        )
    counts = {"running": 1, "inqueue": 1, "pending": 1}
    cluster.wait(f"{QUEUES}/leaf", lambda status: counts.items() <= status.items())
    cluster.delete("held", "promised", "waits")
    cluster.wait(f"{QUEUES}/leaf", lambda status: status.get("allocated") == status.get("reserved") == {})


def test_a_closed_queue_empties_takes_nothing_more_and_opens_again(cluster: ReportCluster) -> None:
    cluster.queue("door")
    cluster.pod("inside", queue="door")
    cluster.wait(f"{QUEUES}/door", lambda status: status.get("running") == 1)
    cluster.annotate("door", "Closed")
    cluster.wait(f"{QUEUES}/door", lambda status: status.get("state") == "Closing")
    cluster.delete("inside")
    closed = cluster.wait(f"{QUEUES}/door", lambda status: status.get("state") == "Closed")
    assert says(closed["conditions"], "Open") == "Closed"
    cluster.pod("outside", queue="door")
    cluster.wait(f"{QUEUES}/door", lambda status: status.get("state") == "Closing")
    assert cluster.pods()["outside"]["spec"]["schedulingGates"] == [{"name": GATE}]
    cluster.annotate("door", "Open")
    wait_for(lambda: is_bound(cluster.pods()["outside"]), cluster.scheduler)
    cluster.delete("outside")


def test_a_queue_closed_through_its_state_closes_the_queues_below_it(cluster: ReportCluster) -> None:
    cluster.queue("above")
    cluster.queue("below", parent="above")
    cluster.wait(f"{QUEUES}/above", lambda status: status.get("state") == "Open")
    send(cluster.server, "PATCH", f"{QUEUES}/above/status", {"status": {"state": "Closed"}}, MERGE)
    below = cluster.wait(f"{QUEUES}/below", lambda status: status.get("state") == "Closed")
    assert says(below["conditions"], "Open") == "AncestorClosed"
    send(cluster.server, "PATCH", f"{QUEUES}/above/status", {"status": {"state": "Open"}}, MERGE)
    cluster.wait(f"{QUEUES}/below", lambda status: status.get("state") == "Open" and not status["conditions"])


def test_the_status_of_a_group_follows_its_pods_until_they_are_done(cluster: ReportCluster) -> None:
    cluster.queue("gangs", capability={"cpu": "2"})
    send(cluster.server, "POST", GROUPS, a_group("gang", minMember=2, queue="gangs"))
    path = f"{GROUPS}/gang"
    status = cluster.wait(
        path, lambda status: says(status.get("conditions") or [], "Unschedulable") == "NotEnoughTasks"
    )
    assert status["phase"] == "Inqueue"
    for name in ("gang-0", "gang-1"):
        cluster.pod(name, group="gang")
    cluster.wait(path, lambda status: status["phase"] == "Running" and says(status["conditions"], "Scheduled") != "")
    for name in ("gang-0", "gang-1"):
        cluster.set_phase(name, "Running")
    cluster.wait(path, lambda status: status.get("running") == 2)
    cluster.wait(f"{QUEUES}/gangs", lambda status: status.get("running") == 1)
    for name in ("gang-0", "gang-1"):
        cluster.set_phase(name, "Succeeded")
    done = cluster.wait(path, lambda status: status["phase"] == "Completed")
    assert (done["running"], done["succeeded"]) == (0, 2)
    cluster.wait(f"{QUEUES}/gangs", lambda status: status.get("completed") == 1 and status["allocated"] == {})


def test_a_group_that_waits_for_its_queue_reports_it_and_is_not_unschedulable(cluster: ReportCluster) -> None:
    cluster.queue("narrow", capability={"cpu": "1"})
    send(cluster.server, "POST", GROUPS, a_group("wide", minMember=2, queue="narrow"))
    for name in ("wide-0", "wide-1"):
        cluster.pod(name, group="wide")
    path = f"{GROUPS}/wide"
    status = cluster.wait(path, lambda status: says(status.get("conditions") or [], "Scheduled") == "WaitingForQueue")
    assert [each["type"] for each in status["conditions"]] == ["Scheduled"]
    cluster.delete("wide-0", "wide-1")


def test_hard_topology_is_shown_on_the_group_as_not_supported(cluster: ReportCluster) -> None:
    topology = {"mode": "hard", "highestTierAllowed": 1}
    send(cluster.server, "POST", GROUPS, a_group("rack", minMember=1, networkTopology=topology))
    status = cluster.wait(f"{GROUPS}/rack", lambda status: says(status.get("conditions") or [], "Supported") != "")
    (said,) = (each for each in status["conditions"] if each["type"] == "Supported")
    assert (said["status"], said["reason"]) == ("False", "NotSupported")
    assert said["message"].startswith("spec.networkTopology: hard network topology is not supported")


def test_an_invalid_queue_is_refused_or_without_validation_stops_only_its_branch(
    cluster: ReportCluster,
) -> None:
    wrong = a_queue("wrong", capability={"cpu": "1"}, deserved={"cpu": "2"})
    answer = cluster.server.request("POST", QUEUES, JSON_TYPE, json.dumps(wrong).encode())
    text = "spec.deserved.cpu: 2 is more than 1, its capability"
    if cluster.server.name == "embedded":
        assert answer.status == 403
        assert text in answer.json()["message"]
        return
    assert answer.status == 201
    cluster.queue("under", parent="wrong")
    said = cluster.wait(f"{QUEUES}/under", lambda status: says(status.get("conditions") or [], "Valid") != "")
    assert said["conditions"][0]["message"] == f"queue wrong: {text}"
    cluster.pod("stopped", queue="under")
    cluster.pod("fine", queue="default")
    wait_for(lambda: is_bound(cluster.pods()["fine"]), cluster.scheduler)
    assert cluster.pods()["stopped"]["spec"]["schedulingGates"] == [{"name": GATE}]
    send(cluster.server, "PATCH", f"{QUEUES}/wrong", {"spec": {"capability": {"cpu": "2"}}}, MERGE)
    wait_for(lambda: is_bound(cluster.pods()["stopped"]), cluster.scheduler)
    cluster.wait(f"{QUEUES}/under", lambda status: status["conditions"] == [])
    cluster.delete("stopped", "fine")


def test_a_hundred_pods_are_few_writes_to_their_queue(cluster: ReportCluster) -> None:
    cluster.queue("busy")
    cluster.wait(f"{QUEUES}/busy", lambda status: status.get("state") == "Open")
    since = send(cluster.server, "GET", QUEUES)["metadata"]["resourceVersion"]
    query = f"watch=true&resourceVersion={since}&timeoutSeconds=600&fieldSelector=metadata.name=busy"
    writes = 0
    with contextlib.closing(cluster.server.watch(f"{QUEUES}?{query}", timeout_s=PATIENCE_S)) as watch:
        began_s = time.monotonic()
        for number in range(100):
            cluster.pod(f"busy-{number}", "10m", queue="busy")
        while (seen := json.loads(watch.lines(1)[0]))["object"]["status"]["allocated"] != {"cpu": "1"}:
            writes += seen["type"] == "MODIFIED"
    assert writes <= 2 + (time.monotonic() - began_s) / INTERVALS_S["queues"]
    cluster.delete(*(f"busy-{number}" for number in range(100)))


@pytest.mark.parametrize(("file", "bound"), [("gang", 3), ("spark", 3)])
def test_an_example_reaches_the_documented_status(cluster: ReportCluster, file: str, bound: int) -> None:
    applied = cluster.server.kubectl(["apply", "-f", str(EXAMPLES / f"{file}.yaml")])
    assert applied.exit == 0, applied.stderr
    group, queue = {"gang": ("resnet", "training"), "spark": ("spark-pi", "spark")}[file]
    cluster.wait(f"{GROUPS}/{group}", lambda status: status.get("phase") == "Running")
    cluster.wait(f"{QUEUES}/{queue}", lambda status: status.get("allocated") == {"cpu": str(bound)})
    named = {name: pod for name, pod in cluster.pods().items() if name.startswith(group)}
    assert sum(map(is_bound, named.values())) == bound
    take_down(cluster.server, EXAMPLES / f"{file}.yaml")


def test_the_scheduler_complained_of_nothing(cluster: ReportCluster) -> None:
    assert "WARNING" not in cluster.log.read_text()
