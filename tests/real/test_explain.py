"""`headgate queues` and `headgate explain pod` on the embedded server and on a real one: what kubectl made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import headgate_cli
from harness.queues import a_group, a_queue, install_crds
from harness.scheduler_process import wait_for
from harness.server import Server
from harness.server_kinds import SERVER_KINDS, running_server
from harness.users import ALICE

pytestmark = pytest.mark.real

GATE = "scheduling.volcano.sh/queue-allocation-gate"
APPROVAL = "example.com/approval"
NAMESPACE = "teams"
AGE = re.compile(r"\b\d+s\b")


def a_pod(name: str, queue: str, cpu: str, *gates: str, group: str = "", **spec: Any) -> dict[str, Any]:
    annotations = {"scheduling.volcano.sh/queue-name": queue, GATE: "true"}
    if group:
        annotations["scheduling.k8s.io/group-name"] = group
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {
            "schedulerName": "headgate",
            "schedulingGates": [{"name": each} for each in gates],
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
    }


MADE = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    a_queue("eng", capability={"cpu": "4", "memory": "8Gi"}),
    a_queue("team-a", parent="eng", deserved={"cpu": "2"}),
    a_queue("team-b", parent="eng", capability={"cpu": "3"}),
    a_queue("elsewhere", capability={"cpu": "1"}),
    a_queue("nothing", capability={"cpu": "0"}),
    a_group("pair", NAMESPACE, minMember=2, queue="elsewhere"),
    a_pod("running", "team-a", "2", nodeName="node-1"),
    a_pod("large", "team-b", "3", GATE),
    a_pod("approved", "team-a", "1", APPROVAL, GATE),
    a_pod("homeless", "nowhere", "1", GATE),
    a_pod("alone", "elsewhere", "100m", GATE, group="pair"),
    a_pod("strange", "team-a", "1", schedulerName="default-scheduler"),
)


@pytest.fixture(scope="module", params=SERVER_KINDS)
def server(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running_server(request.param, tmp_path_factory.mktemp(request.param), kube_binaries) as running:
        install_crds(running)
        made = running.kubectl(["create", "-f", "-"], yaml.safe_dump_all(MADE))
        assert made.exit == 0, made.stderr
        yield running


def asked(server: Server, *arguments: str, kubeconfig: Path | None = None) -> tuple[int, str, str]:
    code, printed, complaint = headgate_cli.output_lines(server, *arguments, kubeconfig=kubeconfig)
    return code, AGE.sub("<age>", printed), complaint


def explained(server: Server, name: str) -> list[str]:
    code, printed, complaint = asked(server, "explain", "pod", name, "-n", NAMESPACE)
    assert (code, complaint) == (0, "")
    return printed.splitlines()


def test_queues_are_shown_below_their_parents_with_usage_and_waiting_pods(server: Server) -> None:
    code, printed, complaint = asked(server, "queues")
    assert (code, complaint) == (0, "")
    head, *rows = (line for line in printed.splitlines() if "default" not in line)
    assert head.split() == ["NAME", "STATE", "CAPABILITY", "ALLOCATED", "RESERVED", "TERMINATING", "WAITING", "SHARE"]
    assert [line.rstrip() for line in rows[:6]] == [
        "root          Open    -                   cpu 2       -          -             3         1.00",
        "  elsewhere   Open    cpu 1               -           -          -             1         1.00",
        "  eng         Open    cpu 4, memory 8Gi   cpu 2       -          -             2         1.00",
        "    team-a    Open    -                   cpu 2       -          -             1         1.00",
        "    team-b    Open    cpu 3               -           -          -             1         1.00",
        "  nothing     Open    cpu 0               -           -          -             0         1.00",
    ]
    assert rows[6:8] == ["", "queue/nowhere: does not exist; pods that name it: 1"]
    assert re.fullmatch(r"as of resourceVersion \d+; 5 pods of headgate, volcano", rows[-1])


def test_queues_as_json_have_limits_too(server: Server) -> None:
    document = json.loads(asked(server, "queues", "-o", "json")[1])
    (found,) = (each for each in document["queues"] if each["name"] == "team-b")
    assert found["parent"] == "eng"
    assert found["limits"] == {"cpu": "3", "memory": "8Gi"}
    assert (found["waiting"], found["allocated"], found["reserved"]) == (1, {}, {})
    assert (int(document["revision"]) > 0, document["missing"], document["problems"]) == (True, [], {})


def test_a_pod_below_a_full_ancestor_is_explained_with_numbers(server: Server) -> None:
    *lines, revision = explained(server, "large")
    expected = lines.index("expected start")
    assert lines[expected + 1 :] == ["  no basis: the cluster has no nodes"]
    assert lines[:expected] == [
        "pod teams/large: it waits for its queue",
        "  scheduler headgate, queue team-b, asks for cpu 3, opted in, <age> old",
        "held by",
        "  queue team-b (QueueFull): queue eng has no capacity for 3 cpu: 2 of 4 are in use or promised to others",
        "    cpu in queue eng: asked 3, taken 2, limit 4",
        "    before it in queue team-b: 0",
        "next",
        "  at least 1 cpu in queue eng has to become free (the end of pod teams/running is enough), "
        "or the capability of queue eng has to grow from 4 to 5 cpu",
    ]
    assert re.fullmatch(r"as of resourceVersion \d+", revision)


def test_a_foreign_gate_is_shown_first_with_its_manager_and_time(server: Server) -> None:
    lines = explained(server, "approved")
    assert lines[0] == "pod teams/approved: it waits for a gate of another controller, then for its queue"
    assert lines[3].startswith(f"  gate {APPROVAL} (set by kubectl-create, <age> ago): a gate of another controller")
    assert lines[4].startswith("  queue team-a: queue team-a has capacity for it now")
    assert lines[6] == f"  its owner has to remove {APPROVAL}"


def test_a_missing_queue_an_incomplete_gang_and_other_causes_are_explained(server: Server) -> None:
    assert "  queue nowhere (QueueNotFound): queue nowhere does not exist" in explained(server, "homeless")
    assert "  group pair (NotEnoughTasks): its PodGroup pair has 1 pods and needs 2" in explained(server, "alone")
    assert explained(server, "running")[0] == "pod teams/running: it is on node node-1 (Pending): nothing holds it"
    assert explained(server, "strange")[0].startswith("pod teams/strange: its scheduler is default-")
    code, _, complaint = asked(server, "explain", "pod/absent", "-n", NAMESPACE)
    assert (code, complaint) == (1, f"headgate explain: there is no pod absent in namespace {NAMESPACE}\n")
    code, _, complaint = asked(server, "explain", "pod", "")
    assert (code, "name the object to explain" in complaint) == (2, True)


def test_json_has_the_same_facts(server: Server) -> None:
    found = json.loads(asked(server, "explain", "pod/large", "-n", NAMESPACE, "-o", "json")[1])
    assert (found["state"], found["queue"], found["requests"]) == ("waiting", "team-b", {"cpu": "3"})
    (hold,) = found["holds"]
    assert (hold["blocker"], hold["asked"], hold["used"], hold["limit"]) == ("eng", "3", "2", "4")


def test_without_the_right_to_list_the_condition_is_shown_and_the_right_is_named(
    server: Server, tmp_path: Path
) -> None:
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": ALICE}
    theirs = tmp_path / "kubeconfig"
    theirs.write_text(yaml.safe_dump(config))
    granted = (
        server.kubectl(
            ["create", "role", "looks", "--verb=get", "--resource=pods", "-n", NAMESPACE],
        ),
        server.kubectl(["create", "rolebinding", "looks", "--role=looks", "--user=alice", "-n", NAMESPACE]),
    )
    assert [each.exit for each in granted] == [0, 0]

    def explained_to_alice() -> str:
        """Empty before the server has seen the new role and its binding."""
        code, printed, _ = asked(server, "explain", "pod", "large", "-n", NAMESPACE, kubeconfig=theirs)
        return printed if code == 0 else ""

    printed = wait_for(explained_to_alice)
    assert "Scheduling is blocked due to non-empty scheduling gates" in printed
    assert "missing right: list pods in all namespaces\n" in printed
    code, _, complaint = asked(server, "queues", kubeconfig=theirs)
    assert code == 1
    assert "missing right: list queues.scheduling.volcano.sh" in complaint
    code, _, complaint = asked(server, "explain", "pod", "large", "-n", "default", kubeconfig=theirs)
    assert (code, "missing right: get pods in namespace default" in complaint) == (1, True)
