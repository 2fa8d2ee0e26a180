"""Validates an applied configuration with the schema, with the messages of Kubernetes.

Apply is stricter than a create: an unknown field is an error, not a warning, and so is a duplicate list item. The
messages show Go values because users search for them.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.apply.merge_schema import ANY, InvalidListItem, MergeSchema, MergeSchemaKind, element_of
from headgate.apimachinery.apply.path_elements import format_element, go_float
from headgate.kube.field_errors import quote

Problem = tuple[str, str]  # path, message


def schema_errors(schema: MergeSchema, value: Any, *, allow_duplicates: bool = False) -> str | None:
    """The text of the errors of ``value``, or ``None``. ``allow_duplicates``: duplicate list items are no error."""
    if _is_valid(schema, value, allow_duplicates):
        return None
    problems = _check(schema, value, allow_duplicates)
    texts = [f"{path}: {message}" if path else message for path, message in problems]
    if len(texts) < 2:
        return texts[0] if texts else None
    return "\n".join(["errors:", *(f"  {text}" for text in texts)])


def _is_valid(schema: MergeSchema, value: Any, allow_duplicates: bool) -> bool:
    """Whether ``_check`` would find no errors. Every write calls this fast check, which stops at the first error."""
    kind = schema.kind
    if value is None or kind is MergeSchemaKind.ANY:
        return True
    if kind is MergeSchemaKind.LEAF:
        return (value.__class__ is str and schema.scalar == "string") or not _check_scalar(schema.scalar, value)
    below = schema.item or ANY
    if kind is MergeSchemaKind.LIST:
        if not isinstance(value, list):
            return False
        if schema.keys is not None and not _have_valid_keys(schema, value, allow_duplicates):
            return False
        return all(_is_valid(below, item, allow_duplicates) for item in value)
    if not isinstance(value, dict):
        return False
    parts, is_closed = schema.fields, kind is MergeSchemaKind.STRUCT and schema.item is None
    for name, each in value.items():
        part = parts.get(name)
        if part is None and is_closed:
            return False
        if not _is_valid(below if part is None else part.schema, each, allow_duplicates):
            return False
    return True


def _have_valid_keys(schema: MergeSchema, items: list[Any], allow_duplicates: bool) -> bool:
    elements = [element_of(schema, item) for item in items]
    if any(isinstance(element, InvalidListItem) for element in elements):
        return False
    return allow_duplicates or len(set(elements)) == len(elements)


def _check(schema: MergeSchema, value: Any, allow_duplicates: bool) -> list[Problem]:
    if value is None:
        return []
    match schema.kind:
        case MergeSchemaKind.LEAF:
            return _check_scalar(schema.scalar, value)
        case MergeSchemaKind.ANY:
            return []
        case MergeSchemaKind.LIST:
            if not isinstance(value, list):
                return [("", f"expected list, got &{{{_plain(value)}}}")]
            return _check_items(schema, value, allow_duplicates)
        case _:
            if not isinstance(value, dict):
                return [("", f"expected map, got &{{{_plain(value)}}}")]
            return _check_parts(schema, value, allow_duplicates)


def _below(prefix: str, problems: list[Problem]) -> list[Problem]:
    return [(prefix + path, message) for path, message in problems]


def _check_parts(schema: MergeSchema, value: dict[str, Any], allow_duplicates: bool) -> list[Problem]:
    out: list[Problem] = []
    for name, below in value.items():
        part = schema.fields.get(name)
        if part is None and schema.kind is MergeSchemaKind.STRUCT and schema.item is None:
            # As in Kubernetes, the rest of this level is not checked.
            out.append((f".{name}", "field not declared in schema"))
            break
        out += _below(
            f".{name}", _check(part.schema if part is not None else schema.item or ANY, below, allow_duplicates)
        )
    return out


def _check_items(schema: MergeSchema, items: list[Any], allow_duplicates: bool) -> list[Problem]:
    out: list[Problem] = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        element = f"i:{index}" if schema.keys is None else element_of(schema, item)
        if isinstance(element, InvalidListItem):
            return [*out, ("", f"element {index}: {element.reason}")]
        if element in seen and not allow_duplicates:
            out.append(("", f"duplicate entries for key {format_element(element)}"))
        seen.add(element)
        problems = _check(schema.item or ANY, item, allow_duplicates)
        if problems:
            out += _below(format_element(element), problems)
    return out


_SCALAR_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "numeric": (int, float),
    "boolean": (bool,),
    "untyped": (str, int, float, bool),
}


def _check_scalar(scalar: str, value: Any) -> list[Problem]:
    fits = isinstance(value, _SCALAR_TYPES[scalar]) and (
        not isinstance(value, bool) or scalar in ("boolean", "untyped")
    )
    if fits:
        return []
    match scalar:
        case "numeric":
            return [("", f"expected numeric (int or float), got {_go_type(value)}")]
        case "string":
            return [("", f"expected string, got &value.valueUnstructured{{Value:{_literal(value)}}}")]
        case "boolean":
            return [("", f"expected boolean, got &{{{_plain(value)}}}")]
        case _:
            return [("", f"expected any scalar, got &{{{_plain(value)}}}")]


def _go_type(value: Any) -> str:
    names = {bool: "bool", str: "string", dict: "map[string]interface {}", list: "[]interface {}"}
    return names[type(value)]


def _plain(value: Any) -> str:
    """The text of ``value`` in Go's format ``%v``."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case dict():
            return "map[" + " ".join(f"{name}:{_plain(value[name])}" for name in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(_plain, value)) + "]"
        case int():
            return str(value)
        case _:
            return go_float(value)


def _literal(value: Any) -> str:
    """The text of ``value`` in Go's format ``%#v``."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return quote(value)
        case dict():
            parts = ", ".join(f"{quote(name)}:{_literal(value[name])}" for name in sorted(value))
            return f"map[string]interface {{}}{{{parts}}}"
        case list():
            return "[]interface {}{" + ", ".join(map(_literal, value)) + "}"
        case _:
            return _plain(value)
