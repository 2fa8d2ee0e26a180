"""What the stored objects of a kind allocate from a finite pool (addresses, node ports), as an index that follows
changes.

A create must know what is allocated without reading every service. The index follows the committed state: it reads from
the store what changed since the last lookup. Staged writes that are not yet committed are added for each lookup, so a
write that is lost leaves no trace. A strategy's ``holds`` returns what an object allocates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

import msgspec

from headgate.store import Item, Revision, Store
from headgate.store.item import Compacted

Object = dict[str, Any]
Holds = Callable[[Object], Iterable[Hashable]]

_decoder: Final = msgspec.json.Decoder()


class AllocatedValues:
    """What is held in the applied head, at the moment of asking."""

    __slots__ = ("_committed", "_staged")

    def __init__(self, committed: Counter[Hashable], staged: Counter[Hashable]) -> None:
        self._committed: Final = committed
        self._staged: Final = staged

    def __contains__(self, thing: object) -> bool:
        return isinstance(thing, Hashable) and self._committed[thing] + self._staged[thing] > 0


class Allocations:
    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._indexes: Final[dict[str, _Index]] = {}

    def taken(self, resource: str, holds: Holds) -> AllocatedValues:
        index = self._indexes.get(resource)
        if index is None:
            index = self._indexes[resource] = _Index(self._store, resource, holds)
        return index.taken()


class _Index:
    def __init__(self, store: Store, resource: str, holds: Holds) -> None:
        self._store: Final = store
        self._resource: Final = resource
        self._holds: Final = holds
        self._seen: Revision | None = None
        self._counts: Counter[Hashable] = Counter()
        self._staged: dict[Revision, tuple[Hashable, ...]] = {}  # so that a staged object is read once

    def taken(self) -> AllocatedValues:
        self._follow()
        over: Counter[Hashable] = Counter()
        staged = self._store.staged(self._resource)
        read: dict[Revision, tuple[Hashable, ...]] = {}
        for change in staged:
            item = change.item
            covered = self._store.read(item.resource, item.namespace, item.name)
            if covered is not None:
                over.subtract(self._of(covered))
            if not change.deleted:
                read[item.revision] = self._staged.get(item.revision) or self._of(item)
                over.update(read[item.revision])
        self._staged = read
        return AllocatedValues(self._counts, over)

    def _of(self, item: Item) -> tuple[Hashable, ...]:
        return tuple(self._holds(_decoder.decode(item.data)))

    def _follow(self) -> None:
        committed = self._store.committed
        if self._seen == committed:
            return
        changes = None if self._seen is None else self._store.changes(self._resource, self._seen)
        if changes is None or isinstance(changes, Compacted):
            page = self._store.page(self._resource, None)
            items = () if isinstance(page, Compacted) else page.items
            self._counts = Counter(thing for item in items for thing in self._of(item))
        else:
            for change in changes:
                if change.previous is not None:
                    self._release(change.previous)
                if not change.deleted:
                    self._counts.update(self._of(change.item))
        self._seen = committed

    def _release(self, item: Item) -> None:
        for thing in self._of(item):
            self._counts[thing] -= 1
            if self._counts[thing] <= 0:
                del self._counts[thing]
