"""Admission and the scheduler, each with the feature on and off: no pod waits forever, and none is admitted twice.

Admission is the embedded server's own, or webhooks beside a real server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import a_node, a_pod
from harness.processes import free_ports
from harness.scheduler_process import (
    PATIENCE_S,
    SchedulerProcess,
    create_nodes,
    get_pod,
    is_bound,
    scheduled_reason,
    send,
    wait_for,
)
from harness.server import Server
from harness.server_kinds import SERVER_KINDS, running_server
from harness.webhooks import adds_gates, prepare, sent
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME, STAMP

PODS = "/api/v1/namespaces/default/pods"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
OFF = ("--feature-gates", "QueueAllocationGate=false")


@pytest.fixture(params=SERVER_KINDS)
def server(request: pytest.FixtureRequest, kube_binaries: Path, tmp_path: Path) -> Iterator[Server]:
    with running_server(request.param, tmp_path / "server", kube_binaries) as running:
        prepare(running)
        create_nodes(running, [a_node("node", cpu="100", memory="100Gi")])
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "one"}}
        send(running, "POST", QUEUES, {**queue, "spec": {"capability": {"cpu": "1"}}})
        yield running


def create(server: Server, name: str, *, gated: bool = False) -> Any:
    """A pod of one CPU that opted in, in a queue of one CPU."""
    pod = a_pod(name, {"cpu": "1"}, schedulerName="headgate")
    pod["metadata"] = {"name": name, "annotations": {OPT_IN: "true", QUEUE_NAME: "one"}}
    if gated:
        pod["spec"]["schedulingGates"] = [{"name": GATE}]
    made = sent(server, "POST", PODS, pod)
    assert made.status == 201, made.body
    return made.json()


def has_gate(pod: Any) -> bool:
    return {"name": GATE} in pod["spec"].get("schedulingGates", [])


def run(server: Server, log: Path, *flags: str) -> SchedulerProcess:
    """A scheduler, and beside a real server the door as well, in one process and as one user."""
    if server.name == "real":
        (port,) = free_ports(1)
        there = ("--webhook-url", f"https://127.0.0.1:{port}", "--webhook-listen", f"127.0.0.1:{port}")
        flags = (*flags, "--components", "scheduler,webhooks", "--shutdown-delay", "0", *there)
    running = SchedulerProcess(server, log, "--no-leader-elect", *flags)
    if server.name == "real":
        running.wait_until(lambda: "webhooks: ready" in log.read_text() and adds_gates(server), PATIENCE_S)
    return running


def test_ungated_pods_wait_too_and_gated_pods_are_found(server: Server, tmp_path: Path) -> None:
    """At first there is no scheduler, and on the real server no door either: what came in is what it is."""
    first = create(server, "a-first")
    assert has_gate(first) == (server.name == "embedded")
    create(server, "b-second")
    running = run(server, tmp_path / "run.log")
    try:
        wait_for(lambda: is_bound(get_pod(server, "a-first")), running)
        third = create(server, "c-third")
        assert has_gate(third)
        reason = "SchedulingGated" if server.name == "embedded" else "WaitingForQueue"
        wait_for(lambda: scheduled_reason(get_pod(server, "b-second")) == reason, running)
        send(server, "DELETE", f"{PODS}/a-first", {"gracePeriodSeconds": 0})
        second = wait_for(lambda: is_bound(pod := get_pod(server, "b-second")) and pod, running)
        assert STAMP in second["metadata"]["annotations"] or server.name == "real"
        assert has_gate(get_pod(server, "c-third"))
    finally:
        running.stop()


def test_existing_gates_are_removed_when_the_feature_is_switched_off(server: Server, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        create(server, name, gated=True)
    running = SchedulerProcess(server, tmp_path / "off.log", "--no-leader-elect", *OFF)
    try:
        wait_for(lambda: not any(has_gate(get_pod(server, name)) for name in ("a", "b", "c")), running)
        wait_for(lambda: is_bound(get_pod(server, "a")), running)
        assert sum(is_bound(get_pod(server, name)) for name in ("a", "b", "c")) == 1  # the queue still counts
    finally:
        running.stop()


def test_a_replica_with_the_feature_off_keeps_the_promises_of_the_old_leader(server: Server, tmp_path: Path) -> None:
    """Leadership moves from a replica with the feature to one without it: a row of docs/production-readiness.md."""
    leader = SchedulerProcess(server, tmp_path / "on.log")
    leader.wait_until(lambda: "elected: holds the Lease" in leader.log.read_text(), PATIENCE_S)
    standby = SchedulerProcess(server, tmp_path / "off.log", *OFF)
    try:
        create(server, "a", gated=True)
        promised = wait_for(lambda: is_bound(pod := get_pod(server, "a")) and pod, leader)
        create(server, "b", gated=True)
        leader.stop()
        wait_for(lambda: not has_gate(get_pod(server, "b")), standby)
        kept = get_pod(server, "a")
        assert kept["spec"]["nodeName"] == promised["spec"]["nodeName"]
        assert kept["metadata"]["annotations"][STAMP] == promised["metadata"]["annotations"][STAMP]
        assert not is_bound(get_pod(server, "b")), "the queue still counts"
        send(server, "DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
        wait_for(lambda: is_bound(get_pod(server, "b")), standby)
    finally:
        leader.stop()
        standby.stop()
