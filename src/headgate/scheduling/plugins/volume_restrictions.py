"""VolumeRestrictions: volumes that only one pod, or only readers, may use at a time.

Pods on one node cannot share certain inline disks unless all of them mount the disk read-only. A claim with the access
mode ``ReadWriteOncePod`` serves one pod in the whole cluster: another pod waits, or preempts a pod of lower priority.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_fields import InlineDisks
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.interface import READS_PODS, SKIP, FilterReason, PreFilterRejection, Reads, Skip
from headgate.scheduling.volumes import pod_volume_claims, queueing_hints
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "VolumeRestrictions"
REASONS: Final = (
    FilterReason("node(s) had no available disk"),
    FilterReason(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
        " already in-use by another pod"
    ),
)
_NO_DISK, _IN_USE = 1, 2
_ONE_POD: Final = "ReadWriteOncePod"


class VolumeRestrictions:
    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def __init__(self, cluster: Cluster) -> None:
        self._storage = cluster.storage

    def stamp(self, shape: PodShape, matrix: NodeMatrix, /) -> Hashable:
        claims = shape.volumes.claims
        if not claims:
            return None
        return (
            tuple(
                [
                    (each, matrix.volumes.users(shape.namespace, each))
                    for each in self._read_write_once_pod_claims(shape)
                ]
            ),
            tuple([self._storage.claim(shape.namespace, each) is None for each in claims]),
        )

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | PreFilterRejection | tuple[str, ...]:
        """The state is the pod's claims with ReadWriteOncePod."""
        shape = pod.shape
        for name in shape.volumes.claims:
            if self._storage.claim(pod.namespace, name) is None:
                return PreFilterRejection(FilterReason(pod_volume_claims.missing_claim(name), unresolvable=True))
        claims = self._read_write_once_pod_claims(shape)
        in_use = any(matrix.volumes.users(pod.namespace, each) for each in claims)
        return claims if in_use or shape.volumes.disks else SKIP

    def _read_write_once_pod_claims(self, shape: PodShape) -> tuple[str, ...]:
        found = ((name, self._storage.claim(shape.namespace, name)) for name in dict.fromkeys(shape.volumes.claims))
        return tuple(name for name, claim in found if claim is not None and _ONE_POD in claim.access_modes)

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: tuple[str, ...], /) -> Ints | None:
        usage = matrix.volumes
        length = matrix.size if rows is None else len(rows)
        in_use = any(usage.users(shape.namespace, each) for each in state)
        bits: Ints = np.full(length, _IN_USE if in_use else 0, np.int64)
        disks = shape.volumes.disks
        if disks:
            for i, row in enumerate(range(matrix.size) if rows is None else rows.tolist()):
                if any(disks.conflicts_with(each.shape.volumes.disks) for each in usage.pods_on(row).values()):
                    bits[i] = _NO_DISK
        return bits

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return REASONS

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        claim_events = queueing_hints.claim_events(shape, cluster_events.ADD, ephemeral=False)
        if any(self._storage.claim(shape.namespace, each) is None for each in shape.volumes.claims):
            return claim_events
        hint = PodFreesVolume(shape.namespace, frozenset(shape.volumes.claims), shape.number, shape.volumes.disks)
        return (
            *claim_events,
            *cluster_events.on(cluster_events.POD, cluster_events.DELETE, guard=hint),
            *cluster_events.on(cluster_events.NODE, cluster_events.ADD),
        )


class PodFreesVolume:
    """The deleted pod used a claim or a disk that the waiting pod uses, too. Equal for pods of one shape."""

    def __init__(self, namespace: str, claims: frozenset[str], shape_number: int, disks: InlineDisks) -> None:
        self._namespace = namespace
        self._claims = claims
        self._number = shape_number
        self._disks = disks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PodFreesVolume) and self._number == other._number

    def __hash__(self) -> int:
        return self._number

    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        deleted = event.old
        if not isinstance(deleted, PodInfo) or deleted.namespace != self._namespace:
            return False
        return not self._claims.isdisjoint(deleted.shape.volumes.claims) or self._disks.conflicts_with(
            deleted.shape.volumes.disks
        )
