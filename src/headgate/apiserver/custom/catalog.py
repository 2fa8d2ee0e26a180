"""The table of kinds as it is now: the built-in rows and those of the definitions in the store.

Readers and writers use the *committed* definitions. A lookup first applies the definitions that have changed since the
last one; without a change it costs one comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.apiserver.custom.definition import CustomDefinition, read_definition
from headgate.apiserver.kinds.scheme import ConvertObject
from headgate.apiserver.kinds.table import KindTable
from headgate.kube.schema import Schemas
from headgate.store import Compacted, Item, Revision, Store, StoreChange

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"


class Catalog:
    """``conversions``: by group, the conversions between versions that this server does itself."""

    def __init__(
        self, builtin: KindTable, schemas: Schemas, store: Store, conversions: Mapping[str, ConvertObject]
    ) -> None:
        self._conversions: Final = conversions
        self._schemas: Final = schemas
        self._store: Final = store
        self._table = builtin
        self._definitions: dict[str, CustomDefinition] = {}
        self._prepared: dict[
            str, tuple[Item, CustomDefinition | None, CustomDefinition | None]
        ] = {}  # staged, before, after
        self._seen = Revision(0)

    @property
    def table(self) -> KindTable:
        self.catch_up()
        return self._table

    def catch_up(self) -> None:
        """Applies the definitions that were committed since the last call."""
        newest = self._store.newest(DEFINITIONS)
        if newest != self._seen:
            self._apply_changes()
            self._seen = newest

    def prepare(self, item: Item) -> None:
        """Compiles a staged definition in the request that writes it, so that the first lookup after the commit is
        fast."""
        before = self._definitions.get(item.name)
        self._prepared[item.name] = item, before, self._read(item, before)

    def _read(self, item: Item, before: CustomDefinition | None) -> CustomDefinition | None:
        return read_definition(self._schemas, item, before, self._conversions)

    def _apply_changes(self) -> None:
        changes = self._store.changes(DEFINITIONS, self._seen)
        if isinstance(changes, Compacted):
            self._read_all()
            return
        last: dict[str, StoreChange] = {change.item.name: change for change in changes}
        for name, change in last.items():
            self._put(name, None if change.deleted else change.item)

    def _read_all(self) -> None:
        page = self._store.page(DEFINITIONS, None)
        items = {} if isinstance(page, Compacted) else {item.name: item for item in page.items}
        for name in self._definitions.keys() - items.keys():
            self._put(name, None)
        for name, item in items.items():
            self._put(name, item)

    def _put(self, name: str, item: Item | None) -> None:
        before = self._definitions.pop(name, None)
        staged, prepared_from, after = self._prepared.pop(name, (None, None, None))
        if item is None:
            after = None
        elif item is not staged or prepared_from is not before:
            after = self._read(item, before)
        if after is not None:
            self._definitions[name] = after
        self._table = self._table.with_replaced(before.kinds if before else (), after.kinds if after else ())
