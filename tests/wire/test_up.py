"""``headgate up`` as a user meets it: what it prints, what it refuses, how it stops, what it finds again."""

from __future__ import annotations

import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import a_pod
from harness.cluster import Cluster
from harness.embedded_server import HEADGATE
from harness.metrics_page import families, value
from harness.scheduler_process import wait_for


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "data", "--components", "apiserver") as running:
        yield running


def refused(*flags: str) -> tuple[int, str]:
    run = subprocess.run(
        [str(HEADGATE), "up", *flags], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )
    return run.returncode, run.stderr


def test_it_says_where_it_serves_and_what_to_type_next(cluster: Cluster) -> None:
    text = "\n".join(cluster.printed)
    assert cluster.url in text
    assert f"export KUBECONFIG={cluster.data / 'kubeconfig'}" in text
    assert "kubectl get" in text


SWITCHED = """
import sys
from headgate.cli.main import main

def written(interval, at_start=sys.getswitchinterval(), real=sys.setswitchinterval):
    real(interval)
    print(f"threads switch after {interval} s, not {at_start} s", file=sys.stderr, flush=True)

sys.setswitchinterval = written
main()
"""


def test_threads_that_work_on_long_requests_give_way_within_a_millisecond(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SWITCHED, "up", "--components", "apiserver", "--data", str(tmp_path / "data")]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any(line.startswith("ready") for line in process.stdout)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "threads switch after 0.001 s, not 0.005 s" in told


def test_it_says_which_nodes_there_are_and_not_which_were_asked_for(tmp_path: Path) -> None:
    with Cluster(tmp_path / "data", "--components", "apiserver,nodes", "--nodes", "2", "--node-cpu", "4000m") as first:
        assert "  nodes       2 registered, 2 ready, each with cpu 4, memory 32Gi" in first.printed
        first.stop()
    with Cluster(tmp_path / "data", "--components", "apiserver,nodes", "--nodes", "3", "--node-cpu", "16") as again:
        (line,) = (each for each in again.printed if each.startswith("  nodes "))
        status, listed = again.ask("GET", "/api/v1/nodes")
        sizes = sorted(each["status"]["capacity"]["cpu"] for each in listed["items"])
        assert status == 200
        assert line.startswith(f"  nodes       {len(sizes)} registered, ")
        assert all(f"cpu {size}, " in line for size in set(sizes)), (line, sizes)


def test_ctrl_c_stops_it_cleanly_and_the_next_start_finds_everything(cluster: Cluster) -> None:
    made = {"metadata": {"name": "kept"}, "data": {"k": "v"}}
    assert cluster.ask("POST", "/api/v1/namespaces/default/configmaps", made)[0] == 201
    code, out, err = cluster.stop()
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("stopped")
    again = Cluster(cluster.data, "--components", "apiserver")
    status, found = again.ask("GET", "/api/v1/namespaces/default/configmaps/kept")
    assert (status, found["data"]) == (200, {"k": "v"})
    assert again.token == cluster.token
    again.stop()


