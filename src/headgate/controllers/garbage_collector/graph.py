"""The ownership graph: every observed object, by uid, with its owners and its dependents.

The input is the metadata of watched objects; the output is the keys to process (:data:`CollectorKey`). The data may be
stale, incomplete or out of order across kinds, so ``controller.py`` reads objects from the API server before it acts.
An owner that was never observed, or whose reference has a wrong name, kind or namespace, is an :class:`OwnerIdentity`.
It stays unverified until the API server reports that there is no such object, or until the object is observed.

An object may name tens of thousands of owners, and an owner may have more dependents. The keys are therefore iterators
that are read in parts, and the graph may receive other changes between two parts. The edges are complete when a method
returns; unverified owners are enqueued while its result is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from headgate.controllers.framework.discovery import DiscoveredKind
from headgate.kube.api_resources import APIResource

Object = dict[str, Any]

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_FEW: Final = 8


class OwnerReference(msgspec.Struct, frozen=True, gc=False):
    """One owner reference; ``blocks``: a foreground deletion of the owner waits for this dependent."""

    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool


class OwnerIdentity(msgspec.Struct, frozen=True, gc=False):
    """An owner as a dependent in ``namespace`` names it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class OwnerGraphNode(msgspec.Struct):
    """An observed object. Mutable: it follows its object."""

    kind: DiscoveredKind
    namespace: str
    name: str
    uid: str
    owners: tuple[OwnerReference, ...] = ()
    deleting: bool = False
    orphaning: bool = False
    """It is deleted when its dependents are orphaned."""
    checked: int = 0
    """How many of the owners, from the first, were checked since the last change."""
    by_uid: Mapping[str, Sequence[OwnerReference]] | None = None
    """The owners by uid; built on first use, if there are many."""
    waiting: bool = False
    """It is deleted when the blocking dependents are gone (and, if it is orphaning, the others are orphaned)."""

    @property
    def resource(self) -> APIResource:
        return self.kind.resource

    def references_to(self, uid: str) -> Sequence[OwnerReference]:
        """The references that may name this uid: all of them, if there are few."""
        if len(self.owners) <= _FEW:
            return self.owners
        if self.by_uid is None:
            self.by_uid = _by_uid(self.owners)
        return self.by_uid.get(uid, ())

    def matches_exactly(self, reference: OwnerReference | OwnerIdentity, namespace: str) -> bool:
        """Whether a reference from ``namespace`` is correct in all fields."""
        return reference.api_version == self.kind.api_version and self.matches(reference, namespace)

    def matches(self, reference: OwnerReference | OwnerIdentity, namespace: str) -> bool:
        """Whether a reference from ``namespace`` is correct, in any version of the group."""
        group, slash, _ = reference.api_version.rpartition("/")
        return (
            reference.uid == self.uid
            and reference.name == self.name
            and reference.kind == self.kind.kind
            and (group if slash else "") == self.resource.group
            and (not self.namespace or self.namespace == namespace)
        )


class AttemptToDelete(msgspec.Struct, frozen=True, gc=False):
    """Check whether this object should be deleted, or waits for dependents that are gone."""

    uid: str


class AttemptToOrphan(msgspec.Struct, frozen=True, gc=False):
    """Remove this owner from its dependents, then remove its finalizer."""

    uid: str


class VerifyOwner(msgspec.Struct, frozen=True, gc=False):
    """Read from the server whether this owner exists."""

    owner: OwnerIdentity


class ReportInvalidOwnerNamespace(msgspec.Struct, frozen=True, gc=False):
    """Emit an Event: this object names an owner in another namespace."""

    uid: str
    owner_uid: str


CollectorKey = AttemptToDelete | AttemptToOrphan | VerifyOwner | ReportInvalidOwnerNamespace


def owner_references(metadata: Object) -> tuple[OwnerReference, ...]:
    references = metadata.get("ownerReferences")
    if not references:
        return ()
    return tuple(
        OwnerReference(
            each.get("apiVersion", ""),
            each.get("kind", ""),
            each.get("name", ""),
            each.get("uid", ""),
            each.get("blockOwnerDeletion") is True,
        )
        for each in references
    )


