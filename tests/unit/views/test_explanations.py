"""The detail of a pod or Workload: the text of ``headgate explain``, and its history."""

from __future__ import annotations

from capacity_builders import a_queue
from headgate.capacity.explanation import explain
from headgate.capacity.names import QUEUES
from headgate.kube.api_resources import PODS
from headgate.quota.kinds.names import WORKLOADS
from headgate.views.explanations import explain_pod, explain_workload_object, workloads_of_pod
from kueue_builders import a_workload
from viewed_clusters import NOW_S, ViewedCluster, a_pod


def test_a_pod_is_explained_in_the_words_of_headgate_explain() -> None:
    cluster = ViewedCluster()
    pod = a_pod("waits", "2", "team")
    cluster.put(QUEUES, a_queue("team", 1))
    cluster.put(PODS, pod)
    detail = explain_pod(cluster.flush(), pod, [], NOW_S)
    engine = cluster.views.queues.engine
    assert detail.pod is not None
    expected = explain(pod, engine, {"cpu": 2000}, [], tuple(sorted(cluster.views.served)))
    assert (detail.pod.summary, detail.pod.holds, detail.pod.next) == (expected.summary, expected.holds, expected.next)
    assert detail.pod.holds[0].text == "queue team has no capacity for 2 cpu: 0 of 1 are in use or promised to others"


def test_the_history_of_a_pod_is_in_the_order_of_time() -> None:
    ready = [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:02:00Z"},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"},
    ]
    pod = a_pod("runs", gates=(), node="n1", phase="Running", conditions=ready)
    detail = explain_pod(ViewedCluster().flush(), pod, [], NOW_S)
    assert [each.name for each in detail.history] == ["created", "bound", "ready"]


def test_the_workloads_of_a_pod_are_its_own_its_owners_and_its_groups() -> None:
    cluster = ViewedCluster()
    pod = a_pod("one")
    own, group, other = a_workload("own"), a_workload("group"), a_workload("other")
    own["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "one", "uid": "u-ns-one"}]
    cluster.put(WORKLOADS, own, group, other)
    assert workloads_of_pod(cluster.flush(), pod, "group") == ["ns/group", "ns/own"]


def test_a_workload_is_explained_with_its_history() -> None:
    cluster = ViewedCluster()
    workload = a_workload("waits", cpu=2)
    cluster.put(WORKLOADS, workload)
    detail = explain_workload_object(cluster.flush(), workload, NOW_S)
    assert [each.state for each in detail.workloads] == ["pending"]
    assert detail.commands[0] == "headgate explain workload waits -n ns"
