"""After any changes of queues, groups and pods: when the cluster is quiet, every status equals a plain count.

The reference knows only the API objects and recounts everything. Statuses are right for any order of events, after
failed writes, and after other clients overwrote them; a quiet cluster gets no writes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.capacity.names import GATE
from status_reporting import Cluster

Object = dict[str, Any]
Step = tuple[str, int, int]

QUEUES = ("left", "right", "leaf")
GROUPS = ("g1", "g2")
PODS = tuple(f"p{number}" for number in range(6))
SETTLED_S = 30.0

_ACTS = st.sampled_from(
    (
        "queue",
        "drop queue",
        "close",
        "state",
        "group",
        "drop group",
        "pod",
        "node",
        "phase",
        "leave",
        "drop pod",
        "run",
        "fail",
    )
)
STEPS = st.lists(st.tuples(_ACTS, st.integers(0, 11), st.integers(0, 11)), max_size=40)


def act(cluster: Cluster, step: Step) -> None:
    what, one, two = step
    queue, group, pod = QUEUES[one % 3], GROUPS[one % 2], PODS[one % 6]
    if what == "queue":
        cluster.queue(queue, parent="left" if queue == "leaf" and two % 2 else "root", weight=1 + two)
    elif what == "drop queue" and queue in cluster.queues:
        cluster.remove_queue(queue)
    elif what == "close" and queue in cluster.queues:
        cluster.queue(queue, annotation=("Closed", "Open", "")[two % 3], **cluster.queues[queue]["spec"])
    elif what == "state" and queue in cluster.queues:
        cluster.queue(queue, state=("Closed", "Open")[two % 2], **cluster.queues[queue]["spec"])
    elif what == "group":
        cluster.group(group, queue=QUEUES[one % 2 + 1], minMember=1 + two % 3)
    elif what == "drop group" and group in cluster.groups:
        cluster.remove_group(group)
    elif what == "pod" and pod not in cluster.pods:
        cluster.pod(pod, queue=QUEUES[two % 3], group=("", *GROUPS)[two % 3], gates=[GATE] if two % 2 else [])
    elif what == "node" and pod in cluster.pods and not cluster.pods[pod].get("node"):
        cluster.pod(pod, node="n1", gates=[])
    elif what == "phase" and pod in cluster.pods and cluster.pods[pod]["phase"] not in ("Succeeded", "Failed"):
        cluster.pod(pod, phase=("Running", "Succeeded", "Failed")[two % 3], node="n1", gates=[])
    elif what == "leave" and pod in cluster.pods:
        cluster.pod(pod, leaving=True)
    elif what == "drop pod" and pod in cluster.pods:
        cluster.remove_pod(pod)
    elif what == "run":
        cluster.run(two / 2)
    elif what == "fail":
        cluster.failures_left += two % 3


def has_ended(pod: Object) -> bool:
    return pod["phase"] in ("Succeeded", "Failed")


def counted_phase(cluster: Cluster, name: str) -> str:
    """By the book: how many pods of the group have or had a node."""
    group = cluster.groups[name]
    members = [pod for pod in cluster.pods.values() if pod.get("group") == name]
    placed = [pod for pod in members if pod.get("node")]
    if len(placed) >= group["spec"]["minMember"]:
        return "Completed" if all(map(has_ended, placed)) else "Running"
    seen = str(cluster.status(name).get("phase"))
    if not takes(cluster, group["spec"]["queue"]) and seen in ("Pending", "Inqueue"):
        return seen  # it may have been let in before its queue took nothing any more
    return "Inqueue"  # none of these groups has minResources to wait for


def takes(cluster: Cluster, name: str) -> bool:
    """A queue that is there, open, below the root, and above no other."""
    queue = cluster.queues.get(name)
    if queue is None or queue["status"].get("state", "Open") != "Open" or len(subtree(cluster, name)) > 1:
        return False
    while name != "root" and name in cluster.queues:
        name = parent_of(cluster.queues[name])
    return name == "root"


def counted_phases(cluster: Cluster, queue: str) -> Counter[str]:
    found = Counter(
        counted_phase(cluster, name) for name, each in cluster.groups.items() if each["spec"]["queue"] == queue
    )
    for pod in cluster.pods.values():
        if not pod.get("group") and pod["queue"] == queue and not has_ended(pod):
            found["Running" if pod.get("node") else "Pending"] += 1
    return found


def queue_of(cluster: Cluster, pod: Object) -> str:
    return cluster.engine.queue_of(pod["uid"])


def parent_of(queue: Object) -> str:
    return str(queue["spec"].get("parent") or "root")


def subtree(cluster: Cluster, queue: str) -> set[str]:
    below = {name for name, each in cluster.queues.items() if name != "root" and parent_of(each) == queue}
    return {queue}.union(*(subtree(cluster, name) for name in below))


def settled(steps: list[Step]) -> Cluster:
    cluster = Cluster()
    for name in ("root", "default", *QUEUES[:2]):
        cluster.queue(name)
    cluster.synced()
    for step in steps:
        act(cluster, step)
    cluster.failures_left = 0
    cluster.run(SETTLED_S)
    return cluster


@settings(max_examples=80)
@given(STEPS)
def test_in_a_quiet_cluster_statuses_equal_a_plain_count(steps: list[Step]) -> None:
    cluster = settled(steps)
    for name in cluster.groups:
        members = [pod for pod in cluster.pods.values() if pod.get("group") == name]
        status = cluster.status(name)
        assert status["phase"] == counted_phase(cluster, name)
        assert status["succeeded"] == sum(pod["phase"] == "Succeeded" for pod in members)
        assert status["failed"] == sum(pod["phase"] == "Failed" for pod in members)
    for name, queue in cluster.queues.items():
        status = queue["status"]
        phases = counted_phases(cluster, name)
        assert {
            each: status.get(each.lower(), 0) for each in ("Pending", "Inqueue", "Running", "Unknown", "Completed")
        } == {each: phases[each] for each in ("Pending", "Inqueue", "Running", "Unknown", "Completed")}
        inside = subtree(cluster, name)
        held = sum(
            pod["cpu"]
            for pod in cluster.pods.values()
            if pod.get("node") and not pod.get("leaving") and not has_ended(pod) and queue_of(cluster, pod) in inside
        )
        assert status.get("allocated", {}) == ({"cpu": str(held // 1000)} if held else {})
        tenants = sum(sum(counted_phases(cluster, each).values()) for each in inside)
        assert status["state"] in (("Open", "Closing") if tenants else ("Open", "Closed"))
    assert cluster.run(600, 5) == 0


@settings(max_examples=40)  # an example is two whole clusters
@given(STEPS, st.integers(0, 2**32))
def test_a_restarted_reporter_writes_nothing(steps: list[Step], seed: int) -> None:
    cluster = settled(steps)
    again = Cluster()
    again.adopt(cluster, seed)
    again.synced()
    assert again.run(SETTLED_S) == 0
