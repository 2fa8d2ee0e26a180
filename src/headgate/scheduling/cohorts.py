"""Cohorts: pods on nodes that share a namespace and labels, and on which rows they are; those being deleted apart.

Selectors see no more of a pod than that, so a plugin that counts the pods a selector means asks once per cohort (a
deployment is one), not once per pod. Nothing is kept before somebody first asks (``NodeMatrix.cohorts``), and cohorts
are listed by a label from when a selector first asks for it: some pods have a label that no other has, and are a cohort
each. Terms that pods carry against or towards others are another index: ``scheduling/carried.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from headgate.kube.labels import LISTING, Requirement, Selector
from headgate.scheduling.pod import Pod


class Cohort:
    __slots__ = ("deleting", "labels", "namespace", "rows")

    def __init__(self, namespace: str, labels: Mapping[str, str], *, deleting: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.deleting = deleting
        self.rows: dict[int, int] = {}
        """How many of them are on which row; no zeros."""


class Cohorts:
    def __init__(self) -> None:
        self._in: dict[str, _Namespace] = {}

    def take(self, row: int, pod: Pod, sign: int) -> None:
        """A pod comes to a row (+1) or goes (-1)."""
        key = (pod.deleting, frozenset(pod.labels.items()))
        near = self._in.get(pod.namespace)
        if near is None:
            near = self._in[pod.namespace] = _Namespace()
        found = near.cohorts.get(key)
        if found is None:
            found = near.cohorts[key] = Cohort(pod.namespace, pod.labels, deleting=pod.deleting)
            near.list(found)
        count = found.rows.get(row, 0) + sign
        if count:
            found.rows[row] = count
            return
        del found.rows[row]
        if not found.rows:
            del near.cohorts[key]
            near.unlist(found)
            if not near.cohorts:
                del self._in[pod.namespace]

    def selected(self, selector: Selector, namespaces: Iterable[str] | None) -> Iterator[Cohort]:
        """Those whose labels match, in these namespaces; ``None`` means all."""
        if selector.nothing:
            return
        listing = next((each for each in selector.requirements if each.operator in LISTING), None)
        for namespace in self._in if namespaces is None else namespaces:
            near = self._in.get(namespace)
            if near is None:
                continue
            candidates = near.cohorts.values() if listing is None else near.labelled(listing)
            yield from (each for each in candidates if selector.matches(each.labels))


class _Namespace:
    def __init__(self) -> None:
        self.cohorts: dict[tuple[bool, frozenset[tuple[str, str]]], Cohort] = {}
        self._by_label: dict[str, dict[str, dict[Cohort, None]]] = {}
        """By the name of a label that was asked for, and by its value."""

    def labelled(self, listing: Requirement) -> Iterable[Cohort]:
        by_value = self._by_label.get(listing.key)
        if by_value is None:
            by_value = self._by_label[listing.key] = {}
            for each in self.cohorts.values():
                if listing.key in each.labels:
                    by_value.setdefault(each.labels[listing.key], {})[each] = None
        return chain.from_iterable(by_value.get(value, ()) for value in dict.fromkeys(listing.values))

    def list(self, cohort: Cohort) -> None:
        for name, by_value in self._by_label.items():
            if name in cohort.labels:
                by_value.setdefault(cohort.labels[name], {})[cohort] = None

    def unlist(self, cohort: Cohort) -> None:
        for name, by_value in self._by_label.items():
            if name in cohort.labels:
                value = cohort.labels[name]
                del by_value[value][cohort]
                if not by_value[value]:
                    del by_value[value]
