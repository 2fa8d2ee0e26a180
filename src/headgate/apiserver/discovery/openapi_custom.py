"""The OpenAPI schema of a custom kind: that of its CustomResourceDefinition, with type and object metadata added.

Clients find it by ``x-kubernetes-group-version-kind``; ``kubectl explain`` prints it.
``apiserver/discovery/openapi.py`` builds the documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.apimachinery.validation.apiextensions.structural import INT_OR_STRING
from headgate.apiserver.discovery.openapi_schemas import META, reference
from headgate.apiserver.kinds.kind import METADATA_LABELS, ServedKind

Object = dict[str, Any]

_DROPPED: Final = frozenset({"id", "$schema", "$ref", "externalDocs", "example"})
_NESTED: Final = ("items", "additionalProperties", "not")
_LISTED: Final = ("allOf", "anyOf", "oneOf")
_CONVENTIONS: Final = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_TYPE: Final = {
    "apiVersion": {
        "description": "APIVersion defines the versioned schema of this representation of an object. Servers should"
        " convert recognized schemas to the latest internal value, and may reject unrecognized values."
        f" {_CONVENTIONS}#resources",
        "type": "string",
    },
    "kind": {
        "description": "Kind is a string value representing the REST resource this object represents. Servers may infer"
        " this from the endpoint the client submits requests to. Cannot be updated. In CamelCase."
        f" {_CONVENTIONS}#types-kinds",
        "type": "string",
    },
}
_OBJECT_TYPE: Final = {
    **_TYPE,
    "metadata": {
        "description": f"Standard object's metadata. {_CONVENTIONS}#metadata",
        "allOf": [reference(META + "ObjectMeta")],
    },
}
_EMBEDDED_TYPE: Final = {
    "apiVersion": {
        "description": "apiVersion defines the versioned schema of this representation of an object."
        f" {_CONVENTIONS}#resources",
        "type": "string",
    },
    "kind": {
        "description": "kind is a string value representing the type of this object. In CamelCase."
        f" {_CONVENTIONS}#types-kinds",
        "type": "string",
    },
    "metadata": _OBJECT_TYPE["metadata"],
}
_LIST_TYPE: Final = {
    **_TYPE,
    "metadata": {
        "description": f"Standard list metadata. {_CONVENTIONS}#types-kinds",
        "allOf": [reference(META + "ListMeta")],
    },
}


def publish(kinds: Sequence[ServedKind]) -> Object:
    """The component schemas of these kinds and of their lists."""
    found: Object = {}
    for kind in kinds:
        found[kind.type_name] = _extended(kind, _kind_schema(kind), kind.kind)
        found[kind.list_type_name] = _extended(kind, _list_schema(kind), kind.list_kind)
    return found


def _kind_schema(kind: ServedKind) -> Object:
    schema = kind.scheme.schema if kind.scheme is not None else {}
    published = _published(schema)
    return {**published, "properties": {**published.get("properties", {}), **_OBJECT_TYPE}}


def _list_schema(kind: ServedKind) -> Object:
    items = {
        "description": f"List of {kind.plural}. {_CONVENTIONS}",
        "type": "array",
        "items": reference(kind.type_name),
    }
    return {
        "description": f"{kind.list_kind} is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {"items": items, **_LIST_TYPE},
    }


def _extended(kind: ServedKind, schema: Object, name: str) -> Object:
    gvk = {"group": kind.group, "version": kind.version, "kind": name}
    schema = {**schema, "x-kubernetes-group-version-kind": [gvk]}
    known = {each.label for each in METADATA_LABELS}
    selectable = [{"fieldPath": each.label} for each in kind.field_labels if each.label not in known]
    return {**schema, "x-kubernetes-selectable-fields": selectable} if selectable else schema


def _published(schema: Object) -> Object:
    out = {name: value for name, value in schema.items() if name not in _DROPPED}
    for name in _NESTED:
        if isinstance(out.get(name), dict):
            out[name] = _published(out[name])
    for name in _LISTED:
        if name in out:
            out[name] = [_published(each) for each in out[name]]
    if "properties" in out:
        out["properties"] = {name: _published(inner) for name, inner in out["properties"].items()}
    if out.get("x-kubernetes-int-or-string"):
        _expand_int_or_string(out)
    if out.get("x-kubernetes-embedded-resource"):
        out["properties"] = {**out.get("properties", {}), **_EMBEDDED_TYPE}
        required = out.get("required") or []
        out["required"] = [*required, *(name for name in ("kind", "apiVersion") if name not in required)]
    return out


def _expand_int_or_string(schema: Object) -> None:
    """Adds an ``anyOf`` of integer and string, unless the schema has it."""
    all_of = schema.get("allOf") or []
    if schema.get("anyOf") == INT_OR_STRING or (all_of and all_of[0].get("anyOf") == INT_OR_STRING):
        return
    if "anyOf" not in schema:
        schema["anyOf"] = INT_OR_STRING
    else:
        schema["allOf"] = [{"anyOf": INT_OR_STRING}, *all_of]
