"""The book of ``admission/`` as the embedded server's writers see the cluster: it follows the store, staged writes too.

Each question reads again what changed since the last one, and what was staged then and may have been lost since: its
cost follows change, not the number of queues. Kinds of which only a single object is ever asked for are not followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headgate.admission.book import WATCHED, Book
from headgate.admission.policy import Object
from headgate.apiserver import records
from headgate.capacity.rules import Known
from headgate.kube.resource import Resource
from headgate.store import Revision, Store
from headgate.store.item import Compacted


def stored_as(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


_BY_STORED: Final = {stored_as(resource): resource for resource in WATCHED}


class Opened:
    """A ``View`` (``admission/policy.py``): the book, and what is not in it from the store."""

    def __init__(self, book: Book, store: Store) -> None:
        self._book: Final = book
        self._store: Final = store

    def get(self, resource: Resource, namespace: str, name: str, uid: str = "") -> Object | None:
        if resource in WATCHED:
            return self._book.get(resource, namespace, name)
        item = self._store.peek(stored_as(resource), namespace if resource.namespaced else "", name)
        return None if item is None else records.decode(item.data)

    @property
    def queues(self) -> Known:
        return self._book.queues

    def tenants(self, queue: str) -> int:
        return self._book.tenants(queue)


class StoreBook:
    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._book = Book()
        self._seen: Revision | None = None
        self._staged: set[tuple[str, str, str]] = set()

    def now(self) -> Opened:
        """As the next writer finds it."""
        committed = self._store.committed
        changed = self._staged if self._seen == committed else self._staged | set(self._changes())
        if self._seen is None:
            changed = set(self._everything())
        self._staged = {
            (stored, change.item.namespace, change.item.name)
            for stored in _BY_STORED
            for change in self._store.staged(stored)
        }
        self._seen = committed
        for stored, namespace, name in sorted(changed | self._staged):
            self._read(_BY_STORED[stored], stored, namespace, name)
        return Opened(self._book, self._store)

    def _changes(self) -> Iterator[tuple[str, str, str]]:
        for stored in _BY_STORED:
            found = None if self._seen is None else self._store.changes(stored, self._seen)
            if found is None or isinstance(found, Compacted):
                self._book, self._seen = Book(), None
                return
            yield from ((stored, change.item.namespace, change.item.name) for change in found)

    def _everything(self) -> Iterator[tuple[str, str, str]]:
        for stored in _BY_STORED:
            yield from ((stored, item.namespace, item.name) for item in self._store.peek_all(stored, None))

    def _read(self, resource: Resource, stored: str, namespace: str, name: str) -> None:
        item = self._store.peek(stored, namespace, name)
        if item is None:
            self._book.removed(resource, namespace, name)
        else:
            self._book.applied(resource, records.decode(item.data))
