"""Admission of jobs, pods and owners of pods to Kueue's queues, on a real server with the webhooks of `headgate run
--components webhooks,jobs`: the results are those of the embedded server.

Another process holds the Lease of the job controllers meanwhile, so that no controller suspends or resumes the objects
of the cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded import Embedded
from harness.real_server import RealServer
from harness.scheduler_process import wait_for
from harness.server import Server
from harness.webhooks import WebhookProcess, prepare, sent
from headgate.jobs.settings import JobSettings
from headgate.kube.feature_gates import FeatureGates
from kueue_admission_cases import CASES, DoorCase
from queued_objects import GATE, MANAGED, QUEUE, Wire, collection, gates, queued
from unit.admission.test_kueue_admission import DEFAULT, a_server
from unit.jobs import training

pytestmark = pytest.mark.real

FEATURES = ("--feature-gates", "SchedulingGatedBy=true")
FLAGS = ("--components", "webhooks,jobs", *FEATURES, "--job-kinds", str(training.FILE))
LEASE = {
    "metadata": {"name": "headgate-jobs", "namespace": "kube-system"},
    "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600, "renewTime": "2099-01-01T00:00:00.000000Z"},
}
KINDS = ("Job", "Pod", "Deployment", "ReplicaSet", "StatefulSet")


@pytest.fixture(scope="module")
def server(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    running = RealServer(tmp_path_factory.mktemp("doors-real"), kube_binaries)
    try:
        prepare(running)
        made(running, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", LEASE)
        made(running, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", training.DEFINITION)
        for name in ("ns", "defaults"):
            made(running, "/api/v1/namespaces", {"metadata": {"name": name}})
        made(running, "/apis/kueue.x-k8s.io/v1beta2/namespaces/defaults/localqueues", DEFAULT)
        yield running
    finally:
        running.disconnect()
        running.stop()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doors-log") / "webhooks.log"


@pytest.fixture(scope="module")
def webhooks(server: RealServer, log: Path) -> Iterator[WebhookProcess]:
    process = WebhookProcess(server, log, *FLAGS)
    try:
        await_door(server, process)
        yield process
    finally:
        process.stop()


def await_door(server: Server, process: WebhookProcess) -> None:
    """An API server learns of webhooks by a watch, and of each by itself."""

    def is_asked(kind: str) -> bool:
        return sent(server, "POST", f"{collection(kind)}?dryRun=All", queued(kind, queue="Not_A_Name")).status == 403

    wait_for(lambda: all(map(is_asked, KINDS)), process)
    pod = queued("Pod", queue="")
    path = f"{collection('Pod', 'defaults')}?dryRun=All"
    wait_for(lambda: gates(sent(server, "POST", path, pod).json()) == [GATE], process)


def made(server: Server, path: str, body: Wire) -> Wire:
    answer = sent(server, "POST", path, body)
    assert answer.status == 201, answer.body
    found: Wire = answer.json()
    return found


def picked(obj: Wire) -> Wire:
    """What admission has a say in."""
    metadata, spec = obj["metadata"], obj["spec"]
    template = (spec.get("template") or {}).get("metadata") or {}
    return {
        "labels": metadata.get("labels"),
        "annotations": sorted(metadata.get("annotations") or {}),
        "role": (metadata.get("annotations") or {}).get("kueue.x-k8s.io/role-hash"),
        "finalizers": metadata.get("finalizers"),
        "gates": spec.get("schedulingGates"),
        "suspend": spec.get("suspend"),
        "template labels": _without_names(template.get("labels")),
        "template annotations": template.get("annotations"),
    }


def _without_names(labels: Wire | None) -> Wire:
    """A real server writes the name and uid of a Job into its template, as the embedded one does."""
    return {key: value for key, value in (labels or {}).items() if not key.endswith(("-uid", "job-name"))}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_objects_are_admitted_or_refused_with_the_expected_message(
    case: DoorCase, server: RealServer, webhooks: WebhookProcess
) -> None:
    name = f"case-{CASES.index(case)}"
    body = {**case.body, "metadata": {**case.body["metadata"], "name": name}}
    answer = sent(server, "POST", collection(case.kind), body)
    for suffix, change in case.changes:
        assert answer.status in (200, 201), answer.body
        answer = sent(server, "PATCH", f"{collection(case.kind)}/{name}{suffix}", change)
    if not case.refusal:
        assert answer.status in (200, 201), answer.body
    else:
        assert answer.status == 403, answer.body
        assert answer.json()["message"].endswith(f"denied the request: {case.refusal}")


def outcomes(kind: str, server: Server, twin: Embedded, **more: Any) -> list[Wire]:
    bodies = [queued(kind, f"twin-{kind.lower()}", **more)] * 2
    path = f"{collection(kind, 'defaults' if more.get('queue') == '' else 'ns')}?dryRun=All"
    there = made(server, path, bodies[0])
    return [picked(there), picked(twin.post(collection(kind), bodies[1]).body)]


@pytest.mark.parametrize("kind", KINDS)
def test_both_servers_make_the_same_of_what_names_a_queue(
    kind: str, server: RealServer, webhooks: WebhookProcess
) -> None:
    labels = {"kueue.x-k8s.io/priority-class": "high"}
    real, embedded = outcomes(kind, server, a_server(features=FeatureGates(scheduling_gated_by=True)), labels=labels)
    assert real == embedded


@pytest.mark.parametrize("kind", KINDS)
def test_both_servers_send_what_names_no_queue_to_the_default_one(
    kind: str, server: RealServer, webhooks: WebhookProcess
) -> None:
    real, embedded = outcomes(kind, server, a_server(JobSettings(), default_queue=True), queue="")
    assert real == embedded
    assert real["labels"][QUEUE] == "default"


def test_the_pods_of_a_job_that_waits_do_not_wait_once_more(server: RealServer, webhooks: WebhookProcess) -> None:
    """The pod is created directly after the job: the webhook reads what its watch has not delivered yet."""
    job = made(server, collection("Job"), queued("Job", "parent"))
    pod = made(server, collection("Pod"), queued("Pod", "parent-x", owner=job))
    assert gates(pod) == []
    assert MANAGED not in pod["metadata"]["labels"]


def test_the_pods_of_a_stateful_set_are_one_group_of_its_size(server: RealServer, webhooks: WebhookProcess) -> None:
    owner = made(server, collection("StatefulSet"), queued("StatefulSet", "db", replicas=3))
    template = owner["spec"]["template"]["metadata"]
    told = {"labels": template["labels"], "annotations": template["annotations"]}
    pod = made(server, collection("Pod"), queued("Pod", "db-0", owner=owner, **told))
    assert gates(pod) == [GATE]
    annotations = pod["metadata"]["annotations"]
    assert annotations["kueue.x-k8s.io/pod-group-name"].startswith("statefulset-db-")
    assert annotations["kueue.x-k8s.io/pod-group-total-count"] == "3"


def test_a_kind_from_a_file_waits_from_the_start_and_keeps_the_rules(
    server: RealServer, webhooks: WebhookProcess
) -> None:
    path = training.RUNS.collection_path("ns")
    bad = training.a_run("bad", queue="Not_A_Name")
    wait_for(lambda: sent(server, "POST", f"{path}?dryRun=All", bad).status == 403, webhooks)
    run = made(server, path, training.a_run("a"))
    assert run["spec"]["suspend"] is True
    gate = {"metadata": {"annotations": {"kueue.x-k8s.io/scheduling-gated-by": "example.com/late"}}}
    refused = sent(server, "PATCH", f"{path}/a", gate).json()["message"]
    assert refused.endswith("Forbidden: cannot be added after creation")
    pod = made(server, collection("Pod"), queued("Pod", "of-a-run", owner=run))
    assert gates(pod) == []


def test_while_the_webhooks_are_down_only_objects_that_name_a_queue_are_refused(
    server: RealServer, webhooks: WebhookProcess, log: Path
) -> None:
    webhooks.stop()
    try:
        for kind in KINDS:
            refused = sent(server, "POST", collection(kind), queued(kind, "outage"))
            assert refused.status == 500
            assert "failed calling webhook" in refused.json()["message"]
            made(server, collection(kind), queued(kind, "outage", queue=""))
        refused = sent(server, "POST", training.RUNS.collection_path("ns"), training.a_run("outage"))
        assert (refused.status, "failed calling webhook" in refused.json()["message"]) == (500, True)
        made(server, collection("Pod", "kube-system"), queued("Pod", "outage"))
        moved = {"metadata": {"labels": {"x": "y"}}}
        assert sent(server, "PATCH", f"{collection('Job')}/outage", moved).status == 200
    finally:
        again = WebhookProcess(server, log, *FLAGS, port=webhooks.port)
    try:
        await_door(server, again)
        assert gates(made(server, collection("Pod"), queued("Pod", "after"))) == [GATE]
    finally:
        again.stop()
