"""JSON Schema validation as in the API server, with its error texts and in its order.

A schema is compiled into a closure ``check(value, path, old, out) -> int``, each part on first use: schemas may have
megabytes, and most objects use only a small part. The closure appends errors to ``out`` and returns the number of
passed checks. This number selects among the alternatives of ``anyOf`` and ``oneOf``: if none of them matches, the
errors of the one with the most passed checks are reported. ``old`` is the corresponding value before an update: a value
that was invalid before and is unchanged is not an error (:class:`CorrelatedObject`).

Some checks are as imprecise as in kube-apiserver: a list is accepted for a string with a format, and a float is
accepted by an enumeration that has the float without its fraction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.apimachinery.structural.formats import known_format
from headgate.apimachinery.structural.numbers import compile_number
from headgate.apimachinery.structural.patterns import Pattern, compile_pattern
from headgate.apimachinery.structural.ratcheting import CorrelatedObject
from headgate.apimachinery.structural.schema import StructuralSchema
from headgate.apimachinery.structural.violations import (
    MAX_CHECKS,
    MAX_PATTERN_STEPS,
    Check,
    RemainingWork,
    SchemaViolation,
    TooManyChecks,
    ViolationList,
)
from headgate.kube import field_errors
from headgate.kube.field_errors import FieldError, FieldErrors, FieldErrorType

_JSON_TYPES: Final[dict[type, str]] = {
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
_encode: Final = msgspec.json.Encoder(order="sorted").encode
_TOO_MANY_CHECKS: Final = (
    f"its values have to pass more than {MAX_CHECKS} checks of the schema, or {MAX_PATTERN_STEPS} steps of patterns"
)
_GO_FORMATS: Final = {"integer": "int64", "number": "float64"}


def compile_schema(schema: Mapping[str, Any]) -> Callable[[Any, Any, StructuralSchema | None, str], FieldErrors]:
    """A function ``validate(value, old, node, prefix)`` that returns the errors of ``value``.

    ``old``: the value before an update, None for a create. ``node``: the parsed schema. ``prefix``: the path of value.
    """
    check = _compile(schema)

    def validate(value: Any, old: Any, node: StructuralSchema | None, prefix: str = "") -> FieldErrors:
        out = ViolationList(RemainingWork())
        before = CorrelatedObject(old, value, node) if old is not None and node is not None else None
        try:
            check(value, "", before, out)
        except TooManyChecks:
            return [field_errors.forbidden(prefix or "<nil>", _TOO_MANY_CHECKS)]
        if not out or (before is not None and before.unchanged()):
            return []
        return [
            _to_field_error(problem, prefix) for problem in {each.message: each for each in reversed(out)}.values()
        ][::-1]

    return validate


def _to_field_error(problem: SchemaViolation, prefix: str) -> FieldError:
    violation_path = (problem.path or "").removeprefix(".")
    if problem.path is None or not violation_path:
        return problem.error(prefix or "<nil>")
    return problem.error(f"{prefix}.{violation_path}" if prefix else violation_path)


def _compile(schema: Mapping[str, Any]) -> Check:
    check_type = _compile_type(schema)
    check_enum = _compile_enum(schema.get("enum") or ())
    alternatives = _compile_alternatives(schema)
    by_class: dict[type, Check] = {}
    formatted = bool(schema.get("format")) and known_format(schema["format"]) is not None

    def check(value: Any, path: str, old: CorrelatedObject | None, out: ViolationList) -> int:
        out.work.spend(1)
        if value is None:
            passed = check_type(value, path, out) if check_type is not None else 1
            if check_enum is not None:
                check_enum(value, path, out)
            return passed
        # Always counted, as in kube-apiserver: two for alternatives, one for common checks, one at the end.
        count = 4
        if check_type is not None:
            count += 1 + check_type(value, path, out)
        if alternatives is not None:
            count += alternatives(value, path, old, out)
        own = by_class.get(value.__class__)
        if own is not None:
            count += 1 + own(value, path, old, out)
        elif (make := _BY_CLASS.get(value.__class__)) is not None:
            own = by_class[value.__class__] = make(schema)
            count += 1 + own(value, path, old, out)
        if formatted and value.__class__ is str:
            count += 1
        if check_enum is not None:
            check_enum(value, path, out)
        return count

    return check


def _compile_type(schema: Mapping[str, Any]) -> Callable[[Any, str, ViolationList], int] | None:
    names = ("integer", "string") if schema.get("x-kubernetes-int-or-string") else (schema.get("type") or "",)
    expected = tuple(name for name in names if name)
    format_ = schema.get("format") or ""
    format_ = format_ if known_format(format_) is not None else ""
    if not expected and not format_:
        return None
    nullable, numeric = bool(schema.get("nullable")), bool({"number", "integer"} & set(expected))
    listed = ",".join(expected)

    def check(value: Any, path: str, out: ViolationList) -> int:
        if value is None:
            if expected and not nullable:
                return _wrong_type(path, listed, "null", out)
            return 1
        name = _JSON_TYPES[value.__class__]
        is_integer = name == "integer" or (name == "number" and value.is_integer())
        fits = (
            name in expected or (name == "integer" and "number" in expected) or (is_integer and "integer" in expected)
        )
        plain = name in ("string", "array")
        if format_ and not plain and not fits:
            return _wrong_type(path, format_, _GO_FORMATS.get(name, ""), out)
        if format_ and plain and not numeric:
            return 1
        return 1 if fits else _wrong_type(path, listed, name, out)

    return check


def _wrong_type(path: str, expected: str, found: str, out: ViolationList) -> int:
    message = f"{path} in body must be of type {expected}: {field_errors.quote(found)}"
    out.append(SchemaViolation(message, path, lambda place: field_errors.type_invalid(place, found, message)))
    return 0


def _compile_enum(allowed: Sequence[Any]) -> Callable[[Any, str, ViolationList], None] | None:
    if not allowed:
        return None
    allowed_texts = [each if isinstance(each, str) else _encode(each).decode() for each in allowed]
    texts = frozenset(each for each in allowed if isinstance(each, str))
    others = [each for each in allowed if not isinstance(each, str)]
    listed, supported = str(allowed_texts), field_errors.supported_values(allowed_texts)

    def check(value: Any, path: str, out: ViolationList) -> None:
        out.work.spend(len(others))
        fits = value in texts if value.__class__ is str else any(_converts(value, each) for each in others)
        if not fits:
            message = f"{path} in body should be one of {listed}"
            out.append(
                SchemaViolation(
                    message, path, lambda place: FieldError(FieldErrorType.NOT_SUPPORTED, place, value, supported)
                )
            )

    return check


def _converts(value: Any, allowed: Any) -> bool:
    """Equality after Go's conversion of the value to the type of the allowed one."""
    if value is None or allowed is None:
        return False
    if isinstance(value, float) and isinstance(allowed, int) and not isinstance(allowed, bool):
        return int(value) == allowed
    return bool(value == allowed) and isinstance(value, bool) == isinstance(allowed, bool)


