"""``headgate.testing.Cluster``, in this process and as a process, with real kubectl; and the fixtures of its plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.cli.embedded.stopping import stop_server
from headgate.testing import Cluster, ClusterStartFailed, RequestRefused, wait_until

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "1"}}


def pod(name: str, **annotations: str) -> dict[str, object]:
    notes = {f"headgate.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/main"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": notes}, "spec": spec}


def phase(cluster: Cluster, name: str) -> str:
    found: str = cluster.client.get("Pod", name)["status"]["phase"]
    return found


@pytest.mark.parametrize("process", [False, True], ids=["in this process", "as a process"])
def test_kubectl_works_with_it_and_nothing_is_left_behind(process: bool, kube_binaries: Path) -> None:
    with Cluster(nodes=2, node_resources={"nvidia.com/gpu": "4"}, process=process) as cluster:
        command = [str(kube_binaries / "kubectl"), "get", "nodes", "-o", "jsonpath={.items[*].status.capacity}"]
        done = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, check=True)
        assert done.stdout.count('"nvidia.com/gpu":"4"') == 2
        cluster.client.create(pod("web"))
        wait_until(lambda: phase(cluster, "web") == "Running")
        folder, port = cluster.data, int(cluster.url.rpartition(":")[2])
    assert not folder.exists()
    assert port not in listening_ports()


def listening_ports() -> set[int]:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}


def test_nodes_can_be_added_and_pods_are_scheduled_to_them() -> None:
    with Cluster(nodes=0, components=("apiserver", "nodes", "controllers", "scheduler")) as cluster:
        large = pod("large")
        large["spec"] = {
            "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "32"}}}],
            "nodeSelector": {"disk": "fast"},
        }
        cluster.client.create(large)
        assert cluster.add_nodes(1, {"cpu": "4"}, labels={"disk": "fast"}) == ["added-0001"]
        assert cluster.add_nodes(1, {"cpu": "64"}, labels={"disk": "fast"}) == ["added-0002"]
        wait_until(lambda: phase(cluster, "large") == "Running")
        assert cluster.client.get("Pod", "large")["spec"]["nodeName"] == "added-0002"


def test_the_clock_of_the_nodes_ends_pods_and_boots_nodes() -> None:
    with Cluster(nodes=1) as cluster:
        cluster.client.create(pod("hour", run_for="1h"))
        cluster.add_nodes(1, annotations={"headgate.dev/boot-after": "10m"})
        wait_until(lambda: phase(cluster, "hour") == "Running")
        assert not is_ready(cluster, "added-0001")
        cluster.advance_nodes(3600)
        wait_until(lambda: phase(cluster, "hour") == "Succeeded")
        wait_until(lambda: is_ready(cluster, "added-0001"))
        with pytest.raises(ValueError, match="cannot be set back"):
            cluster.advance_nodes(-1)


def is_ready(cluster: Cluster, node: str) -> bool:
    conditions = cluster.client.get("Node", node).get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def test_a_killed_cluster_has_the_same_objects_after_the_next_start(tmp_path: Path) -> None:
    cluster = Cluster(process=True, components=("apiserver",), data=tmp_path / "data")
    with cluster:
        cluster.client.create(CONFIG_MAP)
        cluster.kill()
        cluster.stop()
        cluster.start()
        assert cluster.client.get("ConfigMap", "kept")["data"] == {"a": "1"}
    assert (tmp_path / "data").exists(), "a folder of the caller is kept"


def test_two_clusters_in_one_process_have_nothing_in_common() -> None:
    with Cluster(components=("apiserver",)) as one, Cluster(components=("apiserver",)) as other:
        one.client.create(CONFIG_MAP)
        assert other.client.find("ConfigMap", "kept") is None
        with pytest.raises(RequestRefused, match="already exists"):
            one.client.create(CONFIG_MAP)


@pytest.mark.parametrize("process", [False, True], ids=["in this process", "as a process"])
def test_a_start_that_fails_says_why_and_can_be_repeated(process: bool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failing = Cluster(process=process, data=tmp_path / "file" / "data")
    for _ in range(2):
        with pytest.raises(ClusterStartFailed, match="Not a directory"):
            failing.start()
    with pytest.raises(ClusterStartFailed, match="nonsense"):
        Cluster(process=process, components=("apiserver", "nonsense")).start()


def test_what_needs_the_other_kind_of_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="process=True"):
        Cluster(arguments=("--autoscaler", "karpenter"))
    with Cluster(components=("apiserver",)) as cluster:
        with pytest.raises(RuntimeError, match="process=True"):
            cluster.kill()
        with pytest.raises(RuntimeError, match="already"):
            cluster.start()
    with pytest.raises(RuntimeError, match="does not run"):
        _ = cluster.client


def test_a_cluster_in_the_process_of_the_tests_is_not_stopped_by_headgate_down() -> None:
    with Cluster(components=("apiserver",)) as cluster:
        done = stop_server(cluster.data, 0.2, force=True)
        assert not done.is_stopped
        assert f"process {os.getpid()} uses {cluster.data} and was not stopped: it has no record" in done.text


ORPHAN = """
import sys
from pathlib import Path
from headgate.testing import Cluster
cluster = Cluster(process=True, components=("apiserver",), data=Path(sys.argv[1])).start()
print(cluster.data / "headgate.pid", flush=True)
sys.stdin.read()
"""


def test_the_process_of_a_cluster_ends_when_the_tests_are_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ORPHAN, str(tmp_path / "data")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        record = Path(tests.stdout.readline().strip())
        assert record.exists()
        tests.kill()
    wait_until(lambda: not record.exists(), what="the server stops")


SUITE = """
import pytest

@pytest.fixture(scope="session")
def headgate_cluster_options():
    return {"components": ("apiserver", "nodes"), "nodes": 1}

def test_alone(headgate_cluster):
    assert len(headgate_cluster.client.list("Node")) == 1
    headgate_cluster.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "made"}})

@pytest.mark.headgate(nodes=2)
def test_with_options_and_without_the_objects_of_others(headgate_cluster):
    assert len(headgate_cluster.client.list("Node")) == 2
    assert headgate_cluster.client.find("Namespace", "made") is None

def test_shared(headgate_session_cluster, headgate_namespace):
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    headgate_session_cluster.client.create(config, headgate_namespace)

def test_shared_again(headgate_session_cluster, headgate_namespace):
    assert headgate_session_cluster.client.find("ConfigMap", "a", headgate_namespace) is None
"""


def run_pytest(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", "--rootdir", str(folder)]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    return subprocess.run([*command, *flags], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_fixtures_of_the_plugin_give_clusters_to_tests(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    done = run_pytest(tmp_path, "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


UNUSED = """
import sys

def test_it():
    loaded = [each for each in sys.modules if each.split(".")[0] in ("headgate", "numpy", "msgspec", "click")]
    assert sorted(loaded) == ["headgate", "headgate.testing", "headgate.testing.pytest_plugin"]
"""


def test_a_run_that_does_not_use_the_plugin_imports_only_its_module(tmp_path: Path) -> None:
    (tmp_path / "test_unused.py").write_text(UNUSED)
    done = run_pytest(tmp_path, "-q")
    assert done.returncode == 0, done.stdout + done.stderr
