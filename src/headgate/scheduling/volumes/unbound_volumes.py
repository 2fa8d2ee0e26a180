"""The free volumes of one class: finds the smallest that satisfies a claim and a node's labels.

Most volumes state their location by one label value (a host, a zone) and are indexed by it; the few others are checked
one by one. Among equal sizes the first name is taken.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from headgate.kube.node_affinity import NodeSelector
from headgate.scheduling.volumes.storage_objects import PersistentVolume, PersistentVolumeClaim

Entry = tuple[int, str, PersistentVolume, bool]
"""Size, name, the volume, and whether every node at the location reaches the volume, so that its affinity need not be
checked."""
VolumeLocation = tuple[str, str] | NodeSelector | None
"""Where volumes can be reached: on nodes with a label value, on nodes that a selector matches, or everywhere."""


class UnboundVolumes:
    def __init__(self) -> None:
        self._by_location: dict[VolumeLocation, list[Entry]] = {}
        """Sorted by size, then by name."""
        self._location_keys: Counter[str] = Counter()
        self._selectors: dict[NodeSelector, None] = {}
        self._label_keys: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._by_location)

    @property
    def label_keys(self) -> Collection[str]:
        """The node labels that the volumes' affinities read."""
        return self._label_keys

    def add(self, volume: PersistentVolume) -> None:
        for location in _locations(volume):
            entry = (volume.capacity, volume.name, volume, _is_exact(location, volume))
            insort(self._by_location.setdefault(location, []), entry, key=_order)
            if isinstance(location, NodeSelector):
                self._selectors[location] = None
            elif location is not None:
                self._location_keys[location[0]] += 1
        self._label_keys.update(volume.label_keys)

    def remove(self, volume: PersistentVolume) -> None:
        for location in _locations(volume):
            entries = self._by_location[location]
            del entries[bisect_left(entries, (volume.capacity, volume.name), key=_order)]
            if isinstance(location, tuple):
                _decrement(self._location_keys, location[0])
            if not entries:
                del self._by_location[location]
                if isinstance(location, NodeSelector):
                    del self._selectors[location]
        for key in volume.label_keys:
            _decrement(self._label_keys, key)

    def smallest(
        self, claim: PersistentVolumeClaim, labels: Mapping[str, str], taken: Collection[str]
    ) -> PersistentVolume | None:
        """The smallest volume for the claim that a node with these labels can reach and that is not in ``taken``."""
        best: Entry | None = None
        for entries in self._reachable(labels):
            for i in range(bisect_left(entries, claim.request, key=_size), len(entries)):
                entry = entries[i]
                if best is not None and entry[:2] >= best[:2]:
                    break
                _, name, volume, is_exact = entry
                if name not in taken and matches_claim(volume, claim) and (is_exact or volume.is_reachable(labels)):
                    best = entry
                    break
        return None if best is None else best[2]

    def _reachable(self, labels: Mapping[str, str]) -> Iterator[list[Entry]]:
        locations: list[VolumeLocation] = [None]
        locations += [(key, labels[key]) for key in self._location_keys if key in labels]
        locations += [each for each in self._selectors if each.matches(labels, "")]
        return (self._by_location[location] for location in locations if location in self._by_location)


def matches_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a free volume of the claim's class satisfies the claim, apart from its location."""
    return (
        volume.capacity >= claim.request
        and volume.mode == claim.mode
        and volume.attributes_class == claim.attributes_class
        and (claim.selector is None or claim.selector.matches(volume.labels))
        and volume.access_modes.issuperset(claim.access_modes)
    )


def _order(entry: Entry) -> tuple[int, str]:
    return entry[:2]


def _size(entry: Entry) -> int:
    return entry[0]


def _locations(volume: PersistentVolume) -> Sequence[VolumeLocation]:
    affinity = volume.affinity
    if affinity is None:
        return (None,)
    if len(affinity.terms) == 1:
        for each in affinity.terms[0].labels.requirements:
            if each.operator == "in":
                return [(each.key, value) for value in sorted(set(each.values))]
    return (affinity,)


def _is_exact(location: VolumeLocation, volume: PersistentVolume) -> bool:
    if not isinstance(location, tuple) or volume.affinity is None:
        return True
    return len(volume.affinity.terms[0].labels.requirements) == 1


def _decrement(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
