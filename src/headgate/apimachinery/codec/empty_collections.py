"""Replaces empty lists and maps that the server always sends by ``null``, as the storage of kube-apiserver does.

If the server always sends a list, a client that writes ``[]`` owns the field, so ``decoder.py`` keeps the empty list.
Storage does not distinguish it from an absent list: it is read back as ``null``. :func:`drop_empty_collections` does
that step, after ``apimachinery/apply/`` has computed the managed fields and before the new object is compared with the
old one.

Every type is compiled once to the fields that contain such a list or map; other fields are not visited.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from headgate.kube.schema import Field, Schemas, Type

Object = dict[str, Any]
CollectionDropper = Callable[[Any], Any]


def drop_empty_collections(schemas: Schemas, type_name: str, obj: Object) -> Object:
    """Returns ``obj`` itself if nothing is dropped, otherwise a copy. The input is not changed."""
    dropped: Object = _compiled(schemas).struct(type_name)(obj)
    return dropped


@lru_cache(maxsize=8)
def _compiled(schemas: Schemas) -> _Compiler:
    return _Compiler(schemas)


class _Compiler:
    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._containing_types = _containing_types(schemas)
        self._structs: dict[str, CollectionDropper] = {}

    def struct(self, name: str) -> CollectionDropper:
        if name not in self._structs:
            rules: list[tuple[str, bool, CollectionDropper | None]] = []
            self._structs[name] = _struct_dropper(rules)
            rules.extend(
                (field.name, _is_always_sent(field), self._dropper(field.type))
                for field in self._schemas.types[name].fields
                if _is_always_sent(field) or self._may_contain(field.type)
            )
        return self._structs[name]

    def _may_contain(self, type: Type) -> bool:
        return self._may_contain(type.items) if type.items is not None else type.ref in self._containing_types

    def _dropper(self, type: Type) -> CollectionDropper | None:
        if not self._may_contain(type):
            return None
        if type.items is None:
            return self.struct(type.ref)
        items = self._dropper(type.items)
        return None if items is None else _list_dropper(items) if type.kind == "list" else _map_dropper(items)


def _is_always_sent(field: Field) -> bool:
    return field.omit == "never" and not field.pointer and field.type.kind in ("list", "map")


def _containing_types(schemas: Schemas) -> frozenset[str]:
    """The types that contain a list or map that is always sent, at any depth."""
    containing = {name for name, row in schemas.types.items() if any(_is_always_sent(field) for field in row.fields)}
    size = -1
    while size != len(containing):
        size = len(containing)
        for name, row in schemas.types.items():
            if any(_innermost(field.type).ref in containing for field in row.fields):
                containing.add(name)
    return frozenset(containing)


def _innermost(type: Type) -> Type:
    return type if type.items is None else _innermost(type.items)


def _struct_dropper(rules: list[tuple[str, bool, CollectionDropper | None]]) -> CollectionDropper:
    def drop(obj: Object) -> Object:
        out = obj
        for name, always, dropper in rules:
            item = obj.get(name)
            if item is None:
                continue
            result = None if always and not item else item if dropper is None else dropper(item)
            if result is not item:
                out = {**out, name: result}
        return out

    return drop


def _list_dropper(items: CollectionDropper) -> CollectionDropper:
    def drop(value: list[Any]) -> list[Any]:
        result = [items(item) for item in value]
        return result if any(one is not other for one, other in zip(result, value, strict=True)) else value

    return drop


def _map_dropper(items: CollectionDropper) -> CollectionDropper:
    def drop(value: Object) -> Object:
        result = {key: None if item is None else items(item) for key, item in value.items()}
        return result if any(result[key] is not item for key, item in value.items()) else value

    return drop
