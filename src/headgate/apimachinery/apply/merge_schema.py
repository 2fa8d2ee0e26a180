"""What the schema tables mean for ownership: which values are atomic, and which have parts of their own.

A :class:`MergeSchema` is compiled once per type. ``LEAF`` values are owned whole; ``STRUCT``, ``MAP`` and ``LIST`` are
owned part by part unless ``atomic``; ``ANY`` is a value without a schema, whose own form decides (a map has parts, a
list has none). The tables are ``kube/schema.py``; ``owned_fields.py``, ``compare.py``, ``merge.py``, ``remove.py`` and
``validate.py`` walk over values and schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from headgate.apimachinery.apply.path_elements import json_text, key_element, value_element
from headgate.apimachinery.codec.encoder import emit
from headgate.kube.schema import Field, GroupVersionKind, Schemas, Type


class MergeSchemaKind(IntEnum):
    LEAF = 0
    STRUCT = 1
    MAP = 2
    LIST = 3
    ANY = 4


class MergeSchemaField(NamedTuple):
    """One field of a struct: its path element and its schema."""

    element: str
    shape: MergeSchema


class MergeSchema:
    """Not frozen only because types may refer to themselves; nothing changes a schema once it is compiled."""

    __slots__ = ("atomic", "defaults", "exact", "item", "keys", "kind", "parts", "scalar", "unnameable", "whole")

    def __init__(
        self,
        kind: MergeSchemaKind,
        *,
        atomic: bool = False,
        scalar: str = "",
        item: MergeSchema | None = None,
        exact: bool = True,
    ) -> None:
        self.kind = kind
        self.atomic = atomic
        self.scalar = scalar  # "string", "numeric", "boolean" or "untyped"
        self.item = item  # of a map or list; of a struct, what fields without a part are: None if there are none
        self.parts: dict[str, MergeSchemaField] = {}  # of a struct
        self.keys: tuple[str, ...] | None = None  # of a list: None: no identity, (): a set, else the key fields, sorted
        self.defaults: Mapping[str, Any] = {}  # of absent key fields
        self.exact = exact  # Python's == tells values of this shape apart as JSON does (it holds True == 1)
        self.whole = kind is MergeSchemaKind.LEAF or atomic  # owned whole: a leaf of the field tree
        self.unnameable = False  # somewhere inside, a list may hold an item that its keys cannot name


_SCALARS: Final = {
    "string": MergeSchema(MergeSchemaKind.LEAF, scalar="string"),
    "bytes": MergeSchema(MergeSchemaKind.LEAF, scalar="string"),
    "duration": MergeSchema(MergeSchemaKind.LEAF, scalar="string"),
    "int32": MergeSchema(MergeSchemaKind.LEAF, scalar="numeric"),
    "int64": MergeSchema(MergeSchemaKind.LEAF, scalar="numeric"),
    "float": MergeSchema(MergeSchemaKind.LEAF, scalar="numeric"),
    "bool": MergeSchema(MergeSchemaKind.LEAF, scalar="boolean"),
    "quantity": MergeSchema(MergeSchemaKind.LEAF, scalar="untyped"),
    "time": MergeSchema(MergeSchemaKind.LEAF, scalar="untyped"),
    "microtime": MergeSchema(MergeSchemaKind.LEAF, scalar="untyped"),
    # Served without a type, so that apply sees any value, though only numbers and strings come through decoding.
    "intorstring": MergeSchema(MergeSchemaKind.ANY),
}

ANY: Final = MergeSchema(MergeSchemaKind.ANY, exact=False)
_DOCUMENT: Final = MergeSchema(MergeSchemaKind.ANY, atomic=True, exact=False)
_FIELD_SET: Final = MergeSchema(MergeSchemaKind.ANY, atomic=True)  # fieldsV1: nothing in it but maps

_KUBERNETES: Final = "io.k8s."


@lru_cache(maxsize=16)
def _compiled(schemas: Schemas) -> dict[str, MergeSchema]:
    return {}


def merge_schema_of(schemas: Schemas, type_name: str) -> MergeSchema:
    known = _compiled(schemas)
    shape = known.get(type_name)
    return shape if shape is not None else _struct(schemas, type_name, known)


def _struct(schemas: Schemas, type_name: str, known: dict[str, MergeSchema]) -> MergeSchema:
    shape = known.get(type_name)
    if shape is not None:
        return shape
    definition = schemas.types[type_name]
    shape = known[type_name] = MergeSchema(MergeSchemaKind.STRUCT, atomic=definition.atomic)
    for field in definition.fields:
        shape.parts[field.name] = MergeSchemaField(f"f:{field.name}", _field(schemas, type_name, field, known))
    shape.exact = all(part.shape.exact for part in shape.parts.values())
    shape.unnameable = any(part.shape.unnameable for part in shape.parts.values())
    return shape


def _field(schemas: Schemas, owner: str, field: Field, known: dict[str, MergeSchema]) -> MergeSchema:
    kind = field.type.kind
    if kind == "raw" and field.type.go != "v1.JSON":
        # In Kubernetes' own types that is a RawExtension: one document, one owner.
        if field.name == "fieldsV1":
            return _FIELD_SET
        return _DOCUMENT if owner.startswith(_KUBERNETES) or field.map_atomic else ANY
    if kind == "struct":
        shape = _struct(schemas, field.type.ref, known)
        atomic = field.map_atomic or (shape.atomic and not field.map_granular)
        return shape if atomic == shape.atomic else _owned_otherwise(shape)
    shape = _type(schemas, field.type, known)
    if kind == "map":
        return _container(MergeSchemaKind.MAP, shape.item, atomic=field.map_atomic)
    if kind == "list" and field.list_type in ("set", "map"):
        shape = _container(MergeSchemaKind.LIST, shape.item, atomic=False)
        shape.keys = tuple(sorted(field.list_keys))
        shape.defaults = _key_defaults(schemas, field)
        shape.unnameable = shape.unnameable or _may_lack_keys(schemas, field, shape)
    return shape


def _type(schemas: Schemas, type_: Type, known: dict[str, MergeSchema]) -> MergeSchema:
    match type_.kind:
        case "struct":
            return _struct(schemas, type_.ref, known)
        case "list" | "map" if type_.items is not None:
            kind = MergeSchemaKind.LIST if type_.kind == "list" else MergeSchemaKind.MAP
            return _container(kind, _type(schemas, type_.items, known), atomic=kind is MergeSchemaKind.LIST)
        case "raw" | "either":
            return ANY
        case _:
            return _SCALARS[type_.kind]


def _container(kind: MergeSchemaKind, item: MergeSchema | None, *, atomic: bool) -> MergeSchema:
    shape = MergeSchema(kind, atomic=atomic, item=item, exact=item is None or item.exact)
    shape.unnameable = item is not None and item.unnameable
    return shape


def _owned_otherwise(shape: MergeSchema) -> MergeSchema:
    """The same struct where a field says that it is one piece, or that it is not although its type is."""
    out = MergeSchema(shape.kind, atomic=not shape.atomic, item=shape.item, exact=shape.exact)
    out.parts, out.unnameable = shape.parts, shape.unnameable
    return out


def _key_defaults(schemas: Schemas, field: Field) -> Mapping[str, Any]:
    item = field.type.items
    if item is None or item.kind != "struct":
        return {}
    fields = schemas.fields[item.ref]
    return {
        key: fields[key].default
        for key in field.list_keys
        if key in fields and fields[key].default is not msgspec.UNSET and fields[key].default is not None
    }


def _may_lack_keys(schemas: Schemas, field: Field, shape: MergeSchema) -> bool:
    """Whether a decoded item can come without all its keys. Sets of decoded scalars are never a problem."""
    item = field.type.items
    if not shape.keys or item is None:
        return False
    if item.kind != "struct":
        return True
    printed = zero(schemas, item.ref)
    return not any(key in shape.defaults or key in printed for key in shape.keys)


class InvalidListItem(msgspec.Struct, frozen=True):
    """A list item that its keys cannot name."""

    reason: str


def element_of(shape: MergeSchema, item: Any) -> str | InvalidListItem:
    """The path element of an item of a list that is a set or a map."""
    keys = shape.keys
    if not keys:
        return _set_element(item)
    if len(keys) == 1 and isinstance(item, dict) and keys[0] in item:
        return f'k:{{"{keys[0]}":{json_text(item[keys[0]])}}}'
    if item is None:
        return InvalidListItem("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        return InvalidListItem("associative list with keys may not have non-map elements")
    pairs = []
    for key in keys:
        if key in item:
            pairs.append((key, item[key]))
        elif key in shape.defaults:
            pairs.append((key, shape.defaults[key]))
    if not pairs:
        names = " ".join(f'"{key}"' for key in keys)
        return InvalidListItem(
            f"associative list with keys has an element that omits all key fields [{names}]"
            " (and doesn't have default values for any key fields)"
        )
    return key_element(pairs)


def _set_element(item: Any) -> str | InvalidListItem:
    match item:
        case dict():
            return InvalidListItem("associative list without keys has an element that's a map type")
        case list():
            return InvalidListItem("not supported: associative list with lists as elements")
        case None:
            return InvalidListItem("associative list without keys has an element that's an explicit null")
        case _:
            return value_element(item)


class ParseableType(NamedTuple):
    """What ownership must know of a kind in one version: its shape, its name, and what is printed of nothing."""

    shape: MergeSchema
    gvk: GroupVersionKind
    zero: Mapping[str, Any]


@lru_cache(maxsize=1024)
def parseable_type(schemas: Schemas, type_name: str) -> ParseableType:
    """A kind of the schema tables. Custom kinds make their own (``apimachinery/structural/merge_schema.py``)."""
    return ParseableType(
        merge_schema_of(schemas, type_name), _kinds_of_types(schemas)[type_name], zero(schemas, type_name)
    )


@lru_cache(maxsize=16)
def _kinds_of_types(schemas: Schemas) -> dict[str, GroupVersionKind]:
    return {name: gvk for gvk, name in schemas.kinds.items()}


@lru_cache(maxsize=1024)
def zero(schemas: Schemas, type_name: str) -> Mapping[str, Any]:
    """An object of the type before anything is set: what the server prints although it is empty."""
    return emit(schemas, type_name, {})
