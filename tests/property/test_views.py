"""The views after any events are those of the same objects read at once, and changes since a revision lead there."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from capacity_builders import a_group, a_queue
from headgate.capacity.names import GATE, POD_GROUPS, QUEUES
from headgate.gate_policies.names import GATE_POLICIES
from headgate.jobs.names import ADMISSION_GATE, POD_GROUP_NAME
from headgate.kube.api_resources import NAMESPACES, NODES, PODS, APIResource
from headgate.quota.kinds.names import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.views.rows import TOPICS, Row, Topic
from headgate.views.waiting_pages import WaitingPages, WaitingQuery
from kueue_builders import a_cluster_queue, a_cohort, a_flavor, a_local_queue, a_workload
from viewed_clusters import ViewedCluster, Wire, a_node, a_pod, a_policy, all_rows, key_of

GATES = (GATE, ADMISSION_GATE, "example.com/data", "example.com/licence")
NAMES = ("a", "b", "c")
OPERATIONS = 40


def random_object(draw: random.Random) -> tuple[APIResource, Wire]:
    name, namespace = draw.choice(NAMES), draw.choice(("ns", "other"))
    match draw.choice(
        ("pod", "pod", "pod", "pod", "queue", "group", "node", "policy", "quota", "workload", "workload")
    ):
        case "pod":
            node = draw.choice(("", "", "a", "b"))
            unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
            pod = a_pod(
                f"p{draw.randrange(8)}",
                cpu=draw.choice(("1", "2", "500m")),
                queue=draw.choice(("", "a", "b", "absent")),
                group=draw.choice(("", "", "a", "b")),
                gates=() if node else draw.sample(GATES, draw.randrange(3)),
                node=node,
                namespace=namespace,
                scheduler=draw.choice(("headgate", "headgate", "other")),
                phase=draw.choice(("Pending", "Running", "Succeeded")),
                at_s=draw.randrange(-9000, 0),
                uid=f"u{draw.randrange(1 << 40)}",
                conditions=[unschedulable] if draw.random() < 0.3 else [],
                labels={POD_GROUP_NAME: draw.choice(NAMES)} if draw.random() < 0.3 else {},
            )
            return PODS, pod
        case "queue":
            parent = draw.choice(("", "", "a", "b"))
            queue = a_queue(
                name,
                draw.choice((None, 2, 10)),
                parent if parent < name else "",  # no circles: an admission handler refuses them
                deserved=draw.choice((None, {"cpu": 3})),
                guarantee=draw.choice((None, {"cpu": 1})),
                state=draw.choice(("Open", "Open", "Closed")),
            )
            return QUEUES, queue
        case "group":
            group = a_group(
                name, draw.choice(("", "a", "b")), draw.randrange(1, 4), draw.choice(("Pending", "Inqueue"))
            )
            group["metadata"]["namespace"] = namespace
            return POD_GROUPS, group
        case "node":
            return NODES, a_node(name, draw.choice(("4", "8")), ready=draw.random() < 0.8)
        case "policy":
            return GATE_POLICIES, a_policy(name, *draw.sample(GATES, 2), lifters=draw.sample(("eve", "bob"), 1))
        case "quota":
            return draw.choice(
                [
                    (RESOURCE_FLAVORS, a_flavor("default")),
                    (COHORTS, a_cohort(name, draw.choice(("", "root")))),
                    (CLUSTER_QUEUES, a_cluster_queue(name, cohortName=draw.choice(("", "a", "b")))),
                    (LOCAL_QUEUES, a_local_queue(name, draw.choice(("a", "b", "absent")), namespace)),
                    (NAMESPACES, {"metadata": {"name": namespace, "labels": {}, "annotations": {}}}),
                ]
            )
        case _:
            return WORKLOADS, random_workload(draw, namespace)


def as_later_version(draw: random.Random, known: Wire | None, pod: Wire) -> Wire:
    """Of an existing pod, half of the time: gates are only removed, and a node and an end are kept."""
    if known is None or draw.random() < 0.5:
        return pod
    before, after = known["spec"], pod["spec"]
    gates = [each for each in before["schedulingGates"] if each in after["schedulingGates"]]
    node = before.get("nodeName") or ("" if gates else after.get("nodeName", ""))
    spec = {**after, "schedulerName": before["schedulerName"], "schedulingGates": gates}
    spec = {**spec, "nodeName": node} if node else {key: value for key, value in spec.items() if key != "nodeName"}
    fixed = {key: known["metadata"][key] for key in ("uid", "creationTimestamp")}
    status = known["status"] if known["status"]["phase"] == "Succeeded" else pod["status"]
    return {"metadata": {**pod["metadata"], **fixed}, "spec": spec, "status": status}


def random_workload(draw: random.Random, namespace: str) -> Wire:
    status: Wire = {}
    if draw.random() < 0.5:
        admission = {"clusterQueue": draw.choice(NAMES)}
        usage = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "2"}}
        types = draw.choice(
            (("QuotaReserved",), ("QuotaReserved", "Admitted"), ("QuotaReserved", "Admitted", "Finished"))
        )
        conditions = [{"type": each, "status": "True", "reason": "x", "message": "m"} for each in types]
        status = {"admission": {**admission, "podSetAssignments": [usage]}, "conditions": conditions}
    wire = a_workload(
        draw.choice(NAMES),
        cpu=2,
        queue=draw.choice(NAMES),
        namespace=namespace,
        status=status,
        priority=draw.randrange(3),
    )
    wire["metadata"]["uid"] = f"{namespace}-{wire['metadata']['name']}"
    if draw.random() < 0.5:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p1", "uid": f"u-{namespace}-p{draw.randrange(4)}"}
        wire["metadata"]["ownerReferences"] = [owner]
    return wire


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_views_after_any_events_are_those_of_the_same_objects_read_at_once(seed: int) -> None:
    draw, cluster = random.Random(seed), ViewedCluster()
    pages = WaitingPages(cluster.views)
    replica: dict[Topic, dict[str, Row]] = {topic: {} for topic in TOPICS}
    known = 0
    for step in range(OPERATIONS):
        resource, obj = random_object(draw)
        present = [key for key in cluster.objects if key[0] == resource]
        if present and draw.random() < 0.25:
            cluster.remove(*draw.choice(present))
        else:
            if resource == PODS:
                obj = as_later_version(draw, cluster.objects.get((PODS, key_of(obj))), obj)
            cluster.put(resource, obj)
        if draw.random() < 0.3:
            cluster.now_s += draw.choice((0.0, 10.0, 4000.0))
        if draw.random() > 0.4 and step < OPERATIONS - 1:
            continue
        views = cluster.flush()
        for topic in TOPICS:
            changes = views.changes_since(topic, known)
            assert changes is not None
            for row in changes.upserts:
                replica[topic][row.key] = row
            for key in changes.removed:
                replica[topic].pop(key, None)
        known = views.revision
        rebuilt = cluster.rebuilt()
        assert all_rows(views) == all_rows(rebuilt)
        assert replica == all_rows(views)
        for query in (WaitingQuery(), WaitingQuery(queue="a", kind="Queue"), WaitingQuery(search="ns p1")):
            assert pages.page(query) == WaitingPages(rebuilt).page(query)
