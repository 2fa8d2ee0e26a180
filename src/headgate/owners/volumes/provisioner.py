"""Volumes on paper: a claim of a class whose provisioner is ``headgate.dev/hollow`` gets one of the size it asks for.

It is what a driver of storage would be: it makes a volume when a claim was handed to it, and removes one that was
released, unless the class says that it is to stay. Every node reaches such a volume, unless the class says where.
Binding is ``controller.py``'s business.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from headgate.kube.resource import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, Resource
from headgate.owners.contract import WHOLE, Again, Controller, Done, Interest, Steps, Wake
from headgate.owners.effects import Create, Delete, Emit
from headgate.owners.volumes import facts
from headgate.owners.volumes.facts import ClaimKey, Object

PROVISIONER: Final = "headgate.dev/hollow"
_DRIVER: Final = "hollow.headgate.dev"  # drivers are named as hosts are


class _Claim(msgspec.Struct, frozen=True):
    key: ClaimKey


class _Volume(msgspec.Struct, frozen=True):
    name: str


class HollowProvisioner(Controller):
    name = "hollow-provisioner"

    def __init__(self) -> None:
        self._classes: Final[dict[str, Object]] = {}
        self._asking: Final[dict[ClaimKey, Object]] = {}
        self._released: Final[dict[str, str]] = {}

    def interests(self) -> Iterable[Interest]:
        return (
            Interest(PERSISTENT_VOLUMES, WHOLE),
            Interest(PERSISTENT_VOLUME_CLAIMS, WHOLE),
            Interest(STORAGE_CLASSES, WHOLE),
        )

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        if resource == STORAGE_CLASSES:
            self._classes[facts.name_of(obj)] = obj
            return [
                Wake(_Claim(key)) for key, claim in self._asking.items() if facts.class_of(claim) == facts.name_of(obj)
            ]
        if resource == PERSISTENT_VOLUME_CLAIMS:
            if not _asks(obj):
                self._asking.pop(facts.key_of(obj), None)
                return ()
            self._asking[facts.key_of(obj)] = obj
            return (Wake(_Claim(facts.key_of(obj))),)
        if not _is_over(obj):
            self._released.pop(facts.name_of(obj), None)
            return ()
        self._released[facts.name_of(obj)] = facts.uid_of(obj)
        return (Wake(_Volume(facts.name_of(obj))),)

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        if resource == STORAGE_CLASSES:
            self._classes.pop(name, None)
        elif resource == PERSISTENT_VOLUME_CLAIMS:
            self._asking.pop((namespace, name), None)
        else:
            self._released.pop(name, None)
        return ()

    def work(self, key: _Claim | _Volume, now_s: float) -> Steps:
        if isinstance(key, _Claim):
            return (yield from self._make(key.key))
        uid = self._released.get(key.name)
        if uid is None:
            return Done()
        answer = yield Delete(PERSISTENT_VOLUMES, "", key.name, {"preconditions": {"uid": uid}})
        return Done() if answer.ok or answer.missing or answer.conflict else Again(answer.message)

    def _make(self, key: ClaimKey) -> Steps:
        claim = self._asking.get(key)
        found = None if claim is None else self._classes.get(facts.class_of(claim))
        if claim is None or found is None or found.get("provisioner") != PROVISIONER:
            return Done()
        if facts.waits(found) and facts.SELECTED_NODE not in facts.notes_of(claim):
            return Done()
        volume = make_volume(claim, found)
        answer = yield Create(PERSISTENT_VOLUMES, "", volume)
        if answer.ok:
            text = f"Successfully provisioned volume {facts.name_of(volume)}"
            yield _say(claim, "Normal", "ProvisioningSucceeded", text)
        elif not answer.conflict:
            text = f'failed to provision volume with StorageClass "{facts.class_of(claim)}": {answer.message}'
            yield _say(claim, "Warning", "ProvisioningFailed", text)
            return Again(answer.message)
        return Done()


def make_volume(claim: Object, storage_class: Object) -> Object:
    """The volume for a claim. Its name follows from the claim, so that nobody gets two."""
    metadata, spec, name = claim["metadata"], facts.spec_of(claim), f"pvc-{facts.uid_of(claim)}"
    ref = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        **{each: metadata[each] for each in ("namespace", "name", "uid", "resourceVersion")},
    }
    made: dict[str, Any] = {
        "accessModes": spec.get("accessModes"),
        "capacity": {"storage": spec["resources"]["requests"]["storage"]},
        "claimRef": ref,
        "csi": {"driver": _DRIVER, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": facts.class_of(claim),
        "volumeMode": spec.get("volumeMode") or "Filesystem",
    }
    further = {
        "mountOptions": storage_class.get("mountOptions"),
        "volumeAttributesClassName": spec.get("volumeAttributesClassName"),
        "nodeAffinity": _reach(storage_class),
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {facts.PROVISIONED_BY: PROVISIONER}},
        "spec": {**made, **{field: value for field, value in further.items() if value}},
    }


def _reach(storage_class: Object) -> Object | None:
    """Where the class lets volumes be, as a node affinity."""
    terms = [
        {"matchExpressions": [{"key": each["key"], "operator": "In", "values": each["values"]} for each in asked]}
        for term in storage_class.get("allowedTopologies") or ()
        if (asked := term.get("matchLabelExpressions"))
    ]
    return {"required": {"nodeSelectorTerms": terms}} if terms else None


def _asks(claim: Object) -> bool:
    is_ours = all(facts.notes_of(claim).get(each) == PROVISIONER for each in facts.PROVISIONERS)
    return is_ours and not facts.spec_of(claim).get("volumeName") and not facts.is_going(claim)


def _is_over(volume: Object) -> bool:
    return (
        facts.notes_of(volume).get(facts.PROVISIONED_BY) == PROVISIONER
        and facts.phase_of(volume) in ("Released", "Failed")
        and facts.spec_of(volume).get("persistentVolumeReclaimPolicy") == "Delete"
        and not facts.is_going(volume)
    )


def _say(claim: Object, type_: Literal["Normal", "Warning"], reason: str, message: str) -> Emit:
    named = {each: claim["metadata"][each] for each in ("namespace", "name", "uid")}
    about = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **named}
    return Emit(about, type_, reason, message, PROVISIONER)
