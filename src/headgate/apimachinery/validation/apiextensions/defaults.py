"""Validation of the defaults in a schema: each must match the schema and have no field that pruning would remove."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.apply.compare import json_equal
from headgate.apimachinery.structural.defaulting import copy
from headgate.apimachinery.structural.embedded_resources import check_embedded
from headgate.apimachinery.structural.pruning import prune
from headgate.apimachinery.structural.schema import ABSENT, META_FIELDS, StructuralSchema, as_resource
from headgate.apimachinery.structural.validation import compile_schema
from headgate.kube.field_errors import FieldErrors, aggregate, invalid

Object = dict[str, Any]

_SCHEMAS: Final = frozenset({"items", "additionalProperties", "not"})
_ALTERNATIVES: Final = frozenset({"allOf", "anyOf", "oneOf"})
_TYPE: Final = {"apiVersion": "validation/v1", "kind": "Validation"}


def check_defaults(schema: Object, path: str) -> FieldErrors:
    root = as_resource(schema)
    if root.default is ABSENT and not root.has_defaults:
        return []
    return _check(_without_int_or_string(schema), path, root, root, (), in_metadata=False)


def _check(
    schema: Object,
    path: str,
    node: StructuralSchema,
    root: StructuralSchema,
    steps: tuple[str | int, ...],
    *,
    in_metadata: bool,
) -> FieldErrors:
    """``root``: the resource that contains ``node``; ``steps``: the path from it."""
    if node.default is ABSENT and not node.has_defaults:
        return []
    if node.embedded:
        in_metadata, steps, root = False, (), node.as_resource()
    problems: FieldErrors = []
    if node.default is not ABSENT:
        field_path = f"{path}.default"
        if in_metadata:
            problems += _check_metadata(schema, node.default, field_path, root, steps)
        else:
            problems += _check_value(schema, node.default, field_path, root if node.embedded else node)
    if node.items is not None:
        field_path = f"{path}.items"
        problems += _check(schema["items"], field_path, node.items, root, (*steps, 0), in_metadata=in_metadata)
    for name, below in node.properties.items():
        inner = in_metadata or (node.embedded and name in META_FIELDS)
        field_path = f"{path}.properties[{name}]"
        problems += _check(schema["properties"][name], field_path, below, root, (*steps, name), in_metadata=inner)
    return problems


def _check_value(schema: Object, default: Any, path: str, node: StructuralSchema) -> FieldErrors:
    problems: FieldErrors = []
    pruned = copy(default)
    prune(pruned, node)
    if not json_equal(pruned, default):
        problems.append(invalid(path, default, "must not have unknown fields"))
    errors = check_embedded(default, node, path)
    return problems + (errors or compile_schema(schema)(default, None, None, path))


def _without_int_or_string(schema: Object) -> Object:
    """The schema without ``x-kubernetes-int-or-string``, which kube-apiserver ignores here."""
    return {
        keyword: _convert_keyword(keyword, part)
        for keyword, part in schema.items()
        if keyword != "x-kubernetes-int-or-string"
    }


def _convert_keyword(keyword: str, part: Any) -> Any:
    if keyword == "properties" and part:
        return {name: _without_int_or_string(below) for name, below in part.items()}
    if keyword in _SCHEMAS and isinstance(part, dict):
        return _without_int_or_string(part)
    return [_without_int_or_string(each) for each in part] if keyword in _ALTERNATIVES and part else part


def _check_metadata(
    schema: Object, default: Any, path: str, root: StructuralSchema, steps: tuple[str | int, ...]
) -> FieldErrors:
    """A default in metadata is validated as part of an object."""
    value: Any = copy(default)
    for step in reversed(steps):
        value = [value] if isinstance(step, int) else {step: value}
    if not isinstance(value, dict):
        return []
    errors = check_embedded({"resource": {**_TYPE, **value}}, _schema_of_embedded(root))
    if errors:
        text = aggregate(errors).replace("resource.", "")
        return [invalid(path, default, f"must result in valid metadata: {text}")]
    return compile_schema(schema)(default, None, None, path)


def _schema_of_embedded(root: StructuralSchema) -> StructuralSchema:
    schema = StructuralSchema({})
    schema.properties["resource"] = root
    schema.has_embedded = True
    return schema
