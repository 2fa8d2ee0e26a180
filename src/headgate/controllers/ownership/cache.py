"""The cache of owners of one kind and their dependents of one kind, such as ReplicaSets and pods.

**The cache contains own writes at once.** :meth:`OwnershipCache.observe_write` stores the response to a write.
Older watch events then change nothing, and an object that a complete list does not contain is dropped
(:meth:`OwnershipCache.synced`). A late watch therefore never causes a second pod. A dependent that this controller
deleted counts as terminating, even if the watch does not show it yet. Writes with an unknown outcome are kept until the
outcome is known (``dependents.py``). After a restart the cache is rebuilt from lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.controllers.framework.mutation_cache import MutationCache
from headgate.controllers.ownership.indexes import LabelIndex, SelectorIndex
from headgate.kube.api_resources import APIResource
from headgate.kube.labels import NOTHING, Selector, from_label_selector
from headgate.kube.object_meta import controller_of, resource_version_of
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name of an owner."""

OnDependentChange = Callable[[str, str | None, Object | None], None]
"""Is called with a changed dependent: its uid, the uid of its controller, and the object (both None if it is gone)."""

_EMPTY: Final[dict[str, Object]] = {}


class OwnerKind(msgspec.Struct, frozen=True):
    """The owning kind and resource, and the owned one. ``component`` is the source of its Events."""

    kind: GroupVersionKind
    resource: APIResource
    dependents: APIResource
    component: str
    selects: bool = True
    """Whether ``spec.selector`` selects its dependents; if not, it adopts none."""


class UnconfirmedWrites(msgspec.Struct):
    """The writes of one owner whose outcome is unknown: created objects by name, and deleted objects by uid."""

    creates: dict[str, Object] = msgspec.field(default_factory=dict)
    deletes: dict[str, Object] = msgspec.field(default_factory=dict)


