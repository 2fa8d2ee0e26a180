"""What an action will do is what the engines do after it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from capacity_builders import a_queue
from headgate.capacity.names import GATE, QUEUES
from headgate.kube.api_resources import NAMESPACES, PODS
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.views.action_effects import Effect, lift_effects, priority_effects, queue_effects, workload_effects
from headgate.views.rows import QueueRow, QuotaRow
from headgate.views.waiting_pages import WaitingPages, WaitingQuery
from kueue_builders import a_cluster_queue, a_flavor, a_local_queue, a_workload
from viewed_clusters import ViewedCluster, a_pod

DATA = "example.com/data"


def texts(effects: Iterable[Effect]) -> str:
    return "\n".join(each.text for each in effects)


def a_cluster(*pods: dict[str, Any], cpu: int = 4) -> ViewedCluster:
    cluster = ViewedCluster()
    cluster.put(QUEUES, a_queue("root"), a_queue("team", cpu))
    cluster.put(PODS, *pods)
    cluster.flush()
    return cluster


def lifted(cluster: ViewedCluster, name: str, gate: str = DATA) -> list[Effect]:
    pod = cluster.views.pod("ns", name)
    assert pod is not None
    return list(lift_effects(cluster.views, pod, gate))


def test_a_pod_without_its_last_foreign_gate_is_admitted_if_its_queue_has_capacity() -> None:
    cluster = a_cluster(a_pod("held", "2", "team", gates=(GATE, DATA)))
    found = lifted(cluster, "held")
    assert found[-1] == Effect("queue team has capacity for it, and admits it", needs_queues=True)


def test_a_pod_without_its_last_foreign_gate_gets_the_place_that_it_will_have() -> None:
    running = a_pod("runs", "3", "team", gates=(), node="n1", phase="Running")
    cluster = a_cluster(
        running,
        a_pod("first", "2", "team", at_s=1),
        a_pod("held", "2", "team", gates=(GATE, DATA), at_s=2),
        a_pod("third", "2", "team", at_s=3),
    )
    said = texts(lifted(cluster, "held"))
    assert "it waits in queue team then, at place 2" in said
    assert "its queue does not admit it yet: queue team has no capacity for 2 cpu" in said
    cluster.put(PODS, a_pod("held", "2", "team", at_s=2))
    page = WaitingPages(cluster.flush()).page(WaitingQuery(queue="team", kind="Queue"))
    assert [(each.row.name, each.position) for each in page.entries] == [("first", 0), ("held", 1), ("third", 2)]


def test_a_preview_changes_nothing() -> None:
    cluster = a_cluster(a_pod("held", "2", "team", gates=(GATE, DATA)))
    before = cluster.views.revision
    lifted(cluster, "held")
    assert cluster.flush().revision == before
    assert cluster.views.queues.engine.line("team") == []


def test_other_gates_still_hold_the_pod() -> None:
    cluster = a_cluster(a_pod("held", "2", "team", gates=(GATE, DATA, "example.com/more")))
    assert texts(lifted(cluster, "held")).endswith("it stays held by example.com/more")


def test_the_removal_of_the_gate_of_a_queue_is_a_warning() -> None:
    cluster = a_cluster(a_pod("waits", "2", "team"), cpu=1)
    assert "this is the gate of a queue" in texts(lifted(cluster, "waits", GATE))


def test_a_pod_without_a_queue_goes_to_its_scheduler() -> None:
    cluster = a_cluster(a_pod("plain", gates=(DATA,), scheduler="default-scheduler"))
    assert texts(lifted(cluster, "plain")).endswith("no gate is left: its scheduler tries to place it at once")


def test_a_held_queue_says_how_many_pods_stay() -> None:
    cluster = a_cluster(a_pod("runs", "4", "team", gates=(), node="n", phase="Running"), a_pod("waits", "2", "team"))
    row = cluster.views.row("queues", "team")
    assert isinstance(row, QueueRow)
    assert "1 waiting pod in line: not changed" in texts(queue_effects(row, is_held=True))
    assert "Queue team admits again" in texts(queue_effects(row, is_held=False))


def with_workloads(*priorities: int) -> ViewedCluster:
    cluster = ViewedCluster()
    cluster.put(NAMESPACES, {"metadata": {"name": "ns", "labels": {}}})
    cluster.put(RESOURCE_FLAVORS, a_flavor())
    cluster.put(CLUSTER_QUEUES, a_cluster_queue("cq", {"default": {"cpu": 0}}))
    cluster.put(LOCAL_QUEUES, a_local_queue("lq", "cq"))
    for number, priority in enumerate(priorities):
        cluster.put(WORKLOADS, a_workload(f"w{number}", cpu=1, priority=priority))
    cluster.flush()
    return cluster


def test_a_higher_priority_names_the_place_that_it_gives() -> None:
    cluster = with_workloads(5, 3, 1)
    said = texts(priority_effects(cluster.views, "ns/w2", 4))
    assert "changes from 1 to 4" in said
    assert "it moves from place 3 to 2 of 3: it passes 1 Workload" in said
    cluster.put(WORKLOADS, a_workload("w2", cpu=1, priority=4))
    page = WaitingPages(cluster.flush()).page(WaitingQuery(queue="cq", kind="ClusterQueue"))
    assert [each.row.name for each in page.entries] == ["w0", "w2", "w1"]


def test_a_lower_priority_names_the_place_too() -> None:
    cluster = with_workloads(5, 3, 1)
    assert "from place 1 to 3 of 3: it falls behind 2" in texts(priority_effects(cluster.views, "ns/w0", 0))
    assert "in ClusterQueue cq its place stays" in texts(priority_effects(cluster.views, "ns/w0", 6))


def test_a_held_workload_says_who_moves_up() -> None:
    cluster = with_workloads(5, 3, 1)
    assert "one place up in ClusterQueue cq: 2 Workloads behind it" in texts(
        workload_effects(cluster.views, "ns/w0", is_held=True)
    )
    assert "waits for quota again" in texts(workload_effects(cluster.views, "ns/w0", is_held=False))


def test_a_held_cluster_queue_says_how_many_workloads_stay() -> None:
    row = with_workloads(1, 1).views.row("cluster-queues", "ClusterQueue/cq")
    assert isinstance(row, QuotaRow)
    assert "2 waiting Workloads in line: not changed" in texts(queue_effects(row, is_held=True))
