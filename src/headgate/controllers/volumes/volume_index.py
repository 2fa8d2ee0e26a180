"""Available volumes for a claim: the smallest that fits, found by access modes, class and size.

Volumes with fewer access modes are searched first, so that no claim gets more than it requested. A volume that is
reserved for the claim takes precedence over all others with the same modes. Of equal sizes the first by name is taken.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from headgate.controllers.volumes import object_fields
from headgate.controllers.volumes.object_fields import ClaimKey, Object
from headgate.kube.labels import Selector, from_label_selector

Modes = frozenset[str]
VolumeKind = tuple[str, str, str]
"""Class, mode, attributes."""
VolumeEntry = tuple[int, str]
"""Size and name."""


class AvailableVolumeIndex:
    def __init__(self) -> None:
        self._available: Final[dict[Modes, dict[VolumeKind, list[VolumeEntry]]]] = {}
        self._reserved: Final[dict[ClaimKey, dict[str, None]]] = {}
        self._stored: Final[dict[str, Object]] = {}
        self._counts: Final[Counter[str]] = Counter()

    def put(self, volume: Object) -> None:
        name = object_fields.name_of(volume)
        self.drop(name)
        self._stored[name] = volume
        key = object_fields.claim_key(volume)
        if key is not None:
            self._reserved.setdefault(key, {})[name] = None
        elif _is_available(volume):
            group = self._available.setdefault(object_fields.access_modes(volume), {}).setdefault(_kind(volume), [])
            insort(group, (object_fields.capacity(volume), name))
            self._counts[object_fields.storage_class_name_of(volume)] += 1

    def drop(self, name: str) -> None:
        volume = self._stored.pop(name, None)
        if volume is None:
            return
        key, modes = object_fields.claim_key(volume), object_fields.access_modes(volume)
        if key is not None:
            del self._reserved[key][name]
            if not self._reserved[key]:
                del self._reserved[key]
        elif _is_available(volume):
            self._counts[object_fields.storage_class_name_of(volume)] -= 1
            kinds = self._available[modes]
            group = kinds[_kind(volume)]
            del group[bisect_left(group, (object_fields.capacity(volume), name))]
            if not group:
                del kinds[_kind(volume)]
            if not kinds:
                del self._available[modes]

    def count(self, storage_class: str) -> int:
        """How many volumes of a class are available."""
        return self._counts[storage_class]

    def reserved_for(self, key: ClaimKey) -> Collection[str]:
        return self._reserved.get(key, {})

    def find(self, claim: Object, *, only_prebound: bool, taken: Collection[str] = ()) -> Object | None:
        """``only_prebound``: only volumes that are reserved for the claim. ``taken``: volumes for other claims."""
        reserved = {object_fields.access_modes(each): each for each in reversed(list(self._matching_reserved(claim)))}
        for modes in _in_order({*self._available, *reserved}, object_fields.access_modes(claim)):
            if modes in reserved:
                return reserved[modes]
            name = None if only_prebound else self._smallest(claim, self._available[modes], taken)
            if name is not None:
                return self._stored[name]
        return None

    def _matching_reserved(self, claim: Object) -> Iterable[Object]:
        for name in sorted(self._reserved.get(object_fields.key_of(claim), ())):
            volume = self._stored[name]
            is_enough = object_fields.capacity(volume) >= object_fields.requested(
                claim
            ) and not object_fields.is_being_deleted(volume)
            if (
                is_enough
                and object_fields.is_reserved_for(volume, claim)
                and object_fields.kind_of(volume) == object_fields.kind_of(claim)
            ):
                yield volume

    def _smallest(
        self, claim: Object, kinds: Mapping[VolumeKind, list[VolumeEntry]], taken: Collection[str]
    ) -> str | None:
        group = kinds.get(_kind(claim), [])
        selector = _selector(claim)
        for index in range(bisect_left(group, (object_fields.requested(claim), "")), len(group)):
            name = group[index][1]
            labels = self._stored[name]["metadata"].get("labels")
            if name not in taken and (selector is None or selector.matches(labels)):
                return name
        return None


def _in_order(all_modes: Collection[Modes], requested: Modes) -> list[Modes]:
    return sorted((each for each in all_modes if each >= requested), key=lambda each: (len(each), sorted(each)))


def _is_available(volume: Object) -> bool:
    return object_fields.phase_of(volume) == "Available" and not object_fields.is_being_deleted(volume)


def _kind(obj: Object) -> VolumeKind:
    return object_fields.storage_class_name_of(obj), *object_fields.kind_of(obj)


def _selector(claim: Object) -> Selector | None:
    selector = object_fields.spec_of(claim).get("selector")
    return None if selector is None else from_label_selector(selector)
