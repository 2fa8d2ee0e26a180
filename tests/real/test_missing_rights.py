"""Every command that reads, with one right taken away at a time: the missing right is named, and nothing is claimed
about what could not be read. On the embedded server and on a real one, with their own RBAC."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from harness.queues import a_group, a_queue, install_crds
from harness.scheduler_process import wait_for
from harness.server import JSON_TYPE, Server
from harness.server_kinds import SERVER_KINDS, running_server
from harness.users import ALICE, VIEWER, bearing
from headgate.cli.main import main

pytestmark = pytest.mark.real

Object = dict[str, Any]
NAMESPACE = "teams"
VOLCANO, KUEUE = "scheduling.volcano.sh", "kueue.x-k8s.io"
QUEUE_GATE, KUEUE_GATE = f"{VOLCANO}/queue-allocation-gate", f"{KUEUE}/admission"
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
SPEC = {"restartPolicy": "Never", "containers": [CONTAINER]}
WEB = {"matchLabels": {"app": "web"}}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
RESOURCES = [{"name": "cpu", "nominalQuota": "4"}]
GROUPS = [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": RESOURCES}]}]
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def made(version: str, kind: str, name: str, spec: Object | None = None, **metadata: Any) -> Object:
    where = {} if kind in ("Namespace", "ResourceFlavor", "ClusterQueue") else {"namespace": NAMESPACE}
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where, **metadata}}
    return body if spec is None else {**body, "spec": spec}


def a_pod(name: str, gate: str, group: str = "", **metadata: Any) -> Object:
    notes = {f"{VOLCANO}/queue-name": "small", QUEUE_GATE: "true"}
    notes |= {"scheduling.k8s.io/group-name": group} if group else {}
    spec = {**SPEC, "schedulerName": "headgate", "schedulingGates": [{"name": gate}]}
    return made("v1", "Pod", name, spec, annotations=notes, **metadata)


def a_job(name: str, **metadata: Any) -> Object:
    labels = {f"{KUEUE}/queue-name": "lq"}
    return made("batch/v1", "Job", name, {"suspend": True, "template": {"spec": SPEC}}, labels=labels, **metadata)


def a_workload(name: str, **metadata: Any) -> Object:
    sets = [{"name": "main", "count": 1, "template": {"spec": SPEC}}]
    return made(f"{KUEUE}/v1beta2", "Workload", name, {"queueName": "lq", "podSets": sets}, **metadata)


MADE = (
    made("v1", "Namespace", NAMESPACE),
    a_queue("small", capability={"cpu": "4"}),
    a_group("pair", NAMESPACE, minMember=2, queue="small"),
    a_pod("waits", QUEUE_GATE),
    a_pod("alone", QUEUE_GATE, "pair"),
    a_pod("single", KUEUE_GATE, labels={f"{KUEUE}/queue-name": "lq", f"{KUEUE}/managed": "true"}),
    made(f"{KUEUE}/v1beta2", "ResourceFlavor", "any"),
    made(f"{KUEUE}/v1beta2", "ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": GROUPS}),
    made(f"{KUEUE}/v1beta2", "LocalQueue", "lq", {"clusterQueue": "cq"}),
    a_job("train"),
    a_job("unclaimed"),
    a_job("gated", annotations={f"{KUEUE}/scheduling-gated-by": "example.com/data"}),
    a_workload("first"),
    made(
        "apps/v1",
        "Deployment",
        "web",
        {"selector": WEB, "template": TEMPLATE},
    ),
)

EVERYTHING = {
    "pods": ("", "get", "list", "patch"),
    "namespaces": ("", "get", "list"),
    "limitranges": ("", "list"),
    "events": ("", "list"),
    "runtimeclasses": ("node.k8s.io", "list"),
    "jobs": ("batch", "get", "list"),
    "deployments": ("apps", "get", "list"),
    "replicasets": ("apps", "get", "list"),
    "statefulsets": ("apps", "get", "list"),
    "queues": (VOLCANO, "list"),
    "podgroups": (VOLCANO, "list"),
    "workloads": (KUEUE, "get", "list"),
    "localqueues": (KUEUE, "list"),
    "clusterqueues": (KUEUE, "list"),
    "resourceflavors": (KUEUE, "list"),
    "admissionchecks": (KUEUE, "list"),
    "cohorts": (KUEUE, "list"),
}
"""Resources with their group, and the verbs that some command uses."""

IN_QUEUES = ("list pods", "list queues", "list podgroups", "list namespaces")
IN_QUOTA = (
    *("list workloads", "list localqueues", "list clusterqueues", "list resourceflavors", "list admissionchecks"),
    *("list cohorts", "list namespaces", "list limitranges", "list runtimeclasses"),
)
GATED_KINDS = ("list workloads", "list jobs", "list pods", "list deployments", "list replicasets", "list statefulsets")
COMMANDS = {
    "queues": (*IN_QUEUES, *IN_QUOTA),
    "explain queue small": IN_QUEUES,
    "explain clusterqueue cq": IN_QUOTA,
    "explain localqueue lq -n teams": IN_QUOTA,
    "explain deployment web -n teams": ("get deployments", "list replicasets", "list pods"),
    "workloads -n teams": IN_QUOTA,
    "workloads -A -o wide": IN_QUOTA,
    "workloads -n teams --cluster-queue cq": IN_QUOTA,
    "workloads -n teams --gated": GATED_KINDS,
    "workloads -A --gated --queue lq": GATED_KINDS,
    "explain pod waits -n teams": ("get pods", *IN_QUEUES),
    "explain pod alone -n teams": ("get pods", *IN_QUEUES),
    "explain pod single -n teams": ("get pods", *IN_QUEUES, *IN_QUOTA),
    "explain job train -n teams": ("get jobs", "list pods", *IN_QUOTA),
    "explain job unclaimed -n teams": ("get jobs", "get namespaces", "list events", *IN_QUOTA),
    "explain job gated -n teams": ("get jobs", "get namespaces", "list events", *IN_QUOTA),
    "explain workload first -n teams": ("list pods", *IN_QUOTA),
    "gates list -A": ("get pods", "list pods"),
    "gates list -n teams": ("get pods", "list pods"),
    f"gates lift {QUEUE_GATE} --all -n teams --dry-run": ("list pods", "patch pods"),
}
"""Commands, each with the rights that it needs for its whole answer."""

CHANGING = re.compile(r"\b\d+(s|m|m\d+s)\b|(?<=resourceVersion )\d+")
UNKNOWN = re.compile(
    r"missing right: |not known: |cannot be seen|\?|^as of resourceVersion|^held by$|^next$|, if it has none yet|"
    r"failed: missing right|^its label |^it is (not )?suspended|its annotation "
)
"""What may stand there instead of an answer: a missing right, a question mark, or what the object says of itself."""
EXPECTED = re.compile(
    r"^pod teams/\w+: it waits for its scheduler$|^its gates have to be removed$|"
    r"^workload teams/\S+: it waits for quota: no controller has processed it yet$|"
    r"^job teams/train: it waits for quota: no controller has processed it yet$|would be lifted from 0 of|"
    r"^scheduler headgate \(SchedulingGated\): Scheduling is blocked"
)
"""What the object says of itself, where that is all there is."""


@pytest.fixture(scope="module", params=SERVER_KINDS)
def server(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running_server(request.param, tmp_path_factory.mktemp(request.param), kube_binaries) as running:
        install_crds(running)
        created = running.kubectl(["create", "-f", "-"], yaml.safe_dump_all(MADE))
        assert created.exit == 0, created.stderr
        for kind, name, api in (("Job", "train", "batch/v1"), ("Pod", "single", "v1")):
            uid = running.kubectl(["get", kind, name, "-n", NAMESPACE, "-o", "jsonpath={.metadata.uid}"]).stdout
            owner = {"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": True}
            owned = running.kubectl(
                ["create", "-f", "-"], yaml.safe_dump(a_workload(f"of-{name}", ownerReferences=[owner]))
            )
            assert owned.exit == 0, owned.stderr
        for words in (
            ["create", "clusterrole", "reads", "--verb=get", "--resource=nodes"],
            ["create", "clusterrolebinding", "reads", "--clusterrole=reads", "--user=alice"],
            [
                "create",
                "rolebinding",
                "views",
                "--clusterrole=system:aggregate-to-view",
                "--user=viewer",
                "-n",
                NAMESPACE,
            ],
        ):
            assert running.kubectl(words).exit == 0
        yield running


@pytest.fixture(scope="module")
def full(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each command prints for a user that has every right."""
    grant(server, "")
    return {words: asked(server, words, tmp_path_factory.mktemp("full")) for words in COMMANDS}


