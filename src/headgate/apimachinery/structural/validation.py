"""JSON Schema validation as in the API server, with its error texts and in its order.

A schema is compiled into a closure ``check(value, path, old, out) -> int``, each part on first use: schemas may have
megabytes, and most objects use little of theirs. The closure appends errors to ``out`` and returns the number of passed
checks: if no alternative matches, the errors of the best one are reported. ``old`` is the value at the same place
before an update: an unchanged value is not an error (:class:`CorrelatedObject`).

What kube-apiserver cannot distinguish is not distinguished here: a list passes for text with a format, a float that is
truncated to an integer passes an enumeration.
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
from headgate.apimachinery.structural.violations import Check, SchemaViolation, ViolationList
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
_GO_FORMATS: Final = {"integer": "int64", "number": "float64"}


def compile_schema(schema: Mapping[str, Any]) -> Callable[[Any, Any, StructuralSchema | None, str], FieldErrors]:
    """``validate(value, old, node, prefix)``: the errors of ``value``; ``old`` is None for a create."""
    check = _compile(schema)

    def validate(value: Any, old: Any, node: StructuralSchema | None, prefix: str = "") -> FieldErrors:
        out = ViolationList()
        before = CorrelatedObject(old, value, node) if old is not None and node is not None else None
        check(value, "", before, out)
        if not out or (before is not None and before.unchanged()):
            return []
        return [_located(problem, prefix) for problem in {each.message: each for each in reversed(out)}.values()][::-1]

    return validate


def _located(problem: SchemaViolation, prefix: str) -> FieldError:
    place = (problem.place or "").removeprefix(".")
    if problem.place is None or not place:
        return problem.error(prefix or "<nil>")
    return problem.error(f"{prefix}.{place}" if prefix else place)


def _compile(schema: Mapping[str, Any]) -> Check:
    check_type = _compile_type(schema)
    check_enum = _compile_enum(schema.get("enum") or ())
    alternatives = _compile_alternatives(schema)
    by_class: dict[type, Check] = {}
    formatted = bool(schema.get("format")) and known_format(schema["format"]) is not None

    def check(value: Any, path: str, old: CorrelatedObject | None, out: ViolationList) -> int:
        if value is None:
            passed = check_type(value, path, out) if check_type is not None else 1
            if check_enum is not None:
                check_enum(value, path, out)
            return passed
        count = 4  # alternatives, common checks and the end count once each, and alternatives once more by themselves
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
    wanted = tuple(name for name in names if name)
    form = schema.get("format") or ""
    form = form if known_format(form) is not None else ""
    if not wanted and not form:
        return None
    nullable, numeric = bool(schema.get("nullable")), bool({"number", "integer"} & set(wanted))
    listed = ",".join(wanted)

    def check(value: Any, path: str, out: ViolationList) -> int:
        if value is None:
            if wanted and not nullable:
                return _wrong_type(path, listed, "null", out)
            return 1
        name = _JSON_TYPES[value.__class__]
        fits = name in wanted or (name == "integer" and "number" in wanted)
        plain = name in ("string", "array")
        if form and not plain and not fits:
            return _wrong_type(path, form, _GO_FORMATS.get(name, ""), out)
        if form and plain and not numeric:
            return 1
        return 1 if fits else _wrong_type(path, listed, name, out)

    return check


def _wrong_type(path: str, wanted: str, found: str, out: ViolationList) -> int:
    message = f"{path} in body must be of type {wanted}: {field_errors.quote(found)}"
    out.append(SchemaViolation(message, path, lambda place: field_errors.type_invalid(place, found, message)))
    return 0


def _compile_enum(allowed: Sequence[Any]) -> Callable[[Any, str, ViolationList], None] | None:
    if not allowed:
        return None
    shown = [each if isinstance(each, str) else _encode(each).decode() for each in allowed]
    texts = frozenset(each for each in allowed if isinstance(each, str))
    others = [each for each in allowed if not isinstance(each, str)]
    listed, supported = str(shown), field_errors.supported_values(shown)

    def check(value: Any, path: str, out: ViolationList) -> None:
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
    """Equality after Go's conversion of the value to the type of what is allowed."""
    if value is None or allowed is None:
        return False
    if isinstance(value, float) and isinstance(allowed, int) and not isinstance(allowed, bool):
        return int(value) == allowed
    return bool(value == allowed) and isinstance(value, bool) == isinstance(allowed, bool)


def _compile_text(schema: Mapping[str, Any]) -> Check:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern") or ""
    form = schema.get("format") or ""
    is_form = known_format(form)
    matcher = compile_pattern(pattern) if pattern else None

    def check(value: str, path: str, old: CorrelatedObject | None, out: ViolationList) -> int:
        problem = _text_problem(value, path)
        if problem is not None:
            out.append(problem)
        if is_form is not None and not is_form(value):
            message = f"{path} in body must be of type {form}: {field_errors.quote(value)}"
            out.append(SchemaViolation(message, path, lambda place: field_errors.type_invalid(place, value, message)))
        return 0

    def _text_problem(value: str, path: str) -> SchemaViolation | None:
        if longest is not None and len(value) > longest:
            message = f"{path} in body should be at most {longest} chars long"
            return SchemaViolation(message, path, lambda place: field_errors.too_long(place, longest))
        if shortest is not None and len(value) < shortest:
            message = f"{path} in body should be at least {shortest} chars long"
            return SchemaViolation(message, path, lambda place: field_errors.invalid(place, value, message))
        if matcher is not None and not (isinstance(matcher, Pattern) and matcher.found_in(value)):
            shown = pattern if isinstance(matcher, Pattern) else f"{pattern}, but pattern is invalid: {matcher}"
            message = f"{path} in body should match '{shown}'"
            return SchemaViolation(message, path, lambda place: field_errors.invalid(place, value, message))
        return None

    return check


