"""Checks that a schema is structural: every field has its type outside of *combinators* (allOf, anyOf, oneOf, not).

A combinator may only restrict fields that are specified outside of it. Pruning and defaulting need these rules, and
apiextensions.k8s.io/v1 requires them.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from headgate.apimachinery.structural.patterns import compile_pattern
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, required

Object = dict[str, Any]
Level = Literal["root", "item", "field"]

INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_EMPTY_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
# Keywords that are forbidden in combinators, with the error texts, in the order of kube-apiserver.
_FORBIDDEN_IN_COMBINATORS: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_UNSUPPORTED: Final = (
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
)
_COMBINATORS: Final = ("allOf", "anyOf", "oneOf")
_NOT_STRUCTURE: Final = frozenset({"type", "default", "properties", "example", "externalDocs"})
_OWN_NAMES: Final = ({"name"}, {"generateName"}, {"name", "generateName"})


def parse_error(schema: Object) -> str:
    """Why a schema cannot be parsed as a structural schema; empty if it can."""
    for field, name in _UNSUPPORTED:
        if schema.get(field) not in (None, "", {}) or (field == "additionalItems" and field in schema):
            return f"OpenAPIV3Schema '{name}' is not supported"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    if isinstance(schema.get("items"), list) and schema["items"]:
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    for below in _subschemas(schema):
        if problem := parse_error(below):
            return problem
    return ""


def _subschemas(schema: Object) -> list[Object]:
    found = [each for keyword in _COMBINATORS for each in schema.get(keyword) or ()]
    found += (schema.get("properties") or {}).values()
    found += [
        schema[keyword] for keyword in ("not", "items", "additionalProperties") if isinstance(schema.get(keyword), dict)
    ]
    return found


def check_structural(schema: Object, path: str) -> FieldErrors:
    problems = _check(schema, "root", path) + _check_combinators(schema, schema, path, path)
    return sorted(problems, key=str)


def _check(schema: Object, level: Level, path: str) -> FieldErrors:
    kind, items, additional = schema.get("type") or "", schema.get("items"), schema.get("additionalProperties")
    properties: Object = schema.get("properties") or {}
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    problems: FieldErrors = []
    if kind == "array" and not isinstance(items, dict):
        problems.append(required(f"{path}.items", "must be specified"))
    if isinstance(items, dict):
        problems += _check(items, "item", f"{path}.items")
    for name, below in properties.items():
        problems += _check(below, "field", f"{path}.properties[{name}]")
    if additional is not None:
        if level == "root":
            problems.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
        if isinstance(additional, dict):
            problems += _check(additional, "field", f"{path}.additionalProperties")
        if embedded:
            text = "must not be used if x-kubernetes-embedded-resource is set"
            problems.append(forbidden(f"{path}.additionalProperties", text))
    problems += _check_int_or_string(schema, path)
    problems += _check_values(schema, path, schema.get("anyOf") == INT_OR_STRING, _is_all_of_pattern(schema))
    problems += _check_type(schema, level, path)
    if level == "root" or embedded:
        problems += _check_type_fields(properties, path)
    if "metadata" in properties and level == "root" and not _is_plain_metadata(properties["metadata"]):
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        problems.append(forbidden(f"{path}.properties[metadata]", text))
    if embedded and not preserve and not properties:
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        problems.append(required(f"{path}.properties", text))
    return problems


def _check_type(schema: Object, level: Level, path: str) -> FieldErrors:
    kind, nested_path = schema.get("type") or "", f"{path}.type"
    problems: FieldErrors = []
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        problems.append(invalid(nested_path, kind, text) if kind else required(nested_path, text))
    elif not kind and not (
        schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        problems.append(required(nested_path, _EMPTY_TYPE[level]))
    if level == "root" and kind and kind != "object":
        problems.append(invalid(nested_path, kind, "must be object at the root"))
    return problems


def _check_type_fields(properties: Object, path: str) -> FieldErrors:
    """``apiVersion`` and ``kind`` must be strings, and ``metadata`` an object."""
    problems = []
    for name, expected in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if name in properties and (properties[name].get("type") or "") != expected:
            field_path = f"{path}.properties[{name}].type"
            problems.append(invalid(field_path, properties[name].get("type") or "", f"must be {expected}"))
    return problems


def _is_plain_metadata(schema: Object) -> bool:
    """A schema of metadata may only restrict names."""
    names = set(schema.get("properties") or {})
    others = {
        name for name, value in schema.items() if name not in _NOT_STRUCTURE and value not in (None, "", [], False)
    }
    return not others and (not names or names in _OWN_NAMES)


def _check_int_or_string(schema: Object, path: str) -> FieldErrors:
    if not schema.get("x-kubernetes-int-or-string"):
        return []
    return [
        invalid(f"{path}.{keyword}", True, "must be false if x-kubernetes-int-or-string is true")
        for keyword in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
        if schema.get(keyword)
    ]


def _is_all_of_pattern(schema: Object) -> bool:
    all_of = schema.get("allOf") or []
    return bool(all_of) and all_of[0].get("anyOf") == INT_OR_STRING


def _check_values(schema: Object, path: str, skip_any: bool, skip_first: bool) -> FieldErrors:
    """``skip_any``, ``skip_first``: allow the two patterns for an integer or a string."""
    problems: FieldErrors = []
    if not skip_any:
        for index, below in enumerate(schema.get("anyOf") or ()):
            problems += _check_nested(below, f"{path}.anyOf[{index}]", False)
    for index, below in enumerate(schema.get("allOf") or ()):
        problems += _check_nested(below, f"{path}.allOf[{index}]", skip_first and index == 0)
    for index, below in enumerate(schema.get("oneOf") or ()):
        problems += _check_nested(below, f"{path}.oneOf[{index}]", False)
    if isinstance(schema.get("not"), dict):
        problems += _check_nested(schema["not"], f"{path}.not", False)
    pattern = schema.get("pattern") or ""
    if pattern and isinstance(message := compile_pattern(pattern), str):
        text = f"must be a valid regular expression, but isn't: {message}"
        problems.append(invalid(f"{path}.pattern", pattern, text))
    return problems


def _check_nested(schema: Object, path: str, skip_any: bool) -> FieldErrors:
    problems = _check_values(schema, path, skip_any, False)
    if isinstance(schema.get("items"), dict):
        problems += _check_nested(schema["items"], f"{path}.items", False)
    for name, below in (schema.get("properties") or {}).items():
        problems += _check_nested(below, f"{path}.properties[{name}]", False)
    for keyword, text in _FORBIDDEN_IN_COMBINATORS:
        if schema.get(keyword) not in (None, "", False, [], {}):
            problems.append(forbidden(f"{path}.{keyword}", text))
    if "metadata" in (schema.get("properties") or {}):
        problems.append(forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context"))
    return problems


def _check_combinators(logic: Object, schema: Object | None, path: str, logic_path: str) -> FieldErrors:
    """A combinator may only restrict fields that the schema outside specifies."""
    nested = [(logic.get("not"), f"{logic_path}.not")]
    nested += [
        (each, f"{logic_path}.{keyword}[{index}]")
        for keyword in _COMBINATORS
        for index, each in enumerate(logic.get(keyword) or ())
    ]
    return [
        problem
        for below, nested_path in nested
        if isinstance(below, dict)
        for problem in _check_complete(below, schema, path, nested_path)
    ]


def _check_complete(logic: Object, schema: Object | None, path: str, logic_path: str) -> FieldErrors:
    if schema is None:
        return [required(path, f"because it is defined in {logic_path}")]
    problems = _check_combinators(logic, schema, path, logic_path)
    if isinstance(logic.get("items"), dict):
        items = schema.get("items")
        known = items if isinstance(items, dict) else None
        problems += _check_complete(logic["items"], known, f"{path}.items", f"{logic_path}.items")
    for name, below in (logic.get("properties") or {}).items():
        nested_path, nested_logic_path = f"{path}.properties[{name}]", f"{logic_path}.properties[{name}]"
        problems += _check_complete(below, (schema.get("properties") or {}).get(name), nested_path, nested_logic_path)
    return problems
