"""Nodes that stop reporting and return, on the embedded server with a virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import a_pod
from headgate.controllers.framework.effects import Effect, EffectResponse, Patch
from headgate.controllers.node_lifecycle.config import NodeLifecycleConfig
from headgate.controllers.node_lifecycle.controller import NodeLifecycleController
from headgate.kube import api_resources
from headgate.kube.timestamps import format_micro_time, format_time
from unit.controllers.world import World

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/a/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
SCHEDULE, EXECUTE = "NoSchedule", "NoExecute"
GRACE_S, MONITOR_S = NodeLifecycleConfig().grace_s, NodeLifecycleConfig().monitor_s
KINDS = ("MemoryPressure", "DiskPressure", "PIDPressure")


@pytest.fixture
def world() -> World:
    world = World(NodeLifecycleController)
    for name in ("a", "kube-node-lease"):
        world.server.post("/api/v1/namespaces", {"metadata": {"name": name}})
    return world.settle()


def add_node(world: World, name: str = "n", ready: str = "True", **labels: str) -> None:
    assert world.server.post(NODES, {"metadata": {"name": name, "labels": labels}}).status == 201
    if ready:
        report(world, name, ready)


def report(world: World, name: str = "n", ready: str = "True", **others: str) -> None:
    """What its kubelet says."""
    now = format_time(world.server.epoch_s)
    states = {**dict.fromkeys(KINDS, "False"), **others, "Ready": ready}
    conditions = [
        {"type": kind, "status": status, "lastHeartbeatTime": now, "reason": "r", "message": "m"}
        for kind, status in states.items()
    ]
    assert world.server.patch(f"{NODES}/{name}/status", {"status": {"conditions": conditions}}).status == 200


def beat(world: World, name: str = "n") -> None:
    spec = {"renewTime": format_micro_time(world.server.epoch_s), "holderIdentity": name, "leaseDurationSeconds": 40}
    if world.server.patch(f"{LEASES}/{name}", {"spec": spec}).status == 404:
        assert world.server.post(LEASES, {"metadata": {"name": name}, "spec": spec}).status == 201


def taints(world: World, name: str = "n") -> set[tuple[str, str]]:
    spec = world.server.get(f"{NODES}/{name}").body.get("spec") or {}
    return {(each["key"].removeprefix("node.kubernetes.io/"), each["effect"]) for each in spec.get("taints") or ()}


def states(world: World, name: str = "n") -> dict[str, tuple[str, str]]:
    found = (world.server.get(f"{NODES}/{name}").body.get("status") or {}).get("conditions") or ()
    return {each["type"]: (each["status"], each.get("reason", "")) for each in found}


def told(world: World) -> list[tuple[str, str]]:
    return [(each.about["name"], each.reason) for each in world.emitted]


def pass_time(world: World, seconds: int, *beating: str) -> None:
    """Time passes in which the kubelets of some nodes go on renewing."""
    for _ in range(seconds):
        for name in beating:
            beat(world, name)
        world.advance(1)


def test_an_unready_node_gets_no_schedule_at_once_and_no_execute_later(world: World) -> None:
    add_node(world)
    add_node(world, "well")
    report(world, ready="False")
    world.settle()
    assert taints(world) == {("not-ready", SCHEDULE)}
    world.advance(MONITOR_S)
    assert taints(world) == {("not-ready", SCHEDULE), ("not-ready", EXECUTE)}
    report(world)
    world.settle()
    assert taints(world) == set()


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
        ("NetworkUnavailable", "network-unavailable"),
    ],
)
def test_a_node_under_pressure_is_tainted_while_the_condition_lasts(world: World, kind: str, key: str) -> None:
    add_node(world)
    report(world, **{kind: "True"})
    world.settle()
    assert taints(world) == {(key, SCHEDULE)}
    report(world, **{kind: "False"})
    world.settle()
    assert taints(world) == set()


def test_a_cordoned_node_is_tainted_beside_the_taints_of_others(world: World) -> None:
    add_node(world)
    mine = {"key": "example.com/mine", "value": "v", "effect": SCHEDULE}
    world.server.patch(f"{NODES}/n", {"spec": {"unschedulable": True, "taints": [mine]}})
    world.settle()
    assert taints(world) == {("unschedulable", SCHEDULE), ("example.com/mine", SCHEDULE)}
    world.server.patch(f"{NODES}/n", {"spec": {"unschedulable": None}})
    world.settle()
    assert taints(world) == {("example.com/mine", SCHEDULE)}


def test_a_silent_node_becomes_unknown_and_its_pods_not_ready(world: World) -> None:
    add_node(world)
    add_node(world, "well")
    world.server.post(PODS, a_pod("p", nodeName="n"))
    ready = [{"type": "Ready", "status": "True", "reason": "kept"}]
    world.server.patch(f"{PODS}/p/status", {"status": {"phase": "Running", "conditions": ready}})
    pass_time(world, int(GRACE_S), "well")
    assert states(world)["Ready"] == ("True", "r")
    pass_time(world, 1, "well")
    assert states(world) == {
        **dict.fromkeys((*KINDS, "Ready"), ("Unknown", "NodeStatusUnknown")),
    }
    assert states(world, "well")["Ready"] == ("True", "r")
    (condition,) = world.server.get(f"{PODS}/p").body["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "kept")
    assert told(world)[-2:] == [("n", "NodeNotReady"), ("p", "NodeNotReady")]
    assert taints(world) == {("unreachable", SCHEDULE)}
    pass_time(world, int(MONITOR_S), "well")
    assert taints(world) == {("unreachable", SCHEDULE), ("unreachable", EXECUTE)}


def test_a_renewed_lease_is_a_heartbeat(world: World) -> None:
    add_node(world)
    pass_time(world, 3 * int(GRACE_S), "n")
    assert states(world)["Ready"] == ("True", "r")
    world.advance(GRACE_S + 1)
    assert states(world)["Ready"][0] == "Unknown"


def test_a_node_without_a_heartbeat_has_the_startup_grace_period(world: World) -> None:
    add_node(world, ready="")
    world.advance(NodeLifecycleConfig().startup_s)
    assert states(world) == {}
    world.advance(1)
    assert set(states(world).values()) == {("Unknown", "NodeStatusNeverUpdated")}
    assert "NetworkUnavailable" not in states(world)


def test_a_node_that_changes_from_unknown_to_not_ready_swaps_its_taint_at_once(world: World) -> None:
    add_node(world)
    add_node(world, "well")
    pass_time(world, int(GRACE_S + MONITOR_S) + 1, "well")
    assert ("unreachable", EXECUTE) in taints(world)
    report(world, ready="False")
    world.settle()
    assert taints(world) == {("not-ready", SCHEDULE), ("not-ready", EXECUTE)}


def test_no_pod_is_evicted_when_no_node_is_ready(world: World) -> None:
    add_node(world, "m")
    add_node(world)
    report(world, ready="False")
    world.advance(MONITOR_S)
    assert ("not-ready", EXECUTE) in taints(world)
    report(world, "m", ready="False")
    pass_time(world, 60, "n", "m")
    assert taints(world) == {("not-ready", SCHEDULE)}
    assert taints(world, "m") == {("not-ready", SCHEDULE)}
    report(world, "m")
    world.settle().advance(MONITOR_S)
    assert taints(world) == {("not-ready", SCHEDULE), ("not-ready", EXECUTE)}


def test_nodes_of_a_zone_are_tainted_one_after_the_other(world: World) -> None:
    for name in ("n", "o", *(f"well-{number}" for number in range(4))):
        add_node(world, name)
    report(world, "n", ready="False")
    report(world, "o", ready="False")
    counts = []
    for wait_s in (MONITOR_S, 9, 1):
        world.advance(wait_s)
        counts.append(sum(("not-ready", EXECUTE) in taints(world, name) for name in ("n", "o")))
    assert counts == [1, 1, 2]


def test_a_ready_pod_on_an_unready_node_is_marked_not_ready(world: World) -> None:
    add_node(world, ready="False")
    world.server.post(PODS, a_pod("p"))
    world.server.patch(f"{PODS}/p/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    world.server.post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}})
    world.settle()
    conditions = {each["type"]: each["status"] for each in world.server.get(f"{PODS}/p").body["status"]["conditions"]}
    assert conditions["Ready"] == "False"


def test_events_report_added_and_removed_nodes(world: World) -> None:
    add_node(world)
    world.settle()
    world.server.delete(f"{NODES}/n")
    world.settle()
    assert told(world) == [("n", "RegisteredNode"), ("n", "RemovingNode")]
    assert world.emitted[0].message == "Node n event: Registered Node n in Controller"


def test_deprecated_labels_follow_the_present_ones(world: World) -> None:
    add_node(world, "n", **{"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "beta.kubernetes.io/os": "x"})
    world.settle()
    labels = world.server.get(f"{NODES}/n").body["metadata"]["labels"]
    assert (labels["beta.kubernetes.io/os"], labels["beta.kubernetes.io/arch"]) == ("linux", "arm64")


def test_pods_that_could_not_be_marked_are_marked_later_even_by_a_new_process(world: World) -> None:
    add_node(world)
    world.server.post(PODS, a_pod("p", nodeName="n"))
    world.server.patch(f"{PODS}/p/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    world.settle()

    def refuse(effect: Effect) -> EffectResponse | None:
        return EffectResponse(503, {}, 0.0) if isinstance(effect, Patch) and effect.name == "p" else None

    world.refuse = refuse
    world.advance(GRACE_S + 1)
    assert states(world)["Ready"][0] == "Unknown"
    world.crash()
    world.refuse = lambda effect: None
    world.settle()
    assert world.server.get(f"{PODS}/p").body["status"]["conditions"][0]["status"] == "False"


def test_lease_renewals_of_many_nodes_enqueue_nothing() -> None:
    controller = NodeLifecycleController()
    lease: dict[str, Any] = {"metadata": {"namespace": "kube-node-lease", "name": "n", "uid": "u"}, "spec": {}}
    for second in range(100):
        lease["spec"]["renewTime"] = format_micro_time(float(second))
        assert not list(controller.applied(api_resources.LEASES, lease, float(second)))
