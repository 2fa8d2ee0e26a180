"""NodeVolumeLimits: limits the number of volumes of each CSI driver on a node.

The node's ``CSINode`` has the limits. The plugin counts each volume in use by the pods of the node once, volumes still
attached for deleted pods, and the volumes of the incoming pod. A volume that does not exist yet counts for the driver
that will provision it. Volumes of migrated in-tree kinds count for their CSI drivers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

import msgspec
import numpy as np

from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.event_objects import freed_pod
from headgate.scheduling.framework.interface import READS_PODS, SKIP, FilterReason, Reads, Skip
from headgate.scheduling.volumes import pod_volume_claims, queueing_hints
from headgate.scheduling.volumes.storage_objects import MIGRATED_VOLUMES, migrated_volume
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "NodeVolumeLimits"
REASONS: Final = (FilterReason("node(s) exceed max volume count"),)

Attached = frozenset[tuple[str, str]]
"""Volumes that are attached, or will be: each as CSI driver and volume handle."""


class NodeVolumeLimits:
    name: Final = NAME
    reads: Final[Reads] = READS_PODS

    def __init__(self, cluster: Cluster) -> None:
        self._storage = cluster.storage

    def key(self, pod: PodInfo, /) -> Hashable:
        return pod_volume_claims.ephemeral_key(pod)

    def stamp(self, shape: PodShape, matrix: NodeMatrix, /) -> Hashable:
        """With attach limits the attached volumes depend on all storage objects."""
        return self._storage.version if self._storage.has_limits and has_attached_volumes(shape) else None

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | Attached:
        return self._volumes(pod) if has_attached_volumes(pod.shape) else SKIP

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: Attached, /) -> Ints | None:
        full: set[int] = set()
        for driver, new_count in Counter(driver for driver, _ in state).items():
            limits = self._storage.limits(driver)
            names = limits if rows is None else filter(limits.__contains__, map(matrix.name, rows.tolist()))
            for name in names:
                row = matrix.row_of(name)
                if row is not None and not self._fits(matrix, row, driver, limits[name], new_count, state):
                    full.add(row)
        if not full:
            return None
        if rows is None:
            bits: Ints = np.zeros(matrix.size, np.int64)
            bits[list(full)] = 1
            return bits
        return np.isin(rows, list(full)).astype(np.int64)

    def _fits(self, matrix: NodeMatrix, row: int, driver: str, limit: int, new_count: int, volumes: Attached) -> bool:
        name = matrix.name(row)
        if matrix.volumes.count(row) + len(self._storage.attachments(name)) + new_count <= limit:
            return True  # even if all volumes were of this driver and no two pods used the same volume
        used = {volume for each in matrix.volumes.pods_on(row).values() for volume in self._volumes(each)}
        attached = sum(1 for each, _ in used | self._attached_volumes(name) if each == driver)
        return attached + sum(1 for each, _ in volumes - used if each == driver) <= limit

    def _attached_volumes(self, node_name: str) -> set[tuple[str, str]]:
        """The CSI volumes that are attached to a node, for any pod."""
        found: set[tuple[str, str]] = set()
        for each in self._storage.attachments(node_name).values():
            volume = self._storage.volumes.stored(each.volume_name)
            if each.driver and volume is not None and volume.is_csi:
                found.add((each.driver, volume.handle))
        return found

    def _volumes(self, pod: PodInfo) -> Attached:
        """The volumes of a pod. A missing claim, or an ephemeral claim of another pod, does not count."""
        found: set[tuple[str, str]] = {migrated_volume({kind: source}) for kind, source in pod.shape.volumes.inline}
        for each in pod.shape.volumes.claimed:
            claim = self._storage.claim(pod.namespace, each.name(pod.name))
            if claim is not None and (not each.volume or pod_volume_claims.is_owned(claim, pod)):
                found.add(self._storage.attached_as(claim))
        return frozenset((driver, handle) for driver, handle in found if driver and handle)

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return REASONS

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return (
            *cluster_events.on(
                cluster_events.CSI_NODE,
                cluster_events.ADD,
                cluster_events.UPDATE,
                guard=queueing_hints.AttachLimitIncreased(),
            ),
            *cluster_events.on(cluster_events.POD, cluster_events.DELETE, guard=PodDetachesVolume()),
            *queueing_hints.claim_events(shape, cluster_events.ADD),
            *cluster_events.on(cluster_events.VOLUME_ATTACHMENT, cluster_events.DELETE),
        )


class PodDetachesVolume(msgspec.Struct, frozen=True):
    def matches(self, event: cluster_events.ClusterEvent, /) -> bool:
        deleted = freed_pod(event)
        return deleted is not None and has_attached_volumes(deleted.shape)


def has_attached_volumes(shape: PodShape) -> bool:
    """Whether pods of the shape have volumes that count against attach limits."""
    volumes = shape.volumes
    return bool(volumes.claimed) or any(kind in MIGRATED_VOLUMES for kind, _ in volumes.inline)
