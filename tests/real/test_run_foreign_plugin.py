"""`headgate run` with a plugin of another package, as a service account with few rights, on both servers.

The plugin is slow and watches a kind: the Lease is kept, the scheduler waits for the kind if it is served, and the log
names what is slow, not served or forbidden.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters import a_node, a_pod
from harness.embedded_server import HEADGATE
from harness.processes import Process
from harness.real_server import REPOSITORY
from harness.scheduler_process import PATIENCE_S, create_nodes, create_pod, get_pod, is_bound, pods, send, wait_for
from harness.server import Server
from harness.server_kinds import SERVER_KINDS, running_server

pytestmark = pytest.mark.real

Object = dict[str, Any]
COUNT = 120
PLUGIN = """
import time
from headgate.scheduling.framework import ADD, DELETE, APIResource, ClusterEvent, Rejection, named, on

WIDGETS = APIResource("example.com", "v1", "widgets", namespaced=True)


class HeldByWidget:
    name = "HeldByWidget"
    watched = {WIDGETS: ()}

    def __init__(self, args):
        self.widgets = set()

    def applied(self, resource, wire):
        self.widgets.add(wire["metadata"]["name"])
        return [ClusterEvent(named(WIDGETS), ADD, new=wire)]

    def removed(self, resource, namespace, name):
        self.widgets.discard(name)
        return [ClusterEvent(named(WIDGETS), DELETE)]

    def pre_enqueue(self, pod):
        time.sleep(0.04)
        if pod.name not in self.widgets:
            return None
        return Rejection(self.name, "a widget holds it", on(named(WIDGETS), DELETE))
"""
CONFIGURATION: Object = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {
        "leaderElect": True,
        "leaseDuration": "4s",
        "renewDeadline": "3s",
        "retryPeriod": "500ms",
        "resourceNamespace": "kube-system",
        "resourceName": "headgate-scheduler",
    },
    "profiles": [{"schedulerName": "headgate", "plugins": {"preEnqueue": {"enabled": [{"name": "HeldByWidget"}]}}}],
}
DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


@pytest.fixture(scope="module", params=SERVER_KINDS)
def server(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running_server(request.param, tmp_path_factory.mktemp(f"foreign-{request.param}"), kube_binaries) as made:
        create_nodes(made, [a_node("node-a", cpu="100", pods="1000")])
        kubectl(made, "apply", "-f", str(REPOSITORY / "examples" / "scheduler-rights.yaml"))
        yield made


def kubectl(server: Server, *words: str) -> str:
    done = server.kubectl(words)
    assert done.exit == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def run(server: Server, folder: Path) -> Iterator[Process]:
    """The scheduler under its own account, in an environment that has the plugin."""
    package = folder / "package"
    described = package / "held_by_widget-1.dist-info"
    described.mkdir(parents=True)
    (package / "held_by_widget.py").write_text(PLUGIN)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: held-by-widget\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[headgate.plugins]\nHeldByWidget = held_by_widget:HeldByWidget\n")
    account = yaml.safe_load(server.kubeconfig.read_text())
    account["users"][0]["user"] = {
        "token": kubectl(server, "create", "token", "-n", "kube-system", "headgate-scheduler")
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(account))
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(CONFIGURATION))
    files = ("--kubeconfig", str(folder / "kubeconfig"), "--config", str(folder / "scheduler.yaml"))
    environment = {**os.environ, "PYTHONPATH": str(package)}
    running = Process([str(HEADGATE), "run", *files], folder / "run.log", environment)
    try:
        running.wait_until(lambda: "elected: holds" in running.log.read_text(), PATIENCE_S)
        yield running
    finally:
        running.stop()


def our_pod(name: str) -> Object:
    return a_pod(name, {"cpu": "1m"}, schedulerName="headgate")


def test_a_slow_plugin_does_not_cost_the_lease_and_is_named_with_the_kind_that_is_missing(
    server: Server, tmp_path: Path
) -> None:
    for number in range(COUNT):
        create_pod(server, our_pod(f"p{number}"))
    with run(server, tmp_path) as running:
        wait_for(lambda: all(map(is_bound, pods(server).values())), running)
        log = running.log.read_text()
    assert (log.count("elected: holds"), "no longer elected" in log) == (1, False)
    assert "plugin HeldByWidget is slow" in log
    assert "HeldByWidget watches this kind" in log


def test_a_missing_right_is_named_and_no_pod_slips_past_before_it_is_granted(server: Server, tmp_path: Path) -> None:
    (tmp_path / "definition.yaml").write_text(yaml.safe_dump(DEFINITION))
    kubectl(server, "apply", "-f", str(tmp_path / "definition.yaml"))
    kubectl(server, "wait", "--for=condition=Established", "crd/widgets.example.com")
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "held"}}
    wait_for(lambda: server.request("GET", "/apis/example.com/v1/widgets", {}, None).status == 200)
    send(server, "POST", "/apis/example.com/v1/namespaces/default/widgets", widget)
    create_pod(server, our_pod("held"))
    create_pod(server, our_pod("free"))
    with run(server, tmp_path) as running:
        wait_for(lambda: "no pod is scheduled before" in running.log.read_text(), running)
        assert 'cannot list resource "widgets"' in running.log.read_text()
        assert not is_bound(get_pod(server, "free"))
        kubectl(server, "create", "clusterrole", "widgets", "--verb=list,watch", "--resource=widgets.example.com")
        account = "--serviceaccount=kube-system:headgate-scheduler"
        kubectl(server, "create", "clusterrolebinding", "widgets", "--clusterrole=widgets", account)
        wait_for(lambda: is_bound(get_pod(server, "free")), running)
        assert not is_bound(get_pod(server, "held"))
        send(server, "DELETE", "/apis/example.com/v1/namespaces/default/widgets/held")
        wait_for(lambda: is_bound(get_pod(server, "held")), running)
