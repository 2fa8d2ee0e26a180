"""What is done about a volume: it is there for anybody, it belongs to a claim, or its claim is gone.

When the claim is gone the volume is released, and then its policy says what becomes of it. There is no storage behind
anything here, so nothing is wiped, and what only a driver could remove is left to that driver. Bindings are begun from
the claim's side (``claims.py``).
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final

from headgate.kube.resource import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from headgate.kube.resource import PERSISTENT_VOLUMES as VOLUMES
from headgate.owners.effects import Answer, Delete, Effect, Get
from headgate.owners.volumes import facts
from headgate.owners.volumes.claims import write_volume_phase
from headgate.owners.volumes.facts import ClaimKey, Object
from headgate.owners.volumes.shelf import Shelf, Step

_LET_GO: Final = frozenset({"Released", "Failed"})
_REMOVABLE: Final = re.compile(r"/tmp/.+")  # as far as a host path goes, everywhere


def settle(shelf: Shelf, name: str) -> Step:
    volume = shelf.volumes.get(name)
    if volume is None:
        return None
    ref, key = facts.claim_ref(volume), facts.claim_key(volume)
    if ref is None or key is None or not ref.get("uid"):
        return (yield from write_volume_phase(shelf, volume, "Available"))
    claim = yield from _find_claim(shelf, volume, key)
    if isinstance(claim, str):
        return claim
    if claim is None:
        return (yield from _release(shelf, volume))
    bound_to = facts.spec_of(claim).get("volumeName") or ""
    if bound_to == name:
        return (yield from write_volume_phase(shelf, volume, "Bound"))
    if not bound_to:
        return (yield from _tell_mismatch(shelf, volume, claim))
    # Its claim has another volume.
    if facts.PROVISIONED_BY in facts.notes_of(volume) and _policy(volume) == "Delete":
        return (yield from _release(shelf, volume))
    return (yield from _unbind(shelf, volume))


def _find_claim(shelf: Shelf, volume: Object, key: ClaimKey) -> Generator[Effect, Answer, Object | str | None]:
    """The claim with the uid that the volume names; a text if the server cannot say whether there is one."""
    uid = (facts.claim_ref(volume) or {}).get("uid")
    claim = shelf.claims.get(key)
    if claim is None and facts.phase_of(volume) in _LET_GO:
        return None
    if claim is None or facts.uid_of(claim) != uid:
        answer = yield Get(CLAIMS, *key)
        if not answer.ok and not answer.missing:
            return answer.message
        claim = answer.body if answer.ok else None
    return claim if claim is not None and facts.uid_of(claim) == uid else None


def _tell_mismatch(shelf: Shelf, volume: Object, claim: Object) -> Step:
    """The claim does not know of its volume yet. It is woken for every news of it, so there is no more to do here."""
    if facts.kind_of(volume)[0] != facts.kind_of(claim)[0]:
        name = facts.name_of(claim)
        text = (
            f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{name}" due to incompatible volumeMode.'
        )
        yield from shelf.say(VOLUMES, volume, "Warning", "VolumeMismatch", text)
        name = facts.name_of(volume)
        text = (
            f'Cannot bind PersistentVolume "{name}" to requested PersistentVolumeClaim due to incompatible volumeMode.'
        )
        yield from shelf.say(CLAIMS, claim, "Warning", "VolumeMismatch", text)
    return None


def _unbind(shelf: Shelf, volume: Object) -> Step:
    """Who gave the volume to the claim takes it back; what a user gave stays meant for that claim."""
    body: Object = {"spec": {"claimRef": {"uid": None}}}
    if facts.BOUND_BY_CONTROLLER in facts.notes_of(volume):
        body = {"spec": {"claimRef": None}, "metadata": {"annotations": {facts.BOUND_BY_CONTROLLER: None}}}
    problem = yield from shelf.write(VOLUMES, volume, body)
    if problem is not None:
        return problem
    return (yield from write_volume_phase(shelf, shelf.volumes.get(facts.name_of(volume), volume), "Available"))


# -- after its claim ------------------------------------------------------------------------------------------------


def _release(shelf: Shelf, volume: Object) -> Step:
    if facts.phase_of(volume) not in _LET_GO:
        problem = yield from write_volume_phase(shelf, volume, "Released")
        if problem is not None:
            return problem
        volume = shelf.volumes.get(facts.name_of(volume), volume)
    match _policy(volume):
        case "Delete":
            return (yield from _delete(shelf, volume))
        case "Recycle":
            return (yield from _fail(shelf, volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!"))
    return None


def _delete(shelf: Shelf, volume: Object) -> Step:
    spec, name = facts.spec_of(volume), facts.name_of(volume)
    if facts.PROVISIONED_BY in facts.notes_of(volume) or spec.get("csi") is not None:
        return None  # its driver does it
    path = (spec.get("hostPath") or {}).get("path")
    if path is None:
        text = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
        return (yield from _fail(shelf, volume, "VolumeFailedDelete", text))
    if not _REMOVABLE.match(path):
        text = f"host_path deleter only supports /tmp/.+ but received provided {path}"
        return (yield from _fail(shelf, volume, "VolumeFailedDelete", text))
    answer = yield Delete(VOLUMES, "", name, {"preconditions": {"uid": facts.uid_of(volume)}})
    return None if answer.ok or answer.missing or answer.conflict else answer.message


def _fail(shelf: Shelf, volume: Object, reason: str, text: str) -> Step:
    if facts.phase_of(volume) == "Failed":
        return None
    problem = yield from write_volume_phase(shelf, volume, "Failed", text)
    if problem is None:
        yield from shelf.say(VOLUMES, volume, "Warning", reason, text)
    return problem


def _policy(volume: Object) -> str:
    return str(facts.spec_of(volume).get("persistentVolumeReclaimPolicy") or "Retain")
