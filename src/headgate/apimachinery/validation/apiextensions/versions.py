"""Validation of a version without its schema: subresources, columns, selectable fields, deprecation warning."""

from __future__ import annotations

from typing import Any, Final

from headgate.kube.field_errors import FieldErrors, duplicate, invalid, required, too_many

Object = dict[str, Any]

_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE: Final = frozenset({"string", "boolean", "integer"})
_MAX_SELECTABLE: Final = 8
_MAX_WARNING_BYTES: Final = 256
_SIMPLE: Final = "must be a simple json path starting with ."


def check_warning(version: Object, path: str) -> FieldErrors:
    warning, field_path = version.get("deprecationWarning"), f"{path}.deprecationWarning"
    if warning is None:
        return []
    if not version.get("deprecated"):
        return [invalid(field_path, warning, "can only be set for deprecated versions")]
    messages = []
    if len(warning.encode()) > _MAX_WARNING_BYTES:
        messages.append("must be <= 256 characters long")
    if not warning:
        messages.append("must not be an empty string")
    byte_index = 0
    for char in warning:
        if not char.isprintable():
            text = "must only contain printable UTF-8 characters; non-printable character found at index"
            messages.append(f"{text} {byte_index}")
            break
        byte_index += len(char.encode())
    return [invalid(field_path, warning, each) for each in messages]


def check_subresources(subresources: Object | None, path: str) -> FieldErrors:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return []
    problems: FieldErrors = []
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        field_path, json_path = f"{path}.scale.{field}", scale.get(field) or ""
        if not json_path:
            problems.append(required(field_path))
        elif not json_path.startswith("."):
            problems.append(invalid(field_path, json_path, _SIMPLE))
        elif not json_path.startswith(root):
            problems.append(invalid(field_path, json_path, f"should be a json path under {root[:-1]}"))
    selector, field_path = scale.get("labelSelectorPath"), f"{path}.scale.labelSelectorPath"
    if selector and not selector.startswith("."):
        problems.append(invalid(field_path, selector, _SIMPLE))
    elif selector and not selector.startswith((".spec.", ".status.")):
        problems.append(invalid(field_path, selector, "should be a json path under either .spec or .status"))
    return problems


def check_column(column: Object, path: str) -> FieldErrors:
    problems: FieldErrors = []
    if not column.get("name"):
        problems.append(required(f"{path}.name"))
    types = f"must be one of {','.join(_TYPES)}"
    if not column.get("type"):
        problems.append(required(f"{path}.type", types))
    elif column["type"] not in _TYPES:
        problems.append(invalid(f"{path}.type", column["type"], types))
    if column.get("format") and column["format"] not in _FORMATS:
        problems.append(invalid(f"{path}.format", column["format"], f"must be one of {','.join(_FORMATS)}"))
    json_path = column.get("jsonPath") or ""
    if not json_path:
        problems.append(required(f"{path}.JSONPath"))
    elif not json_path.startswith("."):
        problems.append(invalid(f"{path}.JSONPath", json_path, _SIMPLE))
    return problems


def check_selectable(fields: list[Object], schema: Object, path: str) -> FieldErrors:
    problems: FieldErrors = []
    seen: set[str] = set()
    for index, field in enumerate(fields):
        field_path, json_path = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not json_path:
            problems.append(required(field_path))
            continue
        found = find_field(json_path, schema)
        if isinstance(found, str):
            problems.append(invalid(field_path, json_path, f"is an invalid path: {found}"))
            continue
        steps, below = found
        if steps and steps[0] == "metadata":
            problems.append(invalid(field_path, json_path, "must not point to fields in metadata"))
        if (below.get("type") or "") not in _SELECTABLE:
            text = "must point to a field of type string, boolean or integer."
            text = f"{text} Enum string fields and strings with formats are allowed."
            problems.append(invalid(field_path, json_path, text))
        if ".".join(steps) in seen:
            problems.append(duplicate(field_path, json_path))
        seen.add(".".join(steps))
    if len(seen) > _MAX_SELECTABLE:
        problems.append(too_many(path, len(seen), _MAX_SELECTABLE))
    return problems


def find_field(path: str, schema: Object) -> tuple[list[str], Object] | str:
    """The steps of a path and the schema of its field, or the error text."""
    steps: list[str] = []
    rest = path
    while rest:
        if rest[0] == "[":
            return "array notation is not allowed"
        if rest[0] != ".":
            return f"expected [ or . but got: {_token(rest)}"
        if len(rest) == 1:
            return "unexpected end of JSON path"
        name = _token(rest[1:])
        rest = rest[1 + len(name) :]
        properties, additional = schema.get("properties"), schema.get("additionalProperties")
        if properties:
            if name not in properties:
                return "does not refer to a valid field"
            schema = properties[name]
        elif isinstance(additional, dict):
            schema = additional
        else:
            return "does not refer to a valid field"
        steps.append(name)
    return steps, schema


def _token(text: str) -> str:
    """The text up to the next dot or bracket, which is a separate token."""
    if text[0] in ".[]":
        return text[0]
    ends = [index for index in (text.find(char) for char in ".[]") if index >= 0]
    return text[: min(ends)] if ends else text
