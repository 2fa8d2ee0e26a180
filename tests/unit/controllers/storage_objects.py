"""Claims, volumes and classes for tests of volume binding."""

from __future__ import annotations

from typing import Any

from embedded import a_pod
from headgate.controllers.volumes.controller import PersistentVolumeController
from headgate.controllers.volumes.ephemeral_volumes import EphemeralVolumeController
from headgate.controllers.volumes.hollow_provisioner import PROVISIONER, HollowProvisioner
from headgate.controllers.volumes.protection import StorageProtectionController
from unit.controllers.world import World

Object = dict[str, Any]

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/a/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PODS = "/api/v1/namespaces/a/pods"
SELECTED = "volume.kubernetes.io/selected-node"


def a_world() -> World:
    world = World(PersistentVolumeController, HollowProvisioner, StorageProtectionController, EphemeralVolumeController)
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    return world.settle()


def add_volume(world: World, name: str, size: str = "1Gi", claim: str = "", **spec: Any) -> None:
    metadata = {"name": name, **spec.pop("metadata", {})}
    made = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, **spec}
    if claim:
        made["claimRef"] = {"namespace": "a", "name": claim}
    response = world.server.post(VOLUMES, {"metadata": metadata, "spec": made})
    assert response.status == 201, response.body


def add_claim(world: World, name: str, size: str = "1Gi", on_class: str | None = "", **spec: Any) -> None:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    if on_class is not None:
        asked["storageClassName"] = on_class
    response = world.server.post(CLAIMS, {"metadata": {"name": name}, "spec": asked})
    assert response.status == 201, response.body


def add_class(world: World, name: str, provisioner: str = PROVISIONER, *, waits: bool = False, **more: Any) -> None:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    wire = {"metadata": {"name": name, **more.pop("metadata", {})}, "provisioner": provisioner, **more}
    response = world.server.post(CLASSES, {**wire, "volumeBindingMode": mode})
    assert response.status == 201, response.body


def add_user(world: World, name: str, claim: str, **spec: Any) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
    response = world.server.post(PODS, a_pod(name, volumes=[volume], **spec))
    assert response.status == 201, response.body


def claim_of(world: World, name: str) -> Object:
    body: Object = world.server.get(f"{CLAIMS}/{name}").body
    return body


def volume_of(world: World, name: str) -> Object:
    body: Object = world.server.get(f"{VOLUMES}/{name}").body
    return body


def bound(world: World) -> dict[str, str]:
    """The volume of each claim that has one."""
    items = world.server.get(CLAIMS).body["items"]
    return {
        each["metadata"]["name"]: each["spec"].get("volumeName", "")
        for each in items
        if each["status"]["phase"] == "Bound"
    }


def phases(world: World) -> dict[str, str]:
    return {each["metadata"]["name"]: each["status"]["phase"] for each in world.server.get(VOLUMES).body["items"]}


def events(world: World) -> list[tuple[str, str]]:
    return [(each.about["name"], each.reason) for each in world.emitted]