def _compile_text(schema: Mapping[str, Any]) -> Check:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern") or ""
    format_ = schema.get("format") or ""
    matches_format = known_format(format_)
    matcher = compile_pattern(pattern) if pattern else None

    def check(value: str, path: str, old: CorrelatedObject | None, out: ViolationList) -> int:
        problem = _text_problem(value, path, out)
        if problem is not None:
            out.append(problem)
        if matches_format is not None and not matches_format(value):
            message = f"{path} in body must be of type {format_}: {field_errors.quote(value)}"
            out.append(SchemaViolation(message, path, lambda place: field_errors.type_invalid(place, value, message)))
        return 0

    def _text_problem(value: str, path: str, out: ViolationList) -> SchemaViolation | None:
        if longest is not None and len(value) > longest:
            message = f"{path} in body should be at most {longest} chars long"
            return SchemaViolation(message, path, lambda place: field_errors.too_long(place, longest))
        if shortest is not None and len(value) < shortest:
            message = f"{path} in body should be at least {shortest} chars long"
            return SchemaViolation(message, path, lambda place: field_errors.invalid(place, value, message))
        if isinstance(matcher, Pattern):
            size = len(value) if value.isascii() else len(value.encode(errors="replace"))
            if size > matcher.max_bytes:
                message = f"{path} in body is too long for its pattern: at most {matcher.max_bytes} bytes are matched"
                return SchemaViolation(message, path, lambda place: field_errors.invalid(place, value, message))
            out.work.spend_steps(size * matcher.states)
        if matcher is not None and not (isinstance(matcher, Pattern) and matcher.matches(value)):
            shown = pattern if isinstance(matcher, Pattern) else f"{pattern}, but pattern is invalid: {matcher}"
            message = f"{path} in body should match '{shown}'"
            return SchemaViolation(message, path, lambda place: field_errors.invalid(place, value, message))
        return None

    return check


def _compile_list(schema: Mapping[str, Any]) -> Check:
    items = schema.get("items")
    item = _compile(items) if isinstance(items, dict) else None
    max_count, min_count = schema.get("maxItems"), schema.get("minItems")

    def check(value: list[Any], path: str, old: CorrelatedObject | None, out: ViolationList) -> int:
        count = 1
        if item is not None:
            for index, each in enumerate(value):
                if out.full:
                    break
                count += _check_part(item, each, f"{path}[{index}]", None if old is None else old.item(index), out)
        size = len(value)
        if min_count is not None and size < min_count:
            message = f"{path} in body should have at least {min_count} items"
            out.append(SchemaViolation(message, path, lambda place: field_errors.invalid(place, size, message)))
        if max_count is not None and size > max_count:
            max_message = f"{path} in body should have at most {max_count} items"
            out.append(SchemaViolation(max_message, path, lambda place: field_errors.too_many(place, size, max_count)))
        return count

    return check


def _check_part(check: Check, value: Any, path: str, old: CorrelatedObject | None, out: ViolationList) -> int:
    """Checks a part; the errors of an unchanged part are dropped."""
    if old is None:
        return check(value, path, None, out)
    inner = out.inner()
    count = check(value, path, old, inner)
    if inner and not old.unchanged():
        out.add_all(inner)
    return count


