"""Who can own which part of a custom object: a structural schema as the shapes of ``kube/apply/``.

Values without a schema are taken for what they are; so are those below a place that preserves unknown fields. Shapes
made here ask for every object to be checked before its owners are worked out (``unnameable``), because nothing has
been decoded by type: ``spec`` may be a number until validation says that it may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.kube.apply import Typed
from headgate.kube.apply.shapes import ANY, Kind, Part, Shape, shape_of
from headgate.kube.schema import GroupVersionKind, Schemas
from headgate.kube.structural.embedded import META_TYPE

_TEXT: Final = Shape(Kind.LEAF, scalar="string", exact=False)
_SCALARS: Final = {
    "string": _TEXT,
    "integer": (_NUMBER := Shape(Kind.LEAF, scalar="numeric", exact=False)),
    "number": _NUMBER,
    "boolean": Shape(Kind.LEAF, scalar="boolean", exact=False),
}
_UNTYPED: Final = Shape(Kind.LEAF, scalar="untyped", exact=False)
# How a schema that says no format, or this one, is read; with any other format the type is not looked at.
_PLAIN_FORMATS: Final = frozenset({"", "byte"})


def typed_by(schemas: Schemas, gvk: GroupVersionKind, schema: Mapping[str, Any]) -> Typed:
    """The root of a kind: its schema with type and metadata laid over."""
    shape = _shape(schemas, schema, bool(schema.get("x-kubernetes-preserve-unknown-fields")))
    _add_type(schemas, shape)
    shape.unnameable = True
    return Typed(shape, gvk, {})


def _add_type(schemas: Schemas, shape: Shape) -> None:
    shape.parts["apiVersion"] = Part("f:apiVersion", _TEXT)
    shape.parts["kind"] = Part("f:kind", _TEXT)
    shape.parts["metadata"] = Part("f:metadata", shape_of(schemas, META_TYPE))


def _shape(schemas: Schemas, schema: Mapping[str, Any], open_: bool) -> Shape:
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


def _object(schemas: Schemas, schema: Mapping[str, Any], open_: bool) -> Shape:
    properties = schema.get("properties") or {}
    shape = Shape(Kind.STRUCT, atomic=schema.get("x-kubernetes-map-type") == "atomic", exact=False)
    for name, below in properties.items():
        shape.parts[name] = Part(f"f:{name}", _shape(schemas, below, open_))
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        shape.item = _shape(schemas, additional, open_)
    elif additional is True or (additional is None and (open_ or not properties)):
        shape.item = ANY
    if schema.get("x-kubernetes-embedded-resource"):
        _add_type(schemas, shape)
    return shape


def _list(schemas: Schemas, schema: Mapping[str, Any], open_: bool) -> Shape:
    list_type, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    item = _shape(schemas, items, open_) if isinstance(items, dict) else ANY
    shape = Shape(Kind.LIST, atomic=list_type not in ("set", "map"), item=item, exact=False)
    if list_type == "set":
        shape.keys = ()
    elif list_type == "map":
        shape.keys = tuple(sorted(schema.get("x-kubernetes-list-map-keys") or ()))
        fields = (items.get("properties") or {}) if isinstance(items, dict) else {}
        shape.defaults = {
            key: fields[key]["default"] for key in shape.keys if (fields.get(key) or {}).get("default") is not None
        }
    return shape
