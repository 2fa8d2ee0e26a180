"""Correlates old and new values, so that an update may keep an invalid value unchanged (*ratcheting*, KEP-4008).

Values are correlated by the names of fields, and by the keys of lists of type map. Items of other lists have no old
value.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.apply.compare import json_equal
from headgate.apimachinery.structural.schema import StructuralSchema


class CorrelatedObject:
    """A value of the old object, the corresponding new value, and the schema of both."""

    __slots__ = ("_new", "_node", "_old", "_old_by_key", "_unchanged")

    def __init__(self, old: Any, new: Any, node: StructuralSchema) -> None:
        self._old: Final = old
        self._new: Final = new
        self._node: Final = node
        self._unchanged: bool | None = None
        self._old_by_key: dict[str, Any] | None = None

    def field(self, name: str) -> CorrelatedObject | None:
        part = self._node.field(name)
        if part is None or not isinstance(self._old, dict) or not isinstance(self._new, dict):
            return None
        if name not in self._old or name not in self._new:
            return None
        return CorrelatedObject(self._old[name], self._new[name], part)

    def item(self, index: int) -> CorrelatedObject | None:
        node, new = self._node, self._new
        if node.list_type != "map" or node.items is None or not isinstance(self._old, list):
            return None
        if self._old_by_key is None:
            self._old_by_key = {key: each for each in reversed(self._old) if (key := self._key(each))}
        before = self._old_by_key.get(self._key(new[index])) if isinstance(new, list) else None
        return None if before is None else CorrelatedObject(before, new[index], node.items)

    def _key(self, item: Any) -> str:
        if not isinstance(item, dict):
            return ""
        return repr([(name, repr(item.get(name))) for name in self._node.list_keys])

    def unchanged(self) -> bool:
        if self._unchanged is None:
            self._unchanged = self._compare()
        return self._unchanged

    def _compare(self) -> bool:
        old, new = self._old, self._new
        if isinstance(new, dict) and isinstance(old, dict):
            if new.keys() != old.keys():
                return False
            parts = (self.field(name) for name in new)
            return all(part is not None and part.unchanged() for part in parts)
        if isinstance(new, list) and isinstance(old, list) and self._node.list_type == "map":
            items = (self.item(index) for index in range(len(new)))
            return len(old) == len(new) and all(item is not None and item.unchanged() for item in items)
        return json_equal(old, new)
