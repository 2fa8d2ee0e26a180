"""What a pod that was given a node does to storage: volumes bound to its claims, claims told for which node.

It is assumed at once (:meth:`Reservation.make`), so that the next pod is not given the same volumes, then written
(:meth:`writes`), and then whoever binds and makes volumes is waited for (:meth:`progress`). The writes name the
revision they were decided at, so what somebody else changed meanwhile is not overwritten: then they fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headgate.scheduling import events
from headgate.scheduling.effects import Write
from headgate.scheduling.storage.objects import BOUND_BY_CONTROLLER, SELECTED_NODE, Claim, Volume
from headgate.scheduling.storage.part import CLAIMS, VOLUMES, Storage
from headgate.scheduling.storage.wanted import Wanted
from headgate.waiting.waker import Waker


class Binding(msgspec.Struct, frozen=True):
    """``before`` is what the API server showed: if another pod of ours is about to bind the volume, too, both write."""

    claim: Claim
    before: Volume
    after: Volume


class Reservation(msgspec.Struct, frozen=True):
    bindings: tuple[Binding, ...]
    provisions: tuple[Claim, ...]
    """As they are assumed."""

    @staticmethod
    def make(storage: Storage, wanted: Wanted, labels: Mapping[str, str], node_name: str) -> Reservation | None:
        """``None``, and nothing is assumed, if something is not what it was."""
        match = wanted.match(labels)
        bound = [
            (claim, storage.volumes.stored(volume.name), storage.assume_bound(volume, claim))
            for claim, volume in match.found
        ]
        told = [storage.assume_provisioned(each, node_name) for each in (*wanted.underway, *match.without)]
        made = Reservation(
            tuple(Binding(claim, before, after) for claim, before, after in bound if before and after),
            tuple(each for each in told if each is not None),
        )
        if len(made.bindings) == len(bound) and len(made.provisions) == len(told):
            return made
        made.undo(storage)
        return None

    def undo(self, storage: Storage) -> None:
        for each in self.bindings:
            if each.after != each.before:
                storage.forget_bound(each.after)
        for claim in self.provisions:
            storage.forget_provisioned(claim)

    def writes(self) -> Sequence[Write]:
        return [
            *(_bind(each) for each in self.bindings if each.after != each.before),
            *(_select_node(each) for each in self.provisions),
        ]

    def progress(self, storage: Storage, labels: Mapping[str, str], node_name: str) -> bool | str:
        """Whether all is done; a text says why it will not be."""
        found = [_progress_of_binding(storage, each, labels, node_name) for each in self.bindings]
        found += [_progress_of_provision(storage, each, labels, node_name) for each in self.provisions]
        return next((each for each in found if isinstance(each, str)), all(found))

    def wakers(self, storage: Storage) -> tuple[Waker, ...]:
        """What may bring it on, or end it."""
        claims = [*(each.claim for each in self.bindings), *self.provisions]
        volumes = {each.after.name: None for each in self.bindings}
        for each in self.provisions:
            now = storage.claims.stored(each.key)
            if now is not None and now.volume_name:
                volumes[now.volume_name] = None
        return (
            *(
                waker
                for each in claims
                for waker in events.on_one(events.PERSISTENT_VOLUME_CLAIM, each.key, events.ALL)
            ),
            *(waker for each in volumes for waker in events.on_one(events.PERSISTENT_VOLUME, each, events.ALL)),
        )


def _bind(binding: Binding) -> Write:
    claim, volume = binding.claim, binding.before
    ref = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": claim.revision,
    }
    metadata: dict[str, Any] = {"resourceVersion": volume.revision}
    if binding.after.is_bound_by_controller and not volume.is_bound_by_controller:
        metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    return Write(VOLUMES, "", volume.name, volume.uid, {"metadata": metadata, "spec": {"claimRef": ref}})


def _select_node(claim: Claim) -> Write:
    metadata = {"resourceVersion": claim.revision, "annotations": {SELECTED_NODE: claim.selected_node}}
    return Write(CLAIMS, claim.namespace, claim.name, claim.uid, {"metadata": metadata})


def _progress_of_binding(storage: Storage, binding: Binding, labels: Mapping[str, str], node_name: str) -> bool | str:
    volume = storage.volumes.stored(binding.after.name)
    claim = storage.claims.stored(binding.claim.key)
    if volume is None:
        return f'failed to check binding: persistentvolumes "{binding.after.name}" not found'
    if claim is None:
        return f'failed to check binding: persistentvolumeclaims "{binding.claim.key}" not found'
    if binding.after != binding.before and volume.revision == binding.before.revision:
        return False  # what we wrote has not come back yet
    if not volume.can_be_reached(labels):
        return _out_of_reach(volume, node_name)
    if volume.claim is None or not volume.claim.uid:
        return f'ClaimRef got reset for pv "{volume.name}"'
    return claim.is_bound


def _progress_of_provision(storage: Storage, told: Claim, labels: Mapping[str, str], node_name: str) -> bool | str:
    claim = storage.claims.stored(told.key)
    if claim is None:
        return f'failed to check provisioning pvc: persistentvolumeclaims "{told.key}" not found'
    if claim.selected_node != node_name:
        if claim.revision == told.revision:
            return False  # what we wrote has not come back yet
        # Whoever makes volumes takes the node back when it cannot make one there.
        return f'provisioning failed for PVC "{claim.name}"'
    if claim.volume_name:
        volume = storage.volumes.stored(claim.volume_name)
        if volume is None:
            return False
        if not volume.can_be_reached(labels):
            return _out_of_reach(volume, node_name)
    return claim.is_bound


def _out_of_reach(volume: Volume, node_name: str) -> str:
    return f'pv "{volume.name}" node affinity doesn\'t match node "{node_name}": no matching NodeSelectorTerms'
