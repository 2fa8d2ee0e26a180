"""Lists (`queues`, `workloads`, `gates list`) in every format and watched, on the embedded server and a real one."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.embedded_server import HEADGATE
from harness.headgate_cli import output_lines
from harness.queues import a_queue, install_crds
from harness.scheduler_process import wait_for
from harness.server import Server
from harness.server_kinds import SERVER_KINDS, running_server

pytestmark = pytest.mark.real

Object = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}


def made(version: str, kind: str, name: str, spec: Object | None = None, namespace: str = "") -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **({} if spec is None else {"spec": spec})}


def a_cluster_queue(name: str, nominal: str, **spec: Any) -> Object:
    resources = [{"name": "cpu", "nominalQuota": nominal}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": resources}]}]
    return made(KUEUE, "ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **spec})


def a_workload(name: str) -> Object:
    sets = [{"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}]
    return made(KUEUE, "Workload", name, {"queueName": "lq", "podSets": sets}, "teams")


def a_gated_pod(name: str, gate: str) -> Object:
    return made("v1", "Pod", name, {"containers": [CONTAINER], "schedulingGates": [{"name": gate}]}, "teams")


def holding(amount: str) -> Object:
    assignment = {"name": "main", "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": amount}, "count": 1}
    conditions = [
        {"type": each, "status": "True", "reason": each, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for each in ("QuotaReserved", "Admitted")
    ]
    return {"admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]}, "conditions": conditions}


MADE = (
    made("v1", "Namespace", "teams"),
    a_queue("eng", capability={"cpu": "4"}),
    made(KUEUE, "ResourceFlavor", "any"),
    a_cluster_queue("cq", "2", cohortName="co"),
    a_cluster_queue("lender", "4", cohortName="co"),
    made(KUEUE, "LocalQueue", "lq", {"clusterQueue": "cq"}, "teams"),
    a_workload("holder"),
    a_workload("waits"),
    a_gated_pod("first", "example.com/data"),
)


@pytest.fixture(scope="module", params=SERVER_KINDS)
def bare(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running_server(request.param, tmp_path_factory.mktemp(request.param), kube_binaries) as running:
        no_kinds = output_lines(running, "queues")
        assert no_kinds[:2] == (1, "")
        assert "headgate install-crds creates them" in no_kinds[2]
        yield running


@pytest.fixture(scope="module")
def server(bare: Server) -> Server:
    install_crds(bare)
    created = bare.kubectl(["create", "-f", "-"], yaml.safe_dump_all(MADE))
    assert created.exit == 0, created.stderr
    status = ["patch", "workload", "holder", "-n", "teams", "--subresource=status", "--type=merge"]
    written = bare.kubectl([*status, "-p", json.dumps({"status": holding("3")})])
    assert written.exit == 0, written.stderr
    return bare


def printed(server: Server, *arguments: str) -> str:
    code, text, complaint = output_lines(server, *arguments)
    assert code == 0, complaint
    return text


def _is_in(log: Path, text: str) -> bool:
    return text in log.read_text()


def test_queues_of_both_systems_are_shown(server: Server) -> None:
    lines = printed(server, "queues").splitlines()
    assert lines[0].split() == [
        *("NAME", "STATE", "CAPABILITY", "ALLOCATED", "RESERVED", "TERMINATING", "WAITING", "SHARE"),
    ]
    assert "  eng" in [line[:5] for line in lines]
    rows = {line.split()[0]: line.split() for line in lines if line}
    assert rows["cq"] == ["cq", "Active", "co", "any", "cpu", "2", "3", "3", "1", "1"]
    assert rows["teams/lq"] == ["teams/lq", "Active", "any", "cpu", "3", "3", "1"]
    wide = {line.split()[0]: line.split() for line in printed(server, "queues", "-o", "wide").splitlines() if line}
    assert wide["cq"][10:] == ["3", "-", "-", "BestEffortFIFO"]


def test_names_are_those_that_kubectl_takes(server: Server) -> None:
    names = printed(server, "queues", "-o", "name").split()
    assert names == [
        "queue.scheduling.volcano.sh/root",
        "queue.scheduling.volcano.sh/eng",
        "clusterqueue.kueue.x-k8s.io/cq",
        "localqueue.kueue.x-k8s.io/lq",
        "clusterqueue.kueue.x-k8s.io/lender",
    ]
    assert server.kubectl(["get", "-n", "teams", *names[1:3], names[4]]).exit == 0
    workloads = printed(server, "workloads", "-n", "teams", "-o", "name").split()
    assert server.kubectl(["get", "-n", "teams", *workloads]).exit == 0


@pytest.mark.parametrize("command", ["queues", "workloads -A", "workloads -A --gated", "gates list -A"])
def test_yaml_and_json_are_the_same_document(server: Server, command: str) -> None:
    as_json = json.loads(printed(server, *command.split(), "-o", "json"))
    assert yaml.safe_load(printed(server, *command.split(), "-o", "yaml")) == as_json
    assert as_json


def test_a_document_has_the_quota_of_each_flavor(server: Server) -> None:
    document = json.loads(printed(server, "queues", "-o", "json"))
    found = {each["name"]: each for each in document["clusterQueues"]}
    assert found["cq"]["flavors"] == [
        {
            "flavor": "any",
            "resource": "cpu",
            "used": "3",
            "reserved": "3",
            "nominal": "2",
            "borrowed": "1",
            "available": "3",
        }
    ]
    assert [each["name"] for each in found["cq"]["localQueues"]] == ["lq"]
    assert document["localQueuesWithoutClusterQueue"] == []


def test_a_watched_list_appends_what_changes_and_ends_cleanly(server: Server, tmp_path: Path) -> None:
    log = tmp_path / "watched"
    command = [str(HEADGATE), "gates", "list", "-A", "--watch", "--kubeconfig", str(server.kubeconfig)]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process:
        try:
            wait_for(lambda: "example.com/data" in log.read_text())
            for name in ("second", "third"):
                added = server.kubectl(["create", "-f", "-"], yaml.safe_dump(a_gated_pod(name, f"example.com/{name}")))
                assert added.exit == 0, added.stderr
                wait_for(functools.partial(_is_in, log, f"example.com/{name}"))
            gone = server.kubectl(["delete", "pod", "second", "-n", "teams", "--grace-period=0", "--force"])
            assert gone.exit == 0, gone.stderr
            wait_for(lambda: "(deleted)" in log.read_text())
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    lines = log.read_text().splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["example.com/data", "1"],
        ["example.com/second", "1"],
        ["example.com/third", "1"],
        ["example.com/second", "1"],
    ]


def test_a_watched_document_is_one_line_for_each_change(server: Server, tmp_path: Path) -> None:
    log = tmp_path / "watched"
    command = [str(HEADGATE), "queues", "-w", "-o", "json", "--kubeconfig", str(server.kubeconfig)]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process:
        try:
            wait_for(lambda: "lender" in log.read_text())
            changed = server.kubectl(
                ["patch", "queue", "eng", "--type=merge", "-p", '{"spec":{"capability":{"cpu":"9"}}}']
            )
            assert changed.exit == 0, changed.stderr
            wait_for(lambda: len(log.read_text().splitlines()) > 1)
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    documents = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["queues"][1]["capability"] for each in (documents[0], documents[-1])] == [{"cpu": "4"}, {"cpu": "9"}]
