"""The committed objects of one resource: the current state, the order of its keys, and the recent changes.

A page at an older revision is the current state with the newer changes undone. :class:`SortedKeys` keeps the keys in
sorted lists (*runs*) of at most twice ``RUN_LENGTH``, so that an insert into a hundred thousand keys moves only the
keys of one run. ``store/memory.py`` has one :class:`ResourceHistory` per resource.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Final

from headgate.store.item import Item, ItemPage, Revision, StoreChange, key_of

RUN_LENGTH: Final = 512


class SortedKeys:
    """Strings in order, each once."""

    __slots__ = ("_lasts", "_run_length", "_runs", "_size")

    def __init__(self, run_length: int = RUN_LENGTH) -> None:
        self._run_length = run_length
        self._runs: list[list[str]] = []
        self._lasts: list[str] = []  # the last key of each run, to find a run by bisection
        self._size = 0

    @classmethod
    def of(cls, keys: Iterable[str], run_length: int = RUN_LENGTH) -> SortedKeys:
        """From unique keys in any order."""
        result, ordered = cls(run_length), sorted(keys)
        result._runs = [ordered[start : start + run_length] for start in range(0, len(ordered), run_length)]
        result._lasts = [each[-1] for each in result._runs]
        result._size = len(ordered)
        return result

    def __len__(self) -> int:
        return self._size

    def add(self, key: str) -> None:
        """Adds a key that is not present."""
        self._size += 1
        if not self._runs:
            self._runs.append([key])
            self._lasts.append(key)
            return
        index = min(bisect_left(self._lasts, key), len(self._runs) - 1)
        run = self._runs[index]
        insort(run, key)
        self._lasts[index] = run[-1]
        if len(run) > 2 * self._run_length:
            self._runs[index : index + 1] = [run[: self._run_length], run[self._run_length :]]
            self._lasts[index : index + 1] = [run[self._run_length - 1], run[-1]]

    def remove(self, key: str) -> None:
        """Removes a key that is present."""
        index = bisect_left(self._lasts, key)
        run = self._runs[index]
        del run[bisect_left(run, key)]
        self._size -= 1
        if run:
            self._lasts[index] = run[-1]
        else:
            del self._runs[index]
            del self._lasts[index]

    def rank(self, key: str) -> int:
        """How many keys sort before ``key``."""
        index = bisect_left(self._lasts, key)
        before = sum(len(run) for run in self._runs[:index])
        return before + (bisect_left(self._runs[index], key) if index < len(self._runs) else 0)

    def between(self, after: str, before: str | None) -> Iterator[str]:
        """The keys greater than ``after`` and less than ``before`` (``None``: to the end).

        The set must not change while the iterator is in use.
        """
        index = bisect_right(self._lasts, after)
        start = bisect_right(self._runs[index], after) if index < len(self._runs) else 0
        for run in self._runs[index:]:
            end = len(run) if before is None or run[-1] < before else bisect_left(run, before)
            yield from run[start:end]
            if end < len(run):
                return
            start = 0


def _revision(change: StoreChange) -> Revision:
    return change.revision


def key_range(namespace: str | None) -> tuple[str, str | None]:
    """The keys of one namespace (``None``: of all) lie strictly between these two."""
    if namespace is None:
        return "", None
    return f"{namespace}/", f"{namespace}0"  # "0" is the character after "/"


class ResourceHistory:
    """The committed objects and the recent changes of one resource."""

    __slots__ = ("_compacted", "_history", "_keys", "items", "newest")

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.newest = Revision(0)
        self._keys = SortedKeys()
        self._history: list[StoreChange] = []
        # So many changes at the front of _history are compacted. They are deleted when they are more than half of it.
        self._compacted = 0

    def publish(self, change: StoreChange) -> None:
        """Applies one change and appends it to the history."""
        item = change.item
        key = key_of(item.namespace, item.name)
        self.newest = item.revision
        if change.deleted:
            if self.items.pop(key, None) is not None:
                self._keys.remove(key)
        else:
            if key not in self.items:
                self._keys.add(key)
            self.items[key] = item
        self._history.append(change)

    def restore(self, item: Item, *, deleted: bool, in_history: bool) -> StoreChange:
        """Loads one recorded write. After the last one, ``sort_keys`` must be called."""
        key = key_of(item.namespace, item.name)
        change = StoreChange(revision=item.revision, item=item, previous=self.items.get(key), deleted=deleted)
        self.newest = item.revision
        if deleted:
            self.items.pop(key, None)
        else:
            self.items[key] = item
        if in_history:
            self._history.append(change)
        return change

    def sort_keys(self) -> None:
        self._keys = SortedKeys.of(self.items)

    def drop_oldest_change(self) -> None:
        """Drops the oldest change of the history."""
        self._compacted += 1
        if self._compacted > len(self._history) // 2:
            del self._history[: self._compacted]
            self._compacted = 0

    def changes(self, since: Revision, limit: int = 0) -> Sequence[StoreChange]:
        """The changes with a revision above ``since``, oldest first; a limit of zero means all."""
        start = bisect_right(self._history, since, lo=self._compacted, key=_revision)
        return self._history[start : start + limit] if limit else self._history[start:]

    def sorted_items(self, namespace: str | None) -> Iterator[Item]:
        for key in self._keys.between(*key_range(namespace)):
            yield self.items[key]

    def page(self, namespace: str | None, at: Revision, after: tuple[str, str] | None, limit: int) -> ItemPage:
        """The objects at revision ``at`` that follow ``after`` (namespace, name); a limit of zero means all."""
        first, last = key_range(namespace)
        start = first if after is None else max(first, key_of(*after))
        previous = self._previous_states(at, start, last)
        found: list[Item] = []
        items = self._items_between(previous, start, last)
        found.extend(islice(items, limit) if limit > 0 else items)
        if not found or limit <= 0:
            return ItemPage(items=found, revision=at, more=False, remaining=0)
        end = key_of(found[-1].namespace, found[-1].name)
        remaining = self._count_between(previous, end, last)
        return ItemPage(items=found, revision=at, more=remaining > 0, remaining=remaining)

    def _previous_states(self, at: Revision, start: str, last: str | None) -> dict[str, Item | None]:
        """The state at revision ``at`` of every key between ``start`` and ``last`` that changed after it.

        ``None`` for a key that did not exist at that revision.
        """
        previous: dict[str, Item | None] = {}
        for change in self.changes(at):
            key = key_of(change.item.namespace, change.item.name)
            if key > start and (last is None or key < last):
                previous.setdefault(key, change.previous)
        return previous

    def _items_between(self, previous: dict[str, Item | None], start: str, last: str | None) -> Iterator[Item]:
        """The items of the keys between ``start`` and ``last``, with the states of ``previous`` in place of newer
        ones."""
        present = self._keys.between(start, last)
        if not previous:
            for key in present:
                yield self.items[key]
            return
        deleted = sorted(key for key in previous if key not in self.items)
        for key in merge(present, deleted):
            item = previous[key] if key in previous else self.items[key]
            if item is not None:
                yield item

    def _count_between(self, previous: dict[str, Item | None], start: str, last: str | None) -> int:
        """The number of items that ``_items_between`` returns, computed without reading them."""
        stop = len(self._keys) if last is None else self._keys.rank(last)
        count = stop - self._keys.rank(start) - (start in self.items)
        for key, item in previous.items():
            if key > start:
                count += (item is not None) - (key in self.items)
        return count