def grant(server: Server, without: str) -> None:
    """All rights but one, and not before the server knows."""
    rules = [
        {"apiGroups": [group], "resources": [plural], "verbs": verbs}
        for plural, (group, *listed) in EVERYTHING.items()
        if (verbs := [verb for verb in listed if f"{verb} {plural}" != without])
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reads"}}
    body = json.dumps({**role, "rules": rules}).encode()
    assert server.request("PUT", f"{CLUSTER_ROLES}/reads", JSON_TYPE, body).status == 200
    wait_for(lambda: all(may(server, right) is (right != without) for right in all_rights()))


def all_rights() -> list[str]:
    return [f"{verb} {plural}" for plural, (_, *verbs) in EVERYTHING.items() for verb in verbs]


def may(server: Server, right: str) -> bool:
    verb, plural = right.split()
    attributes = {"verb": verb, "resource": plural, "group": EVERYTHING[plural][0], "namespace": NAMESPACE}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = server.request("POST", path, {**JSON_TYPE, **bearing(ALICE)}, json.dumps(body).encode())
    return bool(answer.json()["status"]["allowed"])


def asked(server: Server, words: str, folder: Path, token: str = ALICE) -> list[str]:
    """All that the command prints, on both outputs; without ages, resourceVersions and widths of columns."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    theirs = folder / "kubeconfig"
    theirs.write_text(yaml.safe_dump(config))
    run = CliRunner().invoke(main, [*words.split(), "--kubeconfig", str(theirs)])
    assert run.exit_code in (0, 1), (run.output, run.exception)
    assert run.exception is None or isinstance(run.exception, SystemExit), run.exception
    return [" ".join(CHANGING.sub("<changing>", line).split()) for line in run.output.splitlines()]


@pytest.mark.parametrize("right", all_rights())
def test_a_missing_right_is_named_and_nothing_is_claimed_without_it(
    server: Server, full: dict[str, list[str]], right: str, tmp_path: Path
) -> None:
    grant(server, right)
    verb, plural = right.split()
    named = f"missing right: {verb} {plural}" + (f".{group}" if (group := EVERYTHING[plural][0]) else "")
    wrong: dict[str, object] = {}
    for words, needed in COMMANDS.items():
        lines = asked(server, words, tmp_path)
        if right not in needed:
            if lines != full[words]:
                wrong[words] = "it does not need the right, and says", lines
            continue
        whole = "\n".join(full[words])
        claimed = [line for line in lines if not UNKNOWN.search(line) and not EXPECTED.search(line)]
        claimed = [line for line in claimed if any(part not in whole for part in line.split(", "))]
        if claimed or not any(named in line for line in lines):
            wrong[words] = claimed, lines
    assert wrong == {}


def test_a_tenant_with_view_gets_what_is_readable_and_the_missing_rights(server: Server, tmp_path: Path) -> None:
    def output(words: str) -> str:
        return "\n".join(asked(server, f"{words} -n teams", tmp_path, VIEWER))

    workloads = output("workloads")
    assert "missing right: list workloads.kueue.x-k8s.io in namespace teams" in workloads
    assert "No Workload found" not in workloads
    job = output("explain job unclaimed")
    assert "its Workload cannot be seen: missing right: list workloads.kueue.x-k8s.io in namespace teams" in job
    assert "its label kueue.x-k8s.io/queue-name names LocalQueue lq" in job
    assert "has to be created" not in job
    pod = output("explain pod waits")
    assert "queue small" in pod
    assert "Scheduling is blocked due to non-empty scheduling gates" in pod
    assert "missing right: list pods in all namespaces" in pod
    assert "in namespace teams" not in output("gates list")


def test_refused_credentials_are_reported_and_no_state_is_claimed(server: Server, tmp_path: Path) -> None:
    for words in COMMANDS:
        lines = asked(server, words, tmp_path, "no-such-token")
        assert any("the server does not accept the credentials" in line for line in lines), (words, lines)
        assert not any("found" in line or "has to be" in line for line in lines), (words, lines)
