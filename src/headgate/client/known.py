"""What a consumer has been told of a collection, and what it must be told next. Pure.

Objects are not kept, only their names, uids and revisions; what a consumer remembers is its own affair. An object is
told again only in another state, and never in an older one than before; a deletion counts for the object that it was
about, and not for a successor of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import msgspec

Object = dict[str, Any]
Key = tuple[str, str]


class Applied(msgspec.Struct, frozen=True):
    """An object that is new or has changed."""

    object: Object


class Removed(msgspec.Struct, frozen=True):
    """An object that is gone. A deletion that was missed is found by listing; then the last state is not known."""

    namespace: str
    name: str
    uid: str


class Synced(msgspec.Struct, frozen=True):
    """Everything that existed at ``revision`` has been told."""

    revision: str


Event = Applied | Removed | Synced
Sink = Callable[[Event], None]


class Identity(msgspec.Struct, frozen=True):
    """Which object, and which state of it."""

    key: Key
    uid: str
    revision: str


def is_older(revision: str, than: str) -> bool:
    """Revisions are numbers; what is none can be compared with nothing, and is older than nothing."""
    return revision.isdecimal() and than.isdecimal() and (len(revision), revision) < (len(than), than)


class Known:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._told: dict[Key, tuple[str, str]] = {}  # uid and revision

    def __len__(self) -> int:
        return len(self._told)

    def apply(self, item: Object, identity: Identity) -> None:
        now = (identity.uid, identity.revision)
        before = self._told.get(identity.key)
        if before == now or (before is not None and is_older(identity.revision, before[1])):
            return
        if before is not None and before[0] != identity.uid:
            self._forget(identity.key)  # deleted and made again while we were not looking
        self._told[identity.key] = now
        self._sink(Applied(item))

    def delete(self, identity: Identity) -> None:
        before = self._told.get(identity.key)
        if before is not None and not is_older(identity.revision, before[1]):
            self._forget(identity.key)

    def keep(self, seen: Container[Key]) -> None:
        """Whatever a whole list did not have is gone."""
        for key in [key for key in self._told if key not in seen]:
            self._forget(key)

    def forget_all(self) -> None:
        for key in list(self._told):
            self._forget(key)

    def _forget(self, key: Key) -> None:
        uid, _ = self._told.pop(key)
        self._sink(Removed(*key, uid=uid))
