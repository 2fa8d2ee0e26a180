"""Rows of the views: what they say about small clusters. ``tests/property/test_views.py`` covers changes."""

from __future__ import annotations

from typing import Any

from capacity_builders import a_group, a_queue
from headgate.capacity.names import GATE, POD_GROUPS, QUEUES
from headgate.gate_policies.names import GATE_POLICIES
from headgate.jobs.names import ADMISSION_GATE
from headgate.kube.api_resources import NAMESPACES, NODES, PODS
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.views.rows import Topic
from headgate.views.waiting_pages import WaitingPages, WaitingQuery
from kueue_builders import a_cluster_queue, a_flavor, a_local_queue, a_workload
from viewed_clusters import ViewedCluster, a_node, a_pod, a_policy

DATA = "example.com/data"


def rows(cluster: ViewedCluster, topic: Topic) -> dict[str, Any]:
    return {row.key: row for row in cluster.flush().rows(topic)}


def a_cluster() -> ViewedCluster:
    cluster = ViewedCluster()
    cluster.put(QUEUES, a_queue("root"), a_queue("team", 4, deserved={"cpu": 2}))
    return cluster


def with_quota() -> ViewedCluster:
    cluster = ViewedCluster()
    cluster.put(NAMESPACES, {"metadata": {"name": "ns", "labels": {}}})
    cluster.put(RESOURCE_FLAVORS, a_flavor())
    cluster.put(CLUSTER_QUEUES, a_cluster_queue("cq", {"default": {"cpu": 4}}, cohortName="all"))
    cluster.put(LOCAL_QUEUES, a_local_queue("lq", "cq"))
    return cluster


def admitted(name: str, cpu: int) -> dict[str, Any]:
    assignment = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": str(cpu)}}
    conditions = [{"type": each, "status": "True", "reason": "x"} for each in ("QuotaReserved", "Admitted")]
    status = {"admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]}, "conditions": conditions}
    return a_workload(name, cpu=cpu, status=status)


def test_a_queue_shows_what_is_used_and_what_waits_in_numbers_and_in_words() -> None:
    cluster = a_cluster()
    cluster.put(PODS, a_pod("runs", "3", "team", gates=(), node="n1", phase="Running"), a_pod("waits", "2", "team"))
    row = rows(cluster, "queues")["team"]
    (cpu,) = row.resources
    assert (cpu.used, cpu.limit, cpu.waiting, cpu.deserved) == (3000, 4000, 2000, 2000)
    assert cpu.text == "3 of 4 used, 2 waiting, deserves 2"
    assert (row.waiting, row.parent, row.state) == (1, "root", "Open")


def test_a_waiting_pod_has_its_place_and_the_reason_of_its_queue() -> None:
    cluster = a_cluster()
    cluster.put(PODS, a_pod("runs", "3", "team", gates=(), node="n1", phase="Running"))
    cluster.put(PODS, a_pod("second", "2", "team", at_s=2), a_pod("first", "2", "team", at_s=1))
    page = WaitingPages(cluster.flush()).page(WaitingQuery(queue="team", kind="Queue"))
    assert [(each.row.name, each.position) for each in page.entries] == [("first", 0), ("second", 1)]
    assert page.entries[0].why == "QueueFull"
    assert page.entries[0].sentence == "queue team has no capacity for 2 cpu: 3 of 4 are in use or promised to others"


def test_the_waiting_pods_of_a_group_are_one_unit() -> None:
    cluster = a_cluster()
    cluster.put(POD_GROUPS, a_group("gang", "team", 2))
    cluster.put(PODS, *(a_pod(f"g{each}", "1", group="gang") for each in range(3)))
    (row,) = rows(cluster, "waiting").values()
    assert (row.key, row.pods, row.asks, row.queue) == ("PodGroup/ns/gang", 3, {"cpu": "3"}, "team")
    cluster.remove(PODS, "ns/g0")
    assert rows(cluster, "waiting")["PodGroup/ns/gang"].pods == 2


def test_a_pod_behind_a_gate_of_another_controller_says_so() -> None:
    cluster = a_cluster()
    cluster.put(PODS, a_pod("held", "1", "team", gates=(GATE, DATA)))
    cluster.put(GATE_POLICIES, a_policy("data", DATA, lifters=("loader",)))
    views = cluster.flush()
    (entry,) = WaitingPages(views).page(WaitingQuery(gate=DATA)).entries
    assert (entry.row.state, entry.sentence) == ("gated", f"{DATA} has to be removed by its owner")
    gate = rows(cluster, "gates")[f"{DATA} ns"]
    assert (gate.pods, gate.oldest, gate.owner, gate.policy) == (1, "held", "user loader", "data")
    assert rows(cluster, "overview")["ns"].gated == 1


def test_a_gate_that_holds_a_pod_for_an_hour_becomes_a_problem() -> None:
    cluster = a_cluster()
    cluster.put(PODS, a_pod("held", gates=(DATA,)))
    assert rows(cluster, "problems") == {}
    cluster.now_s += 3601
    (problem,) = rows(cluster, "problems").values()
    assert (problem.kind, problem.namespace) == ("OldGate", "ns")
    cluster.remove(PODS, "ns/held")
    assert rows(cluster, "problems") == {}


def test_a_pod_that_names_a_missing_queue_is_a_problem_until_the_queue_exists() -> None:
    cluster = a_cluster()
    cluster.put(PODS, a_pod("waits", queue="typo"))
    (problem,) = rows(cluster, "problems").values()
    assert problem.text == "queue typo does not exist; 1 waiting pod names it"
    cluster.put(QUEUES, a_queue("typo"))
    assert rows(cluster, "problems") == {}


def test_an_invalid_pod_is_a_problem_and_stops_nothing() -> None:
    cluster = a_cluster()
    bad = a_pod("bad", "1", "team")
    bad["spec"]["containers"] = 7
    cluster.put(PODS, bad, a_pod("good", "1", "team"))
    assert [row.subject for row in rows(cluster, "problems").values()] == ["pod/ns/bad"]
    assert [row.name for row in rows(cluster, "waiting").values()] == ["good"]


def test_a_node_shows_its_fullest_resource() -> None:
    cluster = ViewedCluster()
    cluster.put(NODES, a_node("n1", "4"))
    cluster.put(PODS, a_pod("runs", "3", gates=(), node="n1", phase="Running"))
    node = rows(cluster, "nodes")["n1"]
    assert (node.pods, node.share, node.dominant, node.ready) == (1, 0.75, "cpu", True)
    cluster.put(PODS, a_pod("runs", "3", gates=(), node="n1", phase="Succeeded"))
    assert rows(cluster, "nodes")["n1"].share == 0.0


def test_a_cluster_queue_shows_its_flavors_and_its_workloads() -> None:
    cluster = with_quota()
    cluster.put(WORKLOADS, admitted("runs", 3), a_workload("waits", cpu=2))
    queue = rows(cluster, "cluster-queues")["ClusterQueue/cq"]
    (cpu,) = queue.resources
    assert (cpu.flavor, cpu.nominal, cpu.used, cpu.borrowed, cpu.text) == ("default", 4000, 3000, 0, "3 of 4 used")
    assert (queue.pending, queue.admitted, queue.parent) == (1, 1, "Cohort/all")
    assert rows(cluster, "cluster-queues")["LocalQueue/ns/lq"].parent == "ClusterQueue/cq"
    assert rows(cluster, "cluster-queues")["Cohort/all"].resources[0].used == 3000
    (entry,) = WaitingPages(cluster.views).page(WaitingQuery(queue="cq", kind="ClusterQueue")).entries
    assert (entry.row.name, entry.position, entry.row.asks) == ("waits", 0, {"cpu": "2"})


def test_a_pod_that_waits_for_the_admission_of_its_workload_is_no_second_unit() -> None:
    cluster = with_quota()
    pod = a_pod("worker", gates=(ADMISSION_GATE,))
    cluster.put(PODS, pod)
    assert list(rows(cluster, "waiting")) == ["Pod/ns/worker"]
    workload = a_workload("pod-worker", cpu=1)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "worker", "uid": pod["metadata"]["uid"]}
    workload["metadata"]["ownerReferences"] = [owner]
    cluster.put(WORKLOADS, workload)
    assert list(rows(cluster, "waiting")) == ["Workload/ns/pod-worker"]


