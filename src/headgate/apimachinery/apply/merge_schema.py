"""The schema for field ownership: which values are atomic, and which are owned field by field.

A :class:`MergeSchema` is compiled once per type from the schema tables (``kube/schema.py``). A ``LEAF`` has one owner.
``STRUCT``, ``MAP`` and ``LIST`` are owned field by field or item by item, unless they are ``atomic``. ``ANY`` is a
value without a schema: a map is owned field by field, a list is atomic. ``owned_fields.py``, ``compare.py``,
``merge.py``, ``remove.py`` and ``validate.py`` use the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from headgate.apimachinery.apply.path_elements import json_text, key_element, value_element
from headgate.apimachinery.codec.encoder import wire_form
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
    schema: MergeSchema


class MergeSchema:
    """Not frozen because types may refer to themselves; a compiled schema does not change."""

    __slots__ = (
        "atomic",
        "defaults",
        "fields",
        "indivisible",
        "item",
        "keys",
        "kind",
        "needs_validation",
        "plain_equality",
        "scalar",
    )

    def __init__(
        self,
        kind: MergeSchemaKind,
        *,
        atomic: bool = False,
        scalar: str = "",
        item: MergeSchema | None = None,
        plain_equality: bool = True,
    ) -> None:
        self.kind = kind
        self.atomic = atomic
        self.scalar = scalar  # "string", "numeric", "boolean" or "untyped"
        self.item = item  # of a map or list; of a struct, the schema of undeclared fields: None if they are not allowed
        self.fields: dict[str, MergeSchemaField] = {}  # of a struct
        self.keys: tuple[str, ...] | None = (
            None  # of a list: None without keys, () for a set, else the key fields, sorted
        )
        self.defaults: Mapping[str, Any] = {}  # of absent key fields
        # Whether Python's == is JSON equality for all values of this schema. It is not where 1 and true may occur.
        self.plain_equality = plain_equality
        self.indivisible = kind is MergeSchemaKind.LEAF or atomic  # has one owner: a leaf of the field tree
        # Whether a decoded value may be invalid for this schema, because a list item has none of its keys. Then it is
        # validated before its owners are computed.
        self.needs_validation = False


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
    # Without a type, so that apply accepts any value, although decoding accepts only numbers and strings.
    "intorstring": MergeSchema(MergeSchemaKind.ANY),
}

ANY: Final = MergeSchema(MergeSchemaKind.ANY, plain_equality=False)
_ATOMIC_ANY: Final = MergeSchema(MergeSchemaKind.ANY, atomic=True, plain_equality=False)
_FIELD_SET: Final = MergeSchema(MergeSchemaKind.ANY, atomic=True)  # fieldsV1 consists of maps only

_KUBERNETES: Final = "io.k8s."


@lru_cache(maxsize=16)
def _compiled(schemas: Schemas) -> dict[str, MergeSchema]:
    return {}


def merge_schema_of(schemas: Schemas, type_name: str) -> MergeSchema:
    compiled = _compiled(schemas)
    schema = compiled.get(type_name)
    return schema if schema is not None else _struct(schemas, type_name, compiled)


def _struct(schemas: Schemas, type_name: str, compiled: dict[str, MergeSchema]) -> MergeSchema:
    schema = compiled.get(type_name)
    if schema is not None:
        return schema
    definition = schemas.types[type_name]
    schema = compiled[type_name] = MergeSchema(MergeSchemaKind.STRUCT, atomic=definition.atomic)
    for field in definition.fields:
        schema.fields[field.name] = MergeSchemaField(f"f:{field.name}", _field(schemas, type_name, field, compiled))
    schema.plain_equality = all(part.schema.plain_equality for part in schema.fields.values())
    schema.needs_validation = any(part.schema.needs_validation for part in schema.fields.values())
    return schema


def _field(schemas: Schemas, owner: str, field: Field, compiled: dict[str, MergeSchema]) -> MergeSchema:
    kind = field.type.kind
    if kind == "raw" and field.type.go != "v1.JSON":
        # In Kubernetes' types this is a RawExtension, which has one owner.
        if field.name == "fieldsV1":
            return _FIELD_SET
        return _ATOMIC_ANY if owner.startswith(_KUBERNETES) or field.map_atomic else ANY
    if kind == "struct":
        schema = _struct(schemas, field.type.ref, compiled)
        atomic = field.map_atomic or (schema.atomic and not field.map_granular)
        return schema if atomic == schema.atomic else _with_other_atomicity(schema)
    schema = _type(schemas, field.type, compiled)
    if kind == "map":
        return _container(MergeSchemaKind.MAP, schema.item, atomic=field.map_atomic)
    if kind == "list" and field.list_type in ("set", "map"):
        schema = _container(MergeSchemaKind.LIST, schema.item, atomic=False)
        schema.keys = tuple(sorted(field.list_keys))
        schema.defaults = _key_defaults(schemas, field)
        schema.needs_validation = schema.needs_validation or _items_may_lack_keys(schemas, field, schema)
    return schema


def _type(schemas: Schemas, type_: Type, compiled: dict[str, MergeSchema]) -> MergeSchema:
    match type_.kind:
        case "struct":
            return _struct(schemas, type_.ref, compiled)
        case "list" | "map" if type_.items is not None:
            kind = MergeSchemaKind.LIST if type_.kind == "list" else MergeSchemaKind.MAP
            return _container(kind, _type(schemas, type_.items, compiled), atomic=kind is MergeSchemaKind.LIST)
        case "raw" | "either":
            return ANY
        case _:
            return _SCALARS[type_.kind]


def _container(kind: MergeSchemaKind, item: MergeSchema | None, *, atomic: bool) -> MergeSchema:
    schema = MergeSchema(kind, atomic=atomic, item=item, plain_equality=item is None or item.plain_equality)
    schema.needs_validation = item is not None and item.needs_validation
    return schema


def _with_other_atomicity(schema: MergeSchema) -> MergeSchema:
    """The same struct for a field that makes it atomic, or not atomic, in contrast to its type."""
    out = MergeSchema(schema.kind, atomic=not schema.atomic, item=schema.item, plain_equality=schema.plain_equality)
    out.fields, out.needs_validation = schema.fields, schema.needs_validation
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


def _items_may_lack_keys(schemas: Schemas, field: Field, schema: MergeSchema) -> bool:
    """Whether a decoded item of a list can have none of the key fields. An item of a set is its own key."""
    item = field.type.items
    if not schema.keys or item is None:
        return False
    if item.kind != "struct":
        return True
    always_present = empty_wire_form(schemas, item.ref)
    return not any(key in schema.defaults or key in always_present for key in schema.keys)


class InvalidListItem(msgspec.Struct, frozen=True):
    """A list item without valid keys."""

    reason: str


def element_of(schema: MergeSchema, item: Any) -> str | InvalidListItem:
    """The path element of an item of a list with ``x-kubernetes-list-type`` ``set`` or ``map``."""
    keys = schema.keys
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
        elif key in schema.defaults:
            pairs.append((key, schema.defaults[key]))
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
    """A kind in one version: its schema, its name, and the wire form of an object without any field."""

    schema: MergeSchema
    gvk: GroupVersionKind
    empty: Mapping[str, Any]


@lru_cache(maxsize=1024)
def parseable_type(schemas: Schemas, type_name: str) -> ParseableType:
    """For a kind of the schema tables. ``apimachinery/structural/merge_schema.py`` is for custom resources."""
    return ParseableType(
        merge_schema_of(schemas, type_name), _kinds_of_types(schemas)[type_name], empty_wire_form(schemas, type_name)
    )


@lru_cache(maxsize=16)
def _kinds_of_types(schemas: Schemas) -> dict[str, GroupVersionKind]:
    return {name: gvk for gvk, name in schemas.kinds.items()}


@lru_cache(maxsize=1024)
def empty_wire_form(schemas: Schemas, type_name: str) -> Mapping[str, Any]:
    """The wire form of an object without any field: the fields that the server always sends."""
    return wire_form(schemas, type_name, {})
