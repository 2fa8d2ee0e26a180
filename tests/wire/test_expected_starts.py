"""`headgate explain`, `headgate workloads --estimate` and `headgate explain -f` on `headgate up`, in both kinds of
queues: when a unit starts, and what would happen to objects before they are submitted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.embedded_server import EmbeddedServer
from harness.headgate_cli import output_lines
from harness.page import Page
from harness.scheduler_process import send, wait_for
from headgate.capacity.names import OPT_IN, QUEUE_NAME
from headgate.kube.timestamps import parse_time
from simulated_clusters import any_flavor, kueue_queue, volcano_queue

RUN_S = 600
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
COMPONENTS = "apiserver,nodes,controllers,scheduler,quota,jobs"
STARTS, BROKEN, QUEUED, REFUSED, UNKNOWN = 0, 1, 3, 4, 5


def a_pod(name: str, cpu: int = 2, queue: str = "q", **spec: Any) -> dict[str, Any]:
    annotations = {QUEUE_NAME: queue, OPT_IN: "true", "headgate.dev/run-for": f"{RUN_S}s"}
    container = {"name": "main", "image": "job", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "headgate", "restartPolicy": "Never", "containers": [container], **spec},
    }


def a_job(name: str, queue: str = "kq") -> dict[str, Any]:
    template = a_pod(name)
    del template["apiVersion"], template["kind"], template["spec"]["schedulerName"]
    template["metadata"] = {"annotations": {"headgate.dev/run-for": f"{RUN_S}s"}}
    labels = {"kueue.x-k8s.io/queue-name": queue}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    flags = ("--components", COMPONENTS, "--nodes", "2", "--dashboard-listen", "127.0.0.1:0")
    running = EmbeddedServer(tmp_path_factory.mktemp("up"), flags=flags)
    try:
        send(running, "POST", QUEUES, volcano_queue("q", cpu=2))
        send(running, "POST", QUEUES, volcano_queue("free", cpu=2))
        send(running, "POST", f"{KUEUE}/resourceflavors", any_flavor())
        cluster_queue, local_queue = kueue_queue("kq", 2)
        send(running, "POST", f"{KUEUE}/clusterqueues", cluster_queue)
        send(running, "POST", f"{KUEUE}/namespaces/default/localqueues", local_queue)
        send(running, "POST", PODS, a_pod("first"))
        wait_for(lambda: send(running, "GET", f"{PODS}/first")["spec"].get("nodeName"))
        send(running, "POST", PODS, a_pod("second"))
        send(running, "POST", JOBS, a_job("one"))
        wait_for(lambda: states(running).get("one") == "admitted")
        send(running, "POST", JOBS, a_job("two"))
        wait_for(lambda: states(running).get("two") == "pending")
        yield running
    finally:
        running.disconnect()
        running.stop()


def asked(server: EmbeddedServer, *words: str) -> tuple[int, str, str]:
    return output_lines(server, *words, "-n", "default")


def states(server: EmbeddedServer) -> dict[str, str]:
    """The states of Workloads by the names of their jobs."""
    code, printed, _ = asked(server, "workloads", "-o", "json")
    return {each["owners"][0]["name"]: each["state"] for each in json.loads(printed)["workloads"]} if not code else {}


def is_as_declared(estimate: dict[str, Any], started: str) -> bool:
    """Whether the estimate is the end of what holds the capacity: the run time after its start."""
    started_s = parse_time(started)
    assert not isinstance(started_s, str)
    return bool(
        estimate["state"] == "range"
        and abs(estimate["earliest_s"] - started_s - RUN_S) < 5
        and abs(estimate["latest_s"] - started_s - RUN_S) < 5
    )


def submitted(server: EmbeddedServer, folder: Path, *documents: Any, text: str = "") -> tuple[int, str, str]:
    file = folder / "file.yaml"
    file.write_text(text or yaml.safe_dump_all(documents))
    return asked(server, "explain", "-f", str(file))


def test_a_waiting_pod_is_expected_to_start_when_the_pod_before_it_ends(server: EmbeddedServer) -> None:
    code, printed, complaint = asked(server, "explain", "pod", "second", "-o", "json")
    assert code == 0, complaint
    started = send(server, "GET", f"{PODS}/first")["status"]["startTime"]
    assert is_as_declared(json.loads(printed)["expectedStart"], started), printed
    code, printed, _ = asked(server, "explain", "pod", "second")
    assert "expected start\n  in " in printed
    assert "run times: " in printed
    assert "expected start" not in asked(server, "explain", "pod", "second", "--no-estimate")[1]


def test_a_waiting_job_is_expected_to_start_when_quota_is_released(server: EmbeddedServer) -> None:
    code, printed, complaint = asked(server, "explain", "job", "two", "-o", "json")
    assert code == 0, complaint
    (estimate,) = json.loads(printed)["expectedStarts"].values()
    (holder,) = (each for each in send(server, "GET", JOBS)["items"] if each["metadata"]["name"] == "one")
    assert is_as_declared(estimate, holder["status"]["startTime"]), printed


def test_workloads_have_a_column_with_the_expected_start(server: EmbeddedServer) -> None:
    code, printed, complaint = asked(server, "workloads", "--estimate")
    assert code == 0, complaint
    head, *rows = printed.splitlines()
    assert head.endswith("EXPECTED START IN")
    (waiting,) = (row for row in rows if "PENDING" in row)
    assert " to " in waiting
    (running,) = (row for row in rows if "ADMITTED" in row)
    assert " to " not in running


def test_a_pod_that_would_start_now_has_the_exit_code_0(server: EmbeddedServer, tmp_path: Path) -> None:
    code, printed, complaint = submitted(server, tmp_path, a_pod("new", queue="free"))
    assert code == STARTS, (printed, complaint)
    assert "Pod default/new: it would start now: on node " in printed
    assert "schedulingGates" in printed, "what the webhook would change"
    assert send(server, "GET", PODS)["items"][-1]["metadata"]["name"] != "new"


def test_a_pod_that_would_wait_is_explained_like_an_existing_one(server: EmbeddedServer, tmp_path: Path) -> None:
    code, printed, _ = submitted(server, tmp_path, a_pod("new"))
    assert code == QUEUED
    assert "it would wait" in printed
    assert "queue q has no capacity for 2 cpu: 2 of 2 are in use" in printed
    assert "before it in queue q: 1" in printed
    assert "expected start" in printed


def test_a_queue_of_the_file_counts_and_a_missing_one_is_named(server: EmbeddedServer, tmp_path: Path) -> None:
    code, printed, _ = submitted(server, tmp_path, a_pod("new", queue="nowhere"))
    assert (code, "queue nowhere does not exist" in printed) == (QUEUED, True), printed
    code, printed, _ = submitted(server, tmp_path, volcano_queue("nowhere", cpu=2), a_pod("new", queue="nowhere"))
    assert code == STARTS, printed


def test_a_gang_of_the_file_is_explained_as_a_whole(server: EmbeddedServer, tmp_path: Path) -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 2, "queue": "free"},
    }
    pods = [a_pod(f"g-{number}", cpu=1) for number in range(2)]
    for each in pods:
        each["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "g"
    code, printed, _ = submitted(server, tmp_path, group, *pods)
    assert (code, "gang default/g: it would start now" in printed) == (STARTS, True), printed
    code, printed, _ = submitted(server, tmp_path, group, pods[0])
    assert (code, "needs 2" in printed) == (QUEUED, True), printed


def test_a_job_is_explained_with_its_queue_flavor_and_quota(server: EmbeddedServer, tmp_path: Path) -> None:
    code, printed, _ = submitted(server, tmp_path, a_job("three"))
    assert code == QUEUED, printed
    assert "spec.suspend = true" in printed
    assert "it waits for quota in ClusterQueue kq, 1 before it" in printed
    assert "expected start" in printed
    local = kueue_queue("more", 4)
    code, printed, _ = submitted(server, tmp_path, *local, a_job("three", queue="more"))
    assert code == STARTS, printed
    assert "with quota in ClusterQueue more: cpu from any" in printed


def test_what_would_be_refused_has_its_own_exit_code(server: EmbeddedServer, tmp_path: Path) -> None:
    code, printed, _ = submitted(server, tmp_path, a_pod("new", priorityClassName="none"))
    assert (code, "no PriorityClass with name none was found" in printed) == (REFUSED, True), printed
    code, printed, _ = submitted(server, tmp_path, a_pod("new", containers=[]))
    assert (code, "spec.containers: Required value" in printed) == (REFUSED, True), printed


def test_a_scheduler_without_queues_cannot_be_asked(server: EmbeddedServer, tmp_path: Path) -> None:
    code, printed, _ = submitted(server, tmp_path, a_pod("new", schedulerName="mine"))
    assert (code, "does not use queues" in printed) == (UNKNOWN, True), printed


def test_a_file_that_cannot_be_read_is_an_error_with_its_place(server: EmbeddedServer, tmp_path: Path) -> None:
    code, _, complaint = submitted(server, tmp_path, text="kind: Pod\n  name: [")
    assert code == BROKEN
    assert "line 2" in complaint
    code, _, complaint = submitted(server, tmp_path, {"kind": "Pod"})
    assert (code, "document 1: it has no apiVersion" in complaint) == (BROKEN, True)
    code, _, complaint = asked(server, "explain", "-f", str(tmp_path / "absent.yaml"))
    assert (code, "No such file" in complaint) == (BROKEN, True)
    code, _, complaint = asked(server, "explain", "pod", "second", "-f", str(tmp_path / "file.yaml"))
    assert (code, "not both" in complaint) == (2, True)


def test_json_has_the_outcome_of_every_unit(server: EmbeddedServer, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [a_pod("new"), a_job("three")]}))
    code, printed, _ = asked(server, "explain", "-f", str(file), "-o", "json")
    document = json.loads(printed)
    assert (code, document["outcome"]) == (QUEUED, "queued")
    assert [each["outcome"] for each in document["units"]] == ["queued", "queued"]
    assert all(each["estimate"]["state"] == "range" for each in document["units"])


def an_owner(kind: str, count: int, queue: str = "free") -> dict[str, Any]:
    template = a_pod("template", cpu=1, queue=queue)
    metadata = {"labels": {"app": "a"}, "annotations": {QUEUE_NAME: queue, OPT_IN: "true"}}
    spec = {**template["spec"], "restartPolicy": "Never" if kind == "Job" else "Always"}
    found: dict[str, Any] = {
        "kind": kind,
        "metadata": {"name": "d"},
        "spec": {"template": {"metadata": metadata, "spec": spec}},
    }
    if kind == "Job":
        return {
            "apiVersion": "batch/v1",
            **found,
            "spec": {**found["spec"], "parallelism": count, "completions": count},
        }
    selector = {"selector": {"matchLabels": {"app": "a"}}, "replicas": count}
    return {"apiVersion": "apps/v1", **found, "spec": {**found["spec"], **selector}}


@pytest.mark.parametrize(
    ("kind", "count", "name"),
    [("Deployment", 3, "d-2"), ("StatefulSet", 9, "d-2"), ("ReplicaSet", 3, "d-2"), ("Job", 1_000_000, "d-002")],
)
def test_the_first_pod_that_waits_is_explained(
    server: EmbeddedServer, tmp_path: Path, kind: str, count: int, name: str
) -> None:
    code, printed, complaint = submitted(server, tmp_path, an_owner(kind, count))
    assert code == QUEUED, (printed, complaint)
    assert f"2 of its {count} pods would start now" in printed
    assert f"pod default/{name}: it waits for its queue" in printed
    assert "cpu in queue free: asked 1, taken 2, limit 2" in printed
    assert "before it in queue free: 0" in printed
    assert ("only the first 1000 of its 1000000 pods" in printed) == (kind == "Job")


def test_pods_of_a_file_take_the_capacity_before_later_ones(server: EmbeddedServer, tmp_path: Path) -> None:
    pods = [a_pod(f"p-{number}", cpu=1, queue="free") for number in range(3)]
    code, printed, _ = submitted(server, tmp_path, *pods)
    assert code == QUEUED
    assert printed.count("it would start now") == 2
    assert "queue free has no capacity for 1 cpu: 2 of 2 are in use or promised" in printed
    assert "check that a scheduler runs" not in printed


def test_workloads_of_a_file_take_the_quota_before_later_ones(server: EmbeddedServer, tmp_path: Path) -> None:
    cluster_queue, local_queue = kueue_queue("fresh", 2)
    code, printed, _ = submitted(server, tmp_path, cluster_queue, local_queue, a_job("a", "fresh"), a_job("b", "fresh"))
    assert code == QUEUED, printed
    assert "Job default/a: it would start now" in printed
    assert "2 held by default/job-a-" in printed
    assert "check that a quota controller runs" not in printed


def test_a_pod_that_fits_no_node_waits_for_a_node(server: EmbeddedServer, tmp_path: Path) -> None:
    large = a_pod("large", cpu=1000, queue="default")
    large["metadata"].pop("annotations")
    code, printed, _ = submitted(server, tmp_path, large)
    assert (code, "pod default/large: it waits for a node" in printed) == (QUEUED, True), printed
    assert "Insufficient cpu" in printed


def test_a_pod_that_names_its_node_starts_if_the_kubelet_has_room(server: EmbeddedServer, tmp_path: Path) -> None:
    node = send(server, "GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
    named = a_pod("named", cpu=1, nodeName=node)
    named["metadata"].pop("annotations")
    code, printed, _ = submitted(server, tmp_path, named)
    assert (code, f"on node {node}, which its spec.nodeName names" in printed) == (STARTS, True), printed
    large = a_pod("large", cpu=1000, nodeName=node)
    large["metadata"].pop("annotations")
    code, printed, _ = submitted(server, tmp_path, large)
    assert (code, "whose kubelet rejects it" in printed) == (REFUSED, True), printed
    absent = a_pod("absent", cpu=1, nodeName="absent")
    absent["metadata"].pop("annotations")
    code, printed, _ = submitted(server, tmp_path, absent)
    assert (code, "there is no such node" in printed) == (REFUSED, True), printed


def test_what_the_api_server_refuses_is_refused(server: EmbeddedServer, tmp_path: Path) -> None:
    nowhere = a_pod("p")
    nowhere["metadata"]["namespace"] = "nowhere"
    template = an_owner("Deployment", 1)
    template["spec"]["template"]["spec"]["serviceAccountName"] = "nope"
    queued = a_job("queued")
    queued["spec"]["template"]["spec"]["serviceAccountName"] = "nope"
    for document, problem in (
        (nowhere, 'namespaces "nowhere" not found'),
        (a_pod("p", serviceAccountName="nope"), 'serviceaccount "nope" not found'),
        (template, 'its pods: pods "d-0" is forbidden: error looking up service account default/nope'),
        (queued, "its pods: "),
    ):
        code, printed, _ = submitted(server, tmp_path, document)
        assert (code, problem in printed) == (REFUSED, True), printed


def test_a_file_in_which_nothing_runs_says_why(server: EmbeddedServer, tmp_path: Path) -> None:
    for document, reason in (
        (an_owner("ReplicaSet", 0), "ReplicaSet default/d: it asks for no pods now"),
        ({**volcano_queue("q2", cpu=2)}, "nothing of the file runs or waits in a queue"),
        ({"apiVersion": "v1", "kind": "List", "items": []}, "it has no objects"),
    ):
        code, printed, complaint = submitted(server, tmp_path, document)
        assert (code, reason in printed) == (UNKNOWN, True), (printed, complaint)
    for text in ("---\n", "[]", "# nothing"):
        code, printed, _ = submitted(server, tmp_path, text=text)
        assert (code, "it has no objects" in printed) == (UNKNOWN, True), printed


def test_an_error_of_yaml_names_the_file(server: EmbeddedServer, tmp_path: Path) -> None:
    code, _, complaint = submitted(server, tmp_path, text="a: [b\nc: }\n")
    assert (code, "file.yaml: line " in complaint) == (BROKEN, True), complaint


def test_the_page_says_on_request_what_explain_says(server: EmbeddedServer) -> None:
    page = Page(server._process.log)
    found = page.get("/api/estimates/pods/default/second")
    assert list(found) == [""]
    assert_starts_after_ten_minutes(found[""])
    workloads = send(server, "GET", f"{KUEUE}/namespaces/default/workloads")["items"]
    two = next(each["metadata"]["name"] for each in workloads if "two" in each["metadata"]["name"])
    found = page.get(f"/api/estimates/workloads/default/{two}")
    assert list(found) == [f"default/{two}"]
    assert_starts_after_ten_minutes(found[f"default/{two}"])
    assert page.get("/api/estimates/pods/default/first") == {}, "it does not wait"
    assert page.request("/api/estimates/pods/default/absent")[0] == 404


def assert_starts_after_ten_minutes(estimate: dict[str, Any]) -> None:
    assert estimate["state"] == "range", estimate
    assert 0 < estimate["earliest_s"] - time.time() <= RUN_S + 10
    assert estimate["latest_s"] >= estimate["earliest_s"]


def test_the_page_says_why_there_is_no_basis_for_a_gate_of_another_controller(server: EmbeddedServer) -> None:
    send(server, "POST", PODS, a_pod("foreign", schedulingGates=[{"name": "example.com/data"}]))
    found = Page(server._process.log).get("/api/estimates/pods/default/foreign")
    assert found[""]["state"] == "no basis"
    assert "gates of other controllers are removed: example.com/data" in found[""]["reason"]
