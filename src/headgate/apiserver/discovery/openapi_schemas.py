"""Types of the schema tables as OpenAPI v3 component schemas.

The schemas are those that Kubernetes publishes for the same types, without descriptions, which the tables do not have.
Paths and operations are made in ``openapi_paths.py``, documents in ``openapi.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.kube.schema import Field, GroupVersionKind, Schemas, Type, TypeDef

Object = dict[str, Any]

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."

_SPECIAL: Final[dict[str, tuple[str, Object]]] = {
    "quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "time": (META + "Time", {"type": "string", "format": "date-time"}),
    "microtime": (META + "MicroTime", {"type": "string", "format": "date-time"}),
    "duration": (META + "Duration", {"type": "string"}),
    "intorstring": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "v1.FieldsV1": (META + "FieldsV1", {"type": "object"}),
    "runtime.RawExtension": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
    "v1.JSON": (f"{_EXTENSIONS}JSON", {}),
    "v1.JSONSchemaPropsOrArray": (f"{_EXTENSIONS}JSONSchemaPropsOrArray", {}),
    "v1.JSONSchemaPropsOrBool": (f"{_EXTENSIONS}JSONSchemaPropsOrBool", {}),
    "v1.JSONSchemaPropsOrStringArray": (f"{_EXTENSIONS}JSONSchemaPropsOrStringArray", {}),
    "patch": (META + "Patch", {"type": "object"}),
}
PATCH: Final = _SPECIAL["patch"][0]
_SPECIAL_SCHEMAS: Final = dict(_SPECIAL.values())

_SCALARS: Final[dict[str, Object]] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "raw": {"type": "object"},
}
# The default of an element of a list or map.
_ELEMENT_DEFAULTS: Final[dict[str, Any]] = {
    "struct": {},
    "string": "",
    "int32": 0,
    "int64": 0,
    "float": 0,
    "bool": False,
}


_SCHEMA_OF_SCHEMAS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
# A reference is wrapped in allOf so that it may have a description; these fields have none.
_UNDESCRIBED = ("additionalItems", "additionalProperties", "example", "externalDocs", "items", "not")


def reference(name: str) -> Object:
    return {"$ref": f"#/components/schemas/{name}"}


def components(schemas: Schemas, roots: Iterable[str], kinds: Mapping[str, Iterable[GroupVersionKind]]) -> Object:
    """The schemas of the named types and of every type they mention, sorted by name.

    ``kinds`` says which kinds a type is; clients look a kind's schema up by them. Custom kinds are published apart.
    """
    found: Object = {}
    wanted = list(roots)
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        definition = schemas.types.get(name)
        if definition is None:
            found[name] = dict(_SPECIAL_SCHEMAS[name])
        else:
            found[name] = _struct(definition)
            wanted.extend(inner for field in definition.fields if (inner := _mentioned(field.type)))
        if name in kinds:
            found[name]["x-kubernetes-group-version-kind"] = [each._asdict() for each in sorted(kinds[name])]
    return dict(sorted(found.items()))


def _struct(definition: TypeDef) -> Object:
    schema: Object = {"type": "object"}
    if required := [field.name for field in definition.fields if field.required]:
        schema["required"] = required
    if definition.fields:
        schema["properties"] = {field.name: _property(field) for field in definition.fields}
    if definition.name == _SCHEMA_OF_SCHEMAS:
        schema["properties"] |= {name: schema["properties"][name]["allOf"][0] for name in _UNDESCRIBED}
    if definition.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _property(field: Field) -> Object:
    schema = _type(field.type)
    if field.default is not msgspec.UNSET:
        schema["default"] = field.default
    elif field.type.kind == "struct" and not field.pointer:
        schema["default"] = {}
    if field.list_type:
        schema["x-kubernetes-list-type"] = field.list_type
    if field.list_keys:
        schema["x-kubernetes-list-map-keys"] = list(field.list_keys)
    if field.map_atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    if field.map_granular:
        schema["x-kubernetes-map-type"] = "granular"
    if field.merge_key:
        schema["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.patch_strategy:
        schema["x-kubernetes-patch-strategy"] = ",".join(field.patch_strategy)
    if field.enum:
        _innermost(schema)["enum"] = list(field.enum)
    return schema


def _innermost(schema: Object) -> Object:
    while inner := schema.get("items") or schema.get("additionalProperties"):
        schema = inner
    return schema


def _type(type: Type) -> Object:
    if type.items is not None and type.kind != "either":
        element = _element(type.items)
        if type.kind == "list":
            return {"type": "array", "items": element}
        return {"type": "object", "additionalProperties": element}
    if name := _mentioned(type):
        return {"allOf": [reference(name)]}
    return dict(_SCALARS[type.kind])


def _element(type: Type) -> Object:
    if type.kind in _ELEMENT_DEFAULTS:
        return {**_type(type), "default": _ELEMENT_DEFAULTS[type.kind]}
    name = "" if type.kind in ("list", "map") else _mentioned(type)
    return reference(name) if name else _type(type)


def _mentioned(type: Type) -> str:
    """The component that a field of this type refers to; empty if none."""
    while type.items is not None and type.kind != "either":
        type = type.items
    if type.kind == "struct":
        return type.ref
    special = _SPECIAL.get(type.go if type.kind in ("raw", "either") else type.kind)
    return special[0] if special else ""
