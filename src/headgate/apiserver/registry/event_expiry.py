"""Which events have expired, by the time of their last write.

A queue in the order of writes, filled from the changes in the store: a tick looks only at what is due. The time of a
write is not stored; for an event that is older than this process, the latest time in the event counts. Pure;
``apiserver/io/event_expirer.py`` provides the time and deletes what is due.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from headgate.apiserver.registry import stored_objects
from headgate.apiserver.state import ServerState
from headgate.kube import timestamps
from headgate.store import Item, Revision
from headgate.store.item import Compacted

Object = dict[str, Any]

EVENTS: Final = "events"
_AT_ONCE: Final = 500  # so that a flood that ends does not hold up others


class _Written(msgspec.Struct, frozen=True, gc=False):
    at_s: float
    revision: Revision
    namespace: str
    name: str


class EventExpiryQueue:
    def __init__(self, api: ServerState, ttl_s: float) -> None:
        self._api: Final = api
        self._ttl_s: Final = ttl_s
        self._queue: deque[_Written] = deque()
        self._under_way: list[_Written] = []
        self._seen: Revision | None = None

    def tick(self, now_s: float) -> int:
        """Stage the deletion of what is due, the oldest first, and not more than a batch; says how many."""
        self._follow(now_s)
        self._under_way = []
        while len(self._under_way) < _AT_ONCE and self._queue and self._queue[0].at_s + self._ttl_s <= now_s:
            written = self._queue.popleft()
            item = self._api.store.peek(EVENTS, written.namespace, written.name)
            if item is not None and item.revision == written.revision:
                self._delete(item)
                self._under_way.append(written)
        return len(self._under_way)

    def put_back(self) -> None:
        """What the last tick staged is lost: those events are still due."""
        self._queue.extendleft(reversed(self._under_way))
        self._under_way = []

    def _delete(self, item: Item) -> None:
        """Ignores finalizers: an expired event is deleted in any case."""
        kind = self._api.kinds.by_resource("", "v1", EVENTS)
        if kind is not None:
            store, obj = self._api.store, stored_objects.decode(item.data)
            store.stage(stored_objects.make_item(self._api, kind, obj, store.next_revision()), delete=True)

    def _follow(self, now_s: float) -> None:
        store = self._api.store
        committed = store.committed
        changes = None if self._seen is None else store.changes(EVENTS, self._seen)
        if changes is None or isinstance(changes, Compacted):
            page = store.page(EVENTS, None)
            items = () if isinstance(page, Compacted) else page.items
            found = [_Written(_last_write_s(item), item.revision, item.namespace, item.name) for item in items]
            self._queue = deque(sorted(found, key=lambda each: (each.at_s, each.revision)))
        else:
            for change in changes:
                if not change.deleted:
                    item = change.item
                    self._queue.append(_Written(now_s, item.revision, item.namespace, item.name))
        self._seen = committed


def _last_write_s(item: Item) -> float:
    metadata = stored_objects.decode(item.data)["metadata"]
    times = [metadata.get("creationTimestamp"), *(each.get("time") for each in metadata.get("managedFields") or ())]
    parsed = (timestamps.parse_time(each) for each in times if each)
    return max((float(each) for each in parsed if not isinstance(each, str)), default=0.0)
