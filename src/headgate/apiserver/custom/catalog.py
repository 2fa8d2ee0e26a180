"""The kinds that are served now: the built-in kinds and those of the CustomResourceDefinitions (CRDs) in the store.

Readers and writers use the *committed* CRDs. A lookup first applies the CRDs that have changed since the last lookup;
without a change it costs one comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headgate.apiserver.custom.definition import CompiledCRD, compile_crd
from headgate.apiserver.kinds.scheme import ConvertObject
from headgate.apiserver.kinds.table import KindTable
from headgate.kube.schema import Schemas
from headgate.store import Compacted, Item, Revision, Store, StoreChange

CRD_RESOURCE: Final = "customresourcedefinitions.apiextensions.k8s.io"


class _CompiledAhead(msgspec.Struct, frozen=True):
    """A staged CRD that was compiled before its commit. The result is valid only for these two inputs."""

    item: Item
    before: CompiledCRD | None
    result: CompiledCRD | None


class Catalog:
    """``conversions``: by group, the conversions between versions that this server does itself."""

    def __init__(
        self, builtin: KindTable, schemas: Schemas, store: Store, conversions: Mapping[str, ConvertObject]
    ) -> None:
        self._conversions: Final = conversions
        self._schemas: Final = schemas
        self._store: Final = store
        self._table = builtin
        self._crds: dict[str, CompiledCRD] = {}
        self._compiled_ahead: dict[str, _CompiledAhead] = {}
        self._seen = Revision(0)

    @property
    def table(self) -> KindTable:
        self.catch_up()
        return self._table

    def catch_up(self) -> None:
        """Applies the CRDs that were committed since the last call."""
        newest = self._store.newest(CRD_RESOURCE)
        if newest != self._seen:
            self._apply_changes()
            self._seen = newest

    def compile_staged_crd(self, item: Item) -> None:
        """Compiles a staged CRD in the request that writes it, so that the first lookup after the commit is fast."""
        before = self._crds.get(item.name)
        self._compiled_ahead[item.name] = _CompiledAhead(item, before, self._compile(item, before))

    def _compile(self, item: Item, before: CompiledCRD | None) -> CompiledCRD | None:
        return compile_crd(self._schemas, item, before, self._conversions)

    def _apply_changes(self) -> None:
        changes = self._store.changes(CRD_RESOURCE, self._seen)
        if isinstance(changes, Compacted):
            self._read_all()
            return
        last: dict[str, StoreChange] = {change.item.name: change for change in changes}
        for name, change in last.items():
            self._put(name, None if change.deleted else change.item)

    def _read_all(self) -> None:
        page = self._store.page(CRD_RESOURCE, None)
        items = {} if isinstance(page, Compacted) else {item.name: item for item in page.items}
        for name in self._crds.keys() - items.keys():
            self._put(name, None)
        for name, item in items.items():
            self._put(name, item)

    def _put(self, name: str, item: Item | None) -> None:
        """Replaces the kinds of the CRD ``name``. ``item`` is the committed CRD, ``None`` if it was deleted."""
        before, ahead = self._crds.pop(name, None), self._compiled_ahead.pop(name, None)
        if item is None:
            after = None
        elif ahead is not None and ahead.item is item and ahead.before is before:
            after = ahead.result
        else:
            after = self._compile(item, before)
        if after is not None:
            self._crds[name] = after
        self._table = self._table.with_replaced(before.kinds if before else (), after.kinds if after else ())
