"""The lifecycle of volumes and claims: provisioning, reclaim, protection, on the embedded server."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import a_pod
from headgate.controllers.volumes.attributes_class_protection import VolumeAttributesClassProtection
from unit.controllers.storage_objects import (
    CLAIMS,
    PODS,
    SELECTED,
    VOLUMES,
    a_world,
    add_claim,
    add_class,
    add_user,
    add_volume,
    bound,
    claim_of,
    events,
    phases,
    volume_of,
)
from unit.controllers.world import World

CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture
def world() -> World:
    return a_world()


def test_a_hollow_volume_of_the_requested_size_is_created_and_deleted_with_its_claim(world: World) -> None:
    add_class(world, "hollow", mountOptions=["noatime"])
    add_claim(world, "c", "7Gi", on_class="hollow")
    world.advance(1)
    claim = claim_of(world, "c")
    name = f"pvc-{claim['metadata']['uid']}"
    assert bound(world) == {"c": name}
    spec = volume_of(world, name)["spec"]
    assert (spec["capacity"], spec["mountOptions"]) == ({"storage": "7Gi"}, ["noatime"])
    assert events(world) == [("c", "ExternalProvisioning"), ("c", "ProvisioningSucceeded")]
    world.server.delete(f"{CLAIMS}/c")
    world.advance(1)
    assert (bound(world), phases(world)) == ({}, {})


def test_a_hollow_volume_waits_for_the_node_of_its_first_pod(world: World) -> None:
    topology = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["b"]}]}]
    add_class(world, "hollow", waits=True, reclaimPolicy="Retain", allowedTopologies=topology)
    add_claim(world, "c", on_class="hollow")
    world.advance(60)
    assert phases(world) == {}
    world.server.patch(f"{CLAIMS}/c", {"metadata": {"annotations": {SELECTED: "n"}}})
    world.advance(1)
    (name,) = bound(world).values()
    (term,) = volume_of(world, name)["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["b"]
    world.server.delete(f"{CLAIMS}/c")
    world.advance(60)
    assert phases(world) == {name: "Released"}


def test_classes_of_other_drivers_are_left_to_them(world: World) -> None:
    add_class(world, "theirs", "csi.example.com")
    add_claim(world, "c", on_class="theirs")
    world.advance(60)
    assert (bound(world), phases(world)) == ({}, {})
    notes = claim_of(world, "c")["metadata"]["annotations"]
    assert notes["volume.kubernetes.io/storage-provisioner"] == "csi.example.com"


@pytest.mark.parametrize(
    ("spec", "phase", "reason"),
    [
        ({"persistentVolumeReclaimPolicy": "Retain"}, "Released", None),
        ({"persistentVolumeReclaimPolicy": "Recycle"}, "Failed", "VolumeFailedRecycle"),
        ({"persistentVolumeReclaimPolicy": "Delete"}, "Failed", "VolumeFailedDelete"),
        ({"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/tmp/x"}}, None, None),
        (
            {"persistentVolumeReclaimPolicy": "Delete", "hostPath": None, "nfs": {"server": "s", "path": "/p"}},
            "Failed",
            "VolumeFailedDelete",
        ),
        (
            {"persistentVolumeReclaimPolicy": "Delete", "hostPath": None, "csi": {"driver": "d", "volumeHandle": "h"}},
            "Released",
            None,
        ),
    ],
)
def test_the_reclaim_policy_of_a_volume_is_applied(
    world: World, spec: dict[str, Any], phase: str | None, reason: str | None
) -> None:
    add_volume(world, "v", **spec)
    add_claim(world, "c")
    world.advance(1)
    world.server.delete(f"{CLAIMS}/c")
    world.advance(1)
    assert phases(world).get("v") == phase
    assert [each for _, each in events(world)] == ([reason] if reason else [])


def test_a_released_volume_is_not_bound_until_its_claim_ref_is_removed(world: World) -> None:
    add_volume(world, "v")
    add_claim(world, "c")
    world.advance(1)
    world.server.delete(f"{CLAIMS}/c")
    world.settle()
    add_claim(world, "c")
    world.advance(60)
    assert (bound(world), phases(world)) == ({}, {"v": "Released"})
    world.server.patch(f"{VOLUMES}/v", {"spec": {"claimRef": None}})
    world.advance(1)
    assert bound(world) == {"c": "v"}


def test_a_claim_in_use_stays_until_its_last_pod_is_deleted(world: World) -> None:
    add_volume(world, "v")
    add_claim(world, "c")
    add_user(world, "p", "c", nodeName="n")
    add_user(world, "q", "c", nodeName="n")
    world.advance(1)
    world.server.delete(f"{CLAIMS}/c")
    world.advance(60)
    assert claim_of(world, "c")["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    for pod in ("p", "q"):
        assert bound(world) == {"c": "v"}
        world.server.delete(f"{PODS}/{pod}", gracePeriodSeconds="0")
        world.advance(1)
    assert world.server.get(f"{CLAIMS}/c").status == 404


def test_a_pod_without_a_node_does_not_keep_a_claim(world: World) -> None:
    add_claim(world, "c")
    add_user(world, "p", "c")
    world.server.delete(f"{CLAIMS}/c")
    world.advance(1)
    assert world.server.get(f"{CLAIMS}/c").status == 404


def test_a_bound_volume_stays_until_its_claim_is_deleted(world: World) -> None:
    add_volume(world, "v")
    add_claim(world, "c")
    world.advance(1)
    world.server.delete(f"{VOLUMES}/v")
    world.advance(60)
    assert phases(world) == {"v": "Bound"}
    world.server.delete(f"{CLAIMS}/c")
    world.advance(1)
    assert phases(world) == {}


def test_a_removed_protection_finalizer_is_restored(world: World) -> None:
    add_claim(world, "c")
    add_volume(world, "v", "1Mi")
    world.settle()
    for path in (f"{CLAIMS}/c", f"{VOLUMES}/v"):
        world.server.patch(path, {"metadata": {"finalizers": None}})
        world.advance(1)
        assert len(world.server.get(path).body["metadata"]["finalizers"]) == 1


def test_a_volume_attributes_class_stays_while_a_claim_or_a_volume_names_it() -> None:
    world = World(VolumeAttributesClassProtection)
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    path = "/apis/storage.k8s.io/v1/volumeattributesclasses"
    body = {"metadata": {"name": "gold"}, "driverName": "d.example", "parameters": {"k": "v"}}
    assert world.server.post(path, body).status == 201
    add_claim(world, "c", volumeAttributesClassName="gold")
    add_volume(world, "v", volumeAttributesClassName="gold", hostPath=None, csi={"driver": "d", "volumeHandle": "h"})
    world.settle()
    world.server.delete(f"{path}/gold")
    for using in (f"{CLAIMS}/c", f"{VOLUMES}/v"):
        world.settle()
        assert world.server.get(f"{path}/gold").status == 200
        world.server.patch(using, {"metadata": {"finalizers": None}})
        world.server.delete(using)
    world.settle()
    assert world.server.get(f"{path}/gold").status == 404


def test_a_pod_gets_its_ephemeral_claim_and_foreign_claims_of_that_name_are_not_changed(world: World) -> None:
    add_class(world, "hollow")
    template = {"metadata": {"labels": {"l": "1"}}, "spec": {**CLAIM_SPEC, "storageClassName": "hollow"}}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    world.server.post(PODS, a_pod("p", volumes=[volume]))
    add_claim(world, "q-scratch")
    world.server.post(PODS, a_pod("q", volumes=[volume]))
    world.advance(1)
    made = claim_of(world, "p-scratch")
    assert made["metadata"]["labels"] == {"l": "1"}
    assert made["metadata"]["ownerReferences"][0]["name"] == "p"
    assert list(bound(world)) == ["p-scratch"]
    assert ("q", "FailedBinding") in events(world)
    assert "ownerReferences" not in claim_of(world, "q-scratch")["metadata"]
