"""Who uses volumes, and where: per row the pods that have any, per claim the number of its users.

Kept by the matrix as pods come and go, so that nobody looks through the pods that have none. What a volume is, and
which ones get in each other's way, is the business of ``scheduling/storage/`` and the plugins for volumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from headgate.scheduling.pod import Pod

_NOBODY: Final[Mapping[str, Pod]] = MappingProxyType({})


class VolumeUse:
    def __init__(self) -> None:
        self._on: dict[int, dict[str, Pod]] = {}
        self._count: dict[int, int] = {}
        self._users: dict[tuple[str, str], int] = {}

    def on(self, row: int) -> Mapping[str, Pod]:
        """By uid, the pods there that have volumes."""
        return self._on.get(row, _NOBODY)

    def count(self, row: int) -> int:
        """How many volumes the pods there have, those that several share counted for each of them."""
        return self._count.get(row, 0)

    def users(self, namespace: str, claim: str) -> int:
        """How many pods name the claim; those of ephemeral volumes have one user by nature and are not counted."""
        return self._users.get((namespace, claim), 0)

    def take(self, row: int, pod: Pod, sign: int) -> None:
        """A pod with volumes comes (+1) or goes (-1)."""
        volumes = pod.shape.volumes
        self._count[row] = self._count.get(row, 0) + sign * (len(volumes.claimed) + len(volumes.inline))
        if sign > 0:
            self._on.setdefault(row, {})[pod.uid] = pod
        else:
            there = self._on[row]
            del there[pod.uid]
            if not there:
                del self._on[row]
                del self._count[row]
        for claim in volumes.claims:
            key = (pod.namespace, claim)
            left = self._users.get(key, 0) + sign
            if left:
                self._users[key] = left
            else:
                del self._users[key]
