"""Validation of values that occur in many kinds: nonnegative numbers, immutable fields, names, ports and percentages.

The functions do not depend on a kind. ``labels.py`` validates selectors; ``kube/names.py`` validates the form of names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, Final

from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, invalid, not_supported, required
from headgate.kube.integers import read_natural

IMMUTABLE: Final = "field is immutable"
NEGATIVE: Final = "must be greater than or equal to 0"
NOT_POSITIVE: Final = "must be greater than zero"

_NUMBER: Final = re.compile("[+-]?[0-9]{1,18}")

TextRule = Callable[[str], list[str]]


def validate_nonnegative(value: int, path: str) -> FieldErrors:
    return [invalid(path, value, NEGATIVE)] if value < 0 else []


def validate_positive(value: int, path: str) -> FieldErrors:
    return [invalid(path, value, NOT_POSITIVE)] if value <= 0 else []


def validate_nonnegative_fields(obj: Mapping[str, Any], path: str, fields: Collection[str]) -> FieldErrors:
    """``validate_nonnegative`` for several optional numbers of one object, in order."""
    return [error for name in fields if name in obj for error in validate_nonnegative(obj[name], f"{path}.{name}")]


def validate_immutable(new: Any, old: Any, path: str) -> FieldErrors:
    """The message contains ``new``. ``None`` stands for an absent value."""
    return [invalid(path, new, IMMUTABLE)] if new != old else []


def validate_text(rule: TextRule, value: str, path: str) -> FieldErrors:
    """All errors of a name rule, at one path."""
    return [invalid(path, value, message) for message in rule(value)]


def validate_one_of(value: str, path: str, allowed: Collection[str]) -> FieldErrors:
    """An enumeration; the error lists the values in alphabetical order."""
    return [] if value in allowed else [not_supported(path, value, sorted(allowed))]


def validate_required_one_of(value: str, path: str, allowed: Collection[str]) -> FieldErrors:
    return validate_one_of(value, path, allowed) if value else [required(path)]


def validate_label(labels: Mapping[str, str], path: str, key: str, expected: str) -> FieldErrors:
    """``path`` is the path of the metadata."""
    if key not in labels:
        return [required(f"{path}.labels[{key}]", f"must be '{expected}'")]
    if labels[key] != expected:
        return [invalid(f"{path}.labels[{key}]", dict(labels), f"must be '{expected}'")]
    return []


def validate_domain_prefixed_path(value: str, path: str) -> FieldErrors:
    """``acme.io/foo``: a domain, then a path within it."""
    if not value:
        return [required(path)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    found = validate_text(names.is_dns1123_subdomain, host, path)
    return found + validate_text(names.is_http_path, rest, path)


def validate_port_number_or_name(value: int | str, path: str) -> FieldErrors:
    """A target port: a number, or the name of a container's port."""
    return (
        validate_text(names.is_valid_port_name, value, path)
        if isinstance(value, str)
        else validate_port_number(value, path)
    )


def are_duplicates(values: Iterable[Hashable]) -> list[bool]:
    """For each value, in order, whether it occurred before."""
    seen: set[Hashable] = set()
    found: list[bool] = []
    for value in values:
        found.append(value in seen)
        seen.add(value)
    return found


def validate_port_number(value: int, path: str) -> FieldErrors:
    return [invalid(path, value, message) for message in names.is_valid_port_num(value)]


def validate_nonnegative_int_or_percent(value: int | str, path: str) -> FieldErrors:
    if isinstance(value, str):
        return validate_text(names.is_valid_percent, value, path)
    return validate_nonnegative(value, path)


def percent(value: int | str | None) -> int | None:
    """The number in ``"25%"``; ``None`` for integers and malformed texts."""
    if isinstance(value, str) and not names.is_valid_percent(value):
        return read_natural(value[:-1])
    return None


def validate_at_most_100_percent(value: int | str | None, path: str) -> FieldErrors:
    number = percent(value)
    return [invalid(path, value, "must not be greater than 100%")] if number is not None and number > 100 else []


def int_or_percent_value(value: int | str | None) -> int:
    """The integer of ``5`` and ``"5"``, and 25 of ``"25%"``. Zero if the value is absent or malformed."""
    number = percent(value)
    if number is not None:
        return number
    if isinstance(value, str):
        return int(value) if _NUMBER.fullmatch(value) else 0
    return value or 0
