"""Objects that a controller reads before it plans a key again: the outcome of a write is unknown, because neither its
response nor the read after it arrived.

Until then the cache may be older than the server. A job that the write has started looks suspended, and a plan from the
cache would release the quota that it uses. The watch is no substitute: after an outage each resource has its own delay.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from headgate.controllers.framework.effects import Get
from headgate.jobs.framework.job_plan import JobBlocked

Key = TypeVar("Key", bound=Hashable)


def read_refused(read: Get, message: str) -> JobBlocked:
    """Why a key is not planned: Headgate has no right to read the object."""
    resource = f"{read.resource.plural}.{read.resource.group}".rstrip(".")
    text = f"The outcome of a write to {resource} {read.namespace}/{read.name} is unknown, and the right to get"
    return JobBlocked("FailedToRead", f"{text} {resource} is missing: {message}")


class UnreadObjects(Generic[Key]):
    """Reads that are due, by key."""

    def __init__(self) -> None:
        self._reads: Final[dict[Key, dict[Get, None]]] = {}

    def of(self, key: Key) -> tuple[Get, ...]:
        return tuple(self._reads.get(key, ()))

    def add(self, key: Key, read: Get) -> None:
        self._reads.setdefault(key, {})[read] = None

    def discard(self, key: Key, read: Get) -> None:
        reads = self._reads.get(key, {})
        reads.pop(read, None)
        if not reads:
            self._reads.pop(key, None)
