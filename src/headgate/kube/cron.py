"""Cron schedules: five fields, or a descriptor such as ``@hourly`` or ``@every 1h30m``.

:func:`parse_schedule` gives a :class:`Schedule` (bit *n* of a mask set: value *n* matches) or an :class:`Every`, or the
text of what is wrong, in the words of the library that Kubernetes uses. Time zones are not part of a schedule here;
:func:`zone_in` reads one that stands before it. When a schedule comes due is told by ``kube/cron_times.py``.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from headgate.kube.errors import quote
from headgate.kube.timestamps import parse_duration

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_INTEGER: Final = re.compile("[+-]?[0-9]+")
_ZONES: Final = ("TZ=", "CRON_TZ=")
_MAX_INT64: Final = (1 << 63) - 1


class _Bounds(NamedTuple):
    low: int
    high: int
    names: dict[str, int]


_FIELDS: Final = (
    _Bounds(0, 59, {}),
    _Bounds(0, 23, {}),
    _Bounds(1, 31, {}),
    _Bounds(1, 12, {name: i + 1 for i, name in enumerate(_MONTHS)}),
    _Bounds(0, 6, {name: i for i, name in enumerate(_WEEKDAYS)}),
)


class Schedule(msgspec.Struct, frozen=True):
    """``any_day``/``any_weekday``: the field was a star. If neither is, a day matches when either field does."""

    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    any_day: bool
    any_weekday: bool


class Every(msgspec.Struct, frozen=True):
    seconds: int


_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class _Bad(Exception):
    """Leaves the parse; never leaves this module."""


def parse_schedule(text: str) -> Schedule | Every | str:
    try:
        return _parse(text)
    except _Bad as problem:
        return str(problem)


def zone_in(text: str) -> str:
    """The time zone that the text begins with (``TZ=Europe/Berlin ...``), or nothing."""
    return text.partition(" ")[0].partition("=")[2] if text.startswith(_ZONES) else ""


def _parse(text: str) -> Schedule | Every:
    if not text:
        raise _Bad("empty spec string")
    if text.startswith(_ZONES):
        text = text.partition(" ")[2].strip()
    if text.startswith("@every "):
        nanos = parse_duration(text.removeprefix("@every "))
        if isinstance(nanos, str):
            raise _Bad(f"failed to parse duration {text}: {nanos}")
        return Every(max(nanos // 1_000_000_000, 1))
    if text.startswith("@") and text not in _DESCRIPTORS:
        raise _Bad(f"unrecognized descriptor: {text}")
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != len(_FIELDS):
        raise _Bad(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    masks = [_field(field, bounds) for field, bounds in zip(fields, _FIELDS, strict=True)]
    bits = [mask for mask, _ in masks]
    return Schedule(bits[0], bits[1], bits[2], bits[3], bits[4], any_day=masks[2][1], any_weekday=masks[4][1])


def _field(text: str, bounds: _Bounds) -> tuple[int, bool]:
    mask, star = 0, False
    for expression in filter(None, text.split(",")):
        bits, is_star = _range(expression, bounds)
        mask |= bits
        star = star or is_star
    return mask, star


def _range(expression: str, bounds: _Bounds) -> tuple[int, bool]:
    range_and_step = expression.split("/")
    limits = range_and_step[0].split("-")
    star = limits[0] in ("*", "?")
    if star:
        start, end = bounds.low, bounds.high
    else:
        start = end = _number(limits[0], bounds)
        if len(limits) == 2:
            end = _number(limits[1], bounds)
        elif len(limits) > 2:
            raise _Bad(f"too many hyphens: {expression}")
    step = 1
    if len(range_and_step) == 2:
        step = _integer(range_and_step[1])
        if len(limits) == 1:
            end = bounds.high
        star = star and step <= 1
    elif len(range_and_step) > 2:
        raise _Bad(f"too many slashes: {expression}")
    if start < bounds.low:
        raise _Bad(f"beginning of range ({start}) below minimum ({bounds.low}): {expression}")
    if end > bounds.high:
        raise _Bad(f"end of range ({end}) above maximum ({bounds.high}): {expression}")
    if start > end:
        raise _Bad(f"beginning of range ({start}) beyond end of range ({end}): {expression}")
    if step == 0:
        raise _Bad(f"step of range should be a positive number: {expression}")
    return sum(1 << value for value in range(start, end + 1, step)), star


def _number(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    return _integer(text) if named is None else named


def _integer(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise _Bad(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: invalid syntax")
    number = int(text[:30])
    if not -_MAX_INT64 - 1 <= number <= _MAX_INT64:
        raise _Bad(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: value out of range")
    if number < 0:
        raise _Bad(f"negative number ({number}) not allowed: {text}")
    return number
