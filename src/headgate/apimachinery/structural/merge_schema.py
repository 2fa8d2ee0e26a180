"""Converts a structural schema to the merge schema of ``apimachinery/apply/``, for field ownership of custom resources.

Values without a schema, and unknown fields that are preserved, are treated by their JSON type. Custom objects are not
decoded by type, so ``spec`` may be a number until validation rejects it. Every object must therefore be checked before
its owners are computed (``needs_validation``).
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
# With these formats the type of a string is used; with any other format it is ignored.
_PLAIN_FORMATS: Final = frozenset({"", "byte"})


def parseable_type_of_schema(schemas: Schemas, gvk: GroupVersionKind, schema: Mapping[str, Any]) -> ParseableType:
    """The root of a kind: its schema with type and metadata added."""
    merge_schema = _merge_schema(schemas, schema, bool(schema.get("x-kubernetes-preserve-unknown-fields")))
    _add_type(schemas, merge_schema)
    merge_schema.needs_validation = True
    return ParseableType(merge_schema, gvk, {})


def _add_type(schemas: Schemas, schema: MergeSchema) -> None:
    schema.fields["apiVersion"] = MergeSchemaField("f:apiVersion", _TEXT)
    schema.fields["kind"] = MergeSchemaField("f:kind", _TEXT)
    schema.fields["metadata"] = MergeSchemaField("f:metadata", merge_schema_of(schemas, META_TYPE))


def _merge_schema(schemas: Schemas, schema: Mapping[str, Any], preserves_unknown: bool) -> MergeSchema:
    """``preserves_unknown``: this schema or one above it preserves unknown fields."""
    preserves_unknown = preserves_unknown or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    match schema.get("type") or "":
        case "object":
            return _object(schemas, schema, preserves_unknown)
        case "array":
            return _list(schemas, schema, preserves_unknown)
        case "string" if (schema.get("format") or "") not in _PLAIN_FORMATS:
            return _UNTYPED
        case "string" | "integer" | "number" | "boolean" as name:
            return _SCALARS[name]
        case _:
            return ANY


def _object(schemas: Schemas, schema: Mapping[str, Any], preserves_unknown: bool) -> MergeSchema:
    properties = schema.get("properties") or {}
    merge_schema = MergeSchema(
        MergeSchemaKind.STRUCT, atomic=schema.get("x-kubernetes-map-type") == "atomic", plain_equality=False
    )
    for name, below in properties.items():
        merge_schema.fields[name] = MergeSchemaField(f"f:{name}", _merge_schema(schemas, below, preserves_unknown))
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        merge_schema.item = _merge_schema(schemas, additional, preserves_unknown)
    elif additional is True or (additional is None and (preserves_unknown or not properties)):
        merge_schema.item = ANY
    if schema.get("x-kubernetes-embedded-resource"):
        _add_type(schemas, merge_schema)
    return merge_schema


def _list(schemas: Schemas, schema: Mapping[str, Any], preserves_unknown: bool) -> MergeSchema:
    list_type, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    item = _merge_schema(schemas, items, preserves_unknown) if isinstance(items, dict) else ANY
    merge_schema = MergeSchema(
        MergeSchemaKind.LIST, atomic=list_type not in ("set", "map"), item=item, plain_equality=False
    )
    if list_type == "set":
        merge_schema.keys = ()
    elif list_type == "map":
        merge_schema.keys = tuple(sorted(schema.get("x-kubernetes-list-map-keys") or ()))
        fields = (items.get("properties") or {}) if isinstance(items, dict) else {}
        merge_schema.defaults = {
            key: fields[key]["default"]
            for key in merge_schema.keys
            if (fields.get(key) or {}).get("default") is not None
        }
    return merge_schema
