"""Whether the defaults of a schema are values that the schema would let pass, without a field that it would drop."""

from __future__ import annotations

from typing import Any, Final

from headgate.kube.apply.compare import same
from headgate.kube.errors import FieldErrors, aggregate, invalid
from headgate.kube.structural.defaulting import copy
from headgate.kube.structural.embedded import check_embedded
from headgate.kube.structural.node import META_FIELDS, Node, as_resource
from headgate.kube.structural.pruning import prune
from headgate.kube.structural.validating import compile_schema

Object = dict[str, Any]

_TYPE: Final = {"apiVersion": "validation/v1", "kind": "Validation"}


def check_defaults(schema: Object, path: str) -> FieldErrors:
    return _check(schema, path, as_resource(schema), (), in_metadata=False, is_resource=True)


def _check(
    schema: Object, path: str, root: Node, steps: tuple[str | int, ...], *, in_metadata: bool, is_resource: bool
) -> FieldErrors:
    """``root``: the resource that we are in, ``steps``: how we came here from it."""
    if schema.get("x-kubernetes-embedded-resource") or is_resource:
        in_metadata, steps, root, is_resource = False, (), as_resource(schema), True
    problems: FieldErrors = []
    default = schema.get("default")
    if default is not None:
        at = f"{path}.default"
        if in_metadata:
            problems += _check_metadata(schema, default, at, root, steps)
        else:
            problems += _check_value(schema, default, at, embedded=is_resource)
    items = schema.get("items")
    if isinstance(items, dict):
        problems += _check(items, f"{path}.items", root, (*steps, 0), in_metadata=in_metadata, is_resource=False)
    for name, below in (schema.get("properties") or {}).items():
        inner = in_metadata or (is_resource and name in META_FIELDS)
        at = f"{path}.properties[{name}]"
        problems += _check(below, at, root, (*steps, name), in_metadata=inner, is_resource=False)
    return problems


def _check_value(schema: Object, default: Any, path: str, *, embedded: bool) -> FieldErrors:
    node = as_resource(schema) if embedded else Node(schema)
    problems: FieldErrors = []
    pruned = copy(default)
    prune(pruned, node)
    if not same(pruned, default):
        problems.append(invalid(path, default, "must not have unknown fields"))
    found = check_embedded(default, node, path)
    return problems + (found or compile_schema(_plain(schema))(default, None, None, path))


def _plain(schema: Any) -> Any:
    """The schema without what says that an integer or a string is meant: the real server forgets that here."""
    if isinstance(schema, dict):
        return {name: _plain(below) for name, below in schema.items() if name != "x-kubernetes-int-or-string"}
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


def _check_metadata(schema: Object, default: Any, path: str, root: Node, steps: tuple[str | int, ...]) -> FieldErrors:
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
    return compile_schema(_plain(schema))(default, None, None, path)


def _holding(root: Node) -> Node:
    holder = Node({})
    holder.properties["resource"] = root
    holder.has_embedded = True
    return holder
