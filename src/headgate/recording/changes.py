"""What a recording says: changes of objects, and what is known about the completeness of these changes.

A *change* is one state of one object. It is *observed* if the watch delivered it: then no state between it and the
state before is missing. A state that comes from a list is not observed: anything may have happened in between.
"""

from __future__ import annotations

from typing import Any

import msgspec

Object = dict[str, Any]


class RecordedChange(msgspec.Struct, frozen=True, gc=False):
    """``resource``: plural and group (``queues.scheduling.volcano.sh``). ``object``: the state after the change; for a
    deletion the last known state. ``at_s``: when the change was seen, in seconds since 1970; ``earliest_s``: the
    earliest time at which it can have happened. ``revision``: 0 if it is unknown, as for a deletion that only a list
    shows."""

    resource: str
    object: Object
    at_s: float
    revision: int
    deleted: bool = False
    observed: bool = True
    earliest_s: float = 0.0

    @property
    def uid(self) -> str:
        return str(self.object["metadata"].get("uid", ""))

    @property
    def key(self) -> tuple[str, str]:
        metadata = self.object["metadata"]
        return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


class SessionStarted(msgspec.Struct, frozen=True):
    """A recorder begins, or continues after it was stopped. ``skipped``: resources that it was told to leave out."""

    at_s: float
    version: str
    hashed: bool
    resources: tuple[str, ...]
    skipped: tuple[str, ...] = ()


class SessionEnded(msgspec.Struct, frozen=True):
    """The recorder was stopped in order."""

    at_s: float


class ResourceSynced(msgspec.Struct, frozen=True):
    """A whole list of the resource has been recorded, as of ``revision``."""

    at_s: float
    resource: str
    revision: int


class ResourceAbsent(msgspec.Struct, frozen=True):
    """The cluster does not serve the resource."""

    at_s: float
    resource: str


class WatchProblem(msgspec.Struct, frozen=True):
    """A list or watch failed. The recorder tries again."""

    at_s: float
    resource: str
    text: str


Notice = SessionStarted | SessionEnded | ResourceSynced | ResourceAbsent | WatchProblem
HistoryEvent = RecordedChange | Notice
