"""Owners of one kind and their dependents of one kind: who belongs to whom, as far as it is known.

**Own writes count as seen at once.** What a create or a patch answered is put in by :meth:`Family.wrote`; news from the
watch that are older change nothing any more, and what a whole list did not have is dropped (:meth:`Family.synced`).
So a watch that is late cannot make anybody create a second pod for one. What was told to go by us is known to be
leaving, whatever the watch still shows; writes of unknown outcome are kept until they are settled (``making.py``).
After a crash all of it is rebuilt from lists. Which steps to take is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.kube.labels import NOTHING, Selector, from_label_selector
from headgate.kube.references import controller_of
from headgate.kube.resource import Resource
from headgate.kube.revisions import revision_of
from headgate.kube.schema import GroupVersionKind
from headgate.owners.families.index import LabelIndex, SelectorIndex

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name of an owner."""

Told = Callable[[str, str | None, Object | None], None]
"""A dependent that changed: its uid, the uid of its controller, what it is now (nobody and nothing if it is gone)."""

_NOBODY: Final[dict[str, Object]] = {}
_REMEMBERED: Final = 10_000


class OwnerKind(msgspec.Struct, frozen=True):
    """What owns (its kind and resource), and what is owned. ``component`` tells its events."""

    kind: GroupVersionKind
    resource: Resource
    dependents: Resource
    component: str
    selects: bool = True
    """Whether ``spec.selector`` says which dependents it wants; if not, it claims nobody."""


class Doubt(msgspec.Struct):
    """Writes whose outcome nobody knows, of one owner: bodies to create, by name, and uids to end."""

    creates: dict[str, Object] = msgspec.field(default_factory=dict)
    ends: dict[str, Object] = msgspec.field(default_factory=dict)


