"""Assumed workloads: admissions and evictions that the engine decided and the API does not show yet.

A late watch must not undo either, or quota would be given twice. An entry ends when the API shows the write, when the
write was rejected, or when the API shows a later version without it, because another client removed it.
"""

from __future__ import annotations

import msgspec

from headgate.quota.api.workload import Admission, Workload


class AssumedWorkload(msgspec.Struct, frozen=True):
    """``revision`` of the write, once it is known; 0 before, and where revisions cannot be compared."""

    uid: str
    admission: Admission | None = None
    revision: int = 0


class AssumedWorkloads:
    """``admissions`` and ``evictions`` by the key of the workload."""

    def __init__(self) -> None:
        self.admissions: dict[str, AssumedWorkload] = {}
        self.evictions: dict[str, AssumedWorkload] = {}

    def observe(self, workload: Workload) -> None:
        """What the API shows may end promises."""
        for promises, is_kept in ((self.admissions, workload.holds_quota), (self.evictions, workload.is_evicted)):
            promise = promises.get(workload.key)
            if promise is None:
                continue
            is_over = is_kept or workload.uid != promise.uid or workload.is_finished
            if is_over or 0 < promise.revision < workload.revision:
                del promises[workload.key]

    def written(self, key: str, uid: str, revision: int, is_eviction: bool = False) -> None:
        promises = self.evictions if is_eviction else self.admissions
        promise = promises.get(key)
        if promise is not None and promise.uid == uid:
            promises[key] = msgspec.structs.replace(promise, revision=revision)

    def refused(self, key: str, uid: str, is_eviction: bool = False) -> bool:
        """The write was refused; whether there was a promise to take back."""
        promises = self.evictions if is_eviction else self.admissions
        promise = promises.get(key)
        if promise is None or promise.uid != uid:
            return False
        del promises[key]
        return True

    def forget(self, key: str) -> None:
        self.admissions.pop(key, None)
        self.evictions.pop(key, None)
