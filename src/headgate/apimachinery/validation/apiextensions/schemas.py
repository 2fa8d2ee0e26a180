"""Validation of the schemas of a CustomResourceDefinition: no references, known types, valid list and map types, and
defaults only where unknown fields are pruned."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from headgate.apimachinery.structural.schema import META_FIELDS
from headgate.apimachinery.validation.apiextensions.versions import find_field
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required

Object = dict[str, Any]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_LIST_TYPES: Final = ("atomic", "set", "map")
_MAP_TYPES: Final = ("atomic", "granular")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_ABSENT: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_NEWLINE: Final = re.compile(r"[\n\r]")
# The fields that are allowed at the root with a status subresource, with Go's names, in the order of the error text.
_ROOT_FIELDS: Final = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}
_BEFORE_TYPE: Final = ("id", "$schema", "$ref")


class _SchemaContext(msgspec.Struct, frozen=True):
    """The context of a subschema: why defaults are not allowed (None: they are), and whether it is in metadata."""

    no_defaults: str | None = None
    in_metadata: bool = False


def check_root(schema: Object, path: str, *, has_status: bool) -> FieldErrors:
    problems: FieldErrors = []
    if has_status:
        text_start = (
            f"only [{' '.join(_ROOT_FIELDS.values())}] fields are allowed at the root of the schema if the status"
        )
        text_start = f"{text_start} subresource is enabled"
        unexpected = [name for name, value in schema.items() if name not in _ROOT_FIELDS and _is_set(value)]
        if any(name in _BEFORE_TYPE for name in unexpected):
            problems.append(invalid(path, schema, text_start))
        elif schema.get("type") and schema["type"] != "object":
            text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            problems.append(invalid(f"{path}.type", schema["type"], text))
        elif unexpected:
            problems.append(invalid(path, schema, text_start))
    if schema.get("nullable"):
        problems.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    return problems


def _is_set(value: Any) -> bool:
    return value not in (None, "", False, [], {})


def check_schema(schema: Any, path: str) -> FieldErrors:
    return _check(schema, path, _SchemaContext(), is_root=True)


def _check(schema: Any, path: str, context: _SchemaContext, *, is_root: bool = False) -> FieldErrors:
    if not isinstance(schema, dict):
        return []
    problems = _check_keywords(schema, path, context)
    additional, properties = schema.get("additionalProperties"), schema.get("properties") or {}
    if additional is not None:
        if properties and additional is not True:
            text = "additionalProperties and properties are mutual exclusive"
            problems.append(forbidden(f"{path}.additionalProperties", text))
        inner = context
        if context.in_metadata:
            inner = _SchemaContext("inside additionalProperties applying to object metadata", True)
        problems += _check(additional, f"{path}.additionalProperties", inner)
    for name, below in properties.items():
        inner = context
        if (is_root or schema.get("x-kubernetes-embedded-resource")) and name in META_FIELDS:
            inner = _SchemaContext(f"in top-level {name}" if is_root else context.no_defaults, True)
        problems += _check(below, f"{path}.properties[{name}]", inner)
    problems += _check(schema.get("not"), f"{path}.not", context)
    for keyword in ("allOf", "oneOf", "anyOf"):
        for index, below in enumerate(schema.get(keyword) or ()):
            problems += _check(below, f"{path}.{keyword}[{index}]", context)
    for name, below in (schema.get("definitions") or {}).items():
        problems += _check(below, f"{path}.definitions[{name}]", context)
    items = schema.get("items")
    problems += _check(items, f"{path}.items", context)
    if isinstance(items, list):
        for index, below in enumerate(items):
            problems += _check(below, f"{path}.items[{index}]", context)
    for name, below in (schema.get("dependencies") or {}).items():
        problems += _check(below, f"{path}.dependencies[{name}]", context)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        field_path = f"{path}.x-kubernetes-preserve-unknown-fields"
        problems.append(invalid(field_path, False, "must be true or undefined"))
    return problems + _check_map(schema, path) + _check_list(schema, path) + _check_rules(schema, path)


def _check_keywords(schema: Object, path: str, context: _SchemaContext) -> FieldErrors:
    problems: FieldErrors = []
    kind = schema.get("type") or ""
    if kind and kind not in _TYPES:
        problems.append(not_supported(f"{path}.type", kind, _TYPES))
    if schema.get("default") is not None and context.no_defaults is not None:
        problems.append(forbidden(f"{path}.default", f"must not be set {context.no_defaults}"))
    for keyword in _ABSENT:
        if schema.get(keyword) not in (None, "", {}) or (keyword in ("additionalItems", "$ref") and keyword in schema):
            problems.append(forbidden(f"{path}.{keyword}", f"{keyword} is not supported"))
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        problems.append(forbidden(f"{path}.type", text))
    if isinstance(schema.get("items"), list) and schema["items"]:
        problems.append(forbidden(f"{path}.items", "items must be a schema object and not an array"))
    if context.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        field_path = f"{path}.x-kubernetes-embedded-resource"
        problems.append(forbidden(field_path, "must not be used inside of resource meta"))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        problems.append(forbidden(f"{path}.uniqueItems", text))
    return problems


def _validate_type(schema: Object, path: str, expected_type: str, keyword: str) -> FieldErrors:
    kind = schema.get("type") or ""
    if kind == expected_type:
        return []
    text = f"must be {expected_type} if {keyword} is specified"
    return [invalid(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)]


def _check_map(schema: Object, path: str) -> FieldErrors:
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is None:
        return []
    problems = _validate_type(schema, path, "object", "x-kubernetes-map-type")
    if map_type not in _MAP_TYPES:
        problems.append(not_supported(f"{path}.x-kubernetes-map-type", map_type, _MAP_TYPES))
    return problems


def _check_list(schema: Object, path: str) -> FieldErrors:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    field_path, items = f"{path}.x-kubernetes-list-type", schema.get("items")
    problems: FieldErrors = []
    if list_type is not None:
        type_errors = _validate_type(schema, path, "array", "x-kubernetes-list-type")
        problems += type_errors
        if not type_errors and list_type == "set" and isinstance(items, dict):
            problems += _check_atomic(items, f"{path}.items")
        if list_type not in _LIST_TYPES:
            problems.append(not_supported(field_path, list_type, _LIST_TYPES))
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        problems.append(required(field_path, text) if list_type is None else invalid(field_path, list_type, text))
    if list_type == "map":
        problems += _check_keys(schema, keys, path)
    if list_type in ("set", "map") and isinstance(items, dict):
        problems += _check_items(items, list_type, keys, path)
    return problems


def _check_atomic(items: Object, path: str) -> FieldErrors:
    """The items of a set must be atomic."""
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    inner = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and inner is not None and inner != "atomic":
        return [invalid(f"{path}.x-kubernetes-list-type", inner, text)]
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        return [invalid(f"{path}.x-kubernetes-map-type", inner, text)]
    return []


def _check_keys(schema: Object, keys: list[str], path: str) -> FieldErrors:
    problems: FieldErrors = []
    items, field_path = schema.get("items"), f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        problems.append(required(field_path, "must not be empty if x-kubernetes-list-type is map"))
    if items is None:
        problems.append(required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map"))
        return problems
    if not isinstance(items, dict):
        text = "must only have a single schema if x-kubernetes-list-type is map"
        return [*problems, invalid(f"{path}.items", items, text)]
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        return [*problems, invalid(f"{path}.items.type", items.get("type") or "", text)]
    seen = set()
    for key in keys:
        field = (items.get("properties") or {}).get(key)
        if field is None:
            problems.append(invalid(field_path, keys, "entries must all be names of item properties"))
        elif field.get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            problems.append(invalid(f"{path}.items.properties[{key}].type", items["type"], text))
        if key in seen:
            problems.append(invalid(field_path, keys, "must not contain duplicate entries"))
        seen.add(key)
    return problems


def _check_items(items: Object, list_type: str, keys: list[str], path: str) -> FieldErrors:
    problems: FieldErrors = []
    if items.get("nullable"):
        text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        problems.append(forbidden(f"{path}.items.nullable", text))
    required_keys = set(items.get("required") or ())
    for key in keys if list_type == "map" else ():
        field = (items.get("properties") or {}).get(key)
        if field is None:
            continue
        field_path, reason = f"{path}.items.properties[{key}]", "this property is in x-kubernetes-list-map-keys, so it"
        if key not in required_keys and field.get("default") is None:
            problems.append(
                required(f"{field_path}.default", f"{reason} must have a default or be a required property")
            )
        if field.get("nullable"):
            problems.append(forbidden(f"{field_path}.nullable", f"{reason} cannot be nullable"))
    return problems


def _check_rules(schema: Object, path: str) -> FieldErrors:
    """Validates the fields of CEL rules; expressions are not compiled."""
    problems: FieldErrors = []
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        field_path = f"{path}.x-kubernetes-validations[{index}]"
        text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            problems.append(required(f"{field_path}.rule", "rule is not specified"))
        elif message and not message.strip():
            problems.append(invalid(f"{field_path}.message", message, "must be non-empty if specified"))
        elif _NEWLINE.search(message.strip()):
            problems.append(invalid(f"{field_path}.message", message, "must not contain line breaks"))
        elif _NEWLINE.search(text) and not message.strip():
            problems.append(required(f"{field_path}.message", "message must be specified if rule contains line breaks"))
        expression = rule.get("messageExpression") or ""
        if expression and not expression.strip():
            problems.append(
                required(f"{field_path}.messageExpression", "messageExpression must be non-empty if specified")
            )
        if rule.get("reason") is not None and rule["reason"] not in _REASONS:
            problems.append(not_supported(f"{field_path}.reason", rule["reason"], _REASONS))
        problems += _check_field_path(schema, rule.get("fieldPath") or "", f"{field_path}.fieldPath")
    return problems


def _check_field_path(schema: Object, field_name: str, path: str) -> FieldErrors:
    problems: FieldErrors = []
    if field_name and not field_name.strip():
        problems.append(invalid(path, field_name, "must be non-empty if specified"))
    if _NEWLINE.search(field_name):
        problems.append(invalid(path, field_name, "must not contain line breaks"))
    dotted = re.sub(r"\['((?:[^'\\]|\\.)*)'\]", r".\1", field_name)
    if field_name and isinstance(find_field(dotted, schema), str):
        problems.append(invalid(path, field_name, "must be a valid path"))
    return problems
