"""A structural schema as the merge schema of ``apimachinery/apply/``: the parts of a custom object that can be owned.

Values without a schema, and values below a place that preserves unknown fields, are treated by their own form. Schemas
made here require that every object is checked before its owners are computed (``unnameable``), because nothing has been
decoded by type: ``spec`` may be a number until validation refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.apimachinery.apply import ParseableType
from headgate.apimachinery.apply.merge_schema import (
    ANY,
    MergeSchema,
    MergeSchemaField,
    MergeSchemaKind,
    merge_schema_of,
)
from headgate.apimachinery.structural.embedded_resources import META_TYPE
from headgate.kube.schema import GroupVersionKind, Schemas

_TEXT: Final = MergeSchema(MergeSchemaKind.LEAF, scalar="string", plain_equality=False)
_SCALARS: Final = {
    "string": _TEXT,
    "integer": (_NUMBER := MergeSchema(MergeSchemaKind.LEAF, scalar="numeric", plain_equality=False)),
    "number": _NUMBER,
    "boolean": MergeSchema(MergeSchemaKind.LEAF, scalar="boolean", plain_equality=False),
}
_UNTYPED: Final = MergeSchema(MergeSchemaKind.LEAF, scalar="untyped", plain_equality=False)
# How a schema that says no format, or this one, is read; with any other format the type is not looked at.
_PLAIN_FORMATS: Final = frozenset({"", "byte"})


def parseable_type_of_schema(schemas: Schemas, gvk: GroupVersionKind, schema: Mapping[str, Any]) -> ParseableType:
    """The root of a kind: its schema with type and metadata laid over."""
    shape = _shape(schemas, schema, bool(schema.get("x-kubernetes-preserve-unknown-fields")))
    _add_type(schemas, shape)
    shape.may_lack_keys = True
    return ParseableType(shape, gvk, {})


def _add_type(schemas: Schemas, schema: MergeSchema) -> None:
    schema.fields["apiVersion"] = MergeSchemaField("f:apiVersion", _TEXT)
    schema.fields["kind"] = MergeSchemaField("f:kind", _TEXT)
    schema.fields["metadata"] = MergeSchemaField("f:metadata", merge_schema_of(schemas, META_TYPE))


def _shape(schemas: Schemas, schema: Mapping[str, Any], open_: bool) -> MergeSchema:
    """``open_``: some place above, or this one, preserves unknown fields."""
    open_ = open_ or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    match schema.get("type") or "":
        case "object":
            return _object(schemas, schema, open_)
        case "array":
            return _list(schemas, schema, open_)
        case "string" if (schema.get("format") or "") not in _PLAIN_FORMATS:
            return _UNTYPED
        case "string" | "integer" | "number" | "boolean" as name:
            return _SCALARS[name]
        case _:
            return ANY


def _object(schemas: Schemas, schema: Mapping[str, Any], open_: bool) -> MergeSchema:
    properties = schema.get("properties") or {}
    shape = MergeSchema(
        MergeSchemaKind.STRUCT, atomic=schema.get("x-kubernetes-map-type") == "atomic", plain_equality=False
    )
    for name, below in properties.items():
        shape.fields[name] = MergeSchemaField(f"f:{name}", _shape(schemas, below, open_))
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        shape.item = _shape(schemas, additional, open_)
    elif additional is True or (additional is None and (open_ or not properties)):
        shape.item = ANY
    if schema.get("x-kubernetes-embedded-resource"):
        _add_type(schemas, shape)
    return shape


def _list(schemas: Schemas, schema: Mapping[str, Any], open_: bool) -> MergeSchema:
    list_type, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    item = _shape(schemas, items, open_) if isinstance(items, dict) else ANY
    shape = MergeSchema(MergeSchemaKind.LIST, atomic=list_type not in ("set", "map"), item=item, plain_equality=False)
    if list_type == "set":
        shape.keys = ()
    elif list_type == "map":
        shape.keys = tuple(sorted(schema.get("x-kubernetes-list-map-keys") or ()))
        fields = (items.get("properties") or {}) if isinstance(items, dict) else {}
        shape.defaults = {
            key: fields[key]["default"] for key in shape.keys if (fields.get(key) or {}).get("default") is not None
        }
    return shape
