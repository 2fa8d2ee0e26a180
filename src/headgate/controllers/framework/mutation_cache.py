"""A cache of the objects of one resource, filled by watch events and by the responses to the controller's own writes.

The response to a write is stored at once, like a watch event (compare client-go's MutationCache). A watch event with an
older version changes nothing, and a deleted object stays deleted. An object that only a response has shown is dropped
when a complete list does not contain it. After a restart the cache is rebuilt from lists.

:class:`ObservedVersion` is the version that a write is based on. A controller takes it before it sends the write,
because the watch may deliver the written version before the response arrives.
``controllers/ownership/cache.py`` adds indexes of owners and their dependents.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from headgate.kube.object_meta import resource_version_of


class ObservedVersion(msgspec.Struct, frozen=True):
    uid: str
    resource_version: str

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> ObservedVersion:
        metadata = obj.get("metadata") or {}
        return cls(metadata.get("uid") or "", metadata.get("resourceVersion") or "")

    def is_same(self, obj: Mapping[str, Any]) -> bool:
        """Whether ``obj`` is exactly this version. Objects without a version are never the same."""
        return bool(self.resource_version) and self == ObservedVersion.of(obj)


Object = dict[str, Any]
ObjectKey = TypeVar("ObjectKey", bound=Hashable)

_DELETED_KEPT: Final = 10_000


class DeletedUIDs:
    """The uids that were deleted last. A uid is never used again; only late responses and watch events contain it."""

    def __init__(self) -> None:
        self._uids: Final[dict[str, None]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def add(self, uid: str) -> None:
        self._uids[uid] = None
        if len(self._uids) > _DELETED_KEPT:
            del self._uids[next(iter(self._uids))]


class MutationCache(Generic[ObjectKey]):
    def __init__(self) -> None:
        self._objects: Final[dict[ObjectKey, Object]] = {}
        self._unconfirmed: Final[dict[ObjectKey, int]] = {}  # keys that only responses have shown, with the revision
        self._deleted: Final = DeletedUIDs()

    def get(self, key: ObjectKey) -> Object | None:
        return self._objects.get(key)

    def objects(self) -> Mapping[ObjectKey, Object]:
        return self._objects

    def put(self, key: ObjectKey, obj: Object, *, from_watch: bool) -> bool:
        """Stores the object, unless a later version is known. Returns whether it was stored. ``from_watch``: whether
        the object is from the watch, not from a response. The watch event of an own write is stored again and returns
        true: the written version may contain changes of other clients that the caller has not processed yet."""
        metadata, known = obj["metadata"], self._objects.get(key)
        if metadata["uid"] in self._deleted:
            return False
        if known is not None and 0 < resource_version_of(obj) < resource_version_of(known):
            return False
        is_another = known is None or known["metadata"]["uid"] != metadata["uid"]
        if from_watch:
            self._unconfirmed.pop(key, None)
        elif is_another or key in self._unconfirmed:
            self._unconfirmed[key] = resource_version_of(obj)
        if known is not None and is_another:
            self._deleted.add(known["metadata"]["uid"])
        self._objects[key] = obj
        return True

    def remove(self, key: ObjectKey, uid: str) -> Object | None:
        """Removes the object if it has this uid, and returns it."""
        self._deleted.add(uid)
        known = self._objects.get(key)
        if known is None or known["metadata"]["uid"] != uid:
            return None
        self._unconfirmed.pop(key, None)
        return self._objects.pop(key)

    def discard(self, key: ObjectKey) -> None:
        """Forgets an object that still exists and that the caller does not need any more."""
        self._unconfirmed.pop(key, None)
        self._objects.pop(key, None)

    def missing(self, revision: str) -> list[tuple[ObjectKey, str]]:
        """The keys and uids of objects that a complete list at ``revision`` did not have. The caller removes them."""
        if not revision.isdecimal():
            return []
        absent = [key for key, written in self._unconfirmed.items() if written <= int(revision)]
        return [(key, str(self._objects[key]["metadata"]["uid"])) for key in absent]

    def remove_missing(self, revision: str) -> list[Object]:
        """Removes what a complete list did not have."""
        removed = [self.remove(key, uid) for key, uid in self.missing(revision)]
        return [each for each in removed if each is not None]
