"""Label groups: pods on nodes with equal namespace and labels, and the rows they are on; terminating pods apart.

A selector reads only namespace and labels, so a plugin that counts matching pods evaluates it once per group (a
Deployment is one group) and not once per pod. The index is built on first use (``NodeMatrix.label_groups``), and groups
are indexed by a label when a selector first requires it: some pods have a unique label and are a group each. Affinity
terms of pods are a separate index: ``scheduling/cache/existing_terms.py``.
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
        """The number of pods per row, without zeros."""


class LabelGroupIndex:
    def __init__(self) -> None:
        self._namespaces: dict[str, _NamespaceGroups] = {}

    def update(self, row: int, pod: PodInfo, sign: int) -> None:
        """A pod was added to a row (+1) or removed (-1)."""
        key = (pod.deleting, frozenset(pod.labels.items()))
        groups = self._namespaces.get(pod.namespace)
        if groups is None:
            groups = self._namespaces[pod.namespace] = _NamespaceGroups()
        found = groups.groups.get(key)
        if found is None:
            found = groups.groups[key] = LabelGroup(pod.namespace, pod.labels, deleting=pod.deleting)
            groups.index(found)
        count = found.rows.get(row, 0) + sign
        if count:
            found.rows[row] = count
            return
        del found.rows[row]
        if not found.rows:
            del groups.groups[key]
            groups.unindex(found)
            if not groups.groups:
                del self._namespaces[pod.namespace]

    def selected(self, selector: Selector, namespaces: Iterable[str] | None) -> Iterator[LabelGroup]:
        """The groups whose labels match, in these namespaces; ``None`` means all namespaces."""
        if selector.nothing:
            return
        requirement = next((each for each in selector.requirements if each.operator in VALUE_OPERATORS), None)
        for namespace in self._namespaces if namespaces is None else namespaces:
            groups = self._namespaces.get(namespace)
            if groups is None:
                continue
            candidates = groups.groups.values() if requirement is None else groups.with_label(requirement)
            yield from (each for each in candidates if selector.matches(each.labels))


class _NamespaceGroups:
    def __init__(self) -> None:
        self.groups: dict[tuple[bool, frozenset[tuple[str, str]]], LabelGroup] = {}
        self._by_label: dict[str, dict[str, dict[LabelGroup, None]]] = {}
        """By label key, if a selector has required it, and by value."""

    def with_label(self, requirement: Requirement) -> Iterable[LabelGroup]:
        by_value = self._by_label.get(requirement.key)
        if by_value is None:
            by_value = self._by_label[requirement.key] = {}
            for each in self.groups.values():
                if requirement.key in each.labels:
                    by_value.setdefault(each.labels[requirement.key], {})[each] = None
        return chain.from_iterable(by_value.get(value, ()) for value in dict.fromkeys(requirement.values))

    def index(self, group: LabelGroup) -> None:
        for name, by_value in self._by_label.items():
            if name in group.labels:
                by_value.setdefault(group.labels[name], {})[group] = None

    def unindex(self, group: LabelGroup) -> None:
        for name, by_value in self._by_label.items():
            if name in group.labels:
                value = group.labels[name]
                del by_value[value][group]
                if not by_value[value]:
                    del by_value[value]
