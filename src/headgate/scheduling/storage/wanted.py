"""What a pod wants of storage: claims that have their volume, and claims that will get one where the pod goes.

:func:`read_wanted` sorts a pod's claims, or says why it cannot be placed before something is done about one of them.
:meth:`Wanted.match` finds volumes for those that wait, on a node with given labels: smallest claim first, so that
each gets the smallest volume. Whether the rest can be made there is ``provisions.py``'s question.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

import msgspec

from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape
from headgate.scheduling.storage.objects import Claim, Volume
from headgate.scheduling.storage.part import Storage
from headgate.scheduling.storage.pool import Pool

NOT_BOUND: Final = "pod has unbound immediate PersistentVolumeClaims"


class Match(msgspec.Struct, frozen=True):
    """``found`` for some of the claims, none for the others."""

    found: tuple[tuple[Claim, Volume], ...] = ()
    without: tuple[Claim, ...] = ()


class Waiting(msgspec.Struct, frozen=True):
    """A claim that waits for a pod, with the volume that was promised to it, or those it may choose from."""

    claim: Claim
    promised: Volume | None
    pool: Pool


class Wanted(msgspec.Struct, frozen=True, eq=False):
    bound: tuple[tuple[Claim, Volume | None], ...] = ()
    """Each with its volume, if that is there."""
    underway: tuple[Claim, ...] = ()
    """A volume is being made for a node already."""
    waiting: tuple[Waiting, ...] = ()
    """By size, then in the pod's order."""

    @property
    def has_choice(self) -> bool:
        return any(each.promised is not None or each.pool for each in self.waiting)

    @property
    def label_keys(self) -> frozenset[str]:
        """The labels of a node that decide about a match."""
        return frozenset(
            key
            for each in self.waiting
            for key in (each.pool.label_keys if each.promised is None else each.promised.label_keys)
        )

    def match(self, labels: Mapping[str, str]) -> Match:
        found: dict[str, tuple[Claim, Volume]] = {}
        without: list[Claim] = []
        for each in self.waiting:
            if each.promised is None:
                volume = each.pool.smallest(each.claim, labels, found)
            else:
                volume = each.promised if each.promised.can_be_reached(labels) else None
            if volume is None:
                without.append(each.claim)
            else:
                found[volume.name] = (each.claim, volume)
        return Match(tuple(found.values()), tuple(without))


def read_wanted(storage: Storage, pod: Pod) -> Wanted | str:
    """The claims of a pod, sorted; a text if one of them stands in the way."""
    claims: list[Claim] = []
    for each in pod.shape.volumes.claimed:
        claim = storage.claim(pod.namespace, each.name(pod.name))
        problem = _find_problem(pod, each.name(pod.name), claim, is_ephemeral=bool(each.volume))
        if problem or claim is None:
            return problem
        claims.append(claim)
    unbound = [each for each in claims if not each.is_bound]
    if not all(map(storage.waits, unbound)):
        return NOT_BOUND
    choosing = sorted((each for each in unbound if each.selected_node is None), key=lambda each: each.request)
    return Wanted(
        tuple((each, storage.volumes.get(each.volume_name)) for each in claims if each.is_bound),
        tuple(each for each in unbound if each.selected_node is not None),
        tuple(Waiting(each, storage.promised(each), storage.pool(each.storage_class)) for each in choosing),
    )


def _find_problem(pod: Pod, name: str, claim: Claim | None, *, is_ephemeral: bool) -> str:
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


def is_owned(claim: Claim, pod: Pod) -> bool:
    """Whether the claim was made for an ephemeral volume of the pod, and not by somebody who took its name."""
    return claim.controller_uid == pod.uid


def missing_claim(name: str) -> str:
    return f'persistentvolumeclaim "{name}" not found'


def stamp(storage: Storage, shape: Shape) -> Hashable:
    """Stays the same as long as what was found out about the claims of a shape; ``None`` if it has none."""
    volumes = shape.volumes
    if not volumes.claimed:
        return None
    if volumes.has_ephemeral:
        return storage.version  # a shape does not say what the claims are called
    return tuple([storage.stamp(storage.claim(shape.namespace, each)) for each in volumes.claims])


def key(pod: Pod) -> Hashable:
    """What tells pods of one shape apart that have ephemeral volumes: their claims are named after them."""
    return (pod.name, pod.uid) if pod.shape.volumes.has_ephemeral else None