def _compile_object(schema: Mapping[str, Any]) -> Check:
    parts = {name: _compile(below) for name, below in (schema.get("properties") or {}).items()}
    additional = schema.get("additionalProperties")
    others = _compile(additional) if isinstance(additional, dict) else None
    max_count, min_count = schema.get("maxProperties"), schema.get("minProperties")
    required: Sequence[str] = schema.get("required") or ()

    def check(value: dict[str, Any], path: str, old: CorrelatedObject | None, out: ViolationList) -> int:
        count, size = 0, len(value)
        if min_count is not None and size < min_count:
            message = f"{path} in body should have at least {min_count} properties"
            out.append(SchemaViolation(message, path, lambda place: field_errors.invalid(place, size, message)))
        if max_count is not None and size > max_count:
            max_message = f"{path} in body should have at most {max_count} properties"
            out.append(SchemaViolation(max_message, path, lambda place: field_errors.too_many(place, size, max_count)))
        for name, below in value.items():
            if out.full:
                break
            part = parts.get(name)
            if part is not None:
                inner = f"{path}.{name}" if path else name
                count += _check_part(part, below, inner, _old_field(old, name, path), out)
            elif others is not None:
                count += _check_part(others, below, f"{path}.{name}", _old_field(old, name, path), out)
            elif additional is False:
                _forbid(path, name, out)
        out.work.spend(len(required))
        for name in required:
            if name not in value:
                required_path = f"{path}.{name}"
                out.append(
                    SchemaViolation(f"{required_path} in body is required", required_path, field_errors.required)
                )
        return count

    return check


def _forbid(path: str, name: str, out: ViolationList) -> None:
    message = f"{path}.{name} in body is a forbidden property"
    out.append(SchemaViolation(message, path, lambda place: field_errors.invalid(place, name, message)))


def _old_field(old: CorrelatedObject | None, name: str, path: str) -> CorrelatedObject | None:
    """The old and new value of a field. ``kind`` and ``apiVersion`` of the object have none: they never change."""
    if old is None or (not path and name in ("kind", "apiVersion")):
        return None
    return old.field(name)


_BY_CLASS: Final[dict[type, Callable[[Mapping[str, Any]], Check]]] = {
    str: _compile_text,
    int: compile_number,
    float: compile_number,
    list: _compile_list,
    dict: _compile_object,
}


def _compile_alternatives(schema: Mapping[str, Any]) -> Check | None:
    any_of, one_of, all_of = (
        [_compile(each) for each in schema.get(keyword) or ()] for keyword in ("anyOf", "oneOf", "allOf")
    )
    never = _compile(schema["not"]) if isinstance(schema.get("not"), dict) else None
    if not (any_of or one_of or all_of or never):
        return None

    def check(value: Any, path: str, old: CorrelatedObject | None, out: ViolationList) -> int:
        count = 0
        if any_of:
            count += _check_any(any_of, value, path, old, out)
        if one_of:
            count += _check_one(one_of, value, path, old, out)
        if all_of:
            count += _check_all(all_of, value, path, old, out)
        if never is not None:
            inner = out.inner()
            never(value, path, old, inner)
            if not inner:
                _add_alternative_error(f"{field_errors.quote(path)} must not validate the schema (not)", out)
        return count

    return check


def _add_alternative_error(message: str, out: ViolationList) -> None:
    out.append(SchemaViolation(message, None, lambda place: field_errors.invalid(place, "", message)))


def _check_any(
    choices: Sequence[Check], value: Any, path: str, old: CorrelatedObject | None, out: ViolationList
) -> int:
    best, max_count = None, -1
    for choice in choices:
        inner = out.inner()
        count = choice(value, path, old, inner)
        if not inner:
            return count
        if count > max_count:
            best, max_count = inner, count
    _add_alternative_error(f"{field_errors.quote(path)} must validate at least one schema (anyOf)", out)
    out.add_all(best or ())
    return max_count


def _check_one(
    choices: Sequence[Check], value: Any, path: str, old: CorrelatedObject | None, out: ViolationList
) -> int:
    best, max_count, matching, first = None, -1, 0, 0
    for choice in choices:
        inner = out.inner()
        count = choice(value, path, old, inner)
        if not inner:
            matching, first = matching + 1, first or count
        elif not matching and count > max_count:
            best, max_count = inner, count
    if matching == 1:
        return first
    found = f"Found {matching} valid alternatives" if matching else "Found none valid"
    _add_alternative_error(f"{field_errors.quote(path)} must validate one and only one schema (oneOf). {found}", out)
    if matching:
        return 0
    out.add_all(best or ())
    return max_count


def _check_all(
    choices: Sequence[Check], value: Any, path: str, old: CorrelatedObject | None, out: ViolationList
) -> int:
    total, failed = 0, 0
    for choice in choices:
        inner = out.inner()
        total += choice(value, path, old, inner)
        failed += bool(inner)
        out.add_all(inner)
    if failed:
        none = ". None validated" if failed == len(choices) else ""
        _add_alternative_error(f"{field_errors.quote(path)} must validate all the schemas (allOf){none}", out)
    return total
