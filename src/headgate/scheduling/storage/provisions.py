"""Where volumes could be made for claims that have none: asked about many nodes at once.

A class that makes no volumes, or not within reach of a node, leaves the claim without one there; a driver that tells
how much room it has may have too little. Claims are asked in order, and the first that cannot be served decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.labels import Labels, Mask
from headgate.scheduling.storage.objects import Claim, StorageClass
from headgate.scheduling.storage.part import Storage

_NANO = 10**9


def refusals(
    storage: Storage,
    claims: Sequence[Claim],
    labels: Labels,
    rows: Rows | None,
    size: int,
    no_volume: int,
    no_room: int,
) -> Ints:
    """Per row ``no_volume``, ``no_room``, or zero if all claims can be served there."""
    bits: Ints = np.zeros(size if rows is None else len(rows), np.int64)
    for claim in claims:
        found = storage.storage_class(claim.storage_class)
        if found is None or not found.can_provision:
            bits[bits == 0] = no_volume
            break
        bits[(bits == 0) & ~_within_reach(found, labels, rows, size)] = no_volume
        if claim.request and storage.tells_capacity(found.provisioner):
            bits[(bits == 0) & ~_has_room(storage, claim, labels, rows, size)] = no_room
    return bits


def _within_reach(found: StorageClass, labels: Labels, rows: Rows | None, size: int) -> Mask:
    length = size if rows is None else len(rows)
    if found.topologies is None:
        return np.ones(length, np.bool_)
    mask: Mask = np.zeros(length, np.bool_)
    for each in found.topologies:
        mask |= labels.selected(each, rows, size)
    return mask


def _has_room(storage: Storage, claim: Claim, labels: Labels, rows: Rows | None, size: int) -> Mask:
    wanted_bytes = -(-claim.request // _NANO)
    mask: Mask = np.zeros(size if rows is None else len(rows), np.bool_)
    for each in storage.capacities(claim.storage_class):
        if each.topology is not None and each.limit is not None and each.limit >= wanted_bytes:
            mask |= labels.selected(each.topology, rows, size)
    return mask
