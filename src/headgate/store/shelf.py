"""The committed objects of one resource: the present state, its order, and the recent past.

A page at an older revision is the present with the newer changes undone, and only the keys that those changes touched
are looked at. Knows nothing of staging, commits or other resources; ``store/memory.py`` owns one shelf per resource.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice

from headgate.store.item import Change, Item, Page, Revision, key_of
from headgate.store.keys import SortedKeys


def _revision(change: Change) -> Revision:
    return change.revision


def key_range(namespace: str | None) -> tuple[str, str | None]:
    """The keys of one namespace (``None``: of all) lie strictly between these two."""
    if namespace is None:
        return "", None
    return f"{namespace}/", f"{namespace}0"  # "0" is the character after "/"


class Shelf:
    """One resource."""

    __slots__ = ("_dropped", "_history", "_keys", "items", "newest")

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.newest = Revision(0)
        self._keys = SortedKeys()
        self._history: list[Change] = []
        self._dropped = 0  # compacted entries still at the front of _history; cut off when they are the larger half

    def publish(self, change: Change) -> None:
        """Makes one change the present, and remembers it."""
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

    def restore(self, item: Item, *, deleted: bool, remembered: bool) -> Change:
        """Takes back one recorded write. The order of keys is made once, after the last one: ``settle``."""
        key = key_of(item.namespace, item.name)
        change = Change(revision=item.revision, item=item, previous=self.items.get(key), deleted=deleted)
        self.newest = item.revision
        if deleted:
            self.items.pop(key, None)
        else:
            self.items[key] = item
        if remembered:
            self._history.append(change)
        return change

    def settle(self) -> None:
        self._keys = SortedKeys.of(self.items)

    def forget_oldest(self) -> None:
        """Drops the oldest remembered change."""
        self._dropped += 1
        if self._dropped > len(self._history) // 2:
            del self._history[: self._dropped]
            self._dropped = 0

    def changes(self, since: Revision, limit: int = 0) -> Sequence[Change]:
        start = bisect_right(self._history, since, lo=self._dropped, key=_revision)
        return self._history[start : start + limit] if limit else self._history[start:]

    def sorted_items(self, namespace: str | None) -> Iterator[Item]:
        for key in self._keys.between(*key_range(namespace)):
            yield self.items[key]

    def page(self, namespace: str | None, at: Revision, after: tuple[str, str] | None, limit: int) -> Page:
        first, last = key_range(namespace)
        start = first if after is None else max(first, key_of(*after))
        undone = self._undone(at, start, last)
        found: list[Item] = []
        wanted = self._walk(undone, start, last)
        found.extend(islice(wanted, limit) if limit > 0 else wanted)
        if not found or limit <= 0:
            return Page(items=found, revision=at, more=False, remaining=0)
        end = key_of(found[-1].namespace, found[-1].name)
        remaining = self._count(undone, end, last)
        return Page(items=found, revision=at, more=remaining > 0, remaining=remaining)

    def _undone(self, at: Revision, start: str, last: str | None) -> dict[str, Item | None]:
        """The state at ``at`` of every key that changed later."""
        undone: dict[str, Item | None] = {}
        for change in self.changes(at):
            key = key_of(change.item.namespace, change.item.name)
            if key > start and (last is None or key < last):
                undone.setdefault(key, change.previous)
        return undone

    def _walk(self, undone: dict[str, Item | None], start: str, last: str | None) -> Iterator[Item]:
        present = self._keys.between(start, last)
        if not undone:
            for key in present:
                yield self.items[key]
            return
        gone = sorted(key for key in undone if key not in self.items)
        for key in merge(present, gone):
            item = undone[key] if key in undone else self.items[key]
            if item is not None:
                yield item

    def _count(self, undone: dict[str, Item | None], end: str, last: str | None) -> int:
        """How many keys after ``end`` existed."""
        stop = len(self._keys) if last is None else self._keys.rank(last)
        count = stop - self._keys.rank(end) - (end in self.items)
        for key, item in undone.items():
            if key > end:
                count += (item is not None) - (key in self.items)
        return count
