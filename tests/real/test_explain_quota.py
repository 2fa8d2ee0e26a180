"""`headgate workloads` and `headgate explain job|workload|pod` on the embedded server and on a real one, without a
running quota controller: the commands compute their output from the objects that kubectl created."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.headgate_cli import output_lines
from harness.queues import install_crds
from harness.server import Server
from harness.server_kinds import SERVER_KINDS, running_server

pytestmark = pytest.mark.real

Object = dict[str, Any]
NEW, NAMESPACE = "kueue.x-k8s.io/v1beta2", "teams"
GATE = "kueue.x-k8s.io/scheduling-gated-by"
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
SPEC = {"restartPolicy": "Never", "containers": [CONTAINER]}
QUOTA = [{"name": "cpu", "nominalQuota": "4"}]
GROUPS = [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": QUOTA}]}]


def made(kind: str, name: str, spec: Object | None = None, version: str = NEW, **metadata: Any) -> Object:
    where = {} if kind in ("ResourceFlavor", "ClusterQueue", "Namespace") else {"namespace": NAMESPACE}
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where, **metadata}}
    return body if spec is None else {**body, "spec": spec}


def a_job(name: str, queue: str = "lq", **metadata: Any) -> Object:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return made("Job", name, {"suspend": True, "template": {"spec": SPEC}}, "batch/v1", labels=labels, **metadata)


def a_workload(name: str, priority: int = 0, **metadata: Any) -> Object:
    sets = [{"name": "main", "count": 1, "template": {"spec": SPEC}}]
    return made("Workload", name, {"queueName": "lq", "podSets": sets, "priority": priority}, **metadata)


HELD = {
    "admission": {
        "clusterQueue": "cq",
        "podSetAssignments": [{"name": "main", "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": "3"}, "count": 1}],
    },
    "conditions": [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("QuotaReserved", "Admitted")
    ],
}
MADE = (
    made("Namespace", NAMESPACE, version="v1"),
    made("ResourceFlavor", "any"),
    made("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": GROUPS}),
    made("LocalQueue", "lq", {"clusterQueue": "cq"}),
    a_job("train"),
    a_job("gated", annotations={GATE: "example.com/data"}),
    a_job("free", queue=""),
    a_job("nobodys"),
    a_workload("holder"),
    a_workload("held-back", annotations={"kueue.x-k8s.io/admission-gated-by": "example.com/review"}),
    made("Pod", "single", SPEC | {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, "v1"),
)


@pytest.fixture(scope="module", params=SERVER_KINDS)
def server(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running_server(request.param, tmp_path_factory.mktemp(request.param), kube_binaries) as running:
        install_crds(running)
        created = running.kubectl(["create", "-f", "-"], yaml.safe_dump_all(MADE))
        assert created.exit == 0, created.stderr
        for kind, name, api, priority in (("Job", "train", "batch/v1", 1), ("Pod", "single", "v1", 0)):
            uid = running.kubectl(["get", kind, name, "-n", NAMESPACE, "-o", "jsonpath={.metadata.uid}"]).stdout
            owner = {"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": True}
            workload = a_workload(f"of-{name}", priority, ownerReferences=[owner])
            owned = running.kubectl(["create", "-f", "-"], yaml.safe_dump(workload))
            assert owned.exit == 0, owned.stderr
        status = ["patch", "workload", "holder", "-n", NAMESPACE, "--subresource=status", "--type=merge"]
        written = running.kubectl([*status, "-p", json.dumps({"status": HELD})])
        assert written.exit == 0, written.stderr
        yield running


def printed(server: Server, *arguments: str) -> list[str]:
    code, text, complaint = output_lines(server, *arguments, "-n", NAMESPACE)
    assert code == 0, complaint
    return text.splitlines()


def test_workloads_are_listed_in_kueuectls_columns(server: Server) -> None:
    head, *rows = printed(server, "workloads")
    columns = [each.strip() for each in head.split("   ") if each.strip()]
    assert columns == [
        *("NAME", "JOB TYPE", "JOB NAME", "LOCALQUEUE", "CLUSTERQUEUE"),
        *("STATUS", "POSITION IN QUEUE", "EXEC TIME", "AGE"),
    ]
    found = {row.split()[0]: row.split()[1:] for row in rows}
    assert found["holder"][:3] == ["lq", "cq", "ADMITTED"]
    assert found["of-train"][:5] == ["job.batch", "train", "lq", "cq", "PENDING"]
    assert [found["of-train"][5], found["of-single"][5]] == ["0", "1"]
    assert found["held-back"][:3] == ["lq", "cq", "PENDING"]


def test_workloads_are_chosen_by_state_and_by_job(server: Server) -> None:
    assert [row.split()[0] for row in printed(server, "workloads", "--status", "admitted")[1:]] == ["holder"]
    assert [row.split()[0] for row in printed(server, "workloads", "--for", "jobs/train")[1:]] == ["of-train"]
    assert [row.split()[0] for row in printed(server, "workloads", "--for", "po/single")[1:]] == ["of-single"]
    code, _, complaint = output_lines(server, "workloads", "-n", NAMESPACE, "--queue", "other")
    assert (code, complaint) == (0, f"No Workload found in namespace {NAMESPACE}.\n")
    code, _, complaint = output_lines(server, "workloads", "--for", "train")
    assert (code, "must be TYPE/NAME" in complaint) == (2, True)
    document = json.loads(output_lines(server, "workloads", "-A", "-o", "json")[1])
    assert {each["name"] for each in document["workloads"]} == {"holder", "held-back", "of-train", "of-single"}


def test_gated_workloads_are_listed_with_their_gate(server: Server) -> None:
    head, *rows = printed(server, "workloads", "--gated")
    assert head.split()[:2] == ["TYPE", "NAME"]
    assert sorted(row.split()[:3] for row in rows) == [
        ["job.batch", "gated", "example.com/data"],
        ["workload", "held-back", "example.com/review"],
    ]


def test_a_waiting_job_is_explained_with_the_missing_quota_and_its_holders(server: Server) -> None:
    lines = printed(server, "explain", "job", "train")
    assert lines[0].startswith(f"job {NAMESPACE}/train: it waits for quota in ClusterQueue cq, ")
    assert "  2 cpu in any: asked 3, available 1, at most 4" in lines
    assert f"    3 held by {NAMESPACE}/holder (ClusterQueue cq)" in lines
    assert any(f"the end of {NAMESPACE}/holder is enough" in line for line in lines)
    assert lines[-1].startswith("as of resourceVersion ")
    document = json.loads("\n".join(printed(server, "explain", "workload/of-train", "-o", "json")))
    assert document["accounts"][0]["lacks"][0]["missing"] == "2"


def test_a_job_without_a_workload_is_explained(server: Server) -> None:
    gated = printed(server, "explain", "job", "gated")
    assert gated[0].startswith(
        f"job {NAMESPACE}/gated: it has no Workload because the gate example.com/data is set, for "
    )
    free = printed(server, "explain", "job", "free")
    assert "  kubectl label jobs free kueue.x-k8s.io/queue-name=NAME" in free
    nobodys = printed(server, "explain", "job/nobodys")
    assert "no Workload has been created for it" in nobodys[0]


def test_a_pod_with_kueues_gate_is_explained_with_its_workload(server: Server) -> None:
    lines = printed(server, "explain", "pod", "single")
    assert lines[0] == f"pod {NAMESPACE}/single: it waits for the admission of its Workload"
    assert any(line.startswith("  gate kueue.x-k8s.io/admission") and "of-single" in line for line in lines)
    assert any(line.startswith(f"workload {NAMESPACE}/of-single: it waits for quota") for line in lines)


def test_a_missing_object_is_reported_with_similar_names(server: Server) -> None:
    code, _, complaint = output_lines(server, "explain", "workload", "train", "-n", NAMESPACE)
    assert (code, f"did you mean {NAMESPACE}/of-train?" in complaint) == (1, True)
    code, _, complaint = output_lines(server, "explain", "secret", "web")
    assert (code, "name the object to explain" in complaint) == (2, True)
