"""An assume cache, as in kube-scheduler: objects as the API server shows them and, in place of some of them, assumed
ones: as they will be after a write that the scheduler is about to make.

An assumed object is valid for the resourceVersion at which it was assumed; the next version from the API server
replaces it.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from headgate.scheduling.volumes.storage_objects import PersistentVolume, PersistentVolumeClaim

T = TypeVar("T", PersistentVolumeClaim, PersistentVolume)


class AssumeCache(Generic[T]):
    def __init__(self) -> None:
        self._stored: dict[str, T] = {}
        self._assumed: dict[str, T] = {}

    def get(self, key: str) -> T | None:
        """The assumed object if there is one, otherwise the stored one."""
        return self._assumed.get(key) or self._stored.get(key)

    def stored(self, key: str) -> T | None:
        """The object as the API server last showed it."""
        return self._stored.get(key)

    def put(self, key: str, new: T) -> None:
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.revision != new.revision:
            del self._assumed[key]
        self._stored[key] = new

    def remove(self, key: str) -> None:
        self._assumed.pop(key, None)
        self._stored.pop(key, None)

    def assume(self, key: str, new: T) -> bool:
        """Assume that the object is ``new``. Returns False, and assumes nothing, if the stored object changed or does
        not exist."""
        stored = self._stored.get(key)
        if stored is None or stored.revision != new.revision:
            return False
        self._assumed[key] = new
        return True

    def restore(self, key: str, assumed: T) -> None:
        """Remove an assumed object; a later one stays."""
        if self._assumed.get(key) == assumed:
            del self._assumed[key]
