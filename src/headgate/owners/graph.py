"""Who owns whom: every object that was heard of, by uid, with its owners and its dependents.

Metadata goes in; out come the keys that need a look (:data:`Look`). The graph decides nothing itself: it knows what it
was told, which may be stale, incomplete or out of order across kinds, and ``collector.py`` asks the server before it
acts. An owner that is named but was never heard of, or that is named wrongly, is a :class:`Claim`: it stays in doubt
until the server says that there is no such object, or until the object itself is heard of.

An object may name tens of thousands of owners, and an owner may have more dependents. So the keys come as iterators
that are read in parts, and the graph may hear of other changes between two parts. The edges are complete when a method
returns; doubts are raised while its result is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from headgate.kube.resource import Resource
from headgate.owners.served import ServedKind

Object = dict[str, Any]

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_FEW: Final = 8


class Reference(msgspec.Struct, frozen=True, gc=False):
    """One owner reference; ``blocks``: a foreground deletion of the owner waits for this dependent."""

    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool


class Claim(msgspec.Struct, frozen=True, gc=False):
    """An owner as a dependent in ``namespace`` names it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Node(msgspec.Struct):
    """An object that was heard of. Mutable: it follows its object."""

    kind: ServedKind
    namespace: str
    name: str
    uid: str
    owners: tuple[Reference, ...] = ()
    deleting: bool = False
    orphaning: bool = False
    """It goes once its dependents are orphans."""
    looked: int = 0
    """How many of the owners, from the first, were looked at since they were told."""
    by_uid: Mapping[str, Sequence[Reference]] | None = None
    """The owners by uid, made when it is needed and they are many."""
    waiting: bool = False
    """It goes once the dependents that block it are gone (and orphans, if it is orphaning, are orphans)."""

    @property
    def resource(self) -> Resource:
        return self.kind.resource

    def named(self, uid: str) -> Sequence[Reference]:
        """The references that may be to an owner with this uid: all of them, where they are few."""
        if len(self.owners) <= _FEW:
            return self.owners
        if self.by_uid is None:
            self.by_uid = _by_uid(self.owners)
        return self.by_uid.get(uid, ())

    def is_named_by(self, reference: Reference | Claim, namespace: str) -> bool:
        """Whether a reference from ``namespace`` has all of it right."""
        return reference.api_version == self.kind.api_version and self.is_meant_by(reference, namespace)

    def is_meant_by(self, reference: Reference | Claim, namespace: str) -> bool:
        """The same, by whichever version of its group it is named."""
        group, slash, _ = reference.api_version.rpartition("/")
        return (
            reference.uid == self.uid
            and reference.name == self.name
            and reference.kind == self.kind.kind
            and (group if slash else "") == self.resource.group
            and (not self.namespace or self.namespace == namespace)
        )


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """See whether this object should be deleted, or is waiting for dependents that are gone."""

    uid: str


class Orphan(msgspec.Struct, frozen=True, gc=False):
    """Take this owner out of its dependents, then let it go."""

    uid: str


class Verify(msgspec.Struct, frozen=True, gc=False):
    """Ask the server whether this owner exists."""

    claim: Claim


class Misplaced(msgspec.Struct, frozen=True, gc=False):
    """Tell people that this object names an owner in another namespace."""

    uid: str
    owner_uid: str


Look = Attempt | Orphan | Verify | Misplaced


def references(metadata: Object) -> tuple[Reference, ...]:
    named = metadata.get("ownerReferences")
    if not named:
        return ()
    return tuple(
        Reference(
            each.get("apiVersion", ""),
            each.get("kind", ""),
            each.get("name", ""),
            each.get("uid", ""),
            each.get("blockOwnerDeletion") is True,
        )
        for each in named
    )


