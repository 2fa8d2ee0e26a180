"""The versions of objects that an informer has delivered. They decide which events it delivers next. Pure.

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
    """An object that is gone. The list shows deletions that the watch missed, so the last state is not included.
    ``revision``: that of the deletion; empty if the watch missed it."""

    namespace: str
    name: str
    uid: str
    revision: str = ""


class ListSynced(msgspec.Struct, frozen=True):
    """Everything that existed at ``revision`` has been delivered."""

    revision: str


InformerEvent = ObjectApplied | ObjectDeleted | ListSynced
Sink = Callable[[InformerEvent], None]


class ObjectVersion(msgspec.Struct, frozen=True):
    """An object and its revision."""

    key: Key
    uid: str
    revision: str


def is_older(revision: str, other: str) -> bool:
    """Compares revisions as numbers; False if one of them is not a number."""
    return revision.isdecimal() and other.isdecimal() and (len(revision), revision) < (len(other), other)


class KnownObjects:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._delivered: dict[Key, tuple[str, str]] = {}  # uid and revision

    def __len__(self) -> int:
        return len(self._delivered)

    def apply(self, item: Object, identity: ObjectVersion) -> None:
        now = (identity.uid, identity.revision)
        before = self._delivered.get(identity.key)
        if before == now or (before is not None and is_older(identity.revision, before[1])):
            return
        if before is not None and before[0] != identity.uid:
            self._forget(identity.key)  # the object was deleted and created again while there was no watch
        self._delivered[identity.key] = now
        self._sink(ObjectApplied(item))

    def delete(self, identity: ObjectVersion) -> None:
        before = self._delivered.get(identity.key)
        if before is not None and not is_older(identity.revision, before[1]):
            self._forget(identity.key, identity.revision)

    def keep(self, seen: Container[Key]) -> None:
        """Delivers the deletion of all objects that are not in ``seen``, the keys of a complete list."""
        for key in [key for key in self._delivered if key not in seen]:
            self._forget(key)

    def forget_all(self) -> None:
        for key in list(self._delivered):
            self._forget(key)

    def _forget(self, key: Key, revision: str = "") -> None:
        uid, _ = self._delivered.pop(key)
        self._sink(ObjectDeleted(*key, uid=uid, revision=revision))
