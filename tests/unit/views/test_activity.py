"""Counters of what happened: pods created, admitted and bound, and Workloads that got quota."""

from __future__ import annotations

from headgate.capacity.names import QUEUES
from headgate.kube.api_resources import NODES, PODS
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.views.activity import Activity
from kueue_builders import a_cluster_queue, a_flavor, a_local_queue, a_workload, reserved
from viewed_clusters import ViewedCluster, a_node, a_pod


def test_a_pod_is_created_then_admitted_then_bound() -> None:
    cluster = ViewedCluster()
    cluster.put(NODES, a_node("n"))
    cluster.put(QUEUES, {"metadata": {"name": "q", "uid": "q"}, "spec": {"capability": {"cpu": "9"}}})
    cluster.put(PODS, a_pod("a", queue="q"))
    assert cluster.views.activity == Activity(created=1)
    cluster.put(PODS, a_pod("a", queue="q", gates=()))
    assert cluster.views.activity == Activity(created=1, admitted=1)
    cluster.put(PODS, a_pod("a", queue="q", gates=(), node="n"))
    cluster.put(PODS, a_pod("a", queue="q", gates=(), node="n", phase="Running"))
    assert cluster.views.activity == Activity(created=1, admitted=1, bound=1)
    cluster.remove(PODS, "ns/a")
    assert cluster.views.activity == Activity(created=1, admitted=1, bound=1)


def test_a_pod_that_is_deleted_while_it_waits_was_not_admitted() -> None:
    cluster = ViewedCluster()
    cluster.put(PODS, a_pod("a", queue="q"))
    cluster.put(PODS, a_pod("a", queue="q", deletionTimestamp="2023-11-14T22:13:20Z"))
    cluster.remove(PODS, "ns/a")
    assert cluster.views.activity == Activity(created=1)


def test_a_pod_that_has_ended_is_not_created() -> None:
    cluster = ViewedCluster()
    cluster.put(PODS, a_pod("a", gates=(), node="n", phase="Succeeded"))
    assert cluster.views.activity == Activity()


def test_a_workload_counts_when_it_gets_quota() -> None:
    cluster = ViewedCluster()
    cluster.put(RESOURCE_FLAVORS, a_flavor())
    cluster.put(CLUSTER_QUEUES, a_cluster_queue())
    cluster.put(LOCAL_QUEUES, a_local_queue())
    cluster.put(WORKLOADS, a_workload("w", cpu=1))
    assert cluster.views.activity.workloads == 0
    for _ in range(2):
        cluster.put(WORKLOADS, a_workload("w", cpu=1, status=reserved(cpu=1)))
    assert cluster.views.activity.workloads == 1
