"""VolumeZone: a volume with zone or region labels requires a node in one of these zones or regions.

The labels are older than node affinity of volumes and still supported. Nodes without zone and region labels accept any
volume.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from headgate.scheduling.cache.label_columns import ABSENT, LabelColumns, Mask
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.interface import READS_NODE, SKIP, FilterReason, PreFilterRejection, Reads, Skip
from headgate.scheduling.volumes import pod_volume_claims, queueing_hints
from headgate.scheduling.volumes.storage_objects import ZONE_SEPARATOR, PersistentVolume
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "VolumeZone"
REASONS: Final = (FilterReason("node(s) had no available volume zone", unresolvable=True),)
_CURRENT_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_KEYS: Final = (*_CURRENT_LABELS, *_CURRENT_LABELS.values())

Zones = tuple[tuple[str, frozenset[str]], ...]
"""Label keys with the values of which a node must have one."""


class VolumeZone:
    name: Final = NAME
    reads: Final[Reads] = READS_NODE

    def __init__(self, cluster: Cluster) -> None:
        self._storage = cluster.storage

    def stamp(self, shape: PodShape, matrix: NodeMatrix, /) -> Hashable:
        return pod_volume_claims.claims_version(self._storage, shape) if shape.volumes.claims else None

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | PreFilterRejection | Zones:
        found: dict[tuple[str, frozenset[str]], None] = {}
        for name in pod.shape.volumes.claims:
            volume = self._volume(pod.namespace, name)
            if isinstance(volume, str):
                return PreFilterRejection(FilterReason(volume, unresolvable=True))
            found.update(dict.fromkeys(zones(volume) if volume is not None else ()))
        return tuple(found) or SKIP

    def _volume(self, namespace: str, name: str) -> PersistentVolume | str | None:
        """The volume of a claim; ``None`` if binding is delayed; a text that says why, if the claim is invalid."""
        if not name:
            return "PersistentVolumeClaim had no name"
        claim = self._storage.claim(namespace, name)
        if claim is None:
            return pod_volume_claims.missing_claim(name)
        if claim.volume_name:
            found = self._storage.volumes.get(claim.volume_name)
            return f'persistentvolume "{claim.volume_name}" not found' if found is None else found
        if not claim.storage_class:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        if self._storage.storage_class(claim.storage_class) is None:
            return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
        return None if self._storage.has_delayed_binding(claim) else "PersistentVolume had no name"

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: Zones, /) -> Ints | None:
        labels, size = matrix.labels, matrix.size
        has_zone_label: Mask = np.zeros(size if rows is None else len(rows), np.bool_)
        for key in _KEYS:
            has_zone_label |= _ids(labels, key, rows, size) != ABSENT
        matches = np.ones(len(has_zone_label), np.bool_)
        for key, values in state:
            matching = _has_one_of(labels, key, values, rows, size)
            if key in _CURRENT_LABELS:
                lacks = _ids(labels, key, rows, size) == ABSENT
                matching |= lacks & _has_one_of(labels, _CURRENT_LABELS[key], values, rows, size)
            matches &= matching
        return (has_zone_label & ~matches).astype(np.int64)

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return REASONS

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        """A change of a claim wakes the pod, so the other events are registered for the claims as they are now."""
        claim_events = queueing_hints.claim_events(shape, cluster_events.ADD, cluster_events.UPDATE, ephemeral=False)
        claims = queueing_hints.named_claims(self._storage, shape)
        if claims is None:
            return claim_events
        classes = dict.fromkeys(each.storage_class for each in claims if not each.volume_name and each.storage_class)
        return (
            *claim_events,
            *queueing_hints.volume_events(claims),
            *(
                waker
                for each in classes
                for waker in cluster_events.on_one(cluster_events.STORAGE_CLASS, each, cluster_events.ADD)
            ),
            *cluster_events.on(cluster_events.NODE, cluster_events.ADD, cluster_events.NODE_LABEL),
        )


def zones(volume: PersistentVolume) -> Zones:
    """The zone labels of a volume. A label with an empty zone in its list is ignored."""
    read = (
        (key, [each.strip() for each in volume.labels[key].split(ZONE_SEPARATOR)])
        for key in _KEYS
        if key in volume.labels
    )
    return tuple((key, frozenset(names)) for key, names in read if all(names))


def _ids(labels: LabelColumns, key: str, rows: Rows | None, size: int) -> Ints:
    ids = labels.column(key).ids
    return (ids[:size] if rows is None else ids[rows]).astype(np.int64)


def _has_one_of(labels: LabelColumns, key: str, values: frozenset[str], rows: Rows | None, size: int) -> Mask:
    column = labels.column(key)
    wanted_ids = [found for each in values if (found := column.id_of(each)) != ABSENT]
    return np.isin(_ids(labels, key, rows, size), wanted_ids)
