"""Pods that terminate slowly, and promises without a node, on both servers: which pods are unschedulable, and the order
of admission.

The nodes have no kubelet, so a pod that is deleted with a grace period stays until the test ends it. A watch that
starts before the pods records every condition.
"""

from __future__ import annotations

import json

import pytest

from harness.queues import QUEUES
from harness.scheduler_process import is_bound, scheduled_reason, send, wait_for
from headgate.capacity.names import GATE, STAMP
from headgate.scheduling.cluster.terminating_pods import WAITING_FOR_TERMINATING_PODS
from real.queue_cluster import PODS, QueueCluster

pytestmark = pytest.mark.real

KINDS = {"gated": ((GATE,), True), "opted in without a gate": ((), True), "not opted in": ((), False)}


def revision(cluster: QueueCluster) -> str:
    return str(send(cluster.server, "GET", PODS)["metadata"]["resourceVersion"])


def reasons(cluster: QueueCluster, name: str, since: str) -> set[str]:
    """All that the condition PodScheduled of the pod ever said since then."""
    path = f"{PODS}?watch=1&timeoutSeconds=1&resourceVersion={since}&fieldSelector=metadata.name%3D{name}"
    answer = cluster.server.request("GET", path, {}, None)
    assert answer.status == 200, answer.body
    shown = [json.loads(line)["object"] for line in answer.body.splitlines() if line]
    return {scheduled_reason(pod) for pod in shown}


def used(cluster: QueueCluster, queue: str) -> tuple[object, object]:
    """What the status of the queue says that pods hold, and that terminating pods still use."""
    status = send(cluster.server, "GET", f"{QUEUES}/{queue}").get("status") or {}
    return status.get("allocated"), status.get("terminating")


def three_full_nodes(cluster: QueueCluster, story: str, queue: str) -> list[str]:
    """Three nodes of 8 CPU, and on each a pod of 8 CPU with a grace period of 15 seconds."""
    names = [f"{story}-{number}" for number in range(3)]
    for name in names:
        cluster.node(name, cpu="8")
        cluster.pod(name, queue, cpu="8", wants=name, terminationGracePeriodSeconds=15)
    cluster.until_bound(*names)
    return names


def anywhere(names: list[str]) -> dict[str, object]:
    """On any of these nodes."""
    expressions = [{"key": "for", "operator": "In", "values": names}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_slowly_terminating_predecessor_makes_no_pod_unschedulable(cluster: QueueCluster, kind: str) -> None:
    story = f"slow-{list(KINDS).index(kind)}"
    gates, opts_in = KINDS[kind]
    queue = cluster.queue("24")
    names = three_full_nodes(cluster, story, queue)
    since = revision(cluster)
    if gates:
        cluster.pod("fourth", queue, cpu="8", gates=gates, affinity=anywhere(names))
        cluster.until_the_next_decision()
        assert cluster.is_gated("fourth")
    send(cluster.server, "DELETE", f"{PODS}/{names[1]}")
    if not gates:
        cluster.pod("fourth", queue, cpu="8", gates=gates, opts_in=opts_in, affinity=anywhere(names))
    cluster.until_reason("fourth", WAITING_FOR_TERMINATING_PODS)
    assert cluster.get("fourth")["status"]["nominatedNodeName"] == names[1]
    wait_for(lambda: used(cluster, queue) == ({"cpu": "16"}, {"cpu": "8"}), cluster.scheduler)
    cluster.delete(names[1])
    cluster.until_bound("fourth")
    assert "Unschedulable" not in reasons(cluster, "fourth", since)
    assert cluster.get("fourth")["spec"]["nodeName"] == names[1]


def test_a_gang_that_replaces_slowly_terminating_pods_is_never_unschedulable(cluster: QueueCluster) -> None:
    queue = cluster.queue("24")
    names = three_full_nodes(cluster, "gang", queue)
    since = revision(cluster)
    cluster.group("successors", queue, 2)
    members = ["successor-0", "successor-1"]
    for name in members:
        cluster.pod(name, queue, cpu="8", group="successors", affinity=anywhere(names))
    for name in names[:2]:
        send(cluster.server, "DELETE", f"{PODS}/{name}")
    for name in members:
        cluster.until_reason(name, WAITING_FOR_TERMINATING_PODS)
    assert {cluster.get(name)["status"]["nominatedNodeName"] for name in members} == set(names[:2])
    cluster.delete(names[0])
    cluster.until_the_next_decision()
    assert not any(is_bound(cluster.get(name)) for name in members), "whole or not at all"
    cluster.delete(names[1])
    cluster.until_bound(*members)
    for name in members:
        assert "Unschedulable" not in reasons(cluster, name, since)


def test_when_the_predecessor_is_overdue_the_pod_becomes_unschedulable(cluster: QueueCluster) -> None:
    queue = cluster.queue("8")
    cluster.node("overdue", cpu="8")
    cluster.pod("stuck", queue, cpu="8", wants="overdue", terminationGracePeriodSeconds=2)
    cluster.until_bound("stuck")
    send(cluster.server, "DELETE", f"{PODS}/stuck")
    cluster.pod("next", queue, cpu="8", wants="overdue")
    cluster.until_unschedulable("next")
    assert not cluster.get("next")["status"].get("nominatedNodeName")


def test_a_pod_of_high_priority_gets_past_a_promise_that_has_no_node(cluster: QueueCluster) -> None:
    cluster.priority_class("past", 1000)
    queue = cluster.queue("1")
    cluster.pod("low", queue, wants="nowhere-at-all")
    cluster.until_unschedulable("low")
    cluster.pod("high", queue, priorityClassName="past")
    cluster.until_bound("high")
    cluster.until_reason("low", "WaitingForQueue")
    assert STAMP not in cluster.get("low")["metadata"]["annotations"]
    cluster.until_used(queue, allocated="1")
    cluster.delete("high")
    cluster.until_unschedulable("low")
    assert STAMP in cluster.get("low")["metadata"]["annotations"]
