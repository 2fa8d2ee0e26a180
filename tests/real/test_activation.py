"""Activation by labels (KEP-6915) on the embedded server and on a real one: `headgate hold` and `headgate resume`, the
feature gate switched off and on, and the example controller that patches jobs that wait too long."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.embedded_server import HEADGATE
from harness.processes import Process
from harness.real_server import REPOSITORY
from harness.server_kinds import SERVER_KINDS
from harness.webhooks import sent
from headgate.kube import conditions
from queued_objects import Wire, collection
from real.kueue_cluster import NAMESPACE, KueueCluster

pytestmark = pytest.mark.real

JOBS = collection("Job", NAMESPACE)
ON = "ActivationLabels=true"
EXAMPLE = REPOSITORY / "examples" / "controllers" / "shrink_queued_jobs.py"


@pytest.fixture(scope="module", params=SERVER_KINDS)
def cluster(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KueueCluster]:
    made = KueueCluster(request.param, tmp_path_factory.mktemp(request.param), kube_binaries, ON)
    yield made
    made.stop()


def typed(cluster: KueueCluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(HEADGATE), *words, "--kubeconfig", str(cluster.server.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def add(cluster: KueueCluster, name: str, queue: str, cpu: str = "1", **more: object) -> None:
    answer = cluster.create("Job", name, queue=queue, cpu=cpu, **more)
    assert answer.status == 201, answer.body
    cluster.until(lambda: cluster.workloads(name))


def job(cluster: KueueCluster, name: str) -> Wire:
    return cluster.get(f"{JOBS}/{name}")


def runs(cluster: KueueCluster, name: str) -> bool:
    return job(cluster, name)["spec"]["suspend"] is False


def labels(obj: Wire) -> list[str]:
    return [key for key in obj["metadata"].get("labels") or {} if key.endswith("activate")]


def is_held(cluster: KueueCluster, name: str) -> bool:
    (workload,) = cluster.workloads(name)
    is_consumed = not labels(job(cluster, name)) and not labels(workload)
    return is_consumed and workload["spec"]["active"] is False


def room(cluster: KueueCluster, queue: str, cpu: int) -> None:
    """Another limit; the witness shows that the queue has been looked at since."""
    quota = [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}]
    spec = {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": quota}]}}
    answer = cluster.patch(f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{queue}", spec)
    assert answer.status == 200, answer.body
    add(cluster, f"witness-{queue}-{cpu}", queue, cpu="100m")
    cluster.until(lambda: runs(cluster, f"witness-{queue}-{cpu}"))


def test_the_commands_hold_a_job_and_resume_it_and_the_job_says_so(cluster: KueueCluster) -> None:
    cluster.queue("commands", "500m")
    add(cluster, "train", "commands")
    held = typed(cluster, "hold", "train")
    assert held.returncode == 0, held.stderr
    assert held.stdout.startswith(f"job {NAMESPACE}/train: held; its Workload job-train-")
    assert is_held(cluster, "train")
    room(cluster, "commands", 3)
    assert not runs(cluster, "train"), "there is quota for it"
    explained = typed(cluster, "explain", "job", "train").stdout
    assert "it is deactivated by the label kueue.x-k8s.io/deactivate" in explained
    resumed = typed(cluster, "resume", "job/train")
    assert resumed.returncode == 0, resumed.stderr
    cluster.until(lambda: runs(cluster, "train"))
    events = cluster.until(
        lambda: found if len(found := _events(cluster, "train")) >= 2 else None  # they are written later
    )
    assert {"DeactivatedByLabel", "ActivatedByLabel"} <= set(events)
    late = typed(cluster, "hold", "train")
    assert late.returncode == 1
    assert "only a suspended job can be held" in late.stderr
    missing = typed(cluster, "hold", "nobody")
    assert missing.returncode == 1
    assert f"there is no job nobody in namespace {NAMESPACE}" in missing.stderr


def _events(cluster: KueueCluster, name: str) -> list[str]:
    path = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name={name}"
    reasons = [each["reason"] for each in cluster.get(path)["items"]]
    return [each for each in reasons if each.endswith("ByLabel")]


def test_a_hold_outlives_a_workload_that_is_deleted_without_its_finalizer(cluster: KueueCluster) -> None:
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"
    cluster.queue("deleted", "500m")
    add(cluster, "kept", "deleted")
    assert typed(cluster, "hold", "kept").returncode == 0
    (before,) = cluster.workloads("kept")
    place = f"{path}/{before['metadata']['name']}"
    assert cluster.patch(place, {"metadata": {"finalizers": None}}).status == 200
    sent(cluster.server, "DELETE", place)
    cluster.until(
        lambda: [each["metadata"]["uid"] for each in cluster.workloads("kept")] != [before["metadata"]["uid"]]
    )
    cluster.until(lambda: cluster.workloads("kept") and is_held(cluster, "kept"))
    room(cluster, "deleted", 3)
    assert not runs(cluster, "kept"), "there is quota for it"
    assert cluster.patch(place, {"metadata": {"finalizers": None}}).status == 200
    cluster.until(lambda: cluster.workloads("kept")[0]["metadata"].get("finalizers"))
    assert typed(cluster, "resume", "kept").returncode == 0
    cluster.until(lambda: runs(cluster, "kept"))


def test_a_false_condition_of_a_workload_that_is_not_tried_is_corrected(cluster: KueueCluster) -> None:
    """The second workload of its shape waits for the first."""
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"
    cluster.queue("behind", 1)
    for name in ("behind-a", "behind-b", "behind-c"):
        add(cluster, name, "behind")
    cluster.until(lambda: runs(cluster, "behind-a"))
    (waits,) = cluster.workloads("behind-c")
    false = {"type": "QuotaReserved", "status": "False", "reason": "Misconfigured", "message": "there is no namespace"}
    body = {"status": {"conditions": [{**false, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    assert cluster.patch(f"{path}/{waits['metadata']['name']}/status", body).status == 200

    def reason() -> str:
        shown = cluster.workloads("behind-c")[0]["status"]["conditions"]
        return str((conditions.find(shown, "QuotaReserved") or {}).get("reason"))

    cluster.until(lambda: reason() == "WaitingForQuota")


def test_a_label_does_not_undo_what_was_written_to_the_workload(cluster: KueueCluster) -> None:
    cluster.queue("banned", 1)
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"
    add(cluster, "large", "banned", cpu="9")
    (workload,) = cluster.workloads("large")
    answer = cluster.patch(f"{path}/{workload['metadata']['name']}", {"spec": {"active": False}})
    assert answer.status == 200, answer.body
    resumed = typed(cluster, "resume", "large")
    assert resumed.returncode == 1
    assert "was deactivated by another client or by a limit" in resumed.stderr
    assert not labels(job(cluster, "large"))
    assert cluster.workloads("large")[0]["spec"]["active"] is False


@pytest.fixture
def controller(cluster: KueueCluster, tmp_path: Path) -> Iterator[Process]:
    command = [sys.executable, str(EXAMPLE), "--kubeconfig", str(cluster.server.kubeconfig)]
    running = Process(command, tmp_path / "controller.log")
    running.wait_until(lambda: "ready\n" in running.log.read_text(), 30.0)
    yield running
    running.stop()


def test_the_example_controller_makes_a_job_smaller_that_waits_too_long(
    cluster: KueueCluster, controller: Process
) -> None:
    cluster.queue("small", 1)
    options = {"example.com/shrink-after": "1", "example.com/shrink-to": '{"cpu": "200m"}'}
    add(cluster, "patient", "small", cpu="4")
    add(cluster, "shrinks", "small", cpu="4", annotations=options)
    cluster.until(lambda: runs(cluster, "shrinks"))
    (workload,) = cluster.workloads("shrinks")
    (assigned,) = workload["status"]["admission"]["podSetAssignments"]
    assert assigned["resourceUsage"] == {"cpu": "200m"}
    found = job(cluster, "shrinks")
    assert found["metadata"]["annotations"]["example.com/shrunk"] == "true"
    assert not labels(found)
    assert not runs(cluster, "patient"), "it did not ask for it"
    cluster.until(lambda: "shrinks: smaller" in controller.log.read_text())  # it says so after the server has acted
    said = controller.log.read_text()
    assert said.index("shrinks: deactivated") < said.index("shrinks: smaller")


def test_off_lets_held_jobs_go_and_on_again_holds_those_that_still_wait(cluster: KueueCluster) -> None:
    cluster.queue("switched", "500m")
    for name in ("goes", "stays"):
        add(cluster, name, "switched", cpu="1" if name == "goes" else "9")
        assert typed(cluster, "hold", name).returncode == 0
    cluster.switch("")
    cluster.until(lambda: all(cluster.workloads(name)[0]["spec"]["active"] for name in ("goes", "stays")))
    room(cluster, "switched", 2)
    cluster.until(lambda: runs(cluster, "goes"))
    overdue = typed(cluster, "hold", "stays", "--wait", "1")
    assert overdue.returncode == 1
    assert "ActivationLabels=true" in overdue.stderr
    assert labels(job(cluster, "stays")) == ["kueue.x-k8s.io/deactivate"]
    cluster.switch(ON)
    cluster.until(lambda: is_held(cluster, "stays"))
    cluster.until(lambda: not labels(cluster.workloads("goes")[0]))
    assert runs(cluster, "goes"), "what was admitted while the feature was off goes on"
    assert cluster.workloads("goes")[0]["spec"]["active"] is True