def test_a_webhook_that_is_down_does_not_keep_it_from_starting(cluster: Cluster) -> None:
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"
    hook = {
        "name": "down.hooks.example",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    assert cluster.ask("POST", hooks, {"metadata": {"name": "down"}, "webhooks": [hook]})[0] == 201
    assert cluster.ask("DELETE", role)[0] == 200
    cluster.stop()
    again = Cluster(cluster.data, "--components", "apiserver")
    assert again.ask("GET", role)[0] == 200
    assert again.ask("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})[0] == 500
    assert again.ask("DELETE", f"{hooks}/down")[0] == 200
    assert again.ask("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})[0] == 201
    again.stop()


def test_a_killed_server_has_kept_what_it_answered(cluster: Cluster) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    for number in range(20):
        assert cluster.ask("POST", path, {"metadata": {"name": f"m{number}"}})[0] == 201
    cluster.stop(signal.SIGKILL)
    again = Cluster(cluster.data, "--components", "apiserver")
    assert len(again.ask("GET", path)[1]["items"]) == 20
    again.stop()


def test_secrets_are_readable_by_their_owner_only(cluster: Cluster) -> None:
    for name in ("kubeconfig", "token", "headgate.db", "pki/ca.key", "pki/server.key"):
        assert stat.S_IMODE((cluster.data / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(cluster.data.stat().st_mode) == 0o700


def test_a_wrong_token_gets_nothing(cluster: Cluster) -> None:
    assert cluster.ask("GET", "/api/v1/namespaces", token="wrong")[0] == 401
    assert cluster.ask("GET", "/version", token="wrong")[0] == 401


def test_a_port_in_use_is_one_line_with_the_fix(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, err = refused("--data", str(tmp_path / "d"), "--listen", f"127.0.0.1:{port}")
    assert code == 1
    assert err.count("\n") == 1
    assert f"port {port}" in err
    assert "--listen" in err


def test_a_folder_in_use_is_one_line_with_the_fix(cluster: Cluster) -> None:
    code, err = refused("--data", str(cluster.data), "--listen", "127.0.0.1:0")
    assert code == 1
    assert err.count("\n") == 1
    assert f"in use by process {cluster.process.pid}" in err


def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "d"
    data.mkdir()
    (data / "headgate.db").write_bytes(b"not a database at all, but somebody needs it")
    code, err = refused("--data", str(data), "--listen", "127.0.0.1:0")
    assert code == 1
    assert err.count("\n") == 1
    assert "not a Headgate store" in err
    assert (data / "headgate.db").read_bytes().startswith(b"not a database")


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "d"
    data.mkdir()
    with sqlite3.connect(data / "headgate.db") as other:
        other.execute("CREATE TABLE precious (x)")
    other.close()
    code, err = refused("--data", str(data), "--listen", "127.0.0.1:0")
    assert (code, err.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--listen", "nowhere"), "HOST:PORT"),
        (("--components", "nodes"), "apiserver"),
        (("--components", "apiserver,magic"), "magic"),
        (("--node-cpu", "many"), "many"),
        (("--node-resource", "gpu"), "NAME=QUANTITY"),
        (("--node-cpu", "-3"), "more than 0"),
        (("--node-memory", "NaN"), "not an amount of memory"),
        (("--nodes", "-1"), "0<=x<=10000"),
        (("--gated-pod-events", "99999999999999999999"), "range"),
        (("--node-monitor-grace-period", "0s"), "at least 1s"),
        (("--feature-gates", "Nonsense=true"), "Nonsense"),
        (("--feature-gates", "PodSchedulingReadiness=maybe"), "PodSchedulingReadiness"),
    ],
)
def test_a_flag_that_makes_no_sense_is_named(flags: tuple[str, ...], words: str, tmp_path: Path) -> None:
    code, err = refused("--data", str(tmp_path / "d"), *flags)
    assert code == 2
    assert words in err


def test_events_about_gated_pods_can_be_switched_off(tmp_path: Path) -> None:
    flags = ("--components", "apiserver,scheduler", "--disable-admission-plugins", "ServiceAccount")
    with Cluster(tmp_path / "data", *flags, "--gated-pod-events", "0", "--metrics-listen", "127.0.0.1:0") as cluster:
        (metrics,) = (line.split()[1] for line in cluster.printed if line.startswith("  metrics "))
        pod = a_pod("p", schedulerName="headgate", schedulingGates=[{"name": "example.com/a"}])
        status, answer = cluster.ask("POST", "/api/v1/namespaces/default/pods", pod)
        assert status == 201, answer
        withheld = "headgate_gated_pod_events_withheld_total"
        wait_for(lambda: value(families(metrics.removesuffix("/metrics")), withheld) == 1)
        found = families(metrics.removesuffix("/metrics"))
        created = {"verb": "POST", "group": "", "version": "v1", "resource": "pods", "subresource": ""}
        assert value(found, "apiserver_request_total", code="201", scope="namespace", **created) == 1
        assert value(found, "apiserver_resource_objects", group="", resource="pods") == 1
        assert value(found, "headgate_store_commit_duration_seconds_count") > 0
        _, events = cluster.ask("GET", "/api/v1/namespaces/default/events")
        assert events["items"] == []
