"""Which changes of storage may help pods that wait for it: guards, for the wakers of the plugins for volumes."""

from __future__ import annotations

import msgspec

from headgate.scheduling import events
from headgate.scheduling.events import Event
from headgate.scheduling.shape import Shape
from headgate.scheduling.storage.objects import Capacity, Claim, CsiDriver, CsiNode, StorageClass, Volume
from headgate.scheduling.storage.part import Storage
from headgate.waiting.waker import Waker


def claim_wakers(shape: Shape, *actions: str, ephemeral: bool = True) -> tuple[Waker, ...]:
    """For these actions on claims of the shape's pods, and on no others."""
    volumes = shape.volumes
    wakers = [
        waker
        for name in dict.fromkeys(volumes.claims)
        for waker in events.on_one(events.PERSISTENT_VOLUME_CLAIM, f"{shape.namespace}/{name}", *actions)
    ]
    if ephemeral and volumes.has_ephemeral:
        endings = tuple(f"-{each.volume}" for each in volumes.claimed if each.volume)
        guard = MadeForPod(shape.namespace, endings)
        wakers += events.on(events.PERSISTENT_VOLUME_CLAIM, *actions, guard=guard)
    return tuple(wakers)


class MadeForPod(msgspec.Struct, frozen=True):
    """The claim may be that of an ephemeral volume: it has a pod's name in front."""

    namespace: str
    endings: tuple[str, ...]

    def matches(self, event: Event, /) -> bool:
        claim = event.new
        return isinstance(claim, Claim) and claim.namespace == self.namespace and claim.name.endswith(self.endings)


class ServesClaim:
    """The volume is of the class of a claim of the shape, or is bound to one."""

    def __init__(self, storage: Storage, shape: Shape) -> None:
        self._storage = storage
        self._of = (shape.namespace, shape.volumes.claimed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ServesClaim) and self._storage is other._storage and self._of == other._of

    def __hash__(self) -> int:
        return hash(self._of)

    def matches(self, event: Event, /) -> bool:
        volume = event.new
        namespace, claimed = self._of
        if not isinstance(volume, Volume) or any(each.volume for each in claimed):
            return True
        claims = [self._storage.claim(namespace, each.claim) for each in claimed]
        return any(
            each is None
            or volume.storage_class == each.storage_class
            or volume.name == each.volume_name
            or volume.is_for(each)
            for each in claims
        )


class WidensTopology(msgspec.Struct, frozen=True):
    def matches(self, event: Event, /) -> bool:
        old, new = event.old, event.new
        return not (isinstance(old, StorageClass) and isinstance(new, StorageClass)) or old.topologies != new.topologies


class WaitsForPods(msgspec.Struct, frozen=True):
    """The class leaves the choice of the volume to us."""

    def matches(self, event: Event, /) -> bool:
        return isinstance(event.new, StorageClass) and event.new.waits


class TellsNoCapacity(msgspec.Struct, frozen=True):
    """The driver said how much room it has, and says it no more: then nobody is short of it."""

    def matches(self, event: Event, /) -> bool:
        old, new = event.old, event.new
        return (
            isinstance(old, CsiDriver) and old.tells_capacity and isinstance(new, CsiDriver) and not new.tells_capacity
        )


class HasMoreRoom(msgspec.Struct, frozen=True):
    def matches(self, event: Event, /) -> bool:
        old, new = event.old, event.new
        if not isinstance(old, Capacity) or not isinstance(new, Capacity):
            return True
        return new.limit is not None and (old.limit is None or new.limit > old.limit)


class AttachesMore(msgspec.Struct, frozen=True):
    """The node takes more volumes of some driver."""

    def matches(self, event: Event, /) -> bool:
        old, new = event.old, event.new
        if not isinstance(old, CsiNode) or not isinstance(new, CsiNode):
            return True
        return any(limit > old.limits.get(driver, 0) for driver, limit in new.limits.items())
