"""What the engine decided and the API does not show yet: quota given, and workloads told to go.

A watch that is late must not undo either, or quota would be given twice. A promise ends when the API shows it kept,
when the write was refused, or when the API shows a later version without it: somebody took it back.
"""

from __future__ import annotations

import msgspec

from headgate.quota.workload import Admission, Workload


class Promise(msgspec.Struct, frozen=True):
    """``revision`` of the write, once it is known to be done; 0 before, and where revisions cannot be compared."""

    uid: str
    admission: Admission | None = None
    revision: int = 0


class Promises:
    """``given`` and ``told`` by key: who was given quota, and who was told to go."""

    def __init__(self) -> None:
        self.given: dict[str, Promise] = {}
        self.told: dict[str, Promise] = {}

    def see(self, workload: Workload) -> None:
        """What the API shows may end promises."""
        for promises, is_kept in ((self.given, workload.holds_quota), (self.told, workload.is_evicted)):
            promise = promises.get(workload.key)
            if promise is None:
                continue
            is_over = is_kept or workload.uid != promise.uid or workload.is_finished
            if is_over or 0 < promise.revision < workload.revision:
                del promises[workload.key]

    def written(self, key: str, uid: str, revision: int, is_eviction: bool = False) -> None:
        promises = self.told if is_eviction else self.given
        promise = promises.get(key)
        if promise is not None and promise.uid == uid:
            promises[key] = msgspec.structs.replace(promise, revision=revision)

    def take_back(self, key: str, uid: str, is_eviction: bool = False) -> bool:
        """The write was refused; whether there was a promise to take back."""
        promises = self.told if is_eviction else self.given
        promise = promises.get(key)
        if promise is None or promise.uid != uid:
            return False
        del promises[key]
        return True

    def forget(self, key: str) -> None:
        self.given.pop(key, None)
        self.told.pop(key, None)
