"""Whether volumes can be provisioned for unbound claims, evaluated for many nodes at once.

Provisioning fails on a node if the StorageClass has no provisioner, if its topology excludes the node, or if the driver
reports too little capacity. Claims are checked in order, and the first that fails decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headgate.scheduling.cache.label_columns import LabelColumns, Mask
from headgate.scheduling.cache.resource_columns import Ints, Rows
from headgate.scheduling.volumes.storage_cache import StorageCache
from headgate.scheduling.volumes.storage_objects import PersistentVolumeClaim, StorageClass

_NANO = 10**9


def provisioning_failures(
    storage: StorageCache,
    claims: Sequence[PersistentVolumeClaim],
    labels: LabelColumns,
    rows: Rows | None,
    size: int,
    no_volume: int,
    no_capacity: int,
) -> Ints:
    """Per row ``no_volume``, ``no_capacity``, or zero if volumes for all claims can be provisioned for its node."""
    bits: Ints = np.zeros(size if rows is None else len(rows), np.int64)
    for claim in claims:
        found = storage.storage_class(claim.storage_class)
        if found is None or not found.can_provision:
            bits[bits == 0] = no_volume
            break
        bits[(bits == 0) & ~_is_reachable(found, labels, rows, size)] = no_volume
        if claim.request and storage.reports_capacity(found.provisioner):
            bits[(bits == 0) & ~_has_capacity(storage, claim, labels, rows, size)] = no_capacity
    return bits


def _is_reachable(found: StorageClass, labels: LabelColumns, rows: Rows | None, size: int) -> Mask:
    length = size if rows is None else len(rows)
    if found.topologies is None:
        return np.ones(length, np.bool_)
    mask: Mask = np.zeros(length, np.bool_)
    for each in found.topologies:
        mask |= labels.selected(each, rows, size)
    return mask


def _has_capacity(
    storage: StorageCache, claim: PersistentVolumeClaim, labels: LabelColumns, rows: Rows | None, size: int
) -> Mask:
    wanted_bytes = -(-claim.request // _NANO)
    mask: Mask = np.zeros(size if rows is None else len(rows), np.bool_)
    for each in storage.capacities(claim.storage_class):
        if each.topology is not None and each.limit is not None and each.limit >= wanted_bytes:
            mask |= labels.selected(each.topology, rows, size)
    return mask
