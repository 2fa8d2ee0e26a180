"""Terms of affinity and anti-affinity that pods on nodes have towards incoming pods, as an index.

Such terms apply in both directions: the terms of pods on nodes also affect an incoming pod that has no terms itself.
Equal terms are one entry, however many pods have them, with the rows of those pods. Entries are indexed by a label that
the term requires, so an incoming pod is compared only with terms that can match it. The plugin decides what a match
means for a node (``scheduling/plugins/interpodaffinity/plugin.py``).
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

Role = Literal["required affinity", "required anti-affinity", "preferred affinity", "preferred anti-affinity"]
"""The list of the pod spec that the term is from."""
REQUIRED_AFFINITY: Final[Role] = "required affinity"
REQUIRED_ANTI_AFFINITY: Final[Role] = "required anti-affinity"
PREFERRED_AFFINITY: Final[Role] = "preferred affinity"
PREFERRED_ANTI_AFFINITY: Final[Role] = "preferred anti-affinity"

_Bucket = tuple[str | None, tuple[str, str] | None]
"""A part of the index: the terms that can match pods of one namespace (None: of any) with one label (None: any)."""


class ExistingTerm(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """A term of pods on nodes. Interned: equal terms are the same object."""

    number: int
    role: Role
    term: AffinityTerm


class ExistingTermIndex:
    def __init__(self) -> None:
        self.version = 0
        """Increases when the first pod with a term is added or the last one is removed."""
        self.required_anti_affinity_keys: Counter[str] = Counter()
        """The number of required anti-affinity terms per topology key."""
        self._interned: WeakValueDictionary[tuple[Role, AffinityTerm], ExistingTerm] = WeakValueDictionary()
        self._by_shape: WeakKeyDictionary[PodShape, tuple[ExistingTerm, ...]] = WeakKeyDictionary()
        self._rows: dict[ExistingTerm, dict[int, int]] = {}
        self._buckets: dict[_Bucket, dict[ExistingTerm, None]] = {}
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, shape: PodShape) -> tuple[ExistingTerm, ...]:
        """The terms of the pods of a shape, whether or not one of these pods is on a node."""
        found = self._by_shape.get(shape)
        if found is None:
            terms_by_role: tuple[tuple[Role, tuple[AffinityTerm, ...]], ...] = (
                (REQUIRED_AFFINITY, shape.affinity.required),
                (REQUIRED_ANTI_AFFINITY, shape.anti_affinity.required),
                (PREFERRED_AFFINITY, shape.affinity.preferred),
                (PREFERRED_ANTI_AFFINITY, shape.anti_affinity.preferred),
            )
            found = self._by_shape[shape] = tuple(
                self._intern(role, term) for role, terms in terms_by_role for term in terms
            )
        return found

    def _intern(self, role: Role, term: AffinityTerm) -> ExistingTerm:
        found = self._interned.get((role, term))
        if found is None:
            self._last_number += 1
            found = self._interned[role, term] = ExistingTerm(self._last_number, role, term)
        return found

    def update(self, row: int, shape: PodShape, sign: int) -> None:
        """A pod of this shape was added to a row (+1) or removed (-1)."""
        for each in self.of(shape):
            rows = self._rows.get(each)
            if rows is None:
                rows = self._rows[each] = {}
                self._index_term(each)
            count = rows.get(row, 0) + sign
            if count:
                rows[row] = count
                continue
            del rows[row]
            if not rows:
                del self._rows[each]
                self._unindex_term(each)

    def rows(self, existing_term: ExistingTerm) -> Mapping[int, int]:
        """The number of pods with this term per row."""
        return self._rows.get(existing_term, {})

    def matching(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> list[ExistingTerm]:
        """The terms of pods on nodes that match a pod with these labels in this namespace."""
        found: list[ExistingTerm] = []
        for label in (*labels.items(), None):
            for bucket_namespace in (namespace, None):
                found += [
                    each
                    for each in self._buckets.get((bucket_namespace, label), ())
                    if each.term.matches(namespace, labels, namespace_labels)
                ]
        found.sort(key=lambda each: each.number)
        return found

    # -- index of terms by a label that they require ------------------------------------------------------------------

    def _index_term(self, existing_term: ExistingTerm) -> None:
        self.version += 1
        if existing_term.role == REQUIRED_ANTI_AFFINITY:
            self.required_anti_affinity_keys[existing_term.term.topology_key] += 1
        for bucket in _buckets(existing_term.term):
            self._buckets.setdefault(bucket, {})[existing_term] = None

    def _unindex_term(self, existing_term: ExistingTerm) -> None:
        self.version += 1
        if existing_term.role == REQUIRED_ANTI_AFFINITY:
            key = existing_term.term.topology_key
            self.required_anti_affinity_keys[key] -= 1
            if not self.required_anti_affinity_keys[key]:
                del self.required_anti_affinity_keys[key]
        for bucket in _buckets(existing_term.term):
            del self._buckets[bucket][existing_term]
            if not self._buckets[bucket]:
                del self._buckets[bucket]


def _buckets(term: AffinityTerm) -> list[_Bucket]:
    """The buckets of a term. Every pod that the term can match looks into exactly one of them."""
    if term.selector.nothing:
        return []
    namespaces: tuple[str | None, ...] = tuple(term.namespaces) if term.namespace_selector.nothing else (None,)
    requirement = next((each for each in term.selector.requirements if each.operator in VALUE_OPERATORS), None)
    if requirement is None:
        return [(bucket_namespace, None) for bucket_namespace in namespaces]
    return [
        (bucket_namespace, (requirement.key, value))
        for bucket_namespace in namespaces
        for value in dict.fromkeys(requirement.values)
    ]
