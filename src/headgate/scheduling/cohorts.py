"""Cohorts: pods on nodes that share a namespace and labels, and on which rows they are; those being deleted apart.

Selectors see no more of a pod than that, so a plugin that counts the pods a selector means asks once per cohort (a
deployment is one), not once per pod. Nothing is kept before somebody first asks (``NodeMatrix.cohorts``). Terms that
pods carry against or towards others are another index: ``scheduling/carried.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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
        self._of: dict[str, dict[tuple[bool, frozenset[tuple[str, str]]], Cohort]] = {}

    def take(self, row: int, pod: Pod, sign: int) -> None:
        """A pod comes to a row (+1) or goes (-1)."""
        key = (pod.deleting, frozenset(pod.labels.items()))
        near = self._of.setdefault(pod.namespace, {})
        found = near.get(key)
        if found is None:
            found = near[key] = Cohort(pod.namespace, pod.labels, deleting=pod.deleting)
        count = found.rows.get(row, 0) + sign
        if count:
            found.rows[row] = count
            return
        del found.rows[row]
        if not found.rows:
            del near[key]
            if not near:
                del self._of[pod.namespace]

    def within(self, namespaces: Iterable[str] | None) -> Iterator[Cohort]:
        """Those of these namespaces; ``None`` means all."""
        for namespace in self._of if namespaces is None else namespaces:
            yield from self._of.get(namespace, {}).values()
