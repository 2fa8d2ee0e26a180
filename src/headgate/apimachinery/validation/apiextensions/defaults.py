"""Whether the defaults of a schema are valid by the schema and have no field that pruning would drop."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.apply.compare import json_equal
from headgate.apimachinery.structural.defaulting import copy
from headgate.apimachinery.structural.embedded_resources import check_embedded
from headgate.apimachinery.structural.pruning import prune
from headgate.apimachinery.structural.schema import META_FIELDS, NOTHING, StructuralSchema, as_resource
from headgate.apimachinery.structural.validation import compile_schema
from headgate.kube.field_errors import FieldErrors, aggregate, invalid

Object = dict[str, Any]

_SCHEMAS: Final = frozenset({"items", "additionalProperties", "not"})
_ALTERNATIVES: Final = frozenset({"allOf", "anyOf", "oneOf"})
_TYPE: Final = {"apiVersion": "validation/v1", "kind": "Validation"}


def check_defaults(schema: Object, path: str) -> FieldErrors:
    root = as_resource(schema)
    if root.default is NOTHING and not root.defaults:
        return []
    return _check(_plain(schema), path, root, root, (), in_metadata=False)


def _check(
    schema: Object,
    path: str,
    node: StructuralSchema,
    root: StructuralSchema,
    steps: tuple[str | int, ...],
    *,
    in_metadata: bool,
) -> FieldErrors:
    """``root``: the resource that we are in, ``steps``: how we came here from it."""
    if node.default is NOTHING and not node.defaults:
        return []
    if node.embedded:
        in_metadata, steps, root = False, (), node.as_resource()
    problems: FieldErrors = []
    if node.default is not NOTHING:
        at = f"{path}.default"
        if in_metadata:
            problems += _check_metadata(schema, node.default, at, root, steps)
        else:
            problems += _check_value(schema, node.default, at, root if node.embedded else node)
    if node.items is not None:
        at = f"{path}.items"
        problems += _check(schema["items"], at, node.items, root, (*steps, 0), in_metadata=in_metadata)
    for name, below in node.properties.items():
        inner = in_metadata or (node.embedded and name in META_FIELDS)
        at = f"{path}.properties[{name}]"
        problems += _check(schema["properties"][name], at, below, root, (*steps, name), in_metadata=inner)
    return problems


def _check_value(schema: Object, default: Any, path: str, node: StructuralSchema) -> FieldErrors:
    problems: FieldErrors = []
    pruned = copy(default)
    prune(pruned, node)
    if not json_equal(pruned, default):
        problems.append(invalid(path, default, "must not have unknown fields"))
    found = check_embedded(default, node, path)
    return problems + (found or compile_schema(schema)(default, None, None, path))


def _plain(schema: Object) -> Object:
    """The schema without what says that an integer or a string is meant: the real server forgets that here."""
    return {word: _plain_part(word, part) for word, part in schema.items() if word != "x-kubernetes-int-or-string"}


def _plain_part(word: str, part: Any) -> Any:
    if word == "properties" and part:
        return {name: _plain(below) for name, below in part.items()}
    if word in _SCHEMAS and isinstance(part, dict):
        return _plain(part)
    return [_plain(each) for each in part] if word in _ALTERNATIVES and part else part


def _check_metadata(
    schema: Object, default: Any, path: str, root: StructuralSchema, steps: tuple[str | int, ...]
) -> FieldErrors:
    """A default in metadata is looked at in a whole object that has it."""
    around: Any = copy(default)
    for step in reversed(steps):
        around = [around] if isinstance(step, int) else {step: around}
    if not isinstance(around, dict):
        return []
    found = check_embedded({"resource": {**_TYPE, **around}}, _holding(root))
    if found:
        text = aggregate(found).replace("resource.", "")
        return [invalid(path, default, f"must result in valid metadata: {text}")]
    return compile_schema(schema)(default, None, None, path)


def _holding(root: StructuralSchema) -> StructuralSchema:
    holder = StructuralSchema({})
    holder.properties["resource"] = root
    holder.has_embedded = True
    return holder
