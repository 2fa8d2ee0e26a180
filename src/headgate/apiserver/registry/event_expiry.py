"""Which events have expired, by the time of their last write.

The queue has one entry for each write of an event, in the order of the writes, so a tick reads only entries that are
due. The time of a write is not stored: for an event that is older than this process it is the latest time in the event.
This module does no I/O; ``apiserver/io/event_expirer.py`` provides the time and commits the deletions.
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
_BATCH: Final = 500  # a batch must not delay other requests


class _EventWrite(msgspec.Struct, frozen=True, gc=False):
    at_s: float
    revision: Revision
    namespace: str
    name: str


class EventExpiryQueue:
    def __init__(self, api: ServerState, ttl_s: float) -> None:
        self._api: Final = api
        self._ttl_s: Final = ttl_s
        self._queue: deque[_EventWrite] = deque()
        self._staged: list[_EventWrite] = []  # whose deletion the last tick has staged
        self._seen: Revision | None = None  # the queue has all writes up to this revision

    def tick(self, now_s: float) -> int:
        """Stages the deletion of due events, the oldest first, at most a batch. Returns their number."""
        self._update(now_s)
        self._staged = []
        while len(self._staged) < _BATCH and self._queue and self._queue[0].at_s + self._ttl_s <= now_s:
            write = self._queue.popleft()
            item = self._api.store.read_applied(EVENTS, write.namespace, write.name)
            if item is not None and item.revision == write.revision:  # otherwise a later write has its own entry
                self._delete(item)
                self._staged.append(write)
        return len(self._staged)

    def put_back(self) -> None:
        """The commit of the last tick failed: its events are due again."""
        self._queue.extendleft(reversed(self._staged))
        self._staged = []

    def _delete(self, item: Item) -> None:
        """Ignores finalizers: an expired event is deleted in any case."""
        kind = self._api.kinds.by_resource("", "v1", EVENTS)
        if kind is not None:
            store, obj = self._api.store, stored_objects.decode(item.data)
            store.stage(stored_objects.make_item(self._api, kind, obj, store.next_revision()), delete=True)

    def _update(self, now_s: float) -> None:
        """Adds the writes that were committed since the last tick."""
        store = self._api.store
        committed = store.committed
        changes = None if self._seen is None else store.changes(EVENTS, self._seen)
        if changes is None or isinstance(changes, Compacted):
            page = store.page(EVENTS, None)
            items = () if isinstance(page, Compacted) else page.items
            found = [_EventWrite(_last_write_s(item), item.revision, item.namespace, item.name) for item in items]
            self._queue = deque(sorted(found, key=lambda each: (each.at_s, each.revision)))
        else:
            for change in changes:
                if not change.deleted:
                    item = change.item
                    self._queue.append(_EventWrite(now_s, item.revision, item.namespace, item.name))
        self._seen = committed


def _last_write_s(item: Item) -> float:
    """The latest time in the metadata of the event; 0 without one."""
    metadata = stored_objects.decode(item.data)["metadata"]
    times = [metadata.get("creationTimestamp"), *(each.get("time") for each in metadata.get("managedFields") or ())]
    parsed = (timestamps.parse_time(each) for each in times if each)
    return max((float(each) for each in parsed if not isinstance(each, str)), default=0.0)
