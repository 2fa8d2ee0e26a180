"""Volume binding for a pod after a node was chosen for it: volumes are bound to its claims, or are provisioned for the
node.

:meth:`PodVolumes.assume` records the decision in the storage cache, so that the next pod does not get the same volumes;
:meth:`PodVolumes.writes` returns the patches, and :meth:`PodVolumes.progress` tells whether the volume controller has
finished. The writes name the revision they were decided at, so they fail instead of overwriting another client's
change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.effects import ObjectPatch
from headgate.scheduling.volumes.pod_volume_claims import PodVolumeClaims
from headgate.scheduling.volumes.storage_cache import CLAIMS, VOLUMES, StorageCache
from headgate.scheduling.volumes.storage_objects import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from headgate.waiting.queueing_hints import ClusterEventWithHint


class BindingInfo(msgspec.Struct, frozen=True):
    """``before`` is the API server's version, not an assumed one: if another pod of this scheduler has assumed the same
    binding, the patches of both pods are sent."""

    claim: PersistentVolumeClaim
    before: PersistentVolume
    after: PersistentVolume


class PodVolumes(msgspec.Struct, frozen=True):
    """What is decided for the claims of one pod."""

    bindings: tuple[BindingInfo, ...]
    provisions: tuple[PersistentVolumeClaim, ...]
    """The claims for which volumes are provisioned, with the selected node."""

    @staticmethod
    def assume(
        storage: StorageCache, claims: PodVolumeClaims, labels: Mapping[str, str], node_name: str
    ) -> PodVolumes | None:
        """Returns ``None``, and assumes nothing, if a volume or claim changed."""
        match = claims.match(labels)
        bound = [
            (claim, storage.volumes.stored(volume.name), storage.assume_bound(volume, claim))
            for claim, volume in match.found
        ]
        assumed = [storage.assume_provisioned(each, node_name) for each in (*claims.provisioning, *match.unmatched)]
        pod_volumes = PodVolumes(
            tuple(BindingInfo(claim, before, after) for claim, before, after in bound if before and after),
            tuple(each for each in assumed if each is not None),
        )
        if len(pod_volumes.bindings) == len(bound) and len(pod_volumes.provisions) == len(assumed):
            return pod_volumes
        pod_volumes.revert(storage)
        return None

    def revert(self, storage: StorageCache) -> None:
        for each in self.bindings:
            if each.after != each.before:
                storage.forget_bound(each.after)
        for claim in self.provisions:
            storage.forget_provisioned(claim)

    def writes(self) -> Sequence[ObjectPatch]:
        return [
            *(_bind(each) for each in self.bindings if each.after != each.before),
            *(_select_node(each) for each in self.provisions),
        ]

    def progress(self, storage: StorageCache, labels: Mapping[str, str], node_name: str) -> bool | str:
        """Whether all claims are bound; a text that says why, if binding failed."""
        found = [_progress_of_binding(storage, each, labels, node_name) for each in self.bindings]
        found += [_progress_of_provision(storage, each, labels, node_name) for each in self.provisions]
        return next((each for each in found if isinstance(each, str)), all(found))

    def wakers(self, storage: StorageCache) -> tuple[ClusterEventWithHint, ...]:
        """The events that may complete or fail the binding."""
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
                for waker in cluster_events.on_one(cluster_events.PERSISTENT_VOLUME_CLAIM, each.key, cluster_events.ALL)
            ),
            *(
                waker
                for each in volumes
                for waker in cluster_events.on_one(cluster_events.PERSISTENT_VOLUME, each, cluster_events.ALL)
            ),
        )


def _bind(binding: BindingInfo) -> ObjectPatch:
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
    return ObjectPatch(VOLUMES, "", volume.name, volume.uid, {"metadata": metadata, "spec": {"claimRef": ref}})


def _select_node(claim: PersistentVolumeClaim) -> ObjectPatch:
    metadata = {"resourceVersion": claim.revision, "annotations": {SELECTED_NODE: claim.selected_node}}
    return ObjectPatch(CLAIMS, claim.namespace, claim.name, claim.uid, {"metadata": metadata})


def _progress_of_binding(
    storage: StorageCache, binding: BindingInfo, labels: Mapping[str, str], node_name: str
) -> bool | str:
    volume = storage.volumes.stored(binding.after.name)
    claim = storage.claims.stored(binding.claim.key)
    if volume is None:
        return f'failed to check binding: persistentvolumes "{binding.after.name}" not found'
    if claim is None:
        return f'failed to check binding: persistentvolumeclaims "{binding.claim.key}" not found'
    if binding.after != binding.before and volume.revision == binding.before.revision:
        return False  # the watch does not show this scheduler's write yet
    if not volume.is_reachable(labels):
        return _unreachable_text(volume, node_name)
    if volume.claim is None or not volume.claim.uid:
        return f'ClaimRef got reset for pv "{volume.name}"'
    return claim.is_bound


def _progress_of_provision(
    storage: StorageCache, assumed: PersistentVolumeClaim, labels: Mapping[str, str], node_name: str
) -> bool | str:
    claim = storage.claims.stored(assumed.key)
    if claim is None:
        return f'failed to check provisioning pvc: persistentvolumeclaims "{assumed.key}" not found'
    if claim.selected_node != node_name:
        if claim.revision == assumed.revision:
            return False  # the watch does not show this scheduler's write yet
        # The provisioner removes the selected node when it cannot provision there.
        return f'provisioning failed for PVC "{claim.name}"'
    if claim.volume_name:
        volume = storage.volumes.stored(claim.volume_name)
        if volume is None:
            return False
        if not volume.is_reachable(labels):
            return _unreachable_text(volume, node_name)
    return claim.is_bound


def _unreachable_text(volume: PersistentVolume, node_name: str) -> str:
    return f'pv "{volume.name}" node affinity doesn\'t match node "{node_name}": no matching NodeSelectorTerms'
