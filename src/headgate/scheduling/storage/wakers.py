"""Which changes of storage may help pods that wait for it: the wakers of the plugins for volumes, and their guards.

Events are waited for by the claim, the volume or the class they are about, so that a pod that waits for its own claim
is not looked at when one of a hundred thousand others changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.scheduling import events
from headgate.scheduling.events import Event
from headgate.scheduling.shape import Shape
from headgate.scheduling.storage.objects import Capacity, Claim, CsiDriver, CsiNode
from headgate.scheduling.storage.part import Storage, of_class
from headgate.waiting.waker import Waker

_CHANGE: Final = (events.ADD, events.UPDATE)


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


def named_claims(storage: Storage, shape: Shape) -> list[Claim] | None:
    """The claims that pods of the shape name; ``None`` if one is not there, or no good: then it alone can help."""
    found = [storage.claim(shape.namespace, name) for name in dict.fromkeys(shape.volumes.claims)]
    sound = [each for each in found if each is not None and not each.is_lost and not each.is_deleting]
    return sound if len(sound) == len(found) else None


def binding_wakers(storage: Storage, shape: Shape) -> tuple[Waker, ...]:
    """What may help pods whose volumes are not to be had. Whatever becomes of a claim makes them look again, so only
    what concerns the claims as they are now counts."""
    claims = named_claims(storage, shape)
    own = claim_wakers(shape, *_CHANGE)
    if claims is None:
        return own
    unbound = [each for each in claims if not each.is_bound]
    classes = dict.fromkeys(each.storage_class for each in unbound if each.storage_class)
    own += tuple(waker for each in classes for waker in events.on_one(events.STORAGE_CLASS, each, *_CHANGE))
    if not all(map(storage.waits, unbound)):
        return own
    if shape.volumes.has_ephemeral:
        return (*own, *_anything())
    wakers = [*own, *events.on(events.NODE, events.ADD, events.NODE_LABEL), *volume_wakers(claims)]
    for each in classes:
        wakers += events.on_one(events.PERSISTENT_VOLUME, of_class(each), *_CHANGE)
        wakers += events.on_one(events.CSI_STORAGE_CAPACITY, of_class(each), *_CHANGE, guard=HasMoreRoom())
    if classes:
        wakers += events.on(events.CSI_DRIVER, events.UPDATE, guard=TellsNoCapacity())
    return tuple(wakers)


def volume_wakers(claims: Iterable[Claim]) -> tuple[Waker, ...]:
    """For the volumes that claims name."""
    names = dict.fromkeys(each.volume_name for each in claims if each.volume_name)
    return tuple(waker for each in names for waker in events.on_one(events.PERSISTENT_VOLUME, each, *_CHANGE))


def _anything() -> tuple[Waker, ...]:
    """A shape does not say what the claims of ephemeral volumes are called, let alone what they are like."""
    return (
        *events.on(events.NODE, events.ADD, events.NODE_LABEL),
        *events.on(events.PERSISTENT_VOLUME, *_CHANGE),
        *events.on(events.STORAGE_CLASS, *_CHANGE),
        *events.on(events.CSI_STORAGE_CAPACITY, *_CHANGE, guard=HasMoreRoom()),
        *events.on(events.CSI_DRIVER, events.UPDATE, guard=TellsNoCapacity()),
    )


class MadeForPod(msgspec.Struct, frozen=True):
    """The claim may be that of an ephemeral volume: it has a pod's name in front."""

    namespace: str
    endings: tuple[str, ...]

    def matches(self, event: Event, /) -> bool:
        claim = event.new
        return isinstance(claim, Claim) and claim.namespace == self.namespace and claim.name.endswith(self.endings)


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
