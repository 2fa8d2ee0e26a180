"""What was delivered to a consumer of a collection, and what must be delivered next. Pure.

Only names, uids and revisions are kept, not objects. An object is delivered again only in another state, and never in
an older one; a deletion applies to the object with that uid, not to a later object of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import msgspec

Object = dict[str, Any]
Key = tuple[str, str]


class ObjectApplied(msgspec.Struct, frozen=True):
    """An object that is new or has changed."""

    object: Object


class ObjectDeleted(msgspec.Struct, frozen=True):
    """An object that is gone. A deletion that was missed is found by listing; then the last state is not known."""

    namespace: str
    name: str
    uid: str


class ListSynced(msgspec.Struct, frozen=True):
    """Everything that existed at ``revision`` has been delivered."""

    revision: str


InformerEvent = ObjectApplied | ObjectDeleted | ListSynced
Sink = Callable[[InformerEvent], None]


class ObjectVersion(msgspec.Struct, frozen=True):
    """Which object, and which state of it."""

    key: Key
    uid: str
    revision: str


def is_older(revision: str, than: str) -> bool:
    """Revisions are numbers; what is none can be compared with nothing, and is older than nothing."""
    return revision.isdecimal() and than.isdecimal() and (len(revision), revision) < (len(than), than)


class KnownObjects:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._told: dict[Key, tuple[str, str]] = {}  # uid and revision

    def __len__(self) -> int:
        return len(self._told)

    def apply(self, item: Object, identity: ObjectVersion) -> None:
        now = (identity.uid, identity.revision)
        before = self._told.get(identity.key)
        if before == now or (before is not None and is_older(identity.revision, before[1])):
            return
        if before is not None and before[0] != identity.uid:
            self._forget(identity.key)  # deleted and made again while we were not looking
        self._told[identity.key] = now
        self._sink(ObjectApplied(item))

    def delete(self, identity: ObjectVersion) -> None:
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
        self._sink(ObjectDeleted(*key, uid=uid))
