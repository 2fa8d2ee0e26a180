"""Creates hollow volumes: a claim whose class has the provisioner ``headgate.dev/hollow`` gets one of the requested
size.

It acts like a storage driver: it creates a volume when a claim was assigned to it, and deletes a released one, unless
the reclaim policy retains it. Every node reaches such a volume, unless the class restricts the topology.
``controller.py`` binds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from headgate.controllers.framework.effects import Create, Delete, EmitEvent
from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.volumes import object_fields
from headgate.controllers.volumes.object_fields import ClaimKey, Object
from headgate.kube.api_resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, APIResource

PROVISIONER: Final = "headgate.dev/hollow"
_DRIVER: Final = "hollow.headgate.dev"  # driver names have the form of host names


class _Claim(msgspec.Struct, frozen=True):
    key: ClaimKey


class _Volume(msgspec.Struct, frozen=True):
    name: str


class HollowProvisioner(Controller):
    name = "hollow-provisioner"

    def __init__(self) -> None:
        self._classes: Final[dict[str, Object]] = {}
        self._pending_claims: Final[dict[ClaimKey, Object]] = {}
        self._released: Final[dict[str, str]] = {}

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(PERSISTENT_VOLUMES, ALL_FIELDS),
            WatchSpec(PERSISTENT_VOLUME_CLAIMS, ALL_FIELDS),
            WatchSpec(STORAGE_CLASSES, ALL_FIELDS),
        )

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == STORAGE_CLASSES:
            self._classes[object_fields.name_of(obj)] = obj
            return [
                Enqueue(_Claim(key))
                for key, claim in self._pending_claims.items()
                if object_fields.storage_class_name_of(claim) == object_fields.name_of(obj)
            ]
        if resource == PERSISTENT_VOLUME_CLAIMS:
            if not _needs_volume(obj):
                self._pending_claims.pop(object_fields.key_of(obj), None)
                return ()
            self._pending_claims[object_fields.key_of(obj)] = obj
            return (Enqueue(_Claim(object_fields.key_of(obj))),)
        if not _is_deletable(obj):
            self._released.pop(object_fields.name_of(obj), None)
            return ()
        self._released[object_fields.name_of(obj)] = object_fields.uid_of(obj)
        return (Enqueue(_Volume(object_fields.name_of(obj))),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == STORAGE_CLASSES:
            self._classes.pop(name, None)
        elif resource == PERSISTENT_VOLUME_CLAIMS:
            self._pending_claims.pop((namespace, name), None)
        else:
            self._released.pop(name, None)
        return ()

    def reconcile(self, key: _Claim | _Volume, now_s: float) -> ReconcileSteps:
        if isinstance(key, _Claim):
            return (yield from self._provision(key.key))
        uid = self._released.get(key.name)
        if uid is None:
            return Done()
        response = yield Delete(PERSISTENT_VOLUMES, "", key.name, {"preconditions": {"uid": uid}})
        return Done() if response.ok or response.missing or response.conflict else RequeueWithBackoff(response.message)

    def _provision(self, key: ClaimKey) -> ReconcileSteps:
        claim = self._pending_claims.get(key)
        found = None if claim is None else self._classes.get(object_fields.storage_class_name_of(claim))
        if claim is None or found is None or found.get("provisioner") != PROVISIONER:
            return Done()
        if object_fields.waits_for_first_consumer(
            found
        ) and object_fields.SELECTED_NODE not in object_fields.annotations_of(claim):
            return Done()
        volume = make_volume(claim, found)
        response = yield Create(PERSISTENT_VOLUMES, "", volume)
        if response.ok:
            text = f"Successfully provisioned volume {object_fields.name_of(volume)}"
            yield _event(claim, "Normal", "ProvisioningSucceeded", text)
        elif not response.conflict:
            class_name = object_fields.storage_class_name_of(claim)
            text = f'failed to provision volume with StorageClass "{class_name}": {response.message}'
            yield _event(claim, "Warning", "ProvisioningFailed", text)
            return RequeueWithBackoff(response.message)
        return Done()


def make_volume(claim: Object, storage_class: Object) -> Object:
    """The volume for a claim. Its name is derived from the claim, so that no claim gets two."""
    metadata, spec, name = claim["metadata"], object_fields.spec_of(claim), f"pvc-{object_fields.uid_of(claim)}"
    ref = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        **{each: metadata[each] for each in ("namespace", "name", "uid", "resourceVersion")},
    }
    required: dict[str, Any] = {
        "accessModes": spec.get("accessModes"),
        "capacity": {"storage": spec["resources"]["requests"]["storage"]},
        "claimRef": ref,
        "csi": {"driver": _DRIVER, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": object_fields.storage_class_name_of(claim),
        "volumeMode": spec.get("volumeMode") or "Filesystem",
    }
    optional = {
        "mountOptions": storage_class.get("mountOptions"),
        "volumeAttributesClassName": spec.get("volumeAttributesClassName"),
        "nodeAffinity": _node_affinity(storage_class),
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {object_fields.PROVISIONED_BY: PROVISIONER}},
        "spec": {**required, **{field: value for field, value in optional.items() if value}},
    }


def _node_affinity(storage_class: Object) -> Object | None:
    """The allowed topologies of the class, as a node affinity."""
    terms = [
        {"matchExpressions": [{"key": each["key"], "operator": "In", "values": each["values"]} for each in expressions]}
        for term in storage_class.get("allowedTopologies") or ()
        if (expressions := term.get("matchLabelExpressions"))
    ]
    return {"required": {"nodeSelectorTerms": terms}} if terms else None


def _needs_volume(claim: Object) -> bool:
    is_ours = all(object_fields.annotations_of(claim).get(each) == PROVISIONER for each in object_fields.PROVISIONERS)
    return is_ours and not object_fields.spec_of(claim).get("volumeName") and not object_fields.is_being_deleted(claim)


def _is_deletable(volume: Object) -> bool:
    return (
        object_fields.annotations_of(volume).get(object_fields.PROVISIONED_BY) == PROVISIONER
        and object_fields.phase_of(volume) in ("Released", "Failed")
        and object_fields.spec_of(volume).get("persistentVolumeReclaimPolicy") == "Delete"
        and not object_fields.is_being_deleted(volume)
    )


def _event(claim: Object, type_: Literal["Normal", "Warning"], reason: str, message: str) -> EmitEvent:
    named = {each: claim["metadata"][each] for each in ("namespace", "name", "uid")}
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **named}
    return EmitEvent(reference, type_, reason, message, PROVISIONER)