def _compile_list(schema: Mapping[str, Any]) -> Check:
    items = schema.get("items")
    item = _compile(items) if isinstance(items, dict) else None
    most, least = schema.get("maxItems"), schema.get("minItems")

    def check(value: list[Any], path: str, old: CorrelatedObject | None, out: ViolationList) -> int:
        count = 1
        if item is not None:
            for index, each in enumerate(value):
                if out.full:
                    break
                count += _below(item, each, f"{path}[{index}]", None if old is None else old.item(index), out)
        size = len(value)
        if least is not None and size < least:
            few = f"{path} in body should have at least {least} items"
            out.append(SchemaViolation(few, path, lambda place: field_errors.invalid(place, size, few)))
        if most is not None and size > most:
            many = f"{path} in body should have at most {most} items"
            out.append(SchemaViolation(many, path, lambda place: field_errors.too_many(place, size, most)))
        return count

    return check


def _below(check: Check, value: Any, path: str, old: CorrelatedObject | None, out: ViolationList) -> int:
    """Check a part; if nothing in it changed its errors are forgotten."""
    if old is None:
        return check(value, path, None, out)
    inner = ViolationList()
    count = check(value, path, old, inner)
    if inner and not old.unchanged():
        out.take(inner)
    return count


def _compile_object(schema: Mapping[str, Any]) -> Check:
    parts = {name: _compile(below) for name, below in (schema.get("properties") or {}).items()}
    additional = schema.get("additionalProperties")
    others = _compile(additional) if isinstance(additional, dict) else None
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    required: Sequence[str] = schema.get("required") or ()

    def check(value: dict[str, Any], path: str, old: CorrelatedObject | None, out: ViolationList) -> int:
        count, size = 0, len(value)
        if least is not None and size < least:
            few = f"{path} in body should have at least {least} properties"
            out.append(SchemaViolation(few, path, lambda place: field_errors.invalid(place, size, few)))
        if most is not None and size > most:
            many = f"{path} in body should have at most {most} properties"
            out.append(SchemaViolation(many, path, lambda place: field_errors.too_many(place, size, most)))
        for name, below in value.items():
            if out.full:
                break
            part = parts.get(name)
            if part is not None:
                inner = f"{path}.{name}" if path else name
                count += _below(part, below, inner, _old_field(old, name, path), out)
            elif others is not None:
                count += _below(others, below, f"{path}.{name}", _old_field(old, name, path), out)
            elif additional is False:
                _forbid(path, name, out)
        for name in required:
            if name not in value:
                place = f"{path}.{name}"
                out.append(SchemaViolation(f"{place} in body is required", place, field_errors.required))
        return count

    return check


def _forbid(path: str, name: str, out: ViolationList) -> None:
    message = f"{path}.{name} in body is a forbidden property"
    out.append(SchemaViolation(message, path, lambda place: field_errors.invalid(place, name, message)))


def _old_field(old: CorrelatedObject | None, name: str, path: str) -> CorrelatedObject | None:
    """The type of the whole object is not compared: both sides were made to have the same."""
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
        [_compile(each) for each in schema.get(word) or ()] for word in ("anyOf", "oneOf", "allOf")
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
            inner = ViolationList()
            never(value, path, old, inner)
            if not inner:
                _choose(f"{field_errors.quote(path)} must not validate the schema (not)", out)
        return count

    return check


def _choose(message: str, out: ViolationList) -> None:
    out.append(SchemaViolation(message, None, lambda place: field_errors.invalid(place, "", message)))


def _check_any(
    choices: Sequence[Check], value: Any, path: str, old: CorrelatedObject | None, out: ViolationList
) -> int:
    best, most = None, -1
    for choice in choices:
        inner = ViolationList()
        count = choice(value, path, old, inner)
        if not inner:
            return count
        if count > most:
            best, most = inner, count
    _choose(f"{field_errors.quote(path)} must validate at least one schema (anyOf)", out)
    out.take(best or ())
    return most


def _check_one(
    choices: Sequence[Check], value: Any, path: str, old: CorrelatedObject | None, out: ViolationList
) -> int:
    best, most, fitting, first = None, -1, 0, 0
    for choice in choices:
        inner = ViolationList()
        count = choice(value, path, old, inner)
        if not inner:
            fitting, first = fitting + 1, first or count
        elif not fitting and count > most:
            best, most = inner, count
    if fitting == 1:
        return first
    found = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
    _choose(f"{field_errors.quote(path)} must validate one and only one schema (oneOf). {found}", out)
    if fitting:
        return 0
    out.take(best or ())
    return most


def _check_all(
    choices: Sequence[Check], value: Any, path: str, old: CorrelatedObject | None, out: ViolationList
) -> int:
    total, failed = 0, 0
    for choice in choices:
        inner = ViolationList()
        total += choice(value, path, old, inner)
        failed += bool(inner)
        out.take(inner)
    if failed:
        none = ". None validated" if failed == len(choices) else ""
        _choose(f"{field_errors.quote(path)} must validate all the schemas (allOf){none}", out)
    return total