class Family:
    def __init__(self, kind: OwnerKind, told: Told = lambda uid, owner, obj: None) -> None:
        """``told`` is for who keeps counts: it hears of every change, whether the watch or our own write told of it."""
        self.kind: Final = kind
        self._told: Final = told
        self.doubts: Final[dict[str, Doubt]] = {}
        """By the owner's uid."""
        self._owners: Final[dict[Key, Object]] = {}
        self._keys: Final[dict[str, Key]] = {}  # by uid
        self._selectors: Final[SelectorIndex[Key]] = SelectorIndex()
        self._all: Final[dict[str, Object]] = {}
        self._dependents: Final[dict[str, dict[str, Object]]] = {}  # by the uid of the controller
        self._orphans: Final[LabelIndex[str]] = LabelIndex()
        self._candidates: Final[dict[Key, dict[str, None]]] = {}
        self._wooers: Final[dict[str, list[Key]]] = {}  # the other way round
        self._unconfirmed: Final[dict[str, int]] = {}  # what only our own writes told of, and at which revision
        self._leaving: Final[set[str]] = set()
        self._gone: Final[dict[str, None]] = {}  # who went last: answers and news that are later still change nothing

    # -- what is known ---------------------------------------------------------------------------------------------

    def owner(self, key: Key) -> Object | None:
        return self._owners.get(key)

    def owners(self) -> Mapping[Key, Object]:
        return self._owners

    def key_of(self, uid: str) -> Key | None:
        """Of an owner that is there."""
        return self._keys.get(uid)

    def dependents(self, owner_uid: str) -> Mapping[str, Object]:
        """Everything it controls, by uid: also what is finished or going."""
        return self._dependents.get(owner_uid, _NOBODY)

    def dependent(self, uid: str) -> Object | None:
        return self._all.get(uid)

    def candidates(self, key: Key) -> list[Object]:
        """Objects without a controller that the owner's selector means."""
        return [self._all[uid] for uid in self._candidates.get(key, ())]

    def selector(self, key: Key) -> Selector:
        return self._selectors.selector(key) or NOTHING

    def is_leaving(self, uid: str) -> bool:
        """Whether it is being deleted, by us or as the API shows."""
        return uid in self._leaving or "deletionTimestamp" in self._all.get(uid, _NOBODY).get("metadata", _NOBODY)

    # -- news of owners --------------------------------------------------------------------------------------------

    def owner_applied(self, obj: Object) -> list[Key]:
        key = _key(obj)
        if obj["metadata"]["uid"] in self._gone:
            return []  # the answer to a write that was sent before it went: whoever believed it would work for the dead
        known = self._owners.get(key)
        if known is not None and known["metadata"]["uid"] != obj["metadata"]["uid"]:
            self.owner_removed(*key, known["metadata"]["uid"])
            known = None
        # The echo of an own write wakes, too: its answer may have brought a change that nobody has looked at yet.
        if known is not None and revision_of(known) > revision_of(obj):
            return []
        self._owners[key] = obj
        self._keys[obj["metadata"]["uid"]] = key
        if self.kind.selects:
            selector = from_label_selector((obj.get("spec") or {}).get("selector"))
            if self._selectors.put(key, key[0], selector):
                self._court(key, self._orphans.matching(key[0], selector))
        return [key]

    def owner_removed(self, namespace: str, name: str, uid: str) -> list[Key]:
        key = (namespace, name)
        self._bury(uid)
        known = self._owners.get(key)
        if known is None or known["metadata"]["uid"] != uid:
            return []
        del self._owners[key]
        del self._keys[uid]
        self.doubts.pop(uid, None)
        self._selectors.drop(key)
        self._court(key, ())
        return [key]

    # -- news of dependents ----------------------------------------------------------------------------------------

    def dependent_applied(self, obj: Object) -> list[Key]:
        """From the watch. Who has to look: who had it, who has it, and who might want it."""
        uid = obj["metadata"]["uid"]
        self._unconfirmed.pop(uid, None)
        known = self._all.get(uid)
        if uid in self._gone or (known is not None and revision_of(known) >= revision_of(obj)):
            return []
        return self._put(obj, known)

    def dependent_removed(self, namespace: str, name: str, uid: str) -> list[Key]:
        self._bury(uid)
        known = self._all.get(uid)
        return [] if known is None else self._drop(known)

    def wrote(self, obj: Object) -> None:
        """What the server answered to a write of ours."""
        uid = obj["metadata"]["uid"]
        known = self._all.get(uid)
        if uid in self._gone or (known is not None and revision_of(known) >= revision_of(obj)):
            return
        if known is None or uid in self._unconfirmed:
            self._unconfirmed[uid] = revision_of(obj)
        self._put(obj, known)

    def told_to_go(self, uid: str) -> None:
        """The server took our deletion."""
        known = self._all.get(uid)
        if known is not None:
            self._leaving.add(uid)
            self._told(uid, self._controller(known), known)

    def is_gone(self, uid: str) -> None:
        """The server says so, before the watch does."""
        self._bury(uid)
        known = self._all.get(uid)
        if known is not None:
            self._drop(known)

    def synced(self, revision: str) -> list[Key]:
        """A whole list has been told: what it did not have is no more. Who lost one has to look."""
        if not revision.isdecimal():
            return []
        lost = [uid for uid, written in self._unconfirmed.items() if written <= int(revision)]
        return [key for uid in lost for key in self._drop(self._all[uid])]

    # -- bookkeeping -----------------------------------------------------------------------------------------------

    def _put(self, obj: Object, known: Object | None) -> list[Key]:
        metadata = obj["metadata"]
        uid: str = metadata["uid"]
        before, now = self._controller(known), self._controller(obj)
        self._all[uid] = obj
        if before != now and before is not None:
            self._part(before, uid)
        concerned = dict.fromkeys(key for owner in (before, now) if owner and (key := self._keys.get(owner)))
        if now is not None:
            self._dependents.setdefault(now, {})[uid] = obj
            self._orphans.drop(uid)
            self._woo(uid, ())
        elif self.kind.selects:
            labels = metadata.get("labels")
            self._orphans.put(uid, metadata.get("namespace", ""), labels)
            is_news = known is None or before is not None or known["metadata"].get("labels") != labels
            if is_news:
                self._woo(uid, self._selectors.matching(metadata.get("namespace", ""), labels))
                concerned.update(dict.fromkeys(self._wooers.get(uid, ())))
        self._told(uid, now, obj)
        return list(concerned)

    def _drop(self, obj: Object) -> list[Key]:
        uid = obj["metadata"]["uid"]
        del self._all[uid]
        self._unconfirmed.pop(uid, None)
        self._leaving.discard(uid)
        self._orphans.drop(uid)
        self._woo(uid, ())
        owner = self._controller(obj)
        self._told(uid, None, None)
        if owner is None:
            return []
        self._part(owner, uid)
        key = self._keys.get(owner)
        return [] if key is None else [key]

    def _bury(self, uid: str) -> None:
        """A uid never comes back. Only answers under way and news not yet heard can still speak of it."""
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _controller(self, obj: Object | None) -> str | None:
        """The uid of its controller. One of another kind is nobody's business here, but it is taken."""
        reference = None if obj is None else controller_of(obj)
        return None if reference is None else str(reference.get("uid"))

    def _part(self, owner: str, uid: str) -> None:
        there = self._dependents.get(owner)
        if there is not None:
            there.pop(uid, None)
            if not there:
                del self._dependents[owner]

    def _court(self, key: Key, uids: Iterable[str]) -> None:
        for uid in self._candidates.pop(key, ()):
            self._wooers[uid] = [each for each in self._wooers[uid] if each != key]
        for uid in uids:
            self._candidates.setdefault(key, {})[uid] = None
            self._wooers.setdefault(uid, []).append(key)

    def _woo(self, uid: str, keys: list[Key] | tuple[()]) -> None:
        for key in self._wooers.pop(uid, ()):
            self._candidates[key].pop(uid, None)
        for key in keys:
            self._candidates.setdefault(key, {})[uid] = None
        if keys:
            self._wooers[uid] = list(keys)


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
