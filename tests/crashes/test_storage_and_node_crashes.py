"""The volume and node controllers crash at every write, before it and after it: the final state is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from embedded import a_pod
from headgate.controllers.node_lifecycle.controller import NodeLifecycleController
from headgate.controllers.node_lifecycle.taint_eviction import TaintEvictionController
from headgate.controllers.volumes.controller import PersistentVolumeController
from headgate.controllers.volumes.ephemeral_volumes import EphemeralVolumeController
from headgate.controllers.volumes.hollow_provisioner import HollowProvisioner
from headgate.controllers.volumes.protection import StorageProtectionController
from headgate.kube.timestamps import format_micro_time, format_time
from unit.controllers.crashing_world import CrashingWorld, run_with_crashes
from unit.controllers.forked_variants import UNDISTURBED
from unit.controllers.storage_objects import CLAIMS, PODS, VOLUMES, add_claim, add_class, add_user, add_volume
from unit.controllers.world import World

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "lastTransitionTime", "timeAdded")
TIMES = ("deletionTimestamp", "lastPhaseTransitionTime", "lastHeartbeatTime")


def a_world() -> CrashingWorld:
    makers = (
        PersistentVolumeController,
        HollowProvisioner,
        StorageProtectionController,
        EphemeralVolumeController,
        NodeLifecycleController,
        TaintEvictionController,
    )
    world = CrashingWorld(*makers)
    for name in ("a", "kube-node-lease"):
        world.server.post("/api/v1/namespaces", {"metadata": {"name": name}})
    world.check = at_most_one_claim_per_volume
    return world


def at_most_one_claim_per_volume(world: World) -> None:
    """No claim is bound to a volume that another one has, at any time."""
    volumes = {each["metadata"]["name"]: each for each in world.server.get(VOLUMES).body["items"]}
    for claim in world.server.get(CLAIMS).body["items"]:
        name = claim["spec"].get("volumeName")
        if name in volumes and claim["status"].get("phase") == "Bound":
            assert volumes[name]["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]


def binds_and_releases(world: CrashingWorld) -> None:
    add_volume(world, "small", "1Gi")
    add_volume(world, "large", "2Gi", claim="wants-large")
    for name in ("wants-small", "wants-large"):
        add_claim(world, name)
    world.advance(5)
    world.server.delete(f"{CLAIMS}/wants-small")
    world.advance(5)


def makes_and_removes(world: CrashingWorld) -> None:
    add_class(world, "hollow")
    add_claim(world, "stays", on_class="hollow")
    add_claim(world, "goes", on_class="hollow")
    add_user(world, "p", "goes", nodeName="n")
    world.advance(5)
    world.server.delete(f"{CLAIMS}/goes")
    world.advance(5)
    world.server.delete(f"{PODS}/p", gracePeriodSeconds="0")
    world.advance(5)


def brings_a_claim(world: CrashingWorld) -> None:
    add_class(world, "hollow")
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "hollow",
    }
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    world.server.post(PODS, a_pod("p", volumes=volumes))
    world.advance(5)


def a_node_falls_silent(world: CrashingWorld) -> None:
    now = format_time(world.server.epoch_s)
    ready = {"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastHeartbeatTime": now}
    for name in ("silent", "well"):
        world.server.post(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}}})
        world.server.patch(f"{NODES}/{name}/status", {"status": {"conditions": [ready]}})
        world.server.post(LEASES, {"metadata": {"name": name}, "spec": {}})
    for name, seconds in (("leaves", 3), ("stays", 3600)):
        key = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
        world.server.post(PODS, a_pod(name, nodeName="silent", tolerations=[{**key, "tolerationSeconds": seconds}]))
        world.server.patch(f"{PODS}/{name}/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    for _ in range(140):  # a restarted controller waits for the whole time again
        renewed = {"spec": {"renewTime": format_micro_time(world.server.epoch_s)}}
        assert world.server.patch(f"{LEASES}/well", renewed).status == 200
        world.advance(1)


def seen(world: World) -> Any:
    """What is left, but for what differs from telling to telling."""
    paths = (CLAIMS, VOLUMES, PODS, NODES)
    return [sorted((_plain(each) for each in world.server.get(path).body["items"]), key=str) for path in paths]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _plain(each) for key, each in value.items() if key not in VOLATILE}
        return {key: "a time" if key in TIMES else each for key, each in kept.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return "a made volume" if isinstance(value, str) and value.startswith("pvc-") else value


@pytest.mark.parametrize("scenario", [binds_and_releases, makes_and_removes, brings_a_claim, a_node_falls_silent])
def test_a_crash_at_any_write_does_not_change_the_final_state(scenario: Callable[[CrashingWorld], None]) -> None:
    ends = run_with_crashes(a_world, scenario, lambda title, world: seen(world))
    expected = ends[UNDISTURBED]
    assert any(expected)
    assert {title: end for title, end in ends.items() if end != expected} == {}
