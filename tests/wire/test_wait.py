"""`headgate wait` on a running cluster: states, exit codes, progress, deletion and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cluster import Cluster
from harness.embedded_server import HEADGATE
from harness.scheduler_process import wait_for
from harness.users import ALICE, TOKENS

Wire = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
GATE = "example.com/data"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("wait")
    (folder / "tokens").write_text(TOKENS)
    with Cluster(folder / "data", "--nodes", "1", "--token-auth-file", str(folder / "tokens")) as running:
        for path, kind, name, spec in QUEUES:
            body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}
            create(running, f"/apis/kueue.x-k8s.io/v1beta2/{path}", body)
        yield running


RESOURCES = [{"name": "cpu", "nominalQuota": "1"}]
GROUPS = [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": RESOURCES}]}]
QUEUES: tuple[tuple[str, str, str, Wire], ...] = (
    ("resourceflavors", "ResourceFlavor", "any", {}),
    ("clusterqueues", "ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": GROUPS}),
    ("namespaces/default/localqueues", "LocalQueue", "lq", {"clusterQueue": "cq"}),
)


def a_pod(name: str, gates: tuple[str, ...] = (), **annotations: str) -> Wire:
    spec: Wire = {"schedulerName": "headgate", "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": name, "annotations": {key.replace("_", "-"): each for key, each in annotations.items()}}
    return {"metadata": metadata, "spec": {**spec, "schedulingGates": [{"name": each} for each in gates]}}


def a_job(name: str, run_for: str = "never", exit_code: str = "0", **spec: Any) -> Wire:
    notes = {"headgate.dev/run-for": run_for, "headgate.dev/exit-code": exit_code}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"annotations": notes}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": "lq"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"template": template, "suspend": True, **spec}}


def create(cluster: Cluster, path: str, body: Wire) -> Wire:
    status, answer = cluster.ask("POST", path, body)
    assert status == 201, answer
    assert isinstance(answer, dict)
    return answer


def command(cluster: Cluster, *words: str) -> list[str]:
    return [str(HEADGATE), "wait", *words, "--kubeconfig", str(cluster.data / "kubeconfig")]


def waited(cluster: Cluster, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(command(cluster, *words), capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def started(cluster: Cluster, log: Path, *words: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(command(cluster, *words), stdout=out, stderr=subprocess.STDOUT)


def test_a_lifted_gate_ends_the_wait_and_the_reason_is_shown_before(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, PODS, a_pod("gated", (GATE, "example.com/other")))
    log = tmp_path / "log"
    waiting = started(cluster, log, "pod", "gated", "--for", f"gate-lifted={GATE}")
    wait_for(lambda: f"pod default/gated: held by {GATE}" in log.read_text())
    code, _, complaint = waited(cluster, "pod/gated", "--for", "gate-lifted", "--timeout", "1s")
    assert (code, f"not gate-lifted within 1 s: pod default/gated: held by {GATE}, " in complaint) == (3, True)
    lifted = subprocess.run(
        [str(HEADGATE), "gates", "lift", GATE, "--all", "--kubeconfig", str(cluster.data / "kubeconfig")],
        capture_output=True,
        check=False,
    )
    assert lifted.returncode == 0, lifted.stderr
    assert waiting.wait(30) == 0
    assert log.read_text().splitlines()[-1] == f"pod default/gated: gate {GATE} is gone"


def test_a_job_is_admitted_when_another_one_ends_and_may_fail(cluster: Cluster, tmp_path: Path) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    create(cluster, jobs, a_job("first"))
    assert waited(cluster, "job", "first", "--for", "admitted", "--timeout", "30s")[0] == 0
    for state in ("scheduled", "running"):
        assert waited(cluster, "job", "first", "--for", state, "--timeout", "30s")[0] == 0, state
    create(cluster, jobs, a_job("second", "1s"))
    log = tmp_path / "log"
    waiting = started(cluster, log, "job", "second", "--for", "admitted")
    wait_for(lambda: "it waits for quota" in log.read_text())
    status, _ = cluster.ask("DELETE", f"{jobs}/first?propagationPolicy=Background")
    assert status == 200
    assert waiting.wait(30) == 0, log.read_text()
    assert waited(cluster, "job", "second", "--for", "finished", "--timeout", "30s")[0] == 0
    create(cluster, jobs, a_job("third", "1s", "1", backoffLimit=0))
    code, _, complaint = waited(cluster, "job", "third", "--for", "finished", "--timeout", "30s")
    assert (code, "job default/third: it has failed" in complaint) == (4, True), complaint


def test_an_object_that_is_deleted_or_created_again_is_another_one(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, PODS, a_pod("again", (GATE,)))
    logs = [tmp_path / "one", tmp_path / "any"]
    one = started(cluster, logs[0], "pod", "again", "--for", "scheduled")
    every = started(cluster, logs[1], "pod", "again", "--for", "scheduled", "--any-uid")
    wait_for(lambda: all("held by" in log.read_text() for log in logs))
    assert cluster.ask("DELETE", f"{PODS}/again?gracePeriodSeconds=0")[0] == 200
    assert one.wait(30) == 5
    assert "was deleted" in logs[0].read_text()
    create(cluster, PODS, a_pod("again"))
    assert every.wait(30) == 0, logs[1].read_text()
    assert "it is on node" in logs[1].read_text()


def test_an_object_that_does_not_exist_is_an_error(cluster: Cluster) -> None:
    code, _, complaint = waited(cluster, "pod", "absent", "--for", "running")
    assert (code, "there is no pod default/absent" in complaint) == (1, True)
    code, _, complaint = waited(cluster, "pod", "absent", "--for", "runing")
    assert (code, "Did you mean 'running'?" in complaint) == (2, True)
    code, _, complaint = waited(cluster, "workload", "w", "--for", "running")
    assert (code, "a Workload is never running" in complaint) == (2, True)


def test_a_missing_right_is_named(cluster: Cluster, tmp_path: Path) -> None:
    config = yaml.safe_load((cluster.data / "kubeconfig").read_text())
    config["users"][0]["user"] = {"token": ALICE}
    theirs = tmp_path / "kubeconfig"
    theirs.write_text(yaml.safe_dump(config))
    words = [str(HEADGATE), "wait", "pod", "x", "--for", "running", "--kubeconfig", str(theirs)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "missing right: list pods in namespace default" in done.stderr) == (1, True), done.stderr


def test_ctrl_c_ends_the_wait_cleanly(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, PODS, a_pod("held", (GATE,)))
    log = tmp_path / "log"
    waiting = started(cluster, log, "pod", "held", "--for", "running")
    wait_for(lambda: "held by" in log.read_text())
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(30) == 130
    assert log.read_text().splitlines()[1:] == ["headgate wait: interrupted"]
