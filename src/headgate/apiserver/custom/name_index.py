"""The accepted names of all CustomResourceDefinitions (CRDs), by API group.

A CRD may have megabytes and a group may have many CRDs, so each of them is decoded once per write of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from headgate.apiserver.custom import definition_names
from headgate.apiserver.custom.definition import is_true
from headgate.store import Item


class CRDNames(msgspec.Struct, frozen=True):
    """The names of the CRD ``item``.

    ``names``: its accepted names. ``status_may_change``: it waits for a name that is taken, or it is being deleted.
    """

    item: Item
    names: dict[str, Any]
    status_may_change: bool


class CRDNameIndex:
    def __init__(self) -> None:
        self._by_crd: dict[str, CRDNames] = {}

    def of_group(self, items: Iterable[Item], group: str) -> list[CRDNames]:
        """The names of the CRDs of one group. ``items`` must be all CRDs of the store."""
        before = self._by_crd
        self._by_crd = {item.name: _read(item, before.get(item.name)) for item in items}
        return [crd for name, crd in self._by_crd.items() if name.partition(".")[2] == group]


def _read(item: Item, before: CRDNames | None) -> CRDNames:
    """The names of the CRD ``item``; ``before``, if it was read from the same item."""
    if before is not None and before.item is item:
        return before
    crd: dict[str, Any] = msgspec.json.decode(item.data)
    is_established = definition_names.all_names_accepted(crd) and is_true(crd, "Established")
    names = crd["status"].get("acceptedNames") or {}
    return CRDNames(item, names, "deletionTimestamp" in crd["metadata"] or not is_established)
