"""Reconciles one claim: it stays pending, is bound, or has lost its volume.

A binding takes four writes in this order: the volume's ``spec.claimRef``, the volume's ``status.phase``, the claim's
``spec.volumeName``, the claim's ``status.phase``. A write that was done already is skipped, so an interrupted binding
is completed. ``volume_sync.py`` does the same from the volume's side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.controllers.volumes import object_fields
from headgate.controllers.volumes.object_fields import ClaimKey, Object
from headgate.controllers.volumes.volume_cache import PersistentVolumeCache, WriteSteps
from headgate.kube import quantity
from headgate.kube.api_resources import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from headgate.kube.api_resources import PERSISTENT_VOLUMES as VOLUMES

_EXTERNAL: Final = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)
_IN_TREE: Final = "kubernetes.io/"


def sync_claim(cache: PersistentVolumeCache, key: ClaimKey, consumers: Sequence[str]) -> WriteSteps:
    """``consumers``: pods that use the claim and have no node yet."""
    claim = cache.claims.get(key)
    if claim is None:
        return None
    name = object_fields.spec_of(claim).get("volumeName") or ""
    if object_fields.BIND_COMPLETED in object_fields.annotations_of(claim):
        return (yield from _sync_bound_claim(cache, claim, name))
    if name:
        return (yield from _bind_to_named(cache, claim, name))
    delays_binding = object_fields.waits_for_first_consumer(cache.storage_class_of(claim))
    volume = cache.available.find(claim, only_prebound=delays_binding)
    if volume is not None:
        return (yield from bind(cache, volume, claim))
    return (yield from _handle_claim_without_volume(cache, claim, consumers, delays_binding=delays_binding))


# -- claims without a volume ----------------------------------------------------------------------------------------


def _handle_claim_without_volume(
    cache: PersistentVolumeCache, claim: Object, consumers: Sequence[str], *, delays_binding: bool
) -> WriteSteps:
    if not object_fields.names_a_class(claim) and (default := cache.default_class()):
        return (yield from cache.patch_and_store(CLAIMS, claim, {"spec": {"storageClassName": default}}))
    if delays_binding and object_fields.SELECTED_NODE not in object_fields.annotations_of(claim):
        yield from cache.emit_event_once(CLAIMS, claim, "Normal", *_waiting_reason(consumers))
    elif object_fields.storage_class_name_of(claim):
        return (yield from _delegate_provisioning(cache, claim))
    else:
        text = "no persistent volumes available for this claim and no storage class is set"
        yield from cache.emit_event_once(CLAIMS, claim, "Normal", "FailedBinding", text)
    return (yield from _write_phase(cache, claim, "Pending", None))


def _waiting_reason(consumers: Sequence[str]) -> tuple[str, str]:
    if not consumers:
        return "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
    pods = "pod" if len(consumers) == 1 else "pods"
    return "WaitForPodScheduled", f"waiting for {pods} {','.join(consumers)} to be scheduled"


def _delegate_provisioning(cache: PersistentVolumeCache, claim: Object) -> WriteSteps:
    """Sets the annotations that name the external provisioner of the volume."""
    found = cache.storage_class_of(claim)
    if found is None:
        text = f'storageclass.storage.k8s.io "{object_fields.storage_class_name_of(claim)}" not found'
        yield from cache.emit_event_once(CLAIMS, claim, "Warning", "ProvisioningFailed", text)
        return None
    provisioner = found.get("provisioner") or ""
    if provisioner.startswith(_IN_TREE):
        yield from cache.emit_event_once(
            CLAIMS, claim, "Warning", "ProvisioningFailed", f"no volume plugin matched name: {provisioner}"
        )
        return None
    annotations = object_fields.annotations_of(claim)
    if any(annotations.get(each) != provisioner for each in object_fields.PROVISIONERS):
        body = {"metadata": {"annotations": dict.fromkeys(object_fields.PROVISIONERS, provisioner)}}
        problem = yield from cache.patch_and_store(CLAIMS, claim, body)
        if problem is not None:
            return problem
    yield from cache.emit_event_once(CLAIMS, claim, "Normal", "ExternalProvisioning", _EXTERNAL.format(provisioner))
    return None


def _bind_to_named(cache: PersistentVolumeCache, claim: Object, name: str) -> WriteSteps:
    """The claim names its volume, but the binding is not finished."""
    volume = cache.volumes.get(name)
    if volume is None:
        return (yield from _write_phase(cache, claim, "Pending", None))
    if object_fields.claim_ref(volume) is None:
        mismatch = object_fields.find_mismatch(volume, claim)
        if not mismatch:
            return (yield from bind(cache, volume, claim))
        text = f'Cannot bind to requested volume "{name}": {mismatch}'
        yield from cache.emit_event_once(CLAIMS, claim, "Warning", "VolumeMismatch", text)
    elif object_fields.is_reserved_for(volume, claim):
        return (yield from bind(cache, volume, claim))
    else:
        text = f'volume "{name}" already bound to a different claim.'
        yield from cache.emit_event_once(CLAIMS, claim, "Warning", "FailedBinding", text)
    return (yield from _write_phase(cache, claim, "Pending", None))


# -- claims with a volume -------------------------------------------------------------------------------------------


def _sync_bound_claim(cache: PersistentVolumeCache, claim: Object, name: str) -> WriteSteps:
    volume = cache.volumes.get(name) if name else None
    if not name:
        text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        return (yield from _mark_lost(cache, claim, "ClaimLost", text))
    if volume is None:
        text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        return (yield from _mark_lost(cache, claim, "ClaimLost", text))
    ref = object_fields.claim_ref(volume)
    if ref is None or ref.get("uid") == object_fields.uid_of(claim):
        return (yield from bind(cache, volume, claim))
    text = "Two claims are bound to the same volume, this one is bound incorrectly"
    return (yield from _mark_lost(cache, claim, "ClaimMisbound", text))


def _mark_lost(cache: PersistentVolumeCache, claim: Object, reason: str, text: str) -> WriteSteps:
    if object_fields.phase_of(claim) == "Lost":
        return None
    problem = yield from _write_phase(cache, claim, "Lost", None)
    if problem is None:
        yield from cache.emit_event_once(CLAIMS, claim, "Warning", reason, text)
    return problem


# -- writes ---------------------------------------------------------------------------------------------------------


def bind(cache: PersistentVolumeCache, volume: Object, claim: Object) -> WriteSteps:
    """Performs the missing writes of a binding."""
    key, name = object_fields.key_of(claim), object_fields.name_of(volume)
    problem = yield from _bind_volume_to_claim(cache, volume, claim)
    if problem is None and name in cache.volumes:
        problem = yield from write_volume_phase(cache, cache.volumes[name], "Bound")
    if problem is None and key in cache.claims:
        problem = yield from _bind_claim_to_volume(cache, cache.claims[key], name)
    if problem is None and key in cache.claims and name in cache.volumes:
        problem = yield from _write_phase(cache, cache.claims[key], "Bound", cache.volumes[name])
    return problem


def _bind_volume_to_claim(cache: PersistentVolumeCache, volume: Object, claim: Object) -> WriteSteps:
    metadata, ref = claim["metadata"], object_fields.claim_ref(volume) or {}
    desired = {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
    body: Object = {}
    if not desired.items() <= ref.items():
        named = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "resourceVersion": metadata["resourceVersion"]}
        body["spec"] = {"claimRef": {**named, **desired}}
    if not object_fields.is_reserved_for(
        volume, claim
    ) and object_fields.BOUND_BY_CONTROLLER not in object_fields.annotations_of(volume):
        body["metadata"] = {"annotations": {object_fields.BOUND_BY_CONTROLLER: "yes"}}
    return (yield from cache.patch_and_store(VOLUMES, volume, body)) if body else None


def _bind_claim_to_volume(cache: PersistentVolumeCache, claim: Object, name: str) -> WriteSteps:
    annotations: dict[str, str] = {}
    body: Object = {}
    if object_fields.spec_of(claim).get("volumeName") != name:
        body["spec"] = {"volumeName": name}
        annotations[object_fields.BOUND_BY_CONTROLLER] = "yes"
    annotations[object_fields.BIND_COMPLETED] = "yes"
    missing = {mark: value for mark, value in annotations.items() if mark not in object_fields.annotations_of(claim)}
    if missing:
        body["metadata"] = {"annotations": missing}
    return (yield from cache.patch_and_store(CLAIMS, claim, body)) if body else None


def _write_phase(cache: PersistentVolumeCache, claim: Object, phase: str, volume: Object | None) -> WriteSteps:
    current = claim.get("status") or {}
    status: Object = {}
    if volume is None:
        status = {
            each: None for each in ("accessModes", "capacity", "currentVolumeAttributesClassName") if each in current
        }
    else:
        spec = object_fields.spec_of(volume)
        if current.get("accessModes") != spec.get("accessModes"):
            status["accessModes"] = spec.get("accessModes")
        if current.get("phase") != phase and _size(current.get("capacity")) != _size(spec.get("capacity")):
            status["capacity"] = spec.get("capacity")
        attributes = spec.get("volumeAttributesClassName")
        if current.get("phase") == "Pending" and current.get("currentVolumeAttributesClassName") != attributes:
            status["currentVolumeAttributesClassName"] = attributes
    if current.get("phase") != phase:
        status["phase"] = phase
    return (yield from cache.patch_and_store(CLAIMS, claim, {"status": status}, "status")) if status else None


def write_volume_phase(cache: PersistentVolumeCache, volume: Object, phase: str, message: str = "") -> WriteSteps:
    if object_fields.phase_of(volume) == phase:
        return None
    return (
        yield from cache.patch_and_store(
            VOLUMES, volume, {"status": {"phase": phase, "message": message or None}}, "status"
        )
    )


def _size(amounts: Object | None) -> int | None:
    return None if not amounts or "storage" not in amounts else quantity.amount(amounts["storage"]).nano
