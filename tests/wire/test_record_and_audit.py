"""``headgate record`` and ``headgate audit`` beside a running cluster: kills, restarts, stores, missing rights."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cluster import Cluster
from harness.embedded_server import HEADGATE
from harness.headgate_cli import headgate
from harness.queues import QUEUES, a_queue
from harness.scheduler_process import wait_for
from headgate.capacity.names import OPT_IN, QUEUE_NAME

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
TOKENS = "nobody-token,nobody,nobody\n"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(TOKENS)
    with Cluster(tmp_path / "data", "--nodes", "1", "--token-auth-file", str(tokens)) as running:
        assert running.ask("POST", QUEUES, a_queue("team-red", capability={"cpu": "2"}))[0] == 201
        yield running


class Recorder:
    def __init__(self, cluster: Cluster, file: Path, *flags: str) -> None:
        command = [str(HEADGATE), "record", str(file), "--kubeconfig", str(cluster.data / "kubeconfig"), *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.first_line = self.process.stderr.readline()
        assert "resources synced" in self.first_line, self.first_line

    def stop(self, number: int = signal.SIGINT) -> tuple[int, str]:
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, out


def create_pods(cluster: Cluster, *names: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    for name in names:
        metadata = {"name": name, "annotations": {OPT_IN: "true", QUEUE_NAME: "team-red"}}
        spec = {"schedulerName": "headgate", "containers": [container]}
        assert cluster.ask("POST", PODS, {"metadata": metadata, "spec": spec})[0] == 201


def running(cluster: Cluster) -> list[str]:
    items = cluster.ask("GET", PODS)[1]["items"]
    return [each["metadata"]["name"] for each in items if each["status"].get("phase") == "Running"]


def audited(*arguments: str | Path) -> tuple[int, Object]:
    code, out, err = headgate("audit", *arguments, "-o", "json")
    assert not err, err
    found: Object = json.loads(out)
    return code, found


def test_a_recording_goes_on_after_a_kill_and_its_audit_finds_nothing_wrong(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "week.hgr"
    first = Recorder(cluster, file)
    size = file.stat().st_size
    create_pods(cluster, "trainer-0", "trainer-1", "trainer-2")
    wait_for(lambda: len(running(cluster)) == 2)
    wait_for(lambda: file.stat().st_size > size)
    first.stop(signal.SIGKILL)
    assert cluster.ask("DELETE", f"{PODS}/{running(cluster)[0]}", {"gracePeriodSeconds": 0})[0] == 200
    wait_for(lambda: len(running(cluster)) == 2)
    code, out = Recorder(cluster, file).stop()
    assert (code, out.startswith(f"{file}: recorded for")) == (0, True)

    code, found = audited(file)
    assert (code, found["findings"], found["damage"], found["unreadable"]) == (0, [], "", [])
    assert [gap["resource"] for gap in found["gaps"]] == [""]
    assert found["bill"]["machines"]["count"] == 1
    assert found["notServed"] == ["nodeclaims.karpenter.sh"]
    content = file.read_bytes()
    file.write_bytes(content[:-3])
    code, found = audited(file)
    assert code == 2
    assert "the file ends within a block" in found["damage"]
    assert found["findings"] == []


def test_a_recording_with_hashed_names_has_none_of_them_and_the_same_result(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "hashed.hgr"
    create_pods(cluster, "trainer-0", "trainer-1", "trainer-2")
    wait_for(lambda: len(running(cluster)) == 2)
    assert Recorder(cluster, file, "--hash-names", "--skip", "events").stop()[0] == 0
    code, out, _ = headgate("audit", file)
    assert code == 0
    assert "broken: no invariant" in out
    assert "not recorded, and not checked: events" in out
    code, found = audited(file)
    assert not any(name in json.dumps(found) for name in ("trainer", "team-red"))
    assert (tmp_path / "hashed.hgr.key").exists()


def test_the_time_of_a_recording_can_be_given(cluster: Cluster, tmp_path: Path) -> None:
    file, config = tmp_path / "short.hgr", cluster.data / "kubeconfig"
    code, out, _ = headgate("record", file, "--for", "3s", "--kubeconfig", config)
    assert (code, "13 resources" in out or "12 resources synced" in out) == (0, True)
    assert headgate("record", file, "--for", "soon")[0] == 2


def test_a_live_cluster_and_its_store_are_audited_while_it_runs_and_after(cluster: Cluster) -> None:
    create_pods(cluster, "trainer-0", "trainer-1", "trainer-2")
    wait_for(lambda: len(running(cluster)) == 2)
    code, found = audited("--kubeconfig", cluster.data / "kubeconfig")
    assert (code, found["findings"]) == (0, [])
    assert found["changes"] > 5
    code, found = audited(cluster.data)
    assert (code, found["findings"], found["unreadable"]) == (0, [], [])
    assert found["changes"] > 10
    cluster.stop()
    code, found = audited(cluster.data)
    assert (code, found["findings"]) == (0, [])


def test_a_pod_with_a_gate_that_is_marked_unschedulable_is_found(cluster: Cluster, tmp_path: Path) -> None:
    recorder = Recorder(cluster, tmp_path / "a.hgr")
    create_pods(cluster, "trainer-0", "trainer-1", "trainer-2")
    wait_for(lambda: len(running(cluster)) == 2)
    (pod,) = (each for each in cluster.ask("GET", PODS)[1]["items"] if each["spec"].get("schedulingGates"))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod["status"]["conditions"] = [condition]
    assert cluster.ask("PUT", f"{PODS}/{pod['metadata']['name']}/status", pod)[0] == 200
    recorder.stop()
    for source in ((tmp_path / "a.hgr",), (cluster.data,), ("--kubeconfig", cluster.data / "kubeconfig")):
        code, out, _ = headgate("audit", *source)
        assert code == 1, out
        assert "unschedulable-behind-gate (1)" in out


def test_missing_rights_are_named_and_the_printed_role_grants_them(cluster: Cluster, tmp_path: Path) -> None:
    config = yaml.safe_load((cluster.data / "kubeconfig").read_text())
    config["users"][0]["user"] = {"token": "nobody-token"}
    limited = tmp_path / "limited"
    limited.write_text(yaml.safe_dump(config))
    for command in (("record", tmp_path / "a.hgr", "--for", "2s"), ("audit",)):
        code, out, err = headgate(*command, "--kubeconfig", limited)
        assert (code, out) == (1, "")
        assert "missing right: list pods in all namespaces" in err
        assert "missing right: list workloads.kueue.x-k8s.io in all namespaces" in err
        assert "`headgate record --rights`" in err
    role = yaml.safe_load(headgate("record", "--rights")[1])
    binding = {
        "metadata": {"name": "headgate-record"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "headgate-record"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "nobody"}],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    assert cluster.ask("POST", f"{rbac}/clusterroles", role)[0] == 201
    assert cluster.ask("POST", f"{rbac}/clusterrolebindings", binding)[0] == 201
    assert headgate("record", tmp_path / "a.hgr", "--for", "2s", "--kubeconfig", limited)[0] == 0
    assert headgate("audit", "--kubeconfig", limited)[0] == 0
