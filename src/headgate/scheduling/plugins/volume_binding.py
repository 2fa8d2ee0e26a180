"""VolumeBinding: a pod fits nodes that its volumes can reach, or where they can be bound or provisioned.

Bound claims restrict the pod to nodes that reach the volume. Unbound claims with delayed binding get the smallest free
volume that the node reaches, or a volume is provisioned for the node. The choice is assumed when the pod gets a node
and written in PreBind; the pod then waits until the volume controller has bound the claims. ``scheduling/volumes/`` has
the rules.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.framework.effects import ObjectPatch
from headgate.scheduling.framework.interface import (
    READS_NODE,
    SKIP,
    FilterReason,
    PreBindPending,
    PreFilterRejection,
    Reads,
    Rejection,
    Skip,
)
from headgate.scheduling.volumes import pod_volume_claims, queueing_hints
from headgate.scheduling.volumes.pod_volume_claims import PodVolumeClaims, read_pod_volume_claims
from headgate.scheduling.volumes.pod_volumes import PodVolumes
from headgate.scheduling.volumes.provisioning import provisioning_failures
from headgate.waiting.queueing_hints import ClusterEventWithHint

NAME: Final = "VolumeBinding"
REASONS: Final = (
    FilterReason("node(s) didn't match PersistentVolume's node affinity", unresolvable=True),
    FilterReason("node(s) didn't find available persistent volumes to bind", unresolvable=True),
    FilterReason("node(s) did not have enough free storage", unresolvable=True),
    FilterReason("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", unresolvable=True),
)
_UNREACHABLE, _NO_VOLUME, _NO_CAPACITY, _VOLUME_MISSING = 1, 2, 4, 8


class VolumeBinding:
    name: Final = NAME
    reads: Final[Reads] = READS_NODE

    def __init__(self, cluster: Cluster, timeout_s: float = 600.0) -> None:
        self.timeout_s = timeout_s
        self._storage = cluster.storage
        self._matrix = cluster.matrix
        self._reserved: dict[str, PodVolumes] = {}

    # -- filter -------------------------------------------------------------------------------------------------------

    def key(self, pod: PodInfo, /) -> Hashable:
        return pod_volume_claims.ephemeral_key(pod)

    def stamp(self, shape: PodShape, matrix: NodeMatrix, /) -> Hashable:
        return pod_volume_claims.claims_version(self._storage, shape)

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | PreFilterRejection | PodVolumeClaims:
        if not pod.shape.volumes.claimed:
            return SKIP
        found = read_pod_volume_claims(self._storage, pod)
        return PreFilterRejection(FilterReason(found, unresolvable=True)) if isinstance(found, str) else found

    def filter(self, shape: PodShape, matrix: NodeMatrix, rows: Rows | None, state: PodVolumeClaims, /) -> Ints | None:
        bits = self._check_bound(matrix, rows, state)
        return bits | self._check_unbound(matrix, rows, state)

    def _check_bound(self, matrix: NodeMatrix, rows: Rows | None, state: PodVolumeClaims) -> Ints:
        """Claims are checked in order; the first volume that a node does not reach decides the reason."""
        bits: Ints = np.zeros(matrix.size if rows is None else len(rows), np.int64)
        for _, volume in state.bound:
            if volume is None:
                bits[bits == 0] = _VOLUME_MISSING
                break
            if volume.affinity is not None:
                bits[(bits == 0) & ~matrix.labels.any_term(volume.affinity, rows, matrix.size)] = _UNREACHABLE
        return bits

    def _check_unbound(self, matrix: NodeMatrix, rows: Rows | None, state: PodVolumeClaims) -> Ints:
        row_numbers: Rows = np.arange(matrix.size) if rows is None else rows
        bits: Ints = np.zeros(len(row_numbers), np.int64)
        if not state.provisioning and not state.waiting:
            return bits
        for each in state.provisioning:
            row = matrix.row_of(each.selected_node or "")
            bits[row_numbers != (-1 if row is None else row)] = _NO_VOLUME
        remaining = np.flatnonzero(bits == 0)
        for unmatched, where in self._group_by_missing(matrix, row_numbers, remaining, state).items():
            claims = (*state.provisioning, *(state.waiting[i].claim for i in unmatched))
            bits[where] = provisioning_failures(
                self._storage,
                claims,
                matrix.labels,
                row_numbers[where],
                matrix.size,
                no_volume=_NO_VOLUME,
                no_capacity=_NO_CAPACITY,
            )
        return bits

    def _group_by_missing(
        self, matrix: NodeMatrix, row_numbers: Rows, remaining: Rows, state: PodVolumeClaims
    ) -> Mapping[tuple[int, ...], Any]:
        """The remaining rows, grouped by the indices of the claims without a reachable volume."""
        all_claims = tuple(range(len(state.waiting)))
        if not state.has_choice:
            return {all_claims: remaining}
        keys = sorted(state.label_keys)
        known: dict[tuple[str | None, ...], tuple[int, ...]] = {}
        groups: dict[tuple[int, ...], list[int]] = {}
        for i in remaining.tolist():
            node = matrix.node(int(row_numbers[i]))
            labels = {} if node is None else node.labels
            values = tuple(labels.get(each) for each in keys)
            unmatched = known.get(values)
            if unmatched is None:
                lacking = state.match(labels).unmatched
                unmatched = known[values] = tuple(n for n in all_claims if state.waiting[n].claim in lacking)
            groups.setdefault(unmatched, []).append(i)
        return groups

    def reasons(self, shape: PodShape, /) -> Sequence[FilterReason]:
        return REASONS

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return queueing_hints.binding_events(self._storage, shape)

    # -- binding cycle ------------------------------------------------------------------------------------------------

    def reserve(self, pod: PodInfo, node_name: str, /) -> Rejection | None:
        if not pod.shape.volumes.claimed:
            return None
        found = read_pod_volume_claims(self._storage, pod)
        if isinstance(found, str):
            return Rejection(NAME, found)
        if not found.provisioning and not found.waiting:
            return None
        pod_volumes = PodVolumes.assume(self._storage, found, self._labels(node_name), node_name)
        if pod_volumes is None:
            return Rejection(NAME, "a volume or claim changed while it was being chosen")
        self._reserved[pod.uid] = pod_volumes
        return None

    def unreserve(self, pod: PodInfo, node_name: str, /) -> None:
        pod_volumes = self._reserved.pop(pod.uid, None)
        if pod_volumes is not None:
            pod_volumes.revert(self._storage)

    def pre_bind(self, pod: PodInfo, node_name: str, /) -> Sequence[ObjectPatch]:
        pod_volumes = self._reserved.get(pod.uid)
        return () if pod_volumes is None else pod_volumes.writes()

    def awaited(self, pod: PodInfo, node_name: str, /) -> PreBindPending | str | None:
        pod_volumes = self._reserved.get(pod.uid)
        if pod_volumes is None:
            return None
        row = self._matrix.row_of(node_name)
        if row is None:
            return f'binding volumes: failed to get node "{node_name}": node "{node_name}" not found'
        found = pod_volumes.progress(self._storage, self._labels(node_name), node_name)
        if isinstance(found, str):
            return f"binding volumes: {found}"
        if found:
            del self._reserved[pod.uid]
            return None
        return PreBindPending(pod_volumes.wakers(self._storage))

    def _labels(self, node_name: str) -> Mapping[str, str]:
        row = self._matrix.row_of(node_name)
        node = None if row is None else self._matrix.node(row)
        return {} if node is None else node.labels
