"""Queueing hints of the volume plugins: which changes of storage objects may make a waiting pod schedulable.

Events are registered by claim, volume or class, so that a pod that waits for its own claim is not woken by changes of a
hundred thousand others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.volumes.storage_cache import StorageCache, class_subject
from headgate.scheduling.volumes.storage_objects import CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolumeClaim
from headgate.waiting.queueing_hints import ClusterEventWithHint

_CHANGE: Final = (cluster_events.ADD, cluster_events.UPDATE)


def claim_events(shape: PodShape, *actions: str, ephemeral: bool = True) -> tuple[ClusterEventWithHint, ...]:
    """Events of these actions on claims of the shape's pods only."""
    volumes = shape.volumes
    wakers = [
        waker
        for name in dict.fromkeys(volumes.claims)
        for waker in cluster_events.on_one(
            cluster_events.PERSISTENT_VOLUME_CLAIM, f"{shape.namespace}/{name}", *actions
        )
    ]
    if ephemeral and volumes.has_ephemeral:
        suffixes = tuple(f"-{each.volume}" for each in volumes.claimed if each.volume)
        guard = EphemeralClaimChanged(shape.namespace, suffixes)
        wakers += cluster_events.on(cluster_events.PERSISTENT_VOLUME_CLAIM, *actions, guard=guard)
    return tuple(wakers)


def named_claims(storage: StorageCache, shape: PodShape) -> list[PersistentVolumeClaim] | None:
    """The claims that pods of the shape name; ``None`` if one is missing or unusable, so that only events of that claim
    can help."""
    found = [storage.claim(shape.namespace, name) for name in dict.fromkeys(shape.volumes.claims)]
    usable = [each for each in found if each is not None and not each.is_lost and not each.is_deleting]
    return usable if len(usable) == len(found) else None


def binding_events(storage: StorageCache, shape: PodShape) -> tuple[ClusterEventWithHint, ...]:
    """Events that may make pods schedulable that VolumeBinding rejected. A change of a claim wakes the pod, so the
    other events are registered for the claims as they are now."""
    claims = named_claims(storage, shape)
    claim_and_class_events = claim_events(shape, *_CHANGE)
    if claims is None:
        return claim_and_class_events
    unbound = [each for each in claims if not each.is_bound]
    classes = dict.fromkeys(each.storage_class for each in unbound if each.storage_class)
    claim_and_class_events += tuple(
        waker for each in classes for waker in cluster_events.on_one(cluster_events.STORAGE_CLASS, each, *_CHANGE)
    )
    if not all(map(storage.has_delayed_binding, unbound)):
        return claim_and_class_events
    if shape.volumes.has_ephemeral:
        return (*claim_and_class_events, *_all_storage_events())
    wakers = [
        *claim_and_class_events,
        *cluster_events.on(cluster_events.NODE, cluster_events.ADD, cluster_events.NODE_LABEL),
        *volume_events(claims),
    ]
    for each in classes:
        wakers += cluster_events.on_one(cluster_events.PERSISTENT_VOLUME, class_subject(each), *_CHANGE)
        wakers += cluster_events.on_one(
            cluster_events.CSI_STORAGE_CAPACITY, class_subject(each), *_CHANGE, guard=StorageCapacityIncreased()
        )
    if classes:
        wakers += cluster_events.on(cluster_events.CSI_DRIVER, cluster_events.UPDATE, guard=CapacityCheckDisabled())
    return tuple(wakers)


def volume_events(claims: Iterable[PersistentVolumeClaim]) -> tuple[ClusterEventWithHint, ...]:
    """Events of the volumes that the claims name."""
    names = dict.fromkeys(each.volume_name for each in claims if each.volume_name)
    return tuple(
        waker for each in names for waker in cluster_events.on_one(cluster_events.PERSISTENT_VOLUME, each, *_CHANGE)
    )


def _all_storage_events() -> tuple[ClusterEventWithHint, ...]:
    """Events of all storage objects, for ephemeral volumes: a shape does not include the names of their claims."""
    return (
        *cluster_events.on(cluster_events.NODE, cluster_events.ADD, cluster_events.NODE_LABEL),
        *cluster_events.on(cluster_events.PERSISTENT_VOLUME, *_CHANGE),
        *cluster_events.on(cluster_events.STORAGE_CLASS, *_CHANGE),
        *cluster_events.on(cluster_events.CSI_STORAGE_CAPACITY, *_CHANGE, guard=StorageCapacityIncreased()),
        *cluster_events.on(cluster_events.CSI_DRIVER, cluster_events.UPDATE, guard=CapacityCheckDisabled()),
    )


class EphemeralClaimChanged(msgspec.Struct, frozen=True):
    """The claim may belong to an ephemeral volume: its name begins with a pod's name."""

    namespace: str
    suffixes: tuple[str, ...]

    def matches(self, event: ClusterEvent, /) -> bool:
        claim = event.new
        return (
            isinstance(claim, PersistentVolumeClaim)
            and claim.namespace == self.namespace
            and claim.name.endswith(self.suffixes)
        )


class CapacityCheckDisabled(msgspec.Struct, frozen=True):
    """The driver no longer reports capacity, so capacity limits no pod."""

    def matches(self, event: ClusterEvent, /) -> bool:
        old, new = event.old, event.new
        return (
            isinstance(old, CsiDriver)
            and old.reports_capacity
            and isinstance(new, CsiDriver)
            and not new.reports_capacity
        )


class StorageCapacityIncreased(msgspec.Struct, frozen=True):
    def matches(self, event: ClusterEvent, /) -> bool:
        old, new = event.old, event.new
        if not isinstance(old, CsiStorageCapacity) or not isinstance(new, CsiStorageCapacity):
            return True
        return new.limit is not None and (old.limit is None or new.limit > old.limit)


class AttachLimitIncreased(msgspec.Struct, frozen=True):
    """The node's attach limit of some driver increased."""

    def matches(self, event: ClusterEvent, /) -> bool:
        old, new = event.old, event.new
        if not isinstance(old, CsiNode) or not isinstance(new, CsiNode):
            return True
        return any(limit > old.limits.get(driver, 0) for driver, limit in new.limits.items())