class OwnershipGraph:
    def __init__(self) -> None:
        self._nodes: Final[dict[str, OwnerGraphNode]] = {}
        self._dependents: Final[dict[str, dict[str, None]]] = {}  # in the order of observation
        self._blocking: Final[dict[str, dict[str, None]]] = {}  # dependents with ``blockOwnerDeletion``
        self._unknown_owners: Final[dict[str, dict[OwnerIdentity, set[str]]]] = {}  # by the owner's uid

    # -- lookups ---------------------------------------------------------------------------------------------------

    def get(self, uid: str) -> OwnerGraphNode | None:
        return self._nodes.get(uid)

    def dependents(self, uid: str) -> list[OwnerGraphNode]:
        return [self._nodes[each] for each in self._dependents.get(uid, ())]

    def blocking(self, owner: OwnerGraphNode) -> list[OwnerGraphNode]:
        """The dependents that a foreground deletion waits for. A reference with only a correct uid does not block."""
        return [node for each in self._blocking.get(owner.uid, ()) if _blocks(node := self._nodes[each], owner)]

    def is_blocked(self, owner: OwnerGraphNode) -> bool:
        return any(_blocks(self._nodes[each], owner) for each in self._blocking.get(owner.uid, ()))

    def waits_for_itself(self, owner: OwnerGraphNode) -> bool:
        """Whether the object is part of a cycle of objects that wait for each other."""
        seen: set[str] = set()
        stack = [owner]
        while stack:
            for node in self.blocking(stack.pop()):
                if node is owner:
                    return True
                if node.waiting and node.uid not in seen:
                    seen.add(node.uid)
                    stack.append(node)
        return False

    def dependents_of_unknown(self, identity: OwnerIdentity) -> Collection[str]:
        """The dependents that name an owner which was never observed."""
        return self._unknown_owners.get(identity.uid, {}).get(identity, ())

    def __len__(self) -> int:
        return len(self._nodes)

    def is_without_edges(self) -> bool:
        return not self._dependents and not self._blocking and not self._unknown_owners

    # -- changes ---------------------------------------------------------------------------------------------------

    def applied(self, kind: DiscoveredKind, metadata: Object) -> Iterator[CollectorKey]:
        owners = owner_references(metadata)
        deleting = "deletionTimestamp" in metadata
        finalizers: Sequence[str] = (metadata.get("finalizers") or ()) if deleting else ()
        orphaning, waiting = ORPHAN in finalizers, FOREGROUND in finalizers
        uid = metadata["uid"]
        node = self._nodes.get(uid)
        keys: list[Iterable[CollectorKey]] = []
        if node is None:
            node = OwnerGraphNode(kind, metadata.get("namespace", ""), metadata["name"], uid)
            self._nodes[uid] = node
            keys.append(self._check_references(node, self._unknown_owners.pop(uid, {})))
        node.kind = kind
        if owners != node.owners or node.checked < len(owners):
            keys.append(self._set_owners(node, owners))
        starts_waiting = waiting and not orphaning and not (node.waiting and not node.orphaning)
        if orphaning and not node.orphaning:
            keys.append([AttemptToOrphan(uid)])
        node.deleting, node.orphaning, node.waiting = deleting, orphaning, waiting
        if starts_waiting:
            keys.append(self._attempts(uid))
            keys.append([AttemptToDelete(uid)])
        return chain.from_iterable(keys)

    def removed(self, resource: APIResource, uid: str) -> Iterator[CollectorKey]:
        """``resource``: where the object was observed last; a kind may move to another version with its objects."""
        node = self._nodes.get(uid)
        if node is None or node.resource != resource:
            return iter(())
        del self._nodes[uid]
        owners, node.owners = node.owners, ()
        for reference in owners:
            self._unlink(node, reference)
        return chain(self._attempts(uid), self._unblocked(owners))

    def forget(self, resources: Collection[APIResource]) -> Iterator[CollectorKey]:
        """Removes the objects of resources that are no longer served. They may return in another version."""
        nodes = [node for node in self._nodes.values() if node.resource in resources]
        return chain.from_iterable([self.removed(node.resource, node.uid) for node in nodes])

    def absent(self, identity: OwnerIdentity) -> Iterator[CollectorKey]:
        """The server has no such owner: its dependents are enqueued."""
        return map(AttemptToDelete, sorted(self._remove_unknown(identity)))

    # -- edges -----------------------------------------------------------------------------------------------------

    def _attempts(self, owner_uid: str) -> Iterator[CollectorKey]:
        """A key for each present dependent."""
        return map(AttemptToDelete, list(self._dependents.get(owner_uid, ())))

    def _check_references(
        self, node: OwnerGraphNode, identities: Mapping[OwnerIdentity, set[str]]
    ) -> Iterator[CollectorKey]:
        """Checks the references of dependents that named this object before it was observed."""
        for identity, dependents in identities.items():
            if not node.matches_exactly(identity, identity.namespace):
                for each in sorted(dependents):
                    dependent = self._nodes.get(each)
                    if dependent is not None:
                        yield from self._invalid_reference(dependent, node)

    def _invalid_reference(self, dependent: OwnerGraphNode, owner: OwnerGraphNode) -> Iterator[CollectorKey]:
        if owner.namespace and dependent.namespace != owner.namespace:
            yield ReportInvalidOwnerNamespace(dependent.uid, owner.uid)
        yield AttemptToDelete(dependent.uid)

    def _set_owners(self, node: OwnerGraphNode, owners: tuple[OwnerReference, ...]) -> Iterator[CollectorKey]:
        before, lost = frozenset(node.owners[: node.checked]), list[OwnerReference]()
        if node.owners:
            after = frozenset(owners)
            lost = [reference for reference in node.owners if reference not in after]
        node.owners, node.by_uid, node.checked = owners, None, 0
        for reference in lost:
            self._unlink(node, reference)
        for reference in owners:
            self._dependents.setdefault(reference.uid, {})[node.uid] = None
            if reference.blocks:
                self._blocking.setdefault(reference.uid, {})[node.uid] = None
        return chain(self._unblocked(lost), self._check_owners(node, owners, before))

    def _unblocked(self, lost: Iterable[OwnerReference]) -> Iterator[CollectorKey]:
        for reference in lost:
            owner = self._nodes.get(reference.uid)
            if owner is not None and owner.waiting and not self.is_blocked(owner):
                yield AttemptToDelete(owner.uid)

    def _check_owners(
        self, node: OwnerGraphNode, owners: tuple[OwnerReference, ...], before: Collection[OwnerReference]
    ) -> Iterator[CollectorKey]:
        for checked, reference in enumerate(owners):
            if node.owners is not owners:
                return  # the object changed, and that change checks the rest; or it was deleted
            node.checked = checked + 1
            owner = self._nodes.get(reference.uid)
            if reference in before:
                # A removed owner may have prevented the deletion so far.
                if owner is None or owner.waiting or not owner.matches(reference, node.namespace):
                    yield AttemptToDelete(node.uid)
                continue
            if owner is None:
                identity = owner_identity(reference, node.namespace)
                self._unknown_owners.setdefault(reference.uid, {}).setdefault(identity, set()).add(node.uid)
                yield VerifyOwner(identity)
            elif not owner.matches_exactly(reference, node.namespace):
                yield from self._invalid_reference(node, owner)
            elif owner.waiting:
                yield AttemptToDelete(node.uid)

    def _unlink(self, node: OwnerGraphNode, reference: OwnerReference) -> None:
        """Removes the edges of one reference. ``_set_owners`` restores those of other references."""
        _discard(self._dependents, reference.uid, node.uid)
        _discard(self._blocking, reference.uid, node.uid)
        identities = self._unknown_owners.get(reference.uid)
        dependents = identities and identities.get(owner_identity(reference, node.namespace))
        if identities and dependents:
            dependents.discard(node.uid)
            if not dependents:
                self._remove_unknown(owner_identity(reference, node.namespace))

    def _remove_unknown(self, identity: OwnerIdentity) -> set[str]:
        identities = self._unknown_owners.get(identity.uid)
        if identities is None:
            return set()
        dependents = identities.pop(identity, set())
        if not identities:
            del self._unknown_owners[identity.uid]
        return dependents


def owner_identity(reference: OwnerReference, namespace: str) -> OwnerIdentity:
    return OwnerIdentity(reference.api_version, reference.kind, namespace, reference.name, reference.uid)


def _by_uid(owners: tuple[OwnerReference, ...]) -> Mapping[str, Sequence[OwnerReference]]:
    found: dict[str, list[OwnerReference]] = {}
    for each in owners:
        found.setdefault(each.uid, []).append(each)
    return found


def _blocks(node: OwnerGraphNode, owner: OwnerGraphNode) -> bool:
    return any(each.blocks and owner.matches(each, node.namespace) for each in node.references_to(owner.uid))


def _discard(index: dict[str, dict[str, None]], key: str, uid: str) -> None:
    uids = index.get(key)
    if uids is not None:
        uids.pop(uid, None)
        if not uids:
            del index[key]