class Graph:
    def __init__(self) -> None:
        self._nodes: Final[dict[str, Node]] = {}
        self._dependents: Final[dict[str, dict[str, None]]] = {}  # in the order in which they were heard of
        self._blocking: Final[dict[str, dict[str, None]]] = {}  # those of them that say so
        self._doubts: Final[dict[str, dict[Claim, set[str]]]] = {}  # by the owner's uid

    # -- asking ----------------------------------------------------------------------------------------------------

    def get(self, uid: str) -> Node | None:
        return self._nodes.get(uid)

    def dependents(self, uid: str) -> list[Node]:
        return [self._nodes[each] for each in self._dependents.get(uid, ())]

    def blocking(self, owner: Node) -> list[Node]:
        """The dependents that a foreground deletion waits for. One that only knows the uid must not hold it up."""
        return [node for each in self._blocking.get(owner.uid, ()) if _blocks(node := self._nodes[each], owner)]

    def is_blocked(self, owner: Node) -> bool:
        return any(_blocks(self._nodes[each], owner) for each in self._blocking.get(owner.uid, ()))

    def waits_for_itself(self, owner: Node) -> bool:
        """Whether it waits for a dependent that waits for a dependent that … waits for it."""
        seen: set[str] = set()
        ahead = [owner]
        while ahead:
            for node in self.blocking(ahead.pop()):
                if node is owner:
                    return True
                if node.waiting and node.uid not in seen:
                    seen.add(node.uid)
                    ahead.append(node)
        return False

    def doubted(self, claim: Claim) -> Collection[str]:
        """The dependents that name an owner of which nothing was heard yet."""
        return self._doubts.get(claim.uid, {}).get(claim, ())

    def __len__(self) -> int:
        return len(self._nodes)

    def is_without_edges(self) -> bool:
        return not self._dependents and not self._blocking and not self._doubts

    # -- hearing ---------------------------------------------------------------------------------------------------

    def applied(self, kind: ServedKind, metadata: Object) -> Iterator[Look]:
        owners = references(metadata)
        deleting = "deletionTimestamp" in metadata
        finalizers: Sequence[str] = (metadata.get("finalizers") or ()) if deleting else ()
        orphaning, waiting = ORPHAN in finalizers, FOREGROUND in finalizers
        uid = metadata["uid"]
        node = self._nodes.get(uid)
        looks: list[Iterable[Look]] = []
        if node is None:
            node = Node(kind, metadata.get("namespace", ""), metadata["name"], uid)
            self._nodes[uid] = node
            looks.append(self._misnaming(node, self._doubts.pop(uid, {})))
        node.kind = kind
        if owners != node.owners or node.looked < len(owners):
            looks.append(self._rewire(node, owners))
        begins = waiting and not orphaning and not (node.waiting and not node.orphaning)
        if orphaning and not node.orphaning:
            looks.append([Orphan(uid)])
        node.deleting, node.orphaning, node.waiting = deleting, orphaning, waiting
        if begins:
            looks.append(self._attempts(uid))
            looks.append([Attempt(uid)])
        return chain.from_iterable(looks)

    def removed(self, resource: Resource, uid: str) -> Iterator[Look]:
        """``resource`` is where it was seen last: a kind may move to another version, and its objects with it."""
        node = self._nodes.get(uid)
        if node is None or node.resource != resource:
            return iter(())
        del self._nodes[uid]
        owners, node.owners = node.owners, ()
        for reference in owners:
            self._unlink(node, reference)
        return chain(self._attempts(uid), self._unblocked(owners))

    def forget(self, resources: Collection[Resource]) -> Iterator[Look]:
        """These are not served any more. What becomes of their objects is not known: they may come back elsewhere."""
        doomed = [node for node in self._nodes.values() if node.resource in resources]
        return chain.from_iterable([self.removed(node.resource, node.uid) for node in doomed])

    def absent(self, claim: Claim) -> Iterator[Look]:
        """The server knows no such owner: whoever named it needs a look."""
        return map(Attempt, sorted(self._settle(claim)))

    # -- wiring ----------------------------------------------------------------------------------------------------

    def _attempts(self, owner_uid: str) -> Iterator[Look]:
        """For each of those that are dependents now."""
        return map(Attempt, list(self._dependents.get(owner_uid, ())))

    def _misnaming(self, node: Node, claims: Mapping[Claim, set[str]]) -> Iterator[Look]:
        """An object that others have named already: their doubts are over, and some had it wrong."""
        for claim, dependents in claims.items():
            if not node.is_named_by(claim, claim.namespace):
                for each in sorted(dependents):
                    dependent = self._nodes.get(each)
                    if dependent is not None:
                        yield from self._misnamed(dependent, node)

    def _misnamed(self, dependent: Node, owner: Node) -> Iterator[Look]:
        if owner.namespace and dependent.namespace != owner.namespace:
            yield Misplaced(dependent.uid, owner.uid)
        yield Attempt(dependent.uid)

    def _rewire(self, node: Node, owners: tuple[Reference, ...]) -> Iterator[Look]:
        before, lost = frozenset(node.owners[: node.looked]), list[Reference]()
        if node.owners:
            after = frozenset(owners)
            lost = [reference for reference in node.owners if reference not in after]
        node.owners, node.by_uid, node.looked = owners, None, 0
        for reference in lost:
            self._unlink(node, reference)
        for reference in owners:
            self._dependents.setdefault(reference.uid, {})[node.uid] = None
            if reference.blocks:
                self._blocking.setdefault(reference.uid, {})[node.uid] = None
        return chain(self._unblocked(lost), self._doubting(node, owners, before))

    def _unblocked(self, lost: Iterable[Reference]) -> Iterator[Look]:
        for reference in lost:
            owner = self._nodes.get(reference.uid)
            if owner is not None and owner.waiting and not self.is_blocked(owner):
                yield Attempt(owner.uid)

    def _doubting(self, node: Node, owners: tuple[Reference, ...], before: Collection[Reference]) -> Iterator[Look]:
        for looked, reference in enumerate(owners):
            if node.owners is not owners:
                return  # the object was heard of again, which looks at the rest, too; or it is gone
            node.looked = looked + 1
            owner = self._nodes.get(reference.uid)
            if reference in before:
                # An owner that is off the list now may have kept the node from being judged by the others.
                if owner is None or owner.waiting or not owner.is_meant_by(reference, node.namespace):
                    yield Attempt(node.uid)
                continue
            if owner is None:
                claim = claim_of(reference, node.namespace)
                self._doubts.setdefault(reference.uid, {}).setdefault(claim, set()).add(node.uid)
                yield Verify(claim)
            elif not owner.is_named_by(reference, node.namespace):
                yield from self._misnamed(node, owner)
            elif owner.waiting:
                yield Attempt(node.uid)

    def _unlink(self, node: Node, reference: Reference) -> None:
        """The node is no dependent by this reference any more; by another one it may be, ``_rewire`` sees to it."""
        _discard(self._dependents, reference.uid, node.uid)
        _discard(self._blocking, reference.uid, node.uid)
        claims = self._doubts.get(reference.uid)
        doubting = claims and claims.get(claim_of(reference, node.namespace))
        if claims and doubting:
            doubting.discard(node.uid)
            if not doubting:
                self._settle(claim_of(reference, node.namespace))

    def _settle(self, claim: Claim) -> set[str]:
        claims = self._doubts.get(claim.uid)
        if claims is None:
            return set()
        dependents = claims.pop(claim, set())
        if not claims:
            del self._doubts[claim.uid]
        return dependents


def claim_of(reference: Reference, namespace: str) -> Claim:
    return Claim(reference.api_version, reference.kind, namespace, reference.name, reference.uid)


def _by_uid(owners: tuple[Reference, ...]) -> Mapping[str, Sequence[Reference]]:
    found: dict[str, list[Reference]] = {}
    for each in owners:
        found.setdefault(each.uid, []).append(each)
    return found


def _blocks(node: Node, owner: Node) -> bool:
    return any(each.blocks and owner.is_meant_by(each, node.namespace) for each in node.named(owner.uid))


def _discard(index: dict[str, dict[str, None]], key: str, uid: str) -> None:
    uids = index.get(key)
    if uids is not None:
        uids.pop(uid, None)
        if not uids:
            del index[key]
