"""The life of hollow nodes, and how they misbehave when asked to."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube.timestamps import format_time
from headgate.nodes.effects import CreateNode, DeleteNode, PatchNodeStatus, PatchNodeTaints, RenewLease
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.node_template import NodeTemplate, make_nodes
from headgate.nodes.options import HollowOptions
from unit.nodes.fake_cluster import T0, FakeCluster, a_node, a_pod


def tainted(name: str = "n", **annotations: str) -> dict[str, Any]:
    node = a_node(name, **annotations)
    taints = ("node.kubernetes.io/not-ready", "karpenter.sh/unregistered")
    node["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"} for key in taints]
    return node


def test_a_node_becomes_ready_and_loses_only_the_not_ready_taint() -> None:
    world = FakeCluster().start().add(tainted())
    assert world.ready() == "True"
    assert world.taints() == ["karpenter.sh/unregistered"]
    status = world.nodes["n"]["status"]
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
    assert world.kinds() == ["PatchNodeStatus", "PatchNodeTaints"]


def test_a_node_without_sizes_gets_them_and_one_with_a_description_keeps_it() -> None:
    bare = a_node("bare")
    bare["status"] = {}
    told = a_node("told")
    told["status"]["nodeInfo"] = {"kubeletVersion": "v9"}
    world = FakeCluster(HollowOptions(resources={"cpu": "7", "pods": "5"})).start().add(bare, told)
    assert world.nodes["bare"]["status"]["allocatable"] == {"cpu": "7", "pods": "5"}
    assert world.nodes["told"]["status"]["nodeInfo"] == {"kubeletVersion": "v9"}
    assert world.nodes["told"]["status"]["allocatable"]["cpu"] == "4"


def test_a_node_of_somebody_else_and_its_pods_are_left_alone() -> None:
    node = tainted()
    node["metadata"]["annotations"] = {}
    world = FakeCluster().start().add(node, a_pod()).advance(3600)
    world.delete_pod("p").advance(3600)
    assert world.done == []
    world.nodes["n"]["metadata"]["annotations"] = {"kwok.x-k8s.io/node": "fake"}
    world.edit(world.nodes["n"])
    assert world.ready() == "True"
    assert "p" not in world.pods


def test_booting_takes_its_time_and_pods_wait_for_it() -> None:
    world = (
        FakeCluster(HollowOptions(boot_s=30))
        .start()
        .add(a_node(), a_node("slow", boot_after="2m"), a_pod())
        .advance(29)
    )
    assert (world.ready(), world.phase()) == ("", "Pending")
    world.advance(1)
    assert (world.ready(), world.phase(), world.ready("slow")) == ("True", "Running", "")
    world.advance(90)
    assert world.ready("slow") == "True"


def test_a_node_may_never_boot() -> None:
    world = FakeCluster().start().add(a_node(boot_never="true"), a_pod()).advance(86_400)
    assert (world.ready(), world.phase()) == ("", "Pending")


def test_a_flapping_node_takes_no_new_pods_while_it_is_not_ready() -> None:
    world = FakeCluster().start().add(a_node(not_ready_every="60s", not_ready_for="10s"), a_pod("p1")).advance(60)
    assert world.ready() == "False"
    assert world.taints() == ["node.kubernetes.io/not-ready"]
    world.add(a_pod("p2"))
    assert (world.phase("p1"), world.phase("p2")) == ("Running", "Pending")
    world.advance(10)
    assert world.ready() == "True"
    assert world.taints() == []
    assert world.phase("p2") == "Running"
    world.advance(60)
    assert world.ready() == "False"


def test_a_silent_node_says_nothing_any_more() -> None:
    world = FakeCluster(HollowOptions(controller_manager=True)).start()
    world.add(a_node(silent_after="30s"), a_pod(annotations={"run-for": "60s"})).advance(30)
    world.done.clear()
    world.delete_pod("p").advance(3600)
    assert world.done == []
    assert world.phase() == "Running"


def test_a_silent_node_speaks_again_when_it_is_let_and_says_of_its_pods_that_they_run() -> None:
    world = FakeCluster(HollowOptions(controller_manager=True)).start()
    world.add(a_node(silent_after="30s"), a_pod()).advance(60)
    world.nodes["n"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    world.pods["p"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    world.edit(world.nodes["n"]).edit(world.pods["p"]).advance(60)
    assert world.ready() == "Unknown"
    del world.nodes["n"]["metadata"]["annotations"]["headgate.dev/silent-after"]
    world.edit(world.nodes["n"])
    assert world.ready() == "True"
    world.advance(2)
    conditions = {each["type"]: each["status"] for each in world.pods["p"]["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    world.done.clear()
    world.advance(60)
    assert any(isinstance(effect, RenewLease) for effect in world.done)


def test_a_node_that_is_told_later_falls_silent_then() -> None:
    world = FakeCluster(HollowOptions(controller_manager=True)).start().add(a_node()).advance(60)
    world.nodes["n"]["metadata"]["annotations"]["headgate.dev/silent-after"] = "1s"
    world.edit(world.nodes["n"])
    world.done.clear()
    world.advance(3600)
    assert world.done == []


def test_a_spot_node_is_taken_away_and_its_pods_are_left_to_others() -> None:
    world = FakeCluster().start().add(a_node(killed_after="5m"), a_pod()).advance(300)
    assert "n" not in world.nodes
    world.done.clear()
    world.advance(3600)
    assert (world.phase(), world.done) == ("Running", [])


def test_resources_may_appear_late() -> None:
    world = FakeCluster().start()
    world.add(a_node(late_resources="nvidia.com/gpu=8", late_resources_after="30s")).advance(29)
    assert "nvidia.com/gpu" not in world.nodes["n"]["status"]["allocatable"]
    world.advance(1)
    assert world.nodes["n"]["status"]["allocatable"] == {
        "cpu": "4",
        "memory": "8Gi",
        "pods": "110",
        "nvidia.com/gpu": "8",
    }


def test_pods_of_a_deleted_node_are_left_to_others() -> None:
    world = FakeCluster().start().add(a_node(), a_pod())
    world.done.clear()
    world.delete_node("n").advance(3600)
    assert (world.phase(), world.done) == ("Running", [])


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    world = FakeCluster().start().add(a_node(), a_pod(annotations={"run-for": "60s"}))
    world.delete_node("n").advance(20).add(a_node()).advance(40)
    assert world.phase() == "Succeeded"


def test_a_pod_may_be_heard_of_before_its_node() -> None:
    world = FakeCluster().start().add(a_pod()).advance(10).add(a_node())
    assert world.phase() == "Running"
    assert world.hollow.next_deadline_s() is None


def test_with_a_controller_manager_leases_are_renewed_and_taints_are_its_business() -> None:
    world = FakeCluster(HollowOptions(controller_manager=True)).start().add(tainted())
    assert world.taints() == ["node.kubernetes.io/not-ready", "karpenter.sh/unregistered"]
    world.advance(100)
    leases = [effect for effect in world.done if isinstance(effect, RenewLease)]
    assert leases[0] == RenewLease("n", "u1", T0, 40)
    assert 10 <= len(leases) <= 12
    assert leases[-1].renewed_s - leases[-2].renewed_s == 10
    world.advance(600)
    reports = [effect for effect in world.done if isinstance(effect, PatchNodeStatus)]
    assert len(reports) in (2, 3)
    heartbeat = world.nodes["n"]["status"]["conditions"][-1]
    assert heartbeat["lastHeartbeatTime"] > heartbeat["lastTransitionTime"] == format_time(T0)


def test_a_fleet_does_not_beat_as_one() -> None:
    world = FakeCluster(HollowOptions(controller_manager=True)).start()
    world.add(*(a_node(f"n{number}") for number in range(50))).advance(60)
    moments = {effect.renewed_s for effect in world.done if isinstance(effect, RenewLease) and effect.renewed_s > T0}
    assert len(moments) > 100


def test_a_ready_node_that_others_declared_lost_says_that_it_is_there() -> None:
    world = FakeCluster().start().add(a_node())
    world.nodes["n"]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    world.edit(world.nodes["n"])
    assert world.ready() == "True"


def test_a_fleet_that_starts_again_does_not_boot_its_nodes_again() -> None:
    world = FakeCluster(HollowOptions(boot_s=30)).start().add(a_node(killed_after="100s")).advance(40)
    world.restart()
    assert world.done == []
    world.advance(90)
    assert [type(effect) for effect in world.done] == [DeleteNode]


def test_writes_to_nodes_that_failed_are_made_again() -> None:
    world = FakeCluster()
    world.broken = lambda effect: isinstance(effect, (PatchNodeStatus, PatchNodeTaints))
    world.start().add(tainted()).advance(30)
    assert world.ready() == ""
    world.broken = lambda effect: False
    world.advance(60)
    assert world.ready() == "True"
    assert world.taints() == ["karpenter.sh/unregistered"]


def test_wanted_nodes_are_made_once_and_not_again_when_somebody_deletes_them() -> None:
    world = FakeCluster(wanted=make_nodes(3, NodeTemplate(zones=("east", "west"))))
    world.broken = lambda effect: isinstance(effect, CreateNode) and effect.node["metadata"]["name"] == "node-0002"
    world.start().advance(1)
    assert sorted(world.nodes) == ["node-0001", "node-0003"]
    world.broken = lambda effect: False
    world.advance(5)
    assert sorted(world.nodes) == ["node-0001", "node-0002", "node-0003"]
    assert world.ready("node-0002") == "True"
    world.delete_node("node-0001").advance(60)
    assert sorted(world.nodes) == ["node-0002", "node-0003"]


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
    with pytest.raises(ValueError, match="at most 32768"):
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
