"""Label columns: for each label key that a plugin has used, the value of every node as a small integer.

A column is created when a selector or a topology first names its key, and is updated from then on. For unused keys only
the number of nodes is kept. Value ids are dense and stable: topology plugins use them as domain numbers. A column for a
key that no node has is kept only while something refers to it, because pods may name any number of such keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from headgate.kube.labels import Requirement, Selector
from headgate.kube.node_affinity import NAME_FIELD, NodeSelector, NodeSelectorTerm, RequiredNodeAffinity
from headgate.scheduling.cache.resource_columns import Rows

Ids = NDArray[np.int32]
Mask = NDArray[np.bool_]

ABSENT: Final = -1
"""The id for a row whose node lacks the label."""


class LabelColumn:
    """One label key. ``values[id]`` is the label value of an id."""

    def __init__(self, capacity: int) -> None:
        self.ids: Ids = np.full(capacity, ABSENT, np.int32)
        self.values: list[str] = []
        self._id_of: dict[str, int] = {}

    def id_of(self, value: str) -> int:
        """``ABSENT`` for a value that no node has had."""
        return self._id_of.get(value, ABSENT)

    def set(self, row: int, value: str | None) -> None:
        if value is None:
            self.ids[row] = ABSENT
            return
        self.ids[row] = self.number(value)

    def number(self, value: str) -> int:
        """The id of a value; a new value gets a new id."""
        found = self._id_of.get(value)
        if found is None:
            found = len(self.values)
            self._id_of[value] = found
            self.values.append(value)
        return found

    def matching(self, requirement: Requirement, rows: Rows | None, size: int) -> Mask:
        """The rows that meet a requirement on this key. It is evaluated once per value, not per node."""
        ids = self.ids[:size] if rows is None else self.ids[rows]
        # Id -1 reads the last element of the table, which is the result for nodes without the label.
        table: Mask = np.append(self._matching_values(requirement), requirement.matches({}))
        return table[ids]

    def _matching_values(self, requirement: Requirement) -> Mask:
        match requirement.operator:
            case "=" | "==" | "in" | "!=" | "notin" as operator:
                is_listed: Mask = np.zeros(len(self.values), np.bool_)
                is_listed[[found for each in requirement.values if (found := self.id_of(each)) != ABSENT]] = True
                return is_listed if operator in ("=", "==", "in") else ~is_listed
            case _:
                matches = (requirement.matches({requirement.key: value}) for value in self.values)
                return np.fromiter(matches, np.bool_, count=len(self.values))


class LabelColumns:
    """All label columns, and the labels of the nodes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._columns: dict[str, LabelColumn] = {}
        self._unlabelled: WeakValueDictionary[str, LabelColumn] = WeakValueDictionary()
        """Columns of keys that no node has had."""
        self._nodes_with: dict[str, int] = {}
        self._of_row: dict[int, Mapping[str, str]] = {}
        self._name_of_row: dict[int, str] = {}
        self._row_of_name: dict[str, int] = {}

    def column(self, key: str) -> LabelColumn:
        found = self._columns.get(key)
        if found is None:
            found = self._unlabelled.get(key)
        if found is None and key not in self._nodes_with:
            found = self._unlabelled[key] = LabelColumn(self._capacity)
        if found is None:
            found = self._columns[key] = LabelColumn(self._capacity)
            labelled = [(row, labels[key]) for row, labels in self._of_row.items() if key in labels]
            for row, value in labelled:
                found.set(row, value)
        return found

    def selected_keys(self) -> tuple[str, ...]:
        """The keys that have a column and that a node has had."""
        return tuple(self._columns)

    def set(self, row: int, name: str, labels: Mapping[str, str]) -> None:
        old = self._of_row.get(row, {})
        self._of_row[row] = labels
        if old != labels:
            self._count(labels, 1)
            self._count(old, -1)
        self._name_of_row[row] = name
        self._row_of_name[name] = row
        for key, column in self._columns.items():
            column.set(row, labels.get(key))

    def remove(self, row: int) -> None:
        self._count(self._of_row.pop(row, {}), -1)
        self._row_of_name.pop(self._name_of_row.pop(row, ""), None)
        for column in self._columns.values():
            column.set(row, None)

    def _count(self, labels: Mapping[str, str], sign: int) -> None:
        """Count a node with these labels (+1), or no longer (-1)."""
        for key in labels:
            number = self._nodes_with.get(key, 0) + sign
            if number:
                self._nodes_with[key] = number
            else:
                del self._nodes_with[key]
            column = self._unlabelled.pop(key, None) if self._unlabelled else None
            if column is not None:
                self._columns[key] = column

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for column in (*self._columns.values(), *self._unlabelled.values()):
            wider: Ids = np.full(capacity, ABSENT, np.int32)
            wider[: len(column.ids)] = column.ids
            column.ids = wider

    def selected(self, selector: Selector, rows: Rows | None, size: int) -> Mask:
        length = size if rows is None else len(rows)
        if selector.nothing:
            return np.zeros(length, np.bool_)
        mask: Mask = np.ones(length, np.bool_)
        for each in selector.requirements:
            mask &= self.column(each.key).matching(each, rows, size)
        return mask

    def term(self, term: NodeSelectorTerm, rows: Rows | None, size: int) -> Mask:
        mask = self.selected(term.labels, rows, size)
        for field in term.fields:
            mask &= self._named(field, rows, size)
        return mask

    def any_term(self, selector: NodeSelector, rows: Rows | None, size: int) -> Mask:
        mask: Mask = np.zeros(size if rows is None else len(rows), np.bool_)
        for term in selector.terms:
            mask |= self.term(term, rows, size)
        return mask

    def required(self, wanted: RequiredNodeAffinity, rows: Rows | None, size: int) -> Mask:
        """The rows whose nodes match the node selector and the required node affinity of a pod."""
        mask = self.selected(wanted.labels, rows, size)
        return mask if wanted.affinity is None else mask & self.any_term(wanted.affinity, rows, size)

    def _named(self, field: Requirement, rows: Rows | None, size: int) -> Mask:
        """The name is the only supported field; other fields have the empty value."""
        length = size if rows is None else len(rows)
        wanted = field.operator == "in"
        if field.key != NAME_FIELD:
            return np.full(length, (field.values[0] == "") is wanted)
        row = self._row_of_name.get(field.values[0], -1)
        found: Mask = np.arange(size) == row if rows is None else rows == row
        return found if wanted else ~found
