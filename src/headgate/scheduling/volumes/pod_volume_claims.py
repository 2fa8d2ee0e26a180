"""The volume claims of a pod: bound ones, and unbound ones with delayed binding.

*Delayed binding* is the binding mode ``WaitForFirstConsumer``: the claim is bound when the pod has a node.
:func:`read_pod_volume_claims` classifies the claims, or returns a text that says why the pod cannot be scheduled.
:meth:`PodVolumeClaims.match` finds volumes for the unbound claims on a node with given labels: the smallest claim
first, so that each gets the smallest volume. ``provisioning.py`` decides whether volumes for the rest can be
provisioned there.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

import msgspec

from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.volumes.storage_cache import StorageCache
from headgate.scheduling.volumes.storage_objects import PersistentVolume, PersistentVolumeClaim
from headgate.scheduling.volumes.unbound_volumes import UnboundVolumes

NOT_BOUND: Final = "pod has unbound immediate PersistentVolumeClaims"


class VolumeMatch(msgspec.Struct, frozen=True):
    """``found``: volumes for some of the claims. ``unmatched``: the other claims."""

    found: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    unmatched: tuple[PersistentVolumeClaim, ...] = ()


class DelayBindingClaim(msgspec.Struct, frozen=True):
    """An unbound claim with delayed binding, with the volume reserved for it or the volumes it may be bound to."""

    claim: PersistentVolumeClaim
    prebound: PersistentVolume | None
    candidates: UnboundVolumes


class PodVolumeClaims(msgspec.Struct, frozen=True, eq=False):
    """The claims of a pod, by state."""

    bound: tuple[tuple[PersistentVolumeClaim, PersistentVolume | None], ...] = ()
    """Bound claims with their volumes; ``None`` if the volume does not exist."""
    provisioning: tuple[PersistentVolumeClaim, ...] = ()
    """Claims whose volume is already being provisioned for a node."""
    waiting: tuple[DelayBindingClaim, ...] = ()
    """Other unbound claims with delayed binding, by size, then in the pod's order."""

    @property
    def has_choice(self) -> bool:
        return any(each.prebound is not None or each.candidates for each in self.waiting)

    @property
    def label_keys(self) -> frozenset[str]:
        """The node labels that a match depends on."""
        return frozenset(
            key
            for each in self.waiting
            for key in (each.candidates.label_keys if each.prebound is None else each.prebound.label_keys)
        )

    def match(self, labels: Mapping[str, str]) -> VolumeMatch:
        found: dict[str, tuple[PersistentVolumeClaim, PersistentVolume]] = {}
        unmatched: list[PersistentVolumeClaim] = []
        for each in self.waiting:
            if each.prebound is None:
                volume = each.candidates.smallest(each.claim, labels, found)
            else:
                volume = each.prebound if each.prebound.is_reachable(labels) else None
            if volume is None:
                unmatched.append(each.claim)
            else:
                found[volume.name] = (each.claim, volume)
        return VolumeMatch(tuple(found.values()), tuple(unmatched))


def read_pod_volume_claims(storage: StorageCache, pod: PodInfo) -> PodVolumeClaims | str:
    """The claims of a pod by state; a text that says why, if one of them prevents scheduling."""
    claims: list[PersistentVolumeClaim] = []
    for each in pod.shape.volumes.claimed:
        claim = storage.claim(pod.namespace, each.name(pod.name))
        problem = _find_problem(pod, each.name(pod.name), claim, is_ephemeral=bool(each.volume))
        if problem or claim is None:
            return problem
        claims.append(claim)
    unbound = [each for each in claims if not each.is_bound]
    if not all(map(storage.has_delayed_binding, unbound)):
        return NOT_BOUND
    without_node = sorted((each for each in unbound if each.selected_node is None), key=lambda each: each.request)
    return PodVolumeClaims(
        tuple((each, storage.volumes.get(each.volume_name)) for each in claims if each.is_bound),
        tuple(each for each in unbound if each.selected_node is not None),
        tuple(
            DelayBindingClaim(each, storage.prebound_volume(each), storage.unbound_volumes(each.storage_class))
            for each in without_node
        ),
    )


def _find_problem(pod: PodInfo, name: str, claim: PersistentVolumeClaim | None, *, is_ephemeral: bool) -> str:
    if claim is None:
        if is_ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return missing_claim(name)
    if claim.is_lost:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume_name}"'
    if claim.is_deleting:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if is_ephemeral and not is_owned(claim, pod):
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
    return ""


def is_owned(claim: PersistentVolumeClaim, pod: PodInfo) -> bool:
    """Whether the claim was created for an ephemeral volume of this pod: another client may have used its name."""
    return claim.controller_uid == pod.uid


def missing_claim(name: str) -> str:
    return f'persistentvolumeclaim "{name}" not found'


def claims_version(storage: StorageCache, shape: PodShape) -> Hashable:
    """A value that stays the same while results about the claims of a shape are valid; ``None`` if it has none."""
    volumes = shape.volumes
    if not volumes.claimed:
        return None
    if volumes.has_ephemeral:
        return storage.version  # a shape does not include the names of these claims
    return tuple([storage.version_of(storage.claim(shape.namespace, each)) for each in volumes.claims])


def ephemeral_key(pod: PodInfo) -> Hashable:
    """The key of pods with ephemeral volumes: the names of their claims include the pod's name."""
    return (pod.name, pod.uid) if pod.shape.volumes.has_ephemeral else None