class OwnershipCache:
    def __init__(self, kind: OwnerKind, on_dependent_change: OnDependentChange = lambda uid, owner, obj: None) -> None:
        """``on_dependent_change`` is called for every change, from the watch or from an own write: for counters."""
        self.kind: Final = kind
        self._on_dependent_change: Final = on_dependent_change
        self.unconfirmed_writes: Final[dict[str, UnconfirmedWrites]] = {}
        """By the uid of the owner."""
        self._owners: Final[MutationCache[Key]] = MutationCache()
        self._keys: Final[dict[str, Key]] = {}  # by uid
        self._selectors: Final[SelectorIndex[Key]] = SelectorIndex()
        self._all: Final[MutationCache[str]] = MutationCache()  # dependents by uid
        self._dependents: Final[dict[str, dict[str, Object]]] = {}  # by the uid of the controller
        self._orphans: Final[LabelIndex[str]] = LabelIndex()
        self._candidates: Final[dict[Key, dict[str, None]]] = {}
        self._candidate_owners: Final[dict[str, list[Key]]] = {}  # the reverse: owners by the uid of a candidate
        self._terminating: Final[set[str]] = set()

    # -- lookups ---------------------------------------------------------------------------------------------------

    def owner(self, key: Key) -> Object | None:
        return self._owners.get(key)

    def owners(self) -> Mapping[Key, Object]:
        return self._owners.objects()

    def key_of(self, uid: str) -> Key | None:
        """The key of an existing owner."""
        return self._keys.get(uid)

    def dependents(self, owner_uid: str) -> Mapping[str, Object]:
        """All objects that the owner controls, by uid, including finished and terminating ones."""
        return self._dependents.get(owner_uid, _EMPTY)

    def dependent(self, uid: str) -> Object | None:
        return self._all.get(uid)

    def candidates(self, key: Key) -> list[Object]:
        """Objects without a controller that the owner's selector matches."""
        known = self._all.objects()
        return [known[uid] for uid in self._candidates.get(key, ())]

    def selector(self, key: Key) -> Selector:
        return self._selectors.selector(key) or NOTHING

    def is_terminating(self, uid: str) -> bool:
        """Whether the dependent has a deletion timestamp, or this controller has deleted it."""
        known = self._all.get(uid)
        return uid in self._terminating or (known is not None and "deletionTimestamp" in known["metadata"])

    # -- owner events ----------------------------------------------------------------------------------------------

    def owner_applied(self, obj: Object) -> list[Key]:
        key = _key(obj)
        known = self._owners.get(key)
        if not self._owners.put(key, obj, from_watch=True):
            return []
        if known is not None and known["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._drop_owner(key, known["metadata"]["uid"])
        self._keys[obj["metadata"]["uid"]] = key
        if self.kind.selects:
            selector = from_label_selector((obj.get("spec") or {}).get("selector"))
            if self._selectors.put(key, key[0], selector):
                self._set_candidates(key, self._orphans.matching(key[0], selector))
        return [key]

    def owner_removed(self, namespace: str, name: str, uid: str) -> list[Key]:
        key = (namespace, name)
        if self._owners.remove(key, uid) is None:
            return []
        self._drop_owner(key, uid)
        return [key]

    def _drop_owner(self, key: Key, uid: str) -> None:
        del self._keys[uid]
        self.unconfirmed_writes.pop(uid, None)
        self._selectors.drop(key)
        self._set_candidates(key, ())

    # -- dependent events ------------------------------------------------------------------------------------------

    def dependent_applied(self, obj: Object) -> list[Key]:
        """Stores the object of a watch event. Returns the keys of its previous, present and possible owners."""
        known = self._all.get(obj["metadata"]["uid"])
        return self._put(obj, known) if self._store_if_newer(obj, known, from_watch=True) else []

    def dependent_removed(self, namespace: str, name: str, uid: str) -> list[Key]:
        known = self._all.remove(uid, uid)
        return [] if known is None else self._drop(known)

    def observe_write(self, obj: Object) -> None:
        """Stores the object of the response to an own write."""
        known = self._all.get(obj["metadata"]["uid"])
        if self._store_if_newer(obj, known, from_watch=False):
            self._put(obj, known)

    def deletion_accepted(self, uid: str) -> None:
        """The server accepted a deletion of this controller."""
        known = self._all.get(uid)
        if known is not None:
            self._terminating.add(uid)
            self._on_dependent_change(uid, self._controller(known), known)

    def deletion_confirmed(self, uid: str) -> None:
        """The server reported that the object does not exist, before the watch did."""
        known = self._all.remove(uid, uid)
        if known is not None:
            self._drop(known)

    def synced(self, revision: str) -> list[Key]:
        """A complete list was delivered: removes objects that it did not have. Returns the keys of their owners."""
        return [key for obj in self._all.remove_missing(revision) for key in self._drop(obj)]

    # -- indexes ---------------------------------------------------------------------------------------------------

    def _store_if_newer(self, obj: Object, known: Object | None, *, from_watch: bool) -> bool:
        """Stores the dependent. Returns false if the indexes need no update: the version is older, or it is already
        known, such as in the watch event of an own write."""
        if not self._all.put(obj["metadata"]["uid"], obj, from_watch=from_watch):
            return False
        return known is None or resource_version_of(known) != resource_version_of(obj)

    def _put(self, obj: Object, known: Object | None) -> list[Key]:
        metadata = obj["metadata"]
        uid: str = metadata["uid"]
        old_owner, new_owner = self._controller(known), self._controller(obj)
        if old_owner != new_owner and old_owner is not None:
            self._remove_dependent(old_owner, uid)
        affected = dict.fromkeys(key for owner in (old_owner, new_owner) if owner and (key := self._keys.get(owner)))
        if new_owner is not None:
            self._dependents.setdefault(new_owner, {})[uid] = obj
            self._orphans.drop(uid)
            self._set_candidate_owners(uid, ())
        elif self.kind.selects:
            labels = metadata.get("labels")
            self._orphans.put(uid, metadata.get("namespace", ""), labels)
            must_match_selectors = known is None or old_owner is not None or known["metadata"].get("labels") != labels
            if must_match_selectors:
                self._set_candidate_owners(uid, self._selectors.matching(metadata.get("namespace", ""), labels))
                affected.update(dict.fromkeys(self._candidate_owners.get(uid, ())))
        self._on_dependent_change(uid, new_owner, obj)
        return list(affected)

    def _drop(self, obj: Object) -> list[Key]:
        uid = obj["metadata"]["uid"]
        self._terminating.discard(uid)
        self._orphans.drop(uid)
        self._set_candidate_owners(uid, ())
        owner = self._controller(obj)
        self._on_dependent_change(uid, None, None)
        if owner is None:
            return []
        self._remove_dependent(owner, uid)
        key = self._keys.get(owner)
        return [] if key is None else [key]

    def _controller(self, obj: Object | None) -> str | None:
        """The uid of the object's controller, which may be of any kind; an object with a controller is not adopted."""
        reference = None if obj is None else controller_of(obj)
        return None if reference is None else str(reference.get("uid"))

    def _remove_dependent(self, owner: str, uid: str) -> None:
        dependents = self._dependents.get(owner)
        if dependents is not None:
            dependents.pop(uid, None)
            if not dependents:
                del self._dependents[owner]

    def _set_candidates(self, key: Key, uids: Iterable[str]) -> None:
        for uid in self._candidates.pop(key, ()):
            self._candidate_owners[uid] = [each for each in self._candidate_owners[uid] if each != key]
        for uid in uids:
            self._candidates.setdefault(key, {})[uid] = None
            self._candidate_owners.setdefault(uid, []).append(key)

    def _set_candidate_owners(self, uid: str, keys: list[Key] | tuple[()]) -> None:
        for key in self._candidate_owners.pop(uid, ()):
            self._candidates[key].pop(uid, None)
        for key in keys:
            self._candidates.setdefault(key, {})[uid] = None
        if keys:
            self._candidate_owners[uid] = list(keys)


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
