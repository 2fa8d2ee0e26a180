"""Rows of one topic in the order of a column, kept up to date by changes; only those that match a filter.

A change of a row costs its place in the order and nothing else, so a list may have a hundred thousand rows. A tree is
flattened again when its shape, or the order within it, has changed. Entries are read by their index.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec

from headgate.views.rows import Row

R = TypeVar("R", bound=Row)
Order = tuple[Any, str]
SortKey = Callable[[R], Any]
SearchText = Callable[[R], str]


class Entry(msgspec.Struct, Generic[R], frozen=True):
    """A line of a list: the ``part``-th line of a row. ``depth``: in a tree."""

    row: R
    part: int = 0
    depth: int = 0

    @property
    def identity(self) -> tuple[str, int]:
        return self.row.key, self.part


class ListedRows(Generic[R]):
    """A list. ``text``: what a filter searches."""

    def __init__(self, text: SearchText[R], sort_key: SortKey[R]) -> None:
        self.rows: Final[dict[str, R]] = {}
        self._text: Final = text
        self._sort_key = sort_key
        self._is_reversed = False
        self._words: list[str] = []
        self._order: list[Order] = []
        self._places: Final[dict[str, Any]] = {}  # the sort keys of the rows that are listed

    def __len__(self) -> int:
        return len(self._order)

    def put(self, row: R) -> None:
        self.rows[row.key] = row
        place = self._sort_key(row) if self._matches(row) else None
        if self._places.get(row.key) == place:
            return
        self._unlist(row.key)
        if place is not None:
            self._places[row.key] = place
            insort(self._order, (place, row.key))

    def remove(self, key: str) -> None:
        if self.rows.pop(key, None) is not None:
            self._unlist(key)

    def replace(self, rows: Iterable[R]) -> None:
        self.rows.clear()
        self.rows.update((row.key, row) for row in rows)
        self._list_again()

    def set_order(self, sort_key: SortKey[R], *, is_reversed: bool) -> None:
        self._sort_key, self._is_reversed = sort_key, is_reversed
        self._list_again()

    def set_filter(self, text: str) -> None:
        """Rows that have all words of the text."""
        words = text.lower().split()
        if words != self._words:
            self._words = words
            self._list_again()

    def entries(self, start: int, end: int) -> list[Entry[R]]:
        return [Entry(self.rows[key]) for key in self._keys(start, end)]

    def index_of(self, identity: tuple[str, int]) -> int | None:
        place = self._places.get(identity[0])
        if place is None:
            return None
        index = bisect_left(self._order, (place, identity[0]))
        return len(self._order) - 1 - index if self._is_reversed else index

    def _keys(self, start: int, end: int) -> list[str]:
        if not self._is_reversed:
            return [key for _, key in self._order[max(start, 0) : max(end, 0)]]
        count = len(self._order)
        return [key for _, key in reversed(self._order[max(count - end, 0) : max(count - start, 0)])]

    def _matches(self, row: R) -> bool:
        if not self._words:
            return True
        text = self._text(row).lower()
        return all(word in text for word in self._words)

    def _unlist(self, key: str) -> None:
        if key in self._places:
            del self._order[bisect_left(self._order, (self._places.pop(key), key))]

    def _list_again(self) -> None:
        self._places.clear()
        self._places.update((key, self._sort_key(row)) for key, row in self.rows.items() if self._matches(row))
        self._order = sorted((place, key) for key, place in self._places.items())


class ListedTree(ListedRows[R]):
    """A tree: rows below their parents, each with one line for each of its parts. A row whose parent is absent, or is
    below it, is at the top. With a filter, the rows above a row that matches are listed, too."""

    def __init__(
        self,
        text: SearchText[R],
        sort_key: SortKey[R],
        parent: Callable[[R], str],
        parts: Callable[[R], int],
    ) -> None:
        super().__init__(text, sort_key)
        self._parent: Final = parent
        self._parts: Final = parts
        self._shapes: Final[dict[str, Hashable]] = {}
        self._flat: list[tuple[str, int, int]] | None = None  # key, part and depth of each line
        self._indexes: Final[dict[tuple[str, int], int]] = {}

    def __len__(self) -> int:
        return len(self._flattened())

    def put(self, row: R) -> None:
        shape = self._sort_key(row), self._parent(row), self._parts(row), self._matches(row)
        self.rows[row.key] = row
        if self._shapes.get(row.key) != shape:
            self._shapes[row.key] = shape
            self._flat = None

    def remove(self, key: str) -> None:
        if self.rows.pop(key, None) is not None:
            del self._shapes[key]
            self._flat = None

    def entries(self, start: int, end: int) -> list[Entry[R]]:
        lines = self._flattened()[max(start, 0) : max(end, 0)]
        return [Entry(self.rows[key], part, depth) for key, part, depth in lines]

    def index_of(self, identity: tuple[str, int]) -> int | None:
        self._flattened()
        return self._indexes.get(identity)

    def _list_again(self) -> None:
        self._flat = None
        self._shapes.clear()
        for row in list(self.rows.values()):
            self.put(row)

    def _flattened(self) -> list[tuple[str, int, int]]:
        if self._flat is not None:
            return self._flat
        children: dict[str, list[R]] = {}
        for row in sorted(self.rows.values(), key=lambda each: (self._sort_key(each), each.key)):
            parent = self._parent(row)
            children.setdefault(parent if parent in self.rows and parent != row.key else "", []).append(row)
        if self._is_reversed:
            for each in children.values():
                each.reverse()
        shown = self._with_ancestors() if self._words else None
        flat: list[tuple[str, int, int]] = []
        seen: set[str] = set()
        # The rows of a cycle are below no root: the first of them is taken for one.
        for root in (*children.get("", ()), *self.rows.values()):
            stack = [(root, 0)]
            while stack:
                row, depth = stack.pop()
                if row.key in seen:
                    continue
                seen.add(row.key)
                if shown is None or row.key in shown:
                    flat += [(row.key, part, depth) for part in range(max(self._parts(row), 1))]
                stack += [(child, depth + 1) for child in reversed(children.get(row.key, []))]
        self._flat = flat
        self._indexes.clear()
        self._indexes.update(((key, part), index) for index, (key, part, _) in enumerate(flat))
        return flat

    def _with_ancestors(self) -> set[str]:
        found: set[str] = set()
        for row in self.rows.values():
            if not self._matches(row):
                continue
            key = row.key
            while key in self.rows and key not in found:
                found.add(key)
                key = self._parent(self.rows[key])
        return found
