"""The life cycle of hollow nodes, and the failures that annotations request."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.timestamps import format_time
from headgate.nodes.effects import CreateNode, DeleteNode, PatchNodeStatus, PatchNodeTaints, RenewLease
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.node_template import MAX_NODES, NodeTemplate, make_more_nodes, make_nodes
from headgate.nodes.options import HollowOptions
from unit.nodes.fake_cluster import T0, FakeCluster, a_node, a_pod


def tainted(name: str = "n", **annotations: str) -> dict[str, Any]:
    node = a_node(name, **annotations)
    taints = ("node.kubernetes.io/not-ready", "karpenter.sh/unregistered")
    node["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"} for key in taints]
    return node


def test_a_node_becomes_ready_and_loses_only_the_not_ready_taint() -> None:
    cluster = FakeCluster().start().add(tainted())
    assert cluster.ready() == "True"
    assert cluster.taints() == ["karpenter.sh/unregistered"]
    status = cluster.nodes["n"]["status"]
    assert [(c["type"], c["status"]) for c in status["conditions"]] == [
        ("MemoryPressure", "False"),
        ("DiskPressure", "False"),
        ("PIDPressure", "False"),
        ("NetworkUnavailable", "False"),
        ("Ready", "True"),
    ]
    assert status["addresses"] == [
        {"type": "InternalIP", "address": "172.16.0.1"},
        {"type": "Hostname", "address": "n"},
    ]
    assert status["nodeInfo"]["kubeletVersion"] == "v1.35.8"
    assert status["allocatable"]["cpu"] == "4"
    assert cluster.kinds() == ["PatchNodeStatus", "PatchNodeTaints"]


def test_a_node_without_sizes_gets_them_and_one_with_a_description_keeps_it() -> None:
    bare = a_node("bare")
    bare["status"] = {}
    told = a_node("told")
    told["status"]["nodeInfo"] = {"kubeletVersion": "v9"}
    cluster = FakeCluster(HollowOptions(resources={"cpu": "7", "pods": "5"})).start().add(bare, told)
    assert cluster.nodes["bare"]["status"]["allocatable"] == {"cpu": "7", "pods": "5"}
    assert cluster.nodes["told"]["status"]["nodeInfo"] == {"kubeletVersion": "v9"}
    assert cluster.nodes["told"]["status"]["allocatable"]["cpu"] == "4"


def test_a_foreign_node_and_its_pods_are_not_changed() -> None:
    node = tainted()
    node["metadata"]["annotations"] = {}
    cluster = FakeCluster().start().add(node, a_pod()).advance(3600)
    cluster.delete_pod("p").advance(3600)
    assert cluster.effects_done == []
    cluster.nodes["n"]["metadata"]["annotations"] = {"kwok.x-k8s.io/node": "fake"}
    cluster.edit(cluster.nodes["n"])
    assert cluster.ready() == "True"
    assert "p" not in cluster.pods


def test_booting_takes_its_time_and_pods_wait_for_it() -> None:
    cluster = (
        FakeCluster(HollowOptions(boot_s=30))
        .start()
        .add(a_node(), a_node("slow", boot_after="2m"), a_pod())
        .advance(29)
    )
    assert (cluster.ready(), cluster.phase()) == ("", "Pending")
    cluster.advance(1)
    assert (cluster.ready(), cluster.phase(), cluster.ready("slow")) == ("True", "Running", "")
    cluster.advance(90)
    assert cluster.ready("slow") == "True"


def test_a_node_may_never_boot() -> None:
    cluster = FakeCluster().start().add(a_node(boot_never="true"), a_pod()).advance(86_400)
    assert (cluster.ready(), cluster.phase()) == ("", "Pending")


def test_a_flapping_node_takes_no_new_pods_while_it_is_not_ready() -> None:
    cluster = FakeCluster().start().add(a_node(not_ready_every="60s", not_ready_for="10s"), a_pod("p1")).advance(60)
    assert cluster.ready() == "False"
    assert cluster.taints() == ["node.kubernetes.io/not-ready"]
    cluster.add(a_pod("p2"))
    assert (cluster.phase("p1"), cluster.phase("p2")) == ("Running", "Pending")
    cluster.advance(10)
    assert cluster.ready() == "True"
    assert cluster.taints() == []
    assert cluster.phase("p2") == "Running"
    cluster.advance(60)
    assert cluster.ready() == "False"


def test_a_silent_node_says_nothing_any_more() -> None:
    cluster = FakeCluster(HollowOptions(controller_manager=True)).start()
    cluster.add(a_node(silent_after="30s"), a_pod(annotations={"run-for": "60s"})).advance(30)
    cluster.effects_done.clear()
    cluster.delete_pod("p").advance(3600)
    assert cluster.effects_done == []
    assert cluster.phase() == "Running"


def test_a_silent_node_speaks_again_when_it_is_let_and_says_of_its_pods_that_they_run() -> None:
    cluster = FakeCluster(HollowOptions(controller_manager=True)).start()
    cluster.add(a_node(silent_after="30s"), a_pod()).advance(60)
    cluster.nodes["n"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    cluster.pods["p"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    cluster.edit(cluster.nodes["n"]).edit(cluster.pods["p"]).advance(60)
    assert cluster.ready() == "Unknown"
    del cluster.nodes["n"]["metadata"]["annotations"]["headgate.dev/silent-after"]
    cluster.edit(cluster.nodes["n"])
    assert cluster.ready() == "True"
    cluster.advance(2)
    conditions = {each["type"]: each["status"] for each in cluster.pods["p"]["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    cluster.effects_done.clear()
    cluster.advance(60)
    assert any(isinstance(effect, RenewLease) for effect in cluster.effects_done)


def test_a_node_is_not_ready_while_its_annotation_says_so() -> None:
    cluster = FakeCluster(HollowOptions(controller_manager=True)).start().add(a_node())
    assert cluster.ready() == "True"
    cluster.nodes["n"]["metadata"]["annotations"]["headgate.dev/not-ready"] = "true"
    cluster.edit(cluster.nodes["n"])
    assert cluster.ready() == "False"
    cluster.advance(600)
    assert cluster.ready() == "False"
    del cluster.nodes["n"]["metadata"]["annotations"]["headgate.dev/not-ready"]
    cluster.edit(cluster.nodes["n"])
    assert cluster.ready() == "True"


def test_a_node_that_is_to_fail_does_not_become_ready_when_it_boots_or_speaks_again() -> None:
    cluster = FakeCluster(HollowOptions(controller_manager=True)).start()
    cluster.add(a_node(not_ready="true", boot_after="10s", silent_after="30s")).advance(20)
    assert cluster.ready() == "False"
    cluster.advance(60)
    del cluster.nodes["n"]["metadata"]["annotations"]["headgate.dev/silent-after"]
    cluster.edit(cluster.nodes["n"])
    assert cluster.ready() == "False"


def test_a_new_process_goes_on_with_a_node_that_is_to_fail() -> None:
    first = FakeCluster(HollowOptions(controller_manager=True)).start().add(a_node())
    node = first.nodes["n"]
    node["metadata"]["annotations"]["headgate.dev/not-ready"] = "true"
    again = FakeCluster(HollowOptions(controller_manager=True)).start().add(node)
    assert again.ready() == "False"


def test_more_nodes_get_the_next_numbers_and_networks_that_are_free() -> None:
    existing = make_nodes(3, NodeTemplate())
    del existing[0]
    made = make_more_nodes(2, NodeTemplate(), existing)
    assert [each["metadata"]["name"] for each in made] == ["node-0004", "node-0005"]
    assert [each["spec"]["podCIDR"] for each in made] == ["10.128.0.0/24", "10.128.3.0/24"]
    others = make_more_nodes(1, NodeTemplate(prefix="gpu-"), existing)
    assert others[0]["metadata"]["name"] == "gpu-0001"
    with pytest.raises(ValueError, match="the maximum of a cluster"):
        make_more_nodes(MAX_NODES, NodeTemplate(), existing)


def test_a_node_that_gets_the_annotation_later_stops_its_heartbeats_then() -> None:
    cluster = FakeCluster(HollowOptions(controller_manager=True)).start().add(a_node()).advance(60)
    cluster.nodes["n"]["metadata"]["annotations"]["headgate.dev/silent-after"] = "1s"
    cluster.edit(cluster.nodes["n"])
    cluster.effects_done.clear()
    cluster.advance(3600)
    assert cluster.effects_done == []


def test_a_spot_node_is_taken_away_and_its_pods_are_left_to_others() -> None:
    cluster = FakeCluster().start().add(a_node(killed_after="5m"), a_pod()).advance(300)
    assert "n" not in cluster.nodes
    cluster.effects_done.clear()
    cluster.advance(3600)
    assert (cluster.phase(), cluster.effects_done) == ("Running", [])


def test_resources_may_appear_late() -> None:
    cluster = FakeCluster().start()
    cluster.add(a_node(late_resources="nvidia.com/gpu=8", late_resources_after="30s")).advance(29)
    assert "nvidia.com/gpu" not in cluster.nodes["n"]["status"]["allocatable"]
    cluster.advance(1)
    assert cluster.nodes["n"]["status"]["allocatable"] == {
        "cpu": "4",
        "memory": "8Gi",
        "pods": "110",
        "nvidia.com/gpu": "8",
    }


def test_pods_of_a_deleted_node_are_left_to_others() -> None:
    cluster = FakeCluster().start().add(a_node(), a_pod())
    cluster.effects_done.clear()
    cluster.delete_node("n").advance(3600)
    assert (cluster.phase(), cluster.effects_done) == ("Running", [])


def test_a_node_that_is_created_again_in_time_keeps_its_pods() -> None:
    cluster = FakeCluster().start().add(a_node(), a_pod(annotations={"run-for": "60s"}))
    cluster.delete_node("n").advance(20).add(a_node()).advance(40)
    assert cluster.phase() == "Succeeded"


def test_a_pod_may_be_heard_of_before_its_node() -> None:
    cluster = FakeCluster().start().add(a_pod()).advance(10).add(a_node())
    assert cluster.phase() == "Running"
    assert cluster.kubelets.next_deadline_s() is None


def test_with_a_controller_manager_leases_are_renewed_and_taints_are_its_business() -> None:
    cluster = FakeCluster(HollowOptions(controller_manager=True)).start().add(tainted())
    assert cluster.taints() == ["node.kubernetes.io/not-ready", "karpenter.sh/unregistered"]
    cluster.advance(100)
    leases = [effect for effect in cluster.effects_done if isinstance(effect, RenewLease)]
    assert leases[0] == RenewLease("n", "u1", T0, 40)
    assert 10 <= len(leases) <= 12
    assert leases[-1].renewed_s - leases[-2].renewed_s == 10
    cluster.advance(600)
    reports = [effect for effect in cluster.effects_done if isinstance(effect, PatchNodeStatus)]
    assert len(reports) in (2, 3)
    heartbeat = cluster.nodes["n"]["status"]["conditions"][-1]
    assert heartbeat["lastHeartbeatTime"] > heartbeat["lastTransitionTime"] == format_time(T0)


def test_a_fleet_does_not_beat_as_one() -> None:
    cluster = FakeCluster(HollowOptions(controller_manager=True)).start()
    cluster.add(*(a_node(f"n{number}") for number in range(50))).advance(60)
    moments = {
        effect.renewed_s for effect in cluster.effects_done if isinstance(effect, RenewLease) and effect.renewed_s > T0
    }
    assert len(moments) > 100


def test_a_ready_node_that_others_declared_lost_says_that_it_is_there() -> None:
    cluster = FakeCluster().start().add(a_node())
    cluster.nodes["n"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    cluster.edit(cluster.nodes["n"])
    assert cluster.ready() == "True"


def test_a_fleet_that_starts_again_does_not_boot_its_nodes_again() -> None:
    cluster = FakeCluster(HollowOptions(boot_s=30)).start().add(a_node(killed_after="100s")).advance(40)
    cluster.restart()
    assert cluster.effects_done == []
    cluster.advance(90)
    assert [type(effect) for effect in cluster.effects_done] == [DeleteNode]


def test_writes_to_nodes_that_failed_are_made_again() -> None:
    cluster = FakeCluster()
    cluster.broken = lambda effect: isinstance(effect, (PatchNodeStatus, PatchNodeTaints))
    cluster.start().add(tainted()).advance(30)
    assert cluster.ready() == ""
    cluster.broken = lambda effect: False
    cluster.advance(60)
    assert cluster.ready() == "True"
    assert cluster.taints() == ["karpenter.sh/unregistered"]


def test_wanted_nodes_are_created_once_and_not_again_after_a_deletion() -> None:
    cluster = FakeCluster(wanted=make_nodes(3, NodeTemplate(zones=("east", "west"))))
    cluster.broken = lambda effect: isinstance(effect, CreateNode) and effect.node["metadata"]["name"] == "node-0002"
    cluster.start().advance(1)
    assert sorted(cluster.nodes) == ["node-0001", "node-0003"]
    cluster.broken = lambda effect: False
    cluster.advance(5)
    assert sorted(cluster.nodes) == ["node-0001", "node-0002", "node-0003"]
    assert cluster.ready("node-0002") == "True"
    cluster.delete_node("node-0001").advance(60)
    assert sorted(cluster.nodes) == ["node-0002", "node-0003"]


def test_made_nodes_have_names_labels_zones_and_networks() -> None:
    nodes = make_nodes(300, NodeTemplate(zones=("east", "west"), labels={"x": "y"}))
    assert nodes[1]["metadata"]["labels"] == {
        "kubernetes.io/hostname": "node-0002",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "headgate.dev/hollow": "true",
        "topology.kubernetes.io/zone": "west",
        "x": "y",
    }
    assert nodes[1]["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert len({node["spec"]["podCIDR"] for node in nodes}) == 300
    assert nodes[299]["spec"]["podCIDR"] == "10.129.43.0/24"
    with pytest.raises(ValueError, match="maximum is 32768"):
        make_nodes(70_000, NodeTemplate())


def test_a_fleet_has_reported_once_every_wanted_node_was_seen_with_a_condition() -> None:
    first, second = make_nodes(2, NodeTemplate())
    hollow = HollowKubelets(HollowOptions(), [first, second])
    told = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    seen = [hollow.has_reported]
    for node, uid, status in ((first, "1", told), (second, "2", {"status": {}}), (second, "2", told)):
        hollow.node_applied({**node, "metadata": {**node["metadata"], "uid": uid}, **status}, T0)
        seen.append(hollow.has_reported)
    assert seen == [False, False, False, True]
    assert HollowKubelets(HollowOptions(), []).has_reported
