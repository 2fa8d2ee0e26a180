"""The explicit empty lists and maps of an object, and how storage drops them.

Where the server always prints a list, a client that writes ``[]`` owns it, so ``decoder.py`` keeps it. Storage cannot
tell it from an absent list: it is read back as ``null``. :func:`drop_empty_collections` does that step, after
``apimachinery/apply/`` has computed the managed fields and before the new object is compared with the old one.

Every type is compiled once to the fields below which there is such a list; everything else is not visited.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from headgate.kube.schema import Field, Schemas, Type

Object = dict[str, Any]
CollectionDropper = Callable[[Any], Any]


def drop_empty_collections(schemas: Schemas, type_name: str, obj: Object) -> Object:
    """``obj`` itself if there is nothing to forget; else a copy of what leads there. The input is not changed."""
    forgotten: Object = _compiled(schemas).struct(type_name)(obj)
    return forgotten


@lru_cache(maxsize=8)
def _compiled(schemas: Schemas) -> _Compiler:
    return _Compiler(schemas)


class _Compiler:
    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._leading = _types_that_lead_to_one(schemas)
        self._structs: dict[str, CollectionDropper] = {}

    def struct(self, name: str) -> CollectionDropper:
        if name not in self._structs:
            rules: list[tuple[str, bool, CollectionDropper | None]] = []
            self._structs[name] = _struct_forgetter(rules)
            rules.extend(
                (field.name, _always_printed(field), self._forgetter(field.type))
                for field in self._schemas.types[name].fields
                if _always_printed(field) or self._leads(field.type)
            )
        return self._structs[name]

    def _leads(self, type: Type) -> bool:
        return self._leads(type.items) if type.items is not None else type.ref in self._leading

    def _forgetter(self, type: Type) -> CollectionDropper | None:
        if not self._leads(type):
            return None
        if type.items is None:
            return self.struct(type.ref)
        items = self._forgetter(type.items)
        return None if items is None else _list_forgetter(items) if type.kind == "list" else _map_forgetter(items)


def _always_printed(field: Field) -> bool:
    return field.omit == "never" and not field.pointer and field.type.kind in ("list", "map")


def _types_that_lead_to_one(schemas: Schemas) -> frozenset[str]:
    """The types with such a list in them, at any depth."""
    leading = {name for name, row in schemas.types.items() if any(_always_printed(field) for field in row.fields)}
    size = -1
    while size != len(leading):
        size = len(leading)
        for name, row in schemas.types.items():
            if any(_innermost(field.type).ref in leading for field in row.fields):
                leading.add(name)
    return frozenset(leading)


def _innermost(type: Type) -> Type:
    return type if type.items is None else _innermost(type.items)


def _struct_forgetter(rules: list[tuple[str, bool, CollectionDropper | None]]) -> CollectionDropper:
    def forget(obj: Object) -> Object:
        out = obj
        for name, always, deeper in rules:
            item = obj.get(name)
            if item is None:
                continue
            left = None if always and not item else item if deeper is None else deeper(item)
            if left is not item:
                out = {**out, name: left}
        return out

    return forget


def _list_forgetter(items: CollectionDropper) -> CollectionDropper:
    def forget(value: list[Any]) -> list[Any]:
        left = [items(item) for item in value]
        return left if any(one is not other for one, other in zip(left, value, strict=True)) else value

    return forget


def _map_forgetter(items: CollectionDropper) -> CollectionDropper:
    def forget(value: Object) -> Object:
        left = {key: None if item is None else items(item) for key, item in value.items()}
        return left if any(left[key] is not item for key, item in value.items()) else value

    return forget
