"""The index of allocated values: cluster IPs and node ports that the stored objects of a kind use.

With the index, a create does not have to read every Service. The index has the values of the committed objects: each
lookup first reads the changes since the last lookup. The values of staged writes are added for each lookup only, so a
write that is rolled back leaves nothing behind. ``values_of`` returns the values that one object uses; the strategy of
the kind provides it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

import msgspec

from headgate.store import Item, Revision, Store
from headgate.store.item import Compacted

Object = dict[str, Any]
ValuesOf = Callable[[Object], Iterable[Hashable]]

_decoder: Final = msgspec.json.Decoder()


class AllocatedValues:
    """The values that objects use, including those of staged writes."""

    __slots__ = ("_committed", "_staged")

    def __init__(self, committed: Counter[Hashable], staged: Counter[Hashable]) -> None:
        self._committed: Final = committed
        self._staged: Final = staged

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Hashable) and self._committed[value] + self._staged[value] > 0


class Allocations:
    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._indexes: Final[dict[str, _Index]] = {}

    def allocated(self, resource: str, values_of: ValuesOf) -> AllocatedValues:
        index = self._indexes.get(resource)
        if index is None:
            index = self._indexes[resource] = _Index(self._store, resource, values_of)
        return index.allocated()


class _Index:
    def __init__(self, store: Store, resource: str, values_of: ValuesOf) -> None:
        self._store: Final = store
        self._resource: Final = resource
        self._values_of_object: Final = values_of
        self._seen: Revision | None = None
        self._counts: Counter[Hashable] = Counter()
        self._staged: dict[Revision, tuple[Hashable, ...]] = {}  # a staged object is decoded once

    def allocated(self) -> AllocatedValues:
        self._catch_up()
        staged_counts: Counter[Hashable] = Counter()
        staged = self._store.staged(self._resource)
        decoded: dict[Revision, tuple[Hashable, ...]] = {}
        for change in staged:
            item = change.item
            committed = self._store.read(item.resource, item.namespace, item.name)
            if committed is not None:
                staged_counts.subtract(self._values_of(committed))
            if not change.deleted:
                decoded[item.revision] = self._staged.get(item.revision) or self._values_of(item)
                staged_counts.update(decoded[item.revision])
        self._staged = decoded
        return AllocatedValues(self._counts, staged_counts)

    def _values_of(self, item: Item) -> tuple[Hashable, ...]:
        return tuple(self._values_of_object(_decoder.decode(item.data)))

    def _catch_up(self) -> None:
        committed = self._store.committed
        if self._seen == committed:
            return
        changes = None if self._seen is None else self._store.changes(self._resource, self._seen)
        if changes is None or isinstance(changes, Compacted):
            page = self._store.page(self._resource, None)
            items = () if isinstance(page, Compacted) else page.items
            self._counts = Counter(value for item in items for value in self._values_of(item))
        else:
            for change in changes:
                if change.previous is not None:
                    self._release(change.previous)
                if not change.deleted:
                    self._counts.update(self._values_of(change.item))
        self._seen = committed

    def _release(self, item: Item) -> None:
        for value in self._values_of(item):
            self._counts[value] -= 1
            if self._counts[value] <= 0:
                del self._counts[value]
