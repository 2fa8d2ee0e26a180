"""Terms of affinity and anti-affinity that pods on nodes have towards incoming pods, as an index.

Such terms apply in both directions: a pod without terms of its own is still repelled or attracted by the terms of
existing pods. Equal terms are one entry, however many pods have them, with the rows of those pods. Entries are indexed
by a label that the term requires, so an incoming pod is compared only with terms that can match it. The plugin decides
what a match means for a node (``scheduling/plugins/interpodaffinity/plugin.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from headgate.kube.labels import VALUE_OPERATORS
from headgate.scheduling.cache.pod_fields import AffinityTerm
from headgate.scheduling.cache.pod_shape import PodShape

Role = Literal["attracts", "repels", "likes", "dislikes"]
ATTRACTS: Final[Role] = "attracts"
REPELS: Final[Role] = "repels"
LIKES: Final[Role] = "likes"
DISLIKES: Final[Role] = "dislikes"

_Bucket = tuple[str | None, tuple[str, str] | None]


class ExistingTerm(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """Equal only to itself: interned."""

    number: int
    role: Role
    term: AffinityTerm


class ExistingTermIndex:
    def __init__(self) -> None:
        self.version = 0
        """Moves when the first pod with a term comes, or the last one goes."""
        self.repelling_keys: Counter[str] = Counter()
        """The topology keys of required anti-affinity, and how many terms are about them."""
        self._interned: WeakValueDictionary[tuple[Role, AffinityTerm], ExistingTerm] = WeakValueDictionary()
        self._of: WeakKeyDictionary[PodShape, tuple[ExistingTerm, ...]] = WeakKeyDictionary()
        self._rows: dict[ExistingTerm, dict[int, int]] = {}
        self._buckets: dict[_Bucket, dict[ExistingTerm, None]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, shape: PodShape) -> tuple[ExistingTerm, ...]:
        """The terms that each pod of a shape carries, whether or not one is on a node."""
        found = self._of.get(shape)
        if found is None:
            listed: tuple[tuple[Role, tuple[AffinityTerm, ...]], ...] = (
                (ATTRACTS, shape.affinity.required),
                (REPELS, shape.anti_affinity.required),
                (LIKES, shape.affinity.preferred),
                (DISLIKES, shape.anti_affinity.preferred),
            )
            found = self._of[shape] = tuple(self._intern(role, term) for role, terms in listed for term in terms)
        return found

    def _intern(self, role: Role, term: AffinityTerm) -> ExistingTerm:
        found = self._interned.get((role, term))
        if found is None:
            self._next += 1
            found = self._interned[role, term] = ExistingTerm(self._next, role, term)
        return found

    def take(self, row: int, shape: PodShape, sign: int) -> None:
        """A pod of this shape comes to a row (+1) or goes (-1)."""
        for each in self.of(shape):
            rows = self._rows.get(each)
            if rows is None:
                rows = self._rows[each] = {}
                self._list(each)
            count = rows.get(row, 0) + sign
            if count:
                rows[row] = count
                continue
            del rows[row]
            if not rows:
                del self._rows[each]
                self._unlist(each)

    def rows(self, carried: ExistingTerm) -> Mapping[int, int]:
        """How many pods carry it on which row."""
        return self._rows.get(carried, {})

    def matching(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> list[ExistingTerm]:
        """The terms on some node that mean a pod with these labels, in this namespace."""
        found: list[ExistingTerm] = []
        for label in (*labels.items(), None):
            for where in (namespace, None):
                found += [
                    each
                    for each in self._buckets.get((where, label), ())
                    if each.term.means(namespace, labels, namespace_labels)
                ]
        found.sort(key=lambda each: each.number)
        return found

    # -- finding terms by what they ask for ---------------------------------------------------------------------------

    def _list(self, carried: ExistingTerm) -> None:
        self.version += 1
        if carried.role == REPELS:
            self.repelling_keys[carried.term.topology_key] += 1
        for bucket in _buckets(carried.term):
            self._buckets.setdefault(bucket, {})[carried] = None

    def _unlist(self, carried: ExistingTerm) -> None:
        self.version += 1
        if carried.role == REPELS:
            key = carried.term.topology_key
            self.repelling_keys[key] -= 1
            if not self.repelling_keys[key]:
                del self.repelling_keys[key]
        for bucket in _buckets(carried.term):
            del self._buckets[bucket][carried]
            if not self._buckets[bucket]:
                del self._buckets[bucket]


def _buckets(term: AffinityTerm) -> list[_Bucket]:
    """The places where a pod that the term may mean comes by: each such pod comes by just one of them."""
    if term.selector.nothing:
        return []
    wheres: tuple[str | None, ...] = tuple(term.namespaces) if term.namespace_selector.nothing else (None,)
    listing = next((each for each in term.selector.requirements if each.operator in VALUE_OPERATORS), None)
    if listing is None:
        return [(where, None) for where in wheres]
    return [(where, (listing.key, value)) for where in wheres for value in dict.fromkeys(listing.values)]
