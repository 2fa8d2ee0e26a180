"""The names of all definitions of the cluster: those that are accepted, and those that wait for a free name.

Definitions may have megabytes and a group may have many, so each is read once per write of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from headgate.apiserver.custom import definition_names
from headgate.apiserver.custom.definition import is_true
from headgate.store import Item


class DefinitionNamesEntry(msgspec.Struct, frozen=True):
    """``names``: the accepted ones. ``waiting``: its status may still change, because it waits for a name or is being
    deleted."""

    item: Item
    names: dict[str, Any]
    waiting: bool


class DefinitionNameIndex:
    def __init__(self) -> None:
        self._entries: dict[str, DefinitionNamesEntry] = {}

    def group(self, items: Iterable[Item], group: str) -> list[DefinitionNamesEntry]:
        """The definitions of a group; ``items`` are all present definitions."""
        before = self._entries
        self._entries = {item.name: _read(item, before.get(item.name)) for item in items}
        return [entry for name, entry in self._entries.items() if name.partition(".")[2] == group]


def _read(item: Item, before: DefinitionNamesEntry | None) -> DefinitionNamesEntry:
    if before is not None and before.item is item:
        return before
    definition: dict[str, Any] = msgspec.json.decode(item.data)
    is_established = definition_names.all_names_accepted(definition) and is_true(definition, "Established")
    names = definition["status"].get("acceptedNames") or {}
    return DefinitionNamesEntry(item, names, "deletionTimestamp" in definition["metadata"] or not is_established)
