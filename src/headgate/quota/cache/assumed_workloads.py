"""Assumed workloads: admissions and evictions that the quota engine decided and the API does not show yet.

A late watch event must not undo such a decision: the same quota would be assigned twice. An entry ends when the API
shows the write, when the write was rejected, or when the API shows a later version without it, because another client
removed it.
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
        """Drops entries that the API now shows, or has superseded."""
        for entries, is_shown in ((self.admissions, workload.holds_quota), (self.evictions, workload.is_evicted)):
            assumed = entries.get(workload.key)
            if assumed is None:
                continue
            is_over = is_shown or workload.uid != assumed.uid or workload.is_finished
            if is_over or 0 < assumed.revision < workload.revision:
                del entries[workload.key]

    def written(self, key: str, uid: str, revision: int, is_eviction: bool = False) -> None:
        entries = self.evictions if is_eviction else self.admissions
        assumed = entries.get(key)
        if assumed is not None and assumed.uid == uid:
            entries[key] = msgspec.structs.replace(assumed, revision=revision)

    def refused(self, key: str, uid: str, is_eviction: bool = False) -> bool:
        """The write was rejected: drops the entry. Returns whether there was one."""
        entries = self.evictions if is_eviction else self.admissions
        assumed = entries.get(key)
        if assumed is None or assumed.uid != uid:
            return False
        del entries[key]
        return True

    def forget(self, key: str) -> None:
        self.admissions.pop(key, None)
        self.evictions.pop(key, None)
