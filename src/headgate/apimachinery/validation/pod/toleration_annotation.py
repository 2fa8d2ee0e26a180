"""Parses the annotation for tolerations from before Kubernetes 1.6, with the errors of Go's decoder."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.kube.serializer.json_syntax import syntax_error

Object = dict[str, Any]

# Keys are case-insensitive, because the internal type has no JSON names.
_FIELDS: Final = {
    "key": ("key", "Key", "string"),
    "operator": ("operator", "Operator", "core.TolerationOperator"),
    "value": ("value", "Value", "string"),
    "effect": ("effect", "Effect", "core.TaintEffect"),
    "tolerationseconds": ("tolerationSeconds", "TolerationSeconds", "int64"),
}
_WORDS: Final = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def read_tolerations(text: str) -> list[Object] | str:
    """A returned text is the error."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as problem:
        return syntax_error(text.encode("utf-8", "surrogatepass")) or str(problem)
    if value is None:
        return []
    if not isinstance(value, list):
        return f"json: cannot unmarshal {_WORDS[type(value)]} into Go value of type []core.Toleration"
    tolerations: list[Object] = []
    for item in value:
        toleration = _read(item)
        if isinstance(toleration, str):
            return toleration
        tolerations.append(toleration)
    return tolerations


def _read(item: Any) -> Object | str:
    if item is None:
        return {}
    if not isinstance(item, dict):
        return f"json: cannot unmarshal {_WORDS[type(item)]} into Go value of type core.Toleration"
    toleration: Object = {}
    for key, value in item.items():
        row = _FIELDS.get(key.lower())
        if row is None or value is None:
            continue
        field, go_field, go_type = row
        if not _has_type(value, go_type):
            is_number = go_type == "int64" and type(value) in (int, float)
            shown = f"number {value}" if is_number else _WORDS[type(value)]
            return f"json: cannot unmarshal {shown} into Go struct field Toleration.{go_field} of type {go_type}"
        toleration[field] = value
    return toleration


def _has_type(value: Any, go_type: str) -> bool:
    if go_type == "int64":
        return type(value) is int and -(1 << 63) <= value < 1 << 63
    return isinstance(value, str)
