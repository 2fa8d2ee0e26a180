"""Failure recovery of pods on unreachable nodes, on the embedded server with a virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import a_pod
from headgate.controllers.framework.effects import Delete, Effect, EffectResponse
from headgate.jobs.failure_recovery import FailureRecovery
from headgate.kube.timestamps import format_time
from unit.controllers.world import World

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/a/pods"
SAFE = {"kueue.x-k8s.io/safe-to-forcefully-delete": "true"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
HELD = "kueue.x-k8s.io/managed"


@pytest.fixture
def world() -> World:
    world = World(FailureRecovery)
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    world.server.post(NODES, {"metadata": {"name": "n"}})
    return world.settle()


def taint(world: World, *taints: Any) -> None:
    world.server.patch(f"{NODES}/n", {"spec": {"taints": list(taints)}})


def add_pod(world: World, name: str = "p", annotations: Any = SAFE, **metadata: Any) -> None:
    """It runs, holds its name by a finalizer, and takes 30 seconds to end."""
    pod = a_pod(name, nodeName="n", terminationGracePeriodSeconds=30)
    pod["metadata"] |= {"annotations": annotations, "finalizers": [HELD], **metadata}
    assert world.server.post(PODS, pod).status == 201
    assert world.server.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running"}}).status == 200


def look(world: World, name: str = "p") -> Any:
    return world.server.get(f"{PODS}/{name}").body


def phase(world: World, name: str = "p") -> str:
    return str(look(world, name)["status"]["phase"])


def test_a_pod_on_an_unreachable_node_fails_a_minute_after_its_deletion_timestamp_and_is_deleted_without_grace(
    world: World,
) -> None:
    add_pod(world)
    taint(world, UNREACHABLE)
    world.server.delete(f"{PODS}/p")
    world.advance(89)
    assert phase(world) == "Running"
    world.advance(1)
    pod = look(world)
    assert (pod["status"]["phase"], pod["metadata"]["deletionGracePeriodSeconds"]) == ("Failed", 0)
    (told,) = (each for each in pod["status"]["conditions"] if each["type"] == "KueueFailureRecovery")
    assert (told["status"], told["reason"]) == ("True", "KueueForcefullyDeleted")
    assert told["message"] == (
        "Pod forcefully terminated after 90s grace period due to unreachable node `n` "
        "(triggered by `kueue.x-k8s.io/safe-to-forcefully-delete` annotation)"
    )
    assert [(each.type, each.reason, each.message) for each in world.emitted] == [
        ("Warning", "KueueForcefullyDeleted", told["message"])
    ]


def test_a_pod_without_finalizers_is_deleted_then(world: World) -> None:
    add_pod(world, finalizers=[])
    taint(world, UNREACHABLE)
    world.server.delete(f"{PODS}/p")
    world.advance(90)
    assert world.server.get(f"{PODS}/p").status == 404


def test_a_pod_whose_time_is_over_fails_when_its_node_becomes_unreachable(world: World) -> None:
    add_pod(world)
    world.server.delete(f"{PODS}/p")
    world.advance(300)
    assert phase(world) == "Running", "its node can be reached: its kubelet ends it"
    taint(world, UNREACHABLE)
    world.settle()
    assert phase(world) == "Failed"


def test_a_node_that_recovers_in_time_stops_its_pods_itself(world: World) -> None:
    add_pod(world)
    taint(world, UNREACHABLE)
    world.server.delete(f"{PODS}/p")
    world.advance(80)
    taint(world)
    world.advance(60)
    assert phase(world) == "Running"


@pytest.mark.parametrize("annotations", [{}, {"kueue.x-k8s.io/safe-to-forcefully-delete": "yes"}])
def test_no_pod_without_the_annotation_is_deleted(world: World, annotations: Any) -> None:
    add_pod(world, annotations=annotations)
    taint(world, UNREACHABLE)
    world.server.delete(f"{PODS}/p")
    world.advance(600)
    assert phase(world) == "Running"


def test_no_pod_without_a_deletion_timestamp_is_deleted(world: World) -> None:
    add_pod(world)
    taint(world, UNREACHABLE)
    world.advance(600)
    assert phase(world) == "Running"


def test_a_succeeded_pod_keeps_its_phase_and_loses_its_grace_period(world: World) -> None:
    add_pod(world)
    world.server.patch(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}})
    taint(world, UNREACHABLE)
    world.server.delete(f"{PODS}/p")
    world.advance(90)
    pod = look(world)
    assert (pod["status"]["phase"], pod["metadata"]["deletionGracePeriodSeconds"]) == ("Succeeded", 0)


def test_a_crash_between_the_two_writes_is_completed_by_the_next_process(world: World) -> None:
    add_pod(world)
    taint(world, UNREACHABLE)
    world.server.delete(f"{PODS}/p")

    def down(effect: Effect) -> EffectResponse | None:
        return EffectResponse(503, {"message": "down"}, world.server.epoch_s) if isinstance(effect, Delete) else None

    world.refuse = down
    world.advance(91)
    assert (phase(world), look(world)["metadata"]["deletionGracePeriodSeconds"]) == ("Failed", 30)
    world.refuse = lambda effect: None
    world.crash().settle()
    assert look(world)["metadata"]["deletionGracePeriodSeconds"] == 0
    assert len(world.emitted) == 1


def test_nothing_is_requested_when_all_is_done(world: World) -> None:
    add_pod(world)
    taint(world, UNREACHABLE)
    world.server.delete(f"{PODS}/p")
    world.advance(90)
    before = len(world.requests)
    world.crash().settle()
    world.advance(600)
    writes = [each for each in world.requests[before:] if each[0] != "GET"]
    assert writes == []


# -- on a Ready node -------------------------------------------------------------------------------------------------

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
READY_AFTER_S = 120.0


def a_world_with_ready_node(handles_unreachable: bool = False) -> World:
    world = World(lambda: FailureRecovery(handles_unreachable=handles_unreachable, ready_after_s=READY_AFTER_S))
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    world.server.post(NODES, {"metadata": {"name": "n"}})
    set_ready(world, "True")
    return world.settle()


def set_ready(world: World, status: str) -> None:
    ready = {"type": "Ready", "status": status, "lastTransitionTime": format_time(world.server.epoch_s)}
    assert world.server.patch(f"{NODES}/n/status", {"status": {"conditions": [ready]}}).status == 200


def is_forced(world: World) -> bool:
    """Whether the pod has no grace period left."""
    return bool(look(world)["metadata"]["deletionGracePeriodSeconds"] == 0)


def test_a_pod_on_a_ready_node_is_deleted_after_twice_its_grace_period_and_the_setting() -> None:
    world = a_world_with_ready_node()
    add_pod(world)
    world.server.delete(f"{PODS}/p")
    world.advance(30 + 30 + READY_AFTER_S - 2)
    assert not is_forced(world)
    world.advance(3)
    assert is_forced(world)
    assert phase(world) == "Running", "the kubelet writes the status"
    ((kind, reason, message),) = [(each.type, each.reason, each.message) for each in world.emitted]
    assert (kind, reason) == ("Warning", "KueueForcefullyDeleted")
    assert (
        "120s after twice its grace period of 30s, because it still terminates on node `n`, which is Ready" in message
    )


def test_without_the_setting_no_pod_on_a_ready_node_is_deleted(world: World) -> None:
    set_ready(world, "True")
    add_pod(world)
    world.server.delete(f"{PODS}/p")
    world.advance(100_000)
    assert not is_forced(world)


def test_no_pod_whose_user_has_not_allowed_it_is_deleted_from_a_ready_node() -> None:
    world = a_world_with_ready_node()
    add_pod(world, annotations={})
    world.server.delete(f"{PODS}/p")
    world.advance(100_000)
    assert not is_forced(world)


def test_a_kubelet_that_returns_gets_the_whole_grace_period_of_its_pods() -> None:
    """It could not see the deletion before, so it begins the grace period when its node is Ready."""
    world = a_world_with_ready_node()
    add_pod(world)
    taint(world, UNREACHABLE)
    set_ready(world, "Unknown")
    world.server.delete(f"{PODS}/p")
    world.advance(3600)
    set_ready(world, "True")
    taint(world)
    world.advance(30 + 30 + READY_AFTER_S - 2)
    assert not is_forced(world)
    world.advance(3)
    assert is_forced(world)


@pytest.mark.parametrize("change", ["taint", "condition", "deleted"])
def test_no_pod_is_deleted_from_a_node_that_is_neither_ready_nor_unreachable(change: str) -> None:
    world = a_world_with_ready_node(handles_unreachable=True)
    add_pod(world)
    world.server.delete(f"{PODS}/p")
    world.advance(10)
    if change == "taint":
        taint(world, NOT_READY)
    elif change == "condition":
        set_ready(world, "False")
    else:
        world.server.delete(f"{NODES}/n")
    world.advance(100_000)
    assert not is_forced(world)


def test_a_new_process_deletes_at_the_same_time() -> None:
    world = a_world_with_ready_node()
    add_pod(world)
    world.server.delete(f"{PODS}/p")
    world.advance(100)
    world.crash()
    world.advance(30 + 30 + READY_AFTER_S - 102)
    assert not is_forced(world)
    world.advance(3)
    assert is_forced(world)


def test_a_pod_that_the_kubelet_changes_at_the_same_time_is_considered_again() -> None:
    world = a_world_with_ready_node()
    add_pod(world)
    world.server.delete(f"{PODS}/p")
    world.advance(30 + 30 + READY_AFTER_S - 2)
    attempts: list[Delete] = []

    def finish_first(effect: Effect) -> EffectResponse | None:
        """The kubelet reports the end of the pod while the deletion is on its way."""
        if isinstance(effect, Delete):
            attempts.append(effect)
            if len(attempts) == 1:
                world.server.patch(f"{PODS}/p/status", {"status": {"reason": "Ending"}})
        return None

    world.refuse = finish_first
    world.advance(0.5)
    assert attempts == []
    world.advance(2)
    assert len(attempts) == 2, "the second attempt has the new version"
    assert is_forced(world)
    assert len(world.emitted) == 1


def test_without_the_feature_gate_a_pod_on_an_unreachable_node_stays() -> None:
    world = a_world_with_ready_node()
    add_pod(world)
    taint(world, UNREACHABLE)
    world.server.delete(f"{PODS}/p")
    world.advance(100_000)
    assert phase(world) == "Running"
    assert not is_forced(world)
