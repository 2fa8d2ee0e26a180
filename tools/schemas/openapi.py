"""Reads what only OpenAPI says about a type: required fields, defaults, list types and keys, patch strategies.

The same pass checks that Go and OpenAPI tell the same story: a field known to one only, or known as a list here and
a map there, stops the generator.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.schemas.wire import WireField

Schema = dict[str, Any]

_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_REFERENCES = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Duration": "duration",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "raw",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intorstring",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "raw",
    f"{_EXTENSIONS}JSON": "raw",
    f"{_EXTENSIONS}JSONSchemaPropsOrArray": "either",
    f"{_EXTENSIONS}JSONSchemaPropsOrBool": "either",
    f"{_EXTENSIONS}JSONSchemaPropsOrStringArray": "either",
}
_MAP_TYPES = {"atomic": "map_atomic", "granular": "map_granular"}
_FORMATS = {
    ("string", ""): "string",
    ("string", "byte"): "bytes",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("number", "double"): "float",
    ("boolean", ""): "bool",
}


def read_schemas(folder: Path) -> dict[str, Schema]:
    """Every component schema of every served group, by name."""
    schemas: dict[str, Schema] = {}
    for document in sorted(folder.glob("*_openapi.json")):
        schemas.update(json.loads(document.read_text()).get("components", {}).get("schemas", {}))
    return schemas


def add_rules(type_name: str, fields: list[WireField], schema: Schema) -> None:
    properties: dict[str, Schema] = schema.get("properties", {})
    if {each.name for each in fields} != properties.keys():
        raise ValueError(f"{type_name}: Go has {sorted(each.name for each in fields)}, OpenAPI {sorted(properties)}")
    for each in fields:
        prop = properties[each.name]
        _check(f"{type_name}.{each.name}", each.type, prop)
        rules = each.rules
        if each.name in schema.get("required", ()):
            rules["required"] = True
        if not isinstance(prop.get("default", {}), dict):
            rules["default"] = prop["default"]
        if list_type := prop.get("x-kubernetes-list-type"):
            rules["list_type"] = list_type
        if keys := prop.get("x-kubernetes-list-map-keys"):
            rules["list_keys"] = keys
        if map_type := prop.get("x-kubernetes-map-type"):
            rules[_MAP_TYPES[map_type]] = True
        if merge_key := prop.get("x-kubernetes-patch-merge-key"):
            rules["merge_key"] = merge_key
        if strategy := prop.get("x-kubernetes-patch-strategy"):
            rules["patch_strategy"] = strategy.split(",")


def _check(where: str, wire: dict[str, Any], schema: Schema) -> None:
    """Refuse a Go type that OpenAPI describes as something else."""
    declared = _kind(schema)
    if declared != wire["kind"]:
        raise ValueError(f"{where}: Go says {wire}, OpenAPI {declared}")
    if declared == "list":
        _check(f"{where}[]", wire["items"], schema["items"])
    elif declared == "map":
        _check(f"{where}{{}}", wire["items"], schema["additionalProperties"])
    elif declared == "struct" and _reference(schema) != wire["ref"]:
        raise ValueError(f"{where}: Go says {wire['ref']}, OpenAPI {_reference(schema)}")


def _kind(schema: Schema) -> str:
    if reference := _reference(schema):
        return _REFERENCES.get(reference, "struct")
    match schema.get("type"):
        case "array":
            return "list"
        case "object":
            return "map" if "additionalProperties" in schema else "raw"
        case None:
            return "raw"
        case other:
            return _FORMATS.get((other, schema.get("format", "")), f"unknown {schema}")


def _reference(schema: Schema) -> str:
    target: str = (schema.get("allOf") or [schema])[0].get("$ref", "")
    return target.rpartition("/")[2]
