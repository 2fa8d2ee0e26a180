"""VolumeRestrictions: volumes that only one pod, or only readers, may use at a time.

Disks of some kinds that pods name themselves cannot be shared by the pods of a node unless all of them only read. A
claim with the access mode ``ReadWriteOncePod`` serves one pod in the whole cluster: whoever else wants it waits, or
takes it from a pod of less priority.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from headgate.scheduling import events
from headgate.scheduling.cluster import Cluster
from headgate.scheduling.columns import Ints, Rows
from headgate.scheduling.contract import READS_PODS, SKIP, Reads, Reason, Refusal, Skip
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.parts import Disks
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape
from headgate.scheduling.storage import wakers, wanted
from headgate.waiting.waker import Waker

NAME: Final = "VolumeRestrictions"
REASONS: Final = (
    Reason("node(s) had no available disk"),
    Reason(
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

    def stamp(self, shape: Shape, matrix: NodeMatrix, /) -> Hashable:
        claims = shape.volumes.claims
        if not claims:
            return None
        return (
            tuple([(each, matrix.volumes.users(shape.namespace, each)) for each in self._for_one_pod(shape)]),
            tuple([self._storage.claim(shape.namespace, each) is None for each in claims]),
        )

    def pre_filter(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | Refusal | tuple[str, ...]:
        """The state is the claims that one pod alone may use."""
        shape = pod.shape
        for name in shape.volumes.claims:
            if self._storage.claim(pod.namespace, name) is None:
                return Refusal(Reason(wanted.missing_claim(name), unresolvable=True))
        claims = self._for_one_pod(shape)
        in_use = any(matrix.volumes.users(pod.namespace, each) for each in claims)
        return claims if in_use or shape.volumes.disks else SKIP

    def _for_one_pod(self, shape: Shape) -> tuple[str, ...]:
        found = ((name, self._storage.claim(shape.namespace, name)) for name in dict.fromkeys(shape.volumes.claims))
        return tuple(name for name, claim in found if claim is not None and _ONE_POD in claim.access_modes)

    def filter(self, shape: Shape, matrix: NodeMatrix, rows: Rows | None, state: tuple[str, ...], /) -> Ints | None:
        use = matrix.volumes
        length = matrix.size if rows is None else len(rows)
        in_use = any(use.users(shape.namespace, each) for each in state)
        bits: Ints = np.full(length, _IN_USE if in_use else 0, np.int64)
        disks = shape.volumes.disks
        if disks:
            for i, row in enumerate(range(matrix.size) if rows is None else rows.tolist()):
                if any(disks.clash(each.shape.volumes.disks) for each in use.on(row).values()):
                    bits[i] = _NO_DISK
        return bits

    def reasons(self, shape: Shape, /) -> Sequence[Reason]:
        return REASONS

    def wakers(self, shape: Shape, /) -> tuple[Waker, ...]:
        own = wakers.claim_wakers(shape, events.ADD, ephemeral=False)
        if any(self._storage.claim(shape.namespace, each) is None for each in shape.volumes.claims):
            return own
        frees = FreesVolume(shape.namespace, frozenset(shape.volumes.claims), shape.number, shape.volumes.disks)
        return (*own, *events.on(events.POD, events.DELETE, guard=frees), *events.on(events.NODE, events.ADD))


class FreesVolume:
    """The pod that went had a claim or a disk that the waiting pod wants, too. Equal for pods of one shape."""

    def __init__(self, namespace: str, claims: frozenset[str], shape_number: int, disks: Disks) -> None:
        self._namespace = namespace
        self._claims = claims
        self._number = shape_number
        self._disks = disks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreesVolume) and self._number == other._number

    def __hash__(self) -> int:
        return self._number

    def matches(self, event: events.Event, /) -> bool:
        gone = event.old
        if not isinstance(gone, Pod) or gone.namespace != self._namespace:
            return False
        return not self._claims.isdisjoint(gone.shape.volumes.claims) or self._disks.clash(gone.shape.volumes.disks)
