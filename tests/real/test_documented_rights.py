"""Every documented command, on a real API server, as the service account that `examples/*-rights.yaml` make for it.

The server's audit log must have no refusal, also for optional requests: administrators see refusals in their logs.
Failure paths run as well, so at the end a scenario has used every right of every component.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness import failure_paths, rights
from harness.embedded_server import HEADGATE
from harness.failure_paths import FAILURE_PATHS
from harness.faulty_proxy import FaultyProxy
from harness.processes import Process, free_ports
from harness.rights import EXAMPLES, AuditedServer
from harness.scheduler_process import send, wait_for
from harness.server import JSON_TYPE
from headgate.install.rights import RULES, atoms
from rights_cases import CASES, FURTHER, GATES_ONLY, INSTALL, QUOTA, SCHEDULER, WEBHOOKS, Case

pytestmark = pytest.mark.real


def _runs(command: str, case: Case) -> bool:
    """Whether it runs until it is stopped."""
    return command.startswith("headgate run") and "--for" not in case.words


TYPED = {
    **{command: case for command, case in CASES.items() if command != "headgate install-crds"},
    **{f"headgate {words}": case for words, case in FURTHER.items()},
}
SHORT = [command for command, case in TYPED.items() if not _runs(command, case)]
RUNNING = [command for command, case in TYPED.items() if _runs(command, case)]
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: headgate
"""
NEW_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: not-submitted}
spec: {schedulerName: headgate, containers: [{name: main, image: example}]}
"""
QUEUED = 3
FOUND = 1


@pytest.fixture(scope="module")
def server(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedServer]:
    folder = tmp_path_factory.mktemp("rights")
    made = AuditedServer(folder / "server", kube_binaries)
    try:
        _installed(made, folder)
        rights.prepare(made)
        yield made
    finally:
        made.disconnect()
        made.stop()


def _installed(server: AuditedServer, folder: Path) -> None:
    """`headgate install-crds`, which is documented, too: at first and again."""
    kubeconfig = server.configured(INSTALL, folder)
    for _ in range(2):
        done = rights.headgate(kubeconfig, ["install-crds"])
        assert done.returncode == 0, done.stderr
    assert server.refusals(INSTALL) == []


def _words(command: str, case: Case, folder: Path) -> list[str]:
    scheduler = folder / "scheduler.yaml"
    scheduler.write_text(CONFIGURATION)
    (folder / "new.yaml").write_text(NEW_POD)
    (port,) = free_ports(1)
    files = {
        "scheduler": scheduler,
        "volcano": EXAMPLES / "volcano" / "volcano-scheduler.conf",
        "kinds": EXAMPLES / "job-kinds.yaml",
        "headgate": EXAMPLES / "configuration" / "headgate.yaml",
        "kueue": EXAMPLES / "configuration" / "kueue.yaml",
        "folder": folder,
        "new": folder / "new.yaml",
        "port": port,
    }
    return shlex.split((case.words or command.removeprefix("headgate ")).format_map(files))


@pytest.mark.parametrize("command", SHORT)
def test_a_command_that_answers_is_refused_nothing(command: str, server: AuditedServer, tmp_path: Path) -> None:
    case = TYPED[command]
    before = server.refusals(case.account)
    words = _words(command, case, tmp_path)
    done = rights.headgate(server.configured(case.account, tmp_path), words)
    expected = (0, QUEUED) if words[:2] == ["explain", "-f"] else (0, FOUND) if words[0] == "doctor" else (0,)
    assert done.returncode in expected, (done.stdout, done.stderr)
    assert "forbidden" not in done.stdout + done.stderr
    assert server.refusals(case.account) == before


@pytest.mark.parametrize("command", RUNNING)
def test_a_component_that_runs_is_refused_nothing(command: str, server: AuditedServer, tmp_path: Path) -> None:
    case = TYPED[command]
    before = server.refusals(case.account)
    words = _words(command, case, tmp_path)
    components = set(words[words.index("--components") + 1].split(",") if "--components" in words else ["scheduler"])
    if "webhooks" in components:
        (port,) = free_ports(1)
        words += ["--webhook-listen", f"127.0.0.1:{port}", "--shutdown-delay", "0"]
        if "--webhook-service" in words:  # nothing routes Services here, and jobs are refused without their webhooks
            place = words.index("--webhook-service")
            words[place : place + 2] = ["--webhook-url", f"https://127.0.0.1:{port}"]
    name = words[words.index("--scheduler-name") + 1] if "--scheduler-name" in words else "headgate"
    config = server.configured(case.account, tmp_path)
    process = Process([str(HEADGATE), *words, "--kubeconfig", str(config)], tmp_path / "run.log")
    try:
        by_queues = name in ("headgate", "volcano") and "{scheduler}" not in case.words
        _live(server, process, components, name, by_queues=by_queues, writes="--dry-run" not in words)
        if "SchedulingGatedBy=true" in "".join(words):
            rights.reporting_gated_jobs(server, process)
        if "--podgroups-for-bare-pods" in words:
            rights.grouping_bare_pods(server, process, name)
    finally:
        process.stop()
        _clean(server, components, writes="--dry-run" not in words)
    log = process.log.read_text()
    assert "stopped" in log, log
    assert "forbidden" not in log
    assert server.refusals(case.account) == before


def _live(
    server: AuditedServer, process: Process, components: set[str], name: str, *, by_queues: bool, writes: bool
) -> None:
    if "webhooks" in components:
        rights.serving_webhooks(server, process, name)
    if not writes:
        rights.rehearsing(server, process, name)
    elif "scheduler" in components:
        if by_queues:
            rights.queueing(server, process, name)
        rights.scheduling(server, process, name)
    if "gates" in components:
        rights.ungating(server, process)
    if "quota" in components:
        rights.giving_quota(server, process, name)
    if "jobs" in components:
        rights.keeping_jobs(server, process, "quota" if "quota" in components else "")
    if "controllers" in components:
        rights.controlling(server, process, name)


def _clean(server: AuditedServer, components: set[str], *, writes: bool) -> None:
    if "scheduler" in components and writes:
        rights.after_scheduling(server)
    if "gates" in components:
        rights.after_ungating(server)
    if "webhooks" in components:
        rights.after_webhooks(server)
    if "controllers" in components:
        rights.after_controlling(server)


@pytest.mark.parametrize("path", FAILURE_PATHS)
def test_a_failure_path_is_refused_nothing(path: str, server: AuditedServer, tmp_path: Path) -> None:
    case = FAILURE_PATHS[path]
    before = server.refusals(case.account)
    server.kubectl(["create", "namespace", failure_paths.NAMESPACE])
    (port,) = free_ports(1)
    words = shlex.split(case.words.format(port=port))
    words += ["--webhook-listen", f"127.0.0.1:{port}"] if "--webhook-url" in words else []
    proxy = FaultyProxy(server, tmp_path)
    config = failure_paths.configured(server, proxy, case.account, tmp_path)
    process = Process([str(HEADGATE), *words, "--kubeconfig", str(config)], tmp_path / "run.log")
    try:
        case.scenario(server, process, proxy)
    finally:
        proxy.end_faults()
        process.stop()
        proxy.close()
        rights.after_webhooks(server)
    assert server.refusals(case.account) == before


@pytest.mark.parametrize(("kind", "plural"), [("Job", "jobs"), ("Pod", "pods")])
def test_a_workload_blocks_the_deletion_of_its_owner_by_a_right_to_finalizers(
    kind: str, plural: str, server: AuditedServer
) -> None:
    """The admission plugin OwnerReferencesPermissionEnforcement asks for it; the audit log does not show that."""
    group = "batch" if kind == "Job" else ""
    path = f"/apis/batch/v1/namespaces/default/{plural}" if group else f"/api/v1/namespaces/default/{plural}"
    owner = send(server, "GET", path)["items"][0]["metadata"]
    reference = {"kind": kind, "name": owner["name"], "uid": owner["uid"], "controller": True}
    reference |= {"apiVersion": "batch/v1" if group else "v1", "blockOwnerDeletion": True}
    spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "blocks", "ownerReferences": [reference]},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": spec}}]},
    }
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/headgate-jobs"
    granted = send(server, "GET", role)["rules"]
    without = [each for each in granted if each["resources"] != [f"{plural}/finalizers"]]
    assert len(without) == len(granted) - 1
    token = server.typed("create", "token", "-n", *QUOTA.split("/")).strip()
    create = partial(_created, server, token, body)
    try:
        wait_for(lambda: create() == 201)
        send(server, "PATCH", role, {"rules": without}, "application/merge-patch+json")
        wait_for(lambda: create() == 403)
    finally:
        send(server, "PATCH", role, {"rules": granted}, "application/merge-patch+json")


def _created(server: AuditedServer, token: str, body: dict[str, Any]) -> int:
    path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads?dryRun=All"
    headers = {**JSON_TYPE, "Authorization": f"Bearer {token}"}
    return server.request("POST", path, headers, json.dumps(body).encode()).status


ELSEWHERE: dict[str, dict[str, str]] = {
    "scheduler": {"watch nodeclaims": "test_karpenter_leases.py, with Karpenter's kinds"},
    "gates": {},
    "webhooks": {},
    "quota": {},
    "jobs": {
        "update jobs/finalizers": "the test before this one",
        "update pods/finalizers": "the test before this one",
    },
}
"""Rights whose use the audit log does not show, by component, and the scenario that uses them."""


@pytest.mark.parametrize("component", RULES)
def test_every_right_of_a_component_is_used_by_a_scenario(component: str, server: AuditedServer) -> None:
    """It is the last of this file: the others are the scenarios."""
    accounts = (ACCOUNTS[component], WEBHOOKS, GATES_ONLY)  # the last two run several components in one process
    used = set().union(*map(server.used_rights, accounts))
    granted = {(group, resource, name, verb) for _, group, resource, name, verb in atoms(RULES[component])}
    unused = {" ".join(filter(None, (verb, resource, name))) for group, resource, name, verb in granted - used}
    assert sorted(unused) == sorted(ELSEWHERE[component]), "remove these rights, or write a scenario for them"


ACCOUNTS = {"scheduler": SCHEDULER, "gates": GATES_ONLY, "webhooks": WEBHOOKS, "quota": QUOTA, "jobs": QUOTA}
