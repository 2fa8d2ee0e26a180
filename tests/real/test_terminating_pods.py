"""Pods that end slowly, and promises without a node, on both servers: who is called a shortage, and who comes first.

The nodes have no kubelet, so a pod that is deleted with a grace period stays until the test ends it. What a pod's
condition ever said is read from a watch that starts where the story did.
"""

from __future__ import annotations

import json

import pytest

from harness.queues import QUEUES
from harness.scheduler_process import is_bound, scheduled_reason, send, wait_for
from headgate.capacity.names import GATE, STAMP
from headgate.scheduling.cluster.terminating_pods import WAITING_FOR_TERMINATING_PODS
from real.queue_cluster import PODS, Place

pytestmark = pytest.mark.real

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
KINDS = {"gated": ((GATE,), True), "opted in without a gate": ((), True), "not opted in": ((), False)}


def revision(place: Place) -> str:
    return str(send(place.server, "GET", PODS)["metadata"]["resourceVersion"])


def reasons(place: Place, name: str, since: str) -> set[str]:
    """All that the condition PodScheduled of the pod ever said since then."""
    path = f"{PODS}?watch=1&timeoutSeconds=1&resourceVersion={since}&fieldSelector=metadata.name%3D{name}"
    answer = place.server.request("GET", path, {}, None)
    assert answer.status == 200, answer.body
    shown = [json.loads(line)["object"] for line in answer.body.splitlines() if line]
    return {scheduled_reason(pod) for pod in shown}


def used(place: Place, queue: str) -> tuple[object, object]:
    """What the status of the queue says that pods hold, and that terminating pods still use."""
    status = send(place.server, "GET", f"{QUEUES}/{queue}").get("status") or {}
    return status.get("allocated"), status.get("terminating")


def three_full_nodes(place: Place, story: str, queue: str) -> list[str]:
    """Three nodes of 8 CPU, and on each a pod of 8 CPU with a grace period of 15 seconds."""
    names = [f"{story}-{number}" for number in range(3)]
    for name in names:
        place.node(name, cpu="8")
        place.pod(name, queue, cpu="8", wants=name, terminationGracePeriodSeconds=15)
    place.until_bound(*names)
    return names


def anywhere(names: list[str]) -> dict[str, object]:
    """On any of these nodes."""
    expressions = [{"key": "for", "operator": "In", "values": names}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_predecessor_that_ends_slowly_causes_no_shortage(place: Place, kind: str) -> None:
    story = f"slow-{list(KINDS).index(kind)}"
    gates, opts_in = KINDS[kind]
    queue = place.queue("24")
    names = three_full_nodes(place, story, queue)
    since = revision(place)
    if gates:
        place.pod("fourth", queue, cpu="8", gates=gates, affinity=anywhere(names))
        place.until_the_next_decision()
        assert place.is_gated("fourth")
    send(place.server, "DELETE", f"{PODS}/{names[1]}")
    if not gates:
        place.pod("fourth", queue, cpu="8", gates=gates, opts_in=opts_in, affinity=anywhere(names))
    place.until_reason("fourth", WAITING_FOR_TERMINATING_PODS)
    assert place.get("fourth")["status"]["nominatedNodeName"] == names[1]
    wait_for(lambda: used(place, queue) == ({"cpu": "16"}, {"cpu": "8"}), place.scheduler)
    place.delete(names[1])
    place.until_bound("fourth")
    assert "Unschedulable" not in reasons(place, "fourth", since)
    assert place.get("fourth")["spec"]["nodeName"] == names[1]


def test_a_gang_that_replaces_pods_that_end_slowly_causes_no_shortage(place: Place) -> None:
    queue = place.queue("24")
    names = three_full_nodes(place, "gang", queue)
    since = revision(place)
    place.group("successors", queue, 2)
    members = ["successor-0", "successor-1"]
    for name in members:
        place.pod(name, queue, cpu="8", group="successors", affinity=anywhere(names))
    for name in names[:2]:
        send(place.server, "DELETE", f"{PODS}/{name}")
    for name in members:
        place.until_reason(name, WAITING_FOR_TERMINATING_PODS)
    assert {place.get(name)["status"]["nominatedNodeName"] for name in members} == set(names[:2])
    place.delete(names[0])
    place.until_the_next_decision()
    assert not any(is_bound(place.get(name)) for name in members), "whole or not at all"
    place.delete(names[1])
    place.until_bound(*members)
    for name in members:
        assert "Unschedulable" not in reasons(place, name, since)


def test_when_the_predecessor_is_overdue_the_shortage_is_told(place: Place) -> None:
    queue = place.queue("8")
    place.node("overdue", cpu="8")
    place.pod("stuck", queue, cpu="8", wants="overdue", terminationGracePeriodSeconds=2)
    place.until_bound("stuck")
    send(place.server, "DELETE", f"{PODS}/stuck")
    place.pod("next", queue, cpu="8", wants="overdue")
    place.until_unschedulable("next")
    assert not place.get("next")["status"].get("nominatedNodeName")


def test_a_pod_of_high_priority_gets_past_a_promise_that_has_no_node(place: Place) -> None:
    send(
        place.server,
        "POST",
        PRIORITY_CLASSES,
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "past"}, "value": 1000},
    )
    queue = place.queue("1")
    place.pod("low", queue, wants="nowhere-at-all")
    place.until_unschedulable("low")
    place.pod("high", queue, priorityClassName="past")
    place.until_bound("high")
    place.until_reason("low", "WaitingForQueue")
    assert STAMP not in place.get("low")["metadata"]["annotations"]
    place.until_used(queue, allocated="1")
    place.delete("high")
    place.until_unschedulable("low")
    assert STAMP in place.get("low")["metadata"]["annotations"]
