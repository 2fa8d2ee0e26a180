"""Queue and PodGroup as kinds, on the embedded server and on a real one: installing, manifests, columns, status."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.embedded_server import HEADGATE
from harness.queues import QUEUES, a_group, a_queue, install_crds, take_down
from harness.real_server import RealServer
from harness.server import JSON_TYPE, Server
from harness.server_kinds import SERVER_KINDS, running_server

pytestmark = pytest.mark.real

Object = dict[str, Any]

EXAMPLES = Path(__file__).parents[2] / "examples" / "volcano"
MERGE = {"Content-Type": "application/merge-patch+json"}
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"

FULL_QUEUE = a_queue(
    "full",
    weight=3,
    capability={"cpu": 8, "memory": "32Gi", "nvidia.com/gpu": "4"},
    deserved={"cpu": "4", "memory": "16Gi"},
    guarantee={"resource": {"cpu": "500m"}},
    reclaimable=False,
    parent="root",
    priority=10,
    dequeueStrategy="fifo",
    type="team",
    affinity={
        "nodeGroupAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": ["a"],
            "preferredDuringSchedulingIgnoredDuringExecution": ["b"],
        },
        "nodeGroupAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["c"]},
    },
    extendClusters=[{"name": "far", "weight": 1, "capacity": {"cpu": "2"}}],
    dra={"capability": {"gpu.example.com": {"count": 4, "capacity": {"memory": "80Gi"}}}},
)
FULL_GROUP = a_group(
    "full",
    minMember=3,
    minTaskMember={"driver": 1, "executor": 2},
    queue="full",
    priorityClassName="system-cluster-critical",
    minResources={"cpu": "3", "memory": "3Gi"},
    preemptable=True,
    networkTopology={"mode": "soft", "highestTierAllowed": 2, "highestTierName": "spine"},
    subGroupPolicy=[
        {
            "name": "sub",
            "subGroupSize": 2,
            "minSubGroups": 1,
            "labelSelector": {
                "matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
            },
            "matchLabelKeys": ["rank"],
            "matchPolicy": [{"labelKey": "rank"}],
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        }
    ],
)


@pytest.fixture(scope="module", params=SERVER_KINDS)
def server(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running_server(request.param, tmp_path_factory.mktemp(request.param), kube_binaries) as running:
        assert {line.split()[-1] for line in install_crds(running)} == {"created"}
        yield running


def send(
    server: Server, method: str, path: str, body: Object, headers: dict[str, str] = JSON_TYPE
) -> tuple[int, Object]:
    answer = server.request(method, path, headers, json.dumps(body).encode())
    return answer.status, answer.json()


def test_installing_again_changes_nothing(server: Server) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.scheduling.volcano.sh"
    before = server.request("GET", path).json()["metadata"]["resourceVersion"]
    assert {line.split()[-1] for line in install_crds(server)} == {"unchanged"}
    assert server.request("GET", path).json()["metadata"]["resourceVersion"] == before


def test_what_is_printed_is_what_is_installed(server: Server) -> None:
    printed = subprocess.run([str(HEADGATE), "install-crds", "--print"], capture_output=True, text=True, check=True)
    applied = server.kubectl(["apply", "--server-side", "--field-manager=headgate", "-f", "-"], stdin=printed.stdout)
    assert applied.exit == 0, applied.stderr
    # A server that converts between the versions of kueue.x-k8s.io itself serves both of them.
    lines = [line for line in install_crds(server) if isinstance(server, RealServer) or "kueue.x-k8s.io" not in line]
    assert {line.split()[-1] for line in lines} == {"unchanged"}


def test_definitions_of_another_origin_are_updated_and_objects_stay(server: Server) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.volcano.sh"
    assert send(server, "POST", GROUPS, a_group("stays", minMember=1))[0] == 201
    found = server.request("GET", path).json()
    found["spec"]["versions"][0] |= {"additionalPrinterColumns": [], "subresources": {}}
    assert send(server, "PUT", path, found)[0] == 200
    changed = [line for line in install_crds(server) if not line.endswith("unchanged")]
    assert changed == ["customresourcedefinition.apiextensions.k8s.io/podgroups.scheduling.volcano.sh configured"]
    assert server.request("GET", f"{GROUPS}/stays").status == 200
    assert server.request("GET", path).json()["spec"]["versions"][0]["subresources"] == {"status": {}}


@pytest.mark.parametrize(("path", "manifest"), [(QUEUES, FULL_QUEUE), (GROUPS, FULL_GROUP)], ids=["queue", "group"])
def test_everything_that_a_manifest_for_volcano_may_say_is_kept(server: Server, path: str, manifest: Object) -> None:
    status, made = send(server, "POST", f"{path}?fieldValidation=Strict", manifest)
    assert status == 201, made
    assert made["spec"] == manifest["spec"]


def test_a_status_is_written_apart_and_keeps_what_volcano_and_we_say(server: Server) -> None:
    assert send(server, "POST", QUEUES, {**a_queue("reported"), "status": {"state": "Closed"}})[1].get("status") is None
    said = {
        "state": "Open",
        "pending": 1,
        "inqueue": 2,
        "running": 3,
        "unknown": 4,
        "completed": 5,
        "allocated": {"cpu": "1"},
        "reserved": {"cpu": "500m"},
        "reservation": {"nodes": ["n1"], "resource": {"cpu": "1"}},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Valid", "message": ""}],
    }
    status, written = send(server, "PATCH", f"{QUEUES}/reported/status", {"status": said}, MERGE)
    assert (status, written["status"]) == (200, said)


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (a_queue("bad", weight=0), "spec.weight"),
        (a_queue("bad", capability={"cpu": "NaN"}), "spec.capability.cpu"),
        (a_queue("bad", capability={"cpu": 1.5}), "spec.capability.cpu"),
        (a_queue("bad", parent="No Such"), "spec.parent"),
        (a_queue("bad", dequeueStrategy="lifo"), "spec.dequeueStrategy"),
    ],
)
def test_a_value_that_no_queue_can_have_is_refused_by_its_field(server: Server, manifest: Object, field: str) -> None:
    status, refused = send(server, "POST", QUEUES, manifest)
    assert status == 422
    assert field in refused["message"]


@pytest.mark.parametrize("word", ["q", "queue", "queues", "queue-v1beta1", "queues.scheduling.volcano.sh"])
def test_kubectl_shows_queues_under_every_name_that_users_know(server: Server, word: str) -> None:
    send(server, "POST", QUEUES, a_queue("shown", parent="root", weight=2))
    send(server, "PATCH", f"{QUEUES}/shown/status", {"status": {"state": "Open", "running": 1}}, MERGE)
    shown = server.kubectl(["get", word, "shown"])
    assert shown.exit == 0, shown.stderr
    head, row = (line.split() for line in shown.stdout.splitlines())
    assert head == ["NAME", "PARENT", "STATE", "AGE"]
    assert row[:3] == ["shown", "root", "Open"]


def test_kubectl_shows_the_counts_of_a_queue_when_asked_for_more(server: Server) -> None:
    send(server, "POST", QUEUES, a_queue("wide", weight=2))
    send(server, "PATCH", f"{QUEUES}/wide/status", {"status": {"state": "Open", "inqueue": 4, "running": 1}}, MERGE)
    head, row = server.kubectl(["get", "q", "wide", "-o", "wide"]).stdout.splitlines()
    assert head.split()[4:] == ["WEIGHT", "INQUEUE", "PENDING", "RUNNING", "UNKNOWN", "COMPLETED"]
    assert row.split()[-3:] == ["2", "4", "1"]


@pytest.mark.parametrize("word", ["pg", "podgroup", "podgroups", "podgroup-v1beta1"])
def test_kubectl_shows_groups_as_users_know_them(server: Server, word: str) -> None:
    send(server, "POST", GROUPS, a_group("shown", minMember=3, queue="studies"))
    send(server, "PATCH", f"{GROUPS}/shown/status", {"status": {"phase": "Running", "running": 3}}, MERGE)
    head, row = (line.split() for line in server.kubectl(["get", word, "shown", "-o", "wide"]).stdout.splitlines())
    assert head == ["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE", "QUEUE"]
    assert (row[:4], row[5]) == (["shown", "Running", "3", "3"], "studies")


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_can_be_applied_twice_and_deleted(server: Server, file: Path) -> None:
    count = len(list(yaml.safe_load_all(file.read_text())))
    applied = server.kubectl(["apply", "-f", str(file)])
    assert applied.exit == 0, applied.stderr
    assert [line.split()[-1] for line in applied.stdout.splitlines()] == ["created"] * count
    again = server.kubectl(["apply", "-f", str(file)])
    assert [line.split()[-1] for line in again.stdout.splitlines()] == ["unchanged"] * count
    take_down(server, file)


def test_jobs_of_volcano_are_not_a_kind_here(server: Server) -> None:
    job = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n"
    refused = server.kubectl(["apply", "-f", "-"], stdin=job)
    assert refused.exit == 1
    assert 'no matches for kind "Job" in version "batch.volcano.sh/v1alpha1"' in refused.stderr
