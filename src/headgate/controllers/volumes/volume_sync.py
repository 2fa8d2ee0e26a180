"""The steps for one volume: it is available, bound to a claim, or its claim is gone.

When the claim is gone the volume is released, and its reclaim policy decides the rest. There is no real storage here,
so nothing is wiped; a volume that only a driver can delete is left to that driver. ``claim_sync.py`` begins bindings.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final

from headgate.controllers.framework.effects import Delete, Effect, EffectResponse, Get
from headgate.controllers.volumes import object_fields
from headgate.controllers.volumes.claim_sync import write_volume_phase
from headgate.controllers.volumes.object_fields import ClaimKey, Object
from headgate.controllers.volumes.volume_cache import PersistentVolumeCache, WriteSteps
from headgate.kube.api_resources import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from headgate.kube.api_resources import PERSISTENT_VOLUMES as VOLUMES

_RELEASED: Final = frozenset({"Released", "Failed"})
_REMOVABLE: Final = re.compile(r"/tmp/.+")  # the same limit as upstream for host paths


def sync_volume(cache: PersistentVolumeCache, name: str) -> WriteSteps:
    volume = cache.volumes.get(name)
    if volume is None:
        return None
    ref, key = object_fields.claim_ref(volume), object_fields.claim_key(volume)
    if ref is None or key is None or not ref.get("uid"):
        return (yield from write_volume_phase(cache, volume, "Available"))
    claim = yield from _find_claim(cache, volume, key)
    if isinstance(claim, str):
        return claim
    if claim is None:
        return (yield from _release(cache, volume))
    bound_to = object_fields.spec_of(claim).get("volumeName") or ""
    if bound_to == name:
        return (yield from write_volume_phase(cache, volume, "Bound"))
    if not bound_to:
        return (yield from _report_mismatch(cache, volume, claim))
    # Its claim has another volume.
    if object_fields.PROVISIONED_BY in object_fields.annotations_of(volume) and _policy(volume) == "Delete":
        return (yield from _release(cache, volume))
    return (yield from _unbind(cache, volume))


def _find_claim(
    cache: PersistentVolumeCache, volume: Object, key: ClaimKey
) -> Generator[Effect, EffectResponse, Object | str | None]:
    """The claim with the uid that the volume names; an error message if the server cannot be asked."""
    uid = (object_fields.claim_ref(volume) or {}).get("uid")
    claim = cache.claims.get(key)
    if claim is None and object_fields.phase_of(volume) in _RELEASED:
        return None
    if claim is None or object_fields.uid_of(claim) != uid:
        response = yield Get(CLAIMS, *key)
        if not response.ok and not response.missing:
            return response.message
        claim = response.body if response.ok else None
    return claim if claim is not None and object_fields.uid_of(claim) == uid else None


def _report_mismatch(cache: PersistentVolumeCache, volume: Object, claim: Object) -> WriteSteps:
    """The claim does not name its volume yet. Events of the volume enqueue the claim, so that only a mismatch is
    reported here."""
    if object_fields.kind_of(volume)[0] != object_fields.kind_of(claim)[0]:
        name = object_fields.name_of(claim)
        text = (
            f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{name}" due to incompatible volumeMode.'
        )
        yield from cache.emit_event_once(VOLUMES, volume, "Warning", "VolumeMismatch", text)
        name = object_fields.name_of(volume)
        text = (
            f'Cannot bind PersistentVolume "{name}" to requested PersistentVolumeClaim due to incompatible volumeMode.'
        )
        yield from cache.emit_event_once(CLAIMS, claim, "Warning", "VolumeMismatch", text)
    return None


def _unbind(cache: PersistentVolumeCache, volume: Object) -> WriteSteps:
    """Removes a binding that the controller made; a reservation by a user keeps the claim and loses the uid."""
    body: Object = {"spec": {"claimRef": {"uid": None}}}
    if object_fields.BOUND_BY_CONTROLLER in object_fields.annotations_of(volume):
        body = {"spec": {"claimRef": None}, "metadata": {"annotations": {object_fields.BOUND_BY_CONTROLLER: None}}}
    problem = yield from cache.patch_and_store(VOLUMES, volume, body)
    if problem is not None:
        return problem
    return (yield from write_volume_phase(cache, cache.volumes.get(object_fields.name_of(volume), volume), "Available"))


# -- after its claim ------------------------------------------------------------------------------------------------


def _release(cache: PersistentVolumeCache, volume: Object) -> WriteSteps:
    if object_fields.phase_of(volume) not in _RELEASED:
        problem = yield from write_volume_phase(cache, volume, "Released")
        if problem is not None:
            return problem
        volume = cache.volumes.get(object_fields.name_of(volume), volume)
    match _policy(volume):
        case "Delete":
            return (yield from _delete(cache, volume))
        case "Recycle":
            return (yield from _fail(cache, volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!"))
    return None


def _delete(cache: PersistentVolumeCache, volume: Object) -> WriteSteps:
    spec, name = object_fields.spec_of(volume), object_fields.name_of(volume)
    if object_fields.PROVISIONED_BY in object_fields.annotations_of(volume) or spec.get("csi") is not None:
        return None  # its driver does it
    path = (spec.get("hostPath") or {}).get("path")
    if path is None:
        text = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
        return (yield from _fail(cache, volume, "VolumeFailedDelete", text))
    if not _REMOVABLE.match(path):
        text = f"host_path deleter only supports /tmp/.+ but received provided {path}"
        return (yield from _fail(cache, volume, "VolumeFailedDelete", text))
    response = yield Delete(VOLUMES, "", name, {"preconditions": {"uid": object_fields.uid_of(volume)}})
    return None if response.ok or response.missing or response.conflict else response.message


def _fail(cache: PersistentVolumeCache, volume: Object, reason: str, text: str) -> WriteSteps:
    if object_fields.phase_of(volume) == "Failed":
        return None
    problem = yield from write_volume_phase(cache, volume, "Failed", text)
    if problem is None:
        yield from cache.emit_event_once(VOLUMES, volume, "Warning", reason, text)
    return problem


def _policy(volume: Object) -> str:
    return str(object_fields.spec_of(volume).get("persistentVolumeReclaimPolicy") or "Retain")
