"""``headgate load`` on a running cluster."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from harness.embedded_server import HEADGATE
from headgate.cli.main import main
from headgate.testing import Cluster, wait_until

LABEL = "headgate.dev/load"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


def load(cluster: Cluster, *words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["load", *words, "--kubeconfig", str(cluster.kubeconfig)])
    return done.exit_code, done.stdout, done.stderr


def test_a_load_is_created_shown_and_removed(cluster: Cluster, kube_binaries: Path) -> None:
    counts = ("--pods", "30", "--jobs", "2", "--nodes", "2", "--queues", "3")
    code, out, err = load(cluster, "mixed", *counts, "--run-for", "never", "--pods-per-job", "2")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"created 2 nodes, 3 queues, 2 jobs, 30 pods in \d+\.\d s(, \d+/s)?\n", out)
    command = [str(kube_binaries / "kubectl"), "get", "pods,jobs,nodes,queues.scheduling.volcano.sh", "-o", "name"]
    command += ["-l", f"{LABEL}=mixed"]
    done = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert sum(each.startswith("pod/mixed-pod-") for each in names) == 30
    assert sum(each.startswith("queue.scheduling.volcano.sh/mixed-queue-") for each in names) == 3
    wait_until(lambda: all_run(cluster, "mixed"))
    assert load(cluster, "mixed") == (0, f"load mixed: 2 nodes, 3 queues, 2 jobs, 30 pods ({LABEL}=mixed)\n", "")
    code, out, err = load(cluster, "mixed", "--delete")
    assert (code, err) == (0, "")
    assert out.startswith("deleted 2 nodes, 3 queues, 2 jobs, 30 pods in")
    wait_until(lambda: load(cluster, "mixed")[1] == f"load mixed: nothing ({LABEL}=mixed)\n")
    wait_until(lambda: cluster.client.list("Pod", label_selector=f"{LABEL}=mixed") == [])


def all_run(cluster: Cluster, name: str) -> bool:
    pods = cluster.client.list("Pod", label_selector=f"{LABEL}={name}")
    return len(pods) == 34 and all(each["status"]["phase"] == "Running" for each in pods)


def test_a_dry_run_prints_one_object_of_each_kind_and_writes_nothing(cluster: Cluster) -> None:
    code, out, err = load(cluster, "dry", "--pods", "5", "--queues", "2", "--dry-run")
    assert code == 0
    assert [(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(out) if each] == [
        ("Queue", "dry-queue-00001"),
        ("Pod", "dry-pod-00001"),
    ]
    assert err == "would create 2 queues, 5 pods; nothing was written\n"
    assert "nothing" in load(cluster, "dry")[1]


def test_a_dry_run_says_what_the_server_would_refuse(cluster: Cluster) -> None:
    code, _, err = load(cluster, "dry", "--pods", "5", "--gate", "not a gate", "--dry-run")
    assert code == 1
    assert "pod dry-pod-00001: cannot create pods" in err
    assert "schedulingGates" in err


def test_a_load_that_the_server_refuses_says_why_and_what_exists(cluster: Cluster) -> None:
    code, out, err = load(cluster, "refused", "--pods", "5", "-n", "missing")
    assert code == 1
    assert out.startswith("created nothing")
    assert 'namespaces "missing" not found' in err
    assert "`headgate load refused --delete` removes what exists" in err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("Burst", "--pods", "1"), "is not a name of a load"),
        (("burst", "--pods", "1", "--delete"), "--delete takes no numbers"),
        (("burst", "--dry-run"), "--dry-run needs one"),
        (("burst", "--pods", "1", "-A"), "objects are created in one namespace"),
        (("burst", "--pods", "1", "--cpu", "many"), "--cpu 'many'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(cluster: Cluster, words: tuple[str, ...], text: str) -> None:
    code, _, err = load(cluster, *words)
    assert code == 2
    assert text in err


def test_nodes_are_not_created_where_nothing_simulates_them() -> None:
    with Cluster(components=("apiserver",), nodes=0) as empty:
        code, _, err = load(empty, "burst", "--nodes", "3")
        assert code == 1
        assert "no process simulates nodes in this cluster" in err


def test_ctrl_c_stops_cleanly_says_what_exists_and_the_same_command_goes_on(cluster: Cluster) -> None:
    command = [str(HEADGATE), "load", "cut", "--pods", "300", "--rate", "60", "--kubeconfig", str(cluster.kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: cluster.client.list("Pod", label_selector=f"{LABEL}=cut"), 120)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    found = len(cluster.client.list("Pod", label_selector=f"{LABEL}=cut"))
    assert out.startswith(f"created {found} pod")
    assert f"interrupted after {found} of 300" in err
    assert "The same command continues" in err
    code, out, _ = load(cluster, "cut", "--pods", "300")
    assert code == 0
    assert f"{found} pod" in out.partition(";")[2]
    assert load(cluster, "cut", "--delete")[0] == 0


def test_a_terminal_shows_a_bar_while_it_runs(cluster: Cluster) -> None:
    controller, terminal = pty.openpty()
    command = [str(HEADGATE), "load", "bar", "--pods", "40", "--rate", "40", "--kubeconfig", str(cluster.kubeconfig)]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, env=environment, text=True) as process:
        os.close(terminal)
        shown = b""
        while part := read(controller):
            shown += part
        assert process.stdout is not None
        assert process.stdout.read().startswith("created 40 pods")
    os.close(controller)
    lines = shown.decode().split("\r\x1b[K")
    assert any(re.match(r"█+░+ load bar: \d+ of 40, \d+ %", each) for each in lines), lines
    assert lines[-1] == "", "the bar is removed"
    assert load(cluster, "bar", "--delete")[0] == 0


def read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the other end is closed
        return b""


def test_jobs_of_a_load_run_to_their_end(cluster: Cluster) -> None:
    assert load(cluster, "jobs", "--jobs", "3")[0] == 0
    wait_until(lambda: [each["status"].get("succeeded") for each in jobs(cluster)] == [1, 1, 1])
    assert load(cluster, "jobs", "--delete")[0] == 0
    assert json.dumps(jobs(cluster)) == "[]"


def jobs(cluster: Cluster) -> list[dict[str, dict[str, int]]]:
    return cluster.client.list("batch/v1/Job", label_selector=f"{LABEL}=jobs")
