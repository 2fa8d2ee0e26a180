"""A viewer sees what ``kubectl get`` would show, and nothing else."""

from __future__ import annotations

from capacity_builders import a_queue
from headgate.capacity.names import GATE, QUEUES
from headgate.dashboard.rights import EVERYTHING, ViewerRights, visible, visible_entry
from headgate.gate_policies.names import GATE_POLICIES
from headgate.kube.api_resources import NODES, PODS
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from headgate.views.rows import TOPICS, GateRow, OverviewRow
from headgate.views.waiting_pages import WaitingPages, WaitingQuery
from kueue_builders import a_cluster_queue, a_local_queue, a_workload
from viewed_clusters import ViewedCluster, a_node, a_pod, a_policy

DATA = "example.com/data"
NOTHING = ViewerRights()
PODS_IN_MINE = ViewerRights(namespaces={PODS: frozenset({"mine"})})


def a_cluster() -> ViewedCluster:
    cluster = ViewedCluster()
    cluster.put(QUEUES, a_queue("root"), a_queue("team", 1))
    cluster.put(NODES, a_node("n1"))
    cluster.put(GATE_POLICIES, a_policy("policy", DATA, lifters=("loader",)))
    for namespace in ("mine", "secret"):
        cluster.put(PODS, a_pod(f"pod-of-{namespace}", "2", "team", namespace=namespace))
        cluster.put(PODS, a_pod(f"held-of-{namespace}", "2", "typo", gates=(GATE, DATA), namespace=namespace))
        cluster.put(LOCAL_QUEUES, a_local_queue("lq", f"cq-of-{namespace}", namespace))
        cluster.put(WORKLOADS, a_workload(f"work-of-{namespace}", cpu=1, namespace=namespace))
    cluster.put(CLUSTER_QUEUES, a_cluster_queue("cq-of-secret"))
    cluster.flush()
    return cluster


def seen(cluster: ViewedCluster, rights: ViewerRights) -> list[str]:
    rows = [row for topic in TOPICS for row in cluster.views.rows(topic)]
    return sorted(str(found) for row in rows if (found := visible(row, rights)) is not None)


def test_a_viewer_without_rights_sees_no_row_at_all() -> None:
    assert seen(a_cluster(), NOTHING) == []


def test_a_viewer_of_one_namespace_sees_no_name_of_another_one() -> None:
    cluster = a_cluster()
    found = seen(cluster, PODS_IN_MINE)
    assert any("pod-of-mine" in each for each in found)
    assert not any("secret" in each for each in found)
    both = ViewerRights(
        namespaces={PODS: frozenset({"mine"}), WORKLOADS: frozenset({"mine"}), LOCAL_QUEUES: frozenset({"mine"})}
    )
    assert not any("pod-of-secret" in each or "work-of-secret" in each for each in seen(cluster, both))


def test_the_operator_sees_everything() -> None:
    cluster = a_cluster()
    assert len(seen(cluster, EVERYTHING)) == sum(cluster.views.count(topic) for topic in TOPICS)


def test_nodes_need_the_right_to_list_nodes_and_all_pods() -> None:
    (node,) = a_cluster().views.rows("nodes")
    assert visible(node, ViewerRights(everywhere=frozenset({NODES}))) is None
    assert visible(node, ViewerRights(everywhere=frozenset({NODES, PODS}))) == node


def test_counts_of_workloads_are_unknown_without_the_right_to_list_them() -> None:
    row = OverviewRow("mine", queued=1, pending=3, admitted=2)
    assert visible(row, PODS_IN_MINE) == OverviewRow("mine", queued=1, pending=None, admitted=None)


def test_the_owner_of_a_gate_needs_the_right_to_list_policies() -> None:
    row = GateRow("g ns", "g", "mine", 1, "p", 0.0, "user loader", "policy", "OK")
    found = visible(row, PODS_IN_MINE)
    assert isinstance(found, GateRow)
    assert (found.owner, found.policy, found.health) == ("", "", "")
    allowed = ViewerRights(everywhere=frozenset({GATE_POLICIES}), namespaces=PODS_IN_MINE.namespaces)
    assert visible(row, allowed) == row


def test_amounts_and_places_of_a_queue_need_the_right_to_list_queues() -> None:
    cluster = a_cluster()
    (entry,) = WaitingPages(cluster.views).page(WaitingQuery(search="pod-of-mine")).entries
    hidden = visible_entry(entry, PODS_IN_MINE)
    assert (hidden.position, "of 1" in hidden.sentence) == (None, False)
    assert visible_entry(entry, ViewerRights(everywhere=frozenset({QUEUES}))) == entry
