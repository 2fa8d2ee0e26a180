"""Indexes: label selectors by namespace, and pods by node.

A lookup of the selectors that match an object takes time proportional to the object's labels and to the matches, not to
the number of selectors: each selector is indexed under one label and value that it requires. Selectors that require no
label with a value (an empty selector, or only ``notin``) are tried one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, Generic, TypeVar

from headgate.kube.labels import VALUE_OPERATORS, Selector

K = TypeVar("K")

_Pair = tuple[str, str, str]  # namespace, label, value
_ANY: Final = ""


class SelectorIndex(Generic[K]):
    def __init__(self) -> None:
        self._selectors: Final[dict[K, tuple[str, Selector]]] = {}
        self._by_pair: Final[dict[_Pair, dict[K, None]]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._selectors

    def put(self, key: K, namespace: str, selector: Selector) -> bool:
        """Returns whether the selector changed."""
        if self._selectors.get(key) == (namespace, selector):
            return False
        self.drop(key)
        self._selectors[key] = namespace, selector
        for pair in _pairs(namespace, selector):
            self._by_pair.setdefault(pair, {})[key] = None
        return True

    def drop(self, key: K) -> None:
        known = self._selectors.pop(key, None)
        if known is None:
            return
        for pair in _pairs(*known):
            keys = self._by_pair[pair]
            del keys[key]
            if not keys:
                del self._by_pair[pair]

    def selector(self, key: K) -> Selector | None:
        known = self._selectors.get(key)
        return None if known is None else known[1]

    def matching(self, namespace: str, labels: Mapping[str, str] | None) -> list[K]:
        labels = labels or {}
        pairs = [(namespace, _ANY, _ANY), *((namespace, *pair) for pair in labels.items())]
        return [key for pair in pairs for key in self._by_pair.get(pair, ()) if self._selectors[key][1].matches(labels)]


class LabelIndex(Generic[K]):
    """The reverse index: objects by namespace and label, for a new selector."""

    def __init__(self) -> None:
        self._labels: Final[dict[K, tuple[str, Mapping[str, str]]]] = {}
        self._by_pair: Final[dict[_Pair, dict[K, None]]] = {}

    def put(self, key: K, namespace: str, labels: Mapping[str, str] | None) -> None:
        labels = labels or {}
        if self._labels.get(key) == (namespace, labels):
            return
        self.drop(key)
        self._labels[key] = namespace, labels
        for pair in _all_pairs(namespace, labels):
            self._by_pair.setdefault(pair, {})[key] = None

    def drop(self, key: K) -> None:
        known = self._labels.pop(key, None)
        if known is None:
            return
        for pair in _all_pairs(*known):
            keys = self._by_pair[pair]
            del keys[key]
            if not keys:
                del self._by_pair[pair]

    def matching(self, namespace: str, selector: Selector) -> list[K]:
        return [
            key
            for pair in _pairs(namespace, selector)
            for key in self._by_pair.get(pair, ())
            if selector.matches(self._labels[key][1])
        ]


def _pairs(namespace: str, selector: Selector) -> list[_Pair]:
    """The index keys of a selector: an object that it matches has exactly one of these pairs."""
    if selector.nothing:
        return []
    for requirement in selector.requirements:
        if requirement.operator in VALUE_OPERATORS:
            return [(namespace, requirement.key, value) for value in dict.fromkeys(requirement.values)]
    return [(namespace, _ANY, _ANY)]


def _all_pairs(namespace: str, labels: Mapping[str, str]) -> Iterator[_Pair]:
    yield namespace, _ANY, _ANY
    for key, value in labels.items():
        yield namespace, key, value


class PodsByNode:
    def __init__(self) -> None:
        self._uids: Final[dict[str, set[str]]] = {}

    def add(self, node: str, uid: str) -> None:
        self._uids.setdefault(node, set()).add(uid)

    def drop(self, node: str, uid: str) -> None:
        uids = self._uids[node]
        uids.discard(uid)
        if not uids:
            del self._uids[node]

    def of(self, node: str) -> Collection[str]:
        """The uids of the pods of a node, in no order."""
        return self._uids.get(node, ())
