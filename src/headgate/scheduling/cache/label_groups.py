"""Label groups: pods on nodes with equal namespace and labels, and the rows they are on; terminating pods apart.

A selector reads only namespace and labels, so a plugin that counts matching pods evaluates it once per group (a
Deployment is one group) and not once per pod. The index is built on first use (``NodeMatrix.cohorts``), and groups are
indexed by a label when a selector first requires it: some pods have a unique label and are a group each. Affinity terms
of pods are a separate index: ``scheduling/cache/existing_terms.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from headgate.kube.labels import VALUE_OPERATORS, Requirement, Selector
from headgate.scheduling.cache.pod import PodInfo


class LabelGroup:
    __slots__ = ("deleting", "labels", "namespace", "rows")

    def __init__(self, namespace: str, labels: Mapping[str, str], *, deleting: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.deleting = deleting
        self.rows: dict[int, int] = {}
        """How many of them are on which row; no zeros."""


class LabelGroupIndex:
    def __init__(self) -> None:
        self._in: dict[str, _Namespace] = {}

    def take(self, row: int, pod: PodInfo, sign: int) -> None:
        """A pod comes to a row (+1) or goes (-1)."""
        key = (pod.deleting, frozenset(pod.labels.items()))
        near = self._in.get(pod.namespace)
        if near is None:
            near = self._in[pod.namespace] = _Namespace()
        found = near.groups.get(key)
        if found is None:
            found = near.groups[key] = LabelGroup(pod.namespace, pod.labels, deleting=pod.deleting)
            near.list(found)
        count = found.rows.get(row, 0) + sign
        if count:
            found.rows[row] = count
            return
        del found.rows[row]
        if not found.rows:
            del near.groups[key]
            near.unlist(found)
            if not near.groups:
                del self._in[pod.namespace]

    def selected(self, selector: Selector, namespaces: Iterable[str] | None) -> Iterator[LabelGroup]:
        """Those whose labels match, in these namespaces; ``None`` means all."""
        if selector.nothing:
            return
        listing = next((each for each in selector.requirements if each.operator in VALUE_OPERATORS), None)
        for namespace in self._in if namespaces is None else namespaces:
            near = self._in.get(namespace)
            if near is None:
                continue
            candidates = near.groups.values() if listing is None else near.labelled(listing)
            yield from (each for each in candidates if selector.matches(each.labels))


class _Namespace:
    def __init__(self) -> None:
        self.groups: dict[tuple[bool, frozenset[tuple[str, str]]], LabelGroup] = {}
        self._by_label: dict[str, dict[str, dict[LabelGroup, None]]] = {}
        """By the name of a label that was asked for, and by its value."""

    def labelled(self, listing: Requirement) -> Iterable[LabelGroup]:
        by_value = self._by_label.get(listing.key)
        if by_value is None:
            by_value = self._by_label[listing.key] = {}
            for each in self.groups.values():
                if listing.key in each.labels:
                    by_value.setdefault(each.labels[listing.key], {})[each] = None
        return chain.from_iterable(by_value.get(value, ()) for value in dict.fromkeys(listing.values))

    def list(self, cohort: LabelGroup) -> None:
        for name, by_value in self._by_label.items():
            if name in cohort.labels:
                by_value.setdefault(cohort.labels[name], {})[cohort] = None

    def unlist(self, cohort: LabelGroup) -> None:
        for name, by_value in self._by_label.items():
            if name in cohort.labels:
                value = cohort.labels[name]
                del by_value[value][cohort]
                if not by_value[value]:
                    del by_value[value]
