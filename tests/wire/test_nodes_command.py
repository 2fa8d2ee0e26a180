"""``headgate nodes`` on a running cluster, seen through kubectl."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headgate.cli.main import main
from headgate.testing import Cluster, wait_until

REAL_NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real-1"}}


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    for node in shared.client.list("Node"):
        if not node["metadata"]["name"].startswith("node-000"):
            shared.client.delete("Node", node["metadata"]["name"])


def nodes(cluster: Cluster, *words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["nodes", *words, "--kubeconfig", str(cluster.kubeconfig)])
    return done.exit_code, done.stdout, done.stderr


def ready(cluster: Cluster, name: str) -> str:
    conditions = cluster.client.get("Node", name).get("status", {}).get("conditions", ())
    return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "")


def test_added_nodes_are_ready_when_the_command_ends(cluster: Cluster, kube_binaries: Path) -> None:
    flags = ("--count", "2", "--cpu", "64", "--resource", "nvidia.com/gpu=8", "--label", "pool=gpu")
    code, out, err = nodes(cluster, "add", *flags, "--taint", "gpu=yes:NoSchedule", "--prefix", "gpu-")
    assert (code, out, err) == (0, "node/gpu-0001 added\nnode/gpu-0002 added\n", "")
    command = [str(kube_binaries / "kubectl"), "get", "nodes", "-l", "pool=gpu", "-o", "json"]
    done = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["items"]
    assert [each["status"]["allocatable"]["nvidia.com/gpu"] for each in found] == ["8", "8"]
    assert [ready(cluster, each["metadata"]["name"]) for each in found] == ["True", "True"]
    assert found[0]["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    code, out, _ = nodes(cluster, "remove", "-l", "pool=gpu")
    assert (code, out) == (0, "node/gpu-0001 removed\nnode/gpu-0002 removed\n")
    assert cluster.client.list("Node", label_selector="pool=gpu") == []


def test_a_failed_node_is_not_ready_and_recovers(cluster: Cluster) -> None:
    assert nodes(cluster, "fail", "node-0001") == (0, "node/node-0001 failed\n", "")
    wait_until(lambda: ready(cluster, "node-0001") == "False")
    taints = wait_until(lambda: cluster.client.get("Node", "node-0001")["spec"].get("taints"))
    assert {each["key"] for each in taints} == {"node.kubernetes.io/not-ready"}
    assert ready(cluster, "node-0002") == "True"
    assert nodes(cluster, "recover", "--all")[0] == 0
    wait_until(lambda: ready(cluster, "node-0001") == "True")
    wait_until(lambda: "taints" not in cluster.client.get("Node", "node-0001")["spec"])


def test_a_silent_node_renews_no_lease_until_it_recovers() -> None:
    flags = ("--node-monitor-grace-period", "2s")
    with Cluster(nodes=1, process=True, components=("apiserver", "nodes", "controllers"), arguments=flags) as cluster:
        assert nodes(cluster, "fail", "node-0001", "--silent") == (0, "node/node-0001 is silent\n", "")
        wait_until(lambda: ready(cluster, "node-0001") == "Unknown")
        assert nodes(cluster, "recover", "node-0001")[0] == 0
        wait_until(lambda: ready(cluster, "node-0001") == "True")


def test_labels_are_set_and_removed(cluster: Cluster) -> None:
    assert nodes(cluster, "label", "node-0001", "node-0002", "pool=a", "rack=1")[0] == 0
    assert len(cluster.client.list("Node", label_selector="pool=a,rack=1")) == 2
    assert nodes(cluster, "label", "-l", "pool=a", "pool-", "rack=2")[0] == 0
    assert len(cluster.client.list("Node", label_selector="!pool,rack=2")) == 2
    code, _, err = nodes(cluster, "label", "node-0001", "pool=not/valid")
    assert code == 1
    assert "node node-0001: cannot patch nodes" in err
    assert "a valid label must be" in err


@pytest.mark.parametrize("words", [("fail", "node-0001", "real-1"), ("remove", "real-1"), ("label", "real-1", "a=b")])
def test_a_node_that_is_not_simulated_is_refused_before_the_first_write(
    cluster: Cluster, words: tuple[str, ...]
) -> None:
    cluster.client.create(REAL_NODE)
    before = cluster.client.get("Node", "node-0001")["metadata"].get("annotations")
    code, out, err = nodes(cluster, *words)
    assert (code, out) == (1, "")
    assert "real-1 is not simulated, and nothing was changed" in err
    assert cluster.client.get("Node", "real-1")
    assert cluster.client.get("Node", "node-0001")["metadata"].get("annotations") == before


def test_a_cluster_without_simulated_nodes_gets_none() -> None:
    with Cluster(components=("apiserver",), nodes=0) as cluster:
        code, _, err = nodes(cluster, "add")
        assert code == 1
        assert "no process simulates nodes in this cluster: it has no nodes" in err
        cluster.client.create(REAL_NODE)
        code, _, err = nodes(cluster, "add")
        assert "its nodes (real-1) are real" in err
        assert len(cluster.client.list("Node")) == 1


def test_a_node_of_another_simulator_does_not_fail_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.cli.commands.nodes._REACTION_S", 0.2)
    with Cluster(components=("apiserver",), nodes=0) as cluster:
        cluster.client.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "kwok-1", "annotations": {"kwok.x-k8s.io/node": "fake"}},
            }
        )
        code, out, err = nodes(cluster, "fail", "kwok-1")
        assert (code, out) == (1, "node/kwok-1 failed\n")
        assert "kwok-1 did not become NotReady in 0.2 s" in err
        assert "other simulators do not read its annotations" in err


def test_a_cluster_that_starts_with_no_nodes_gets_some() -> None:
    with Cluster(components=("apiserver", "nodes"), nodes=0) as cluster:
        assert nodes(cluster, "add") == (0, "node/node-0001 added\n", "")


def test_nodes_that_do_not_become_ready_are_reported(cluster: Cluster) -> None:
    flags = ("--prefix", "never-", "--annotation", "headgate.dev/boot-never=true", "--wait", "0.2")
    code, out, err = nodes(cluster, "add", *flags)
    assert (code, out) == (1, "node/never-0001 added\n")
    assert "never-0001 did not become Ready in 0.2 s" in err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("fail",), "select the nodes"),
        (("fail", "node-0001", "--all"), "select the nodes"),
        (("fail", "node-9999"), "there is no node node-9999; nothing was changed"),
        (("remove", "-l", "a=b"), "no simulated node was selected"),
        (("remove", "-l", "a=b=c"), "-l"),
        (("label", "node-0001"), "name a label"),
        (("add", "--cpu", "many"), "--cpu 'many'"),
        (("add", "--taint", "a"), "KEY=VALUE:EFFECT"),
        (("add", "--label", "a"), "KEY=VALUE"),
    ],
)
def test_what_cannot_be_done_is_named(cluster: Cluster, words: tuple[str, ...], text: str) -> None:
    code, out, err = nodes(cluster, *words)
    assert code in (1, 2)
    assert out == ""
    assert text in err