def test_a_local_queue_without_its_cluster_queue_is_a_problem_when_a_workload_waits_in_it() -> None:
    cluster = with_quota()
    cluster.put(LOCAL_QUEUES, a_local_queue("stray", "absent"))
    assert rows(cluster, "problems") == {}
    cluster.put(WORKLOADS, a_workload("waits", cpu=1, queue="stray"))
    (problem,) = rows(cluster, "problems").values()
    assert problem.text == "its ClusterQueue absent does not exist; 1 Workload waits in it"


def test_missing_rights_are_named_until_they_are_granted() -> None:
    cluster = ViewedCluster()
    cluster.views.set_missing_rights(["missing right: list nodes"])
    assert [row.text for row in rows(cluster, "problems").values()] == ["missing right: list nodes"]
    cluster.views.set_missing_rights([])
    assert rows(cluster, "problems") == {}


def test_a_change_of_one_pod_changes_the_rows_of_its_path_only() -> None:
    cluster = a_cluster()
    cluster.put(QUEUES, a_queue("other", 4))
    cluster.put(PODS, *(a_pod(f"p{each}", "1", "other") for each in range(5)))
    known = cluster.flush().revision
    cluster.put(PODS, a_pod("new", "1", "team"))
    views = cluster.flush()
    changed = {topic: views.changes_since(topic, known) for topic in ("queues", "waiting")}
    assert {row.key for row in changed["queues"].upserts} == {"team", "root"}  # type: ignore[union-attr]
    assert [row.key for row in changed["waiting"].upserts] == ["Pod/ns/new"]  # type: ignore[union-attr]


def test_a_search_finds_parts_of_names_owners_and_gates() -> None:
    cluster = a_cluster()
    cluster.put(PODS, a_pod("etl-1", queue="team"), a_pod("train-1", queue="team", gates=(GATE, DATA)))
    pages = WaitingPages(cluster.flush())
    assert [each.row.name for each in pages.page(WaitingQuery(search="TEAM etl")).entries] == ["etl-1"]
    assert [each.row.name for each in pages.page(WaitingQuery(search="example.com")).entries] == ["train-1"]
    assert pages.page(WaitingQuery(search="none")).total == 0


def test_a_page_beyond_the_end_is_the_last_row() -> None:
    cluster = a_cluster()
    cluster.put(PODS, *(a_pod(f"p{each}", queue="team", at_s=each) for each in range(3)))
    page = WaitingPages(cluster.flush()).page(WaitingQuery(offset=10, limit=2))
    assert (page.total, page.offset, [each.row.name for each in page.entries]) == (3, 2, ["p2"])
