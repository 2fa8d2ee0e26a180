"""Cron schedules: parsing them, and the instants at which they are due.

:func:`parse_schedule` reads five fields, or a descriptor such as ``@hourly`` or ``@every 1h30m``. It returns a
:class:`CronSchedule` (bit *n* of a mask set: value *n* matches), a :class:`ConstantDelaySchedule`, or the error text of
the library that Kubernetes uses. :func:`zone_in` reads a time zone that precedes the fields.

Instants are whole seconds since 1970. A :data:`Zone` returns the offset of its clocks from UTC at an instant; the
caller provides it (``runtime/time_zones.py``). The search goes from field to field in the steps of that library,
because the steps decide what happens around a clock change: an instant in a skipped hour is skipped, an instant in a
repeated hour comes twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import floor
from typing import Final, NamedTuple

import msgspec

from headgate.kube.field_errors import quote
from headgate.kube.timestamps import ZERO_TIME_S, date_of, days_of, parse_duration

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


class CronSchedule(msgspec.Struct, frozen=True):
    """``any_day``/``any_weekday``: the field was a star. If neither is, a day matches when either field does."""

    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    any_day: bool
    any_weekday: bool


class ConstantDelaySchedule(msgspec.Struct, frozen=True):
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


def parse_schedule(text: str) -> CronSchedule | ConstantDelaySchedule | str:
    try:
        return _parse(text)
    except _Bad as problem:
        return str(problem)


def zone_in(text: str) -> str:
    """The time zone that the text begins with (``TZ=Europe/Berlin ...``), or nothing."""
    return text.partition(" ")[0].partition("=")[2] if text.startswith(_ZONES) else ""


def _parse(text: str) -> CronSchedule | ConstantDelaySchedule:
    if not text:
        raise _Bad("empty spec string")
    if text.startswith(_ZONES):
        text = text.partition(" ")[2].strip()
    if text.startswith("@every "):
        nanos = parse_duration(text.removeprefix("@every "))
        if isinstance(nanos, str):
            raise _Bad(f"failed to parse duration {text}: {nanos}")
        return ConstantDelaySchedule(max(nanos // 1_000_000_000, 1))
    if text.startswith("@") and text not in _DESCRIPTORS:
        raise _Bad(f"unrecognized descriptor: {text}")
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != len(_FIELDS):
        raise _Bad(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    masks = [_field(field, bounds) for field, bounds in zip(fields, _FIELDS, strict=True)]
    bits = [mask for mask, _ in masks]
    return CronSchedule(bits[0], bits[1], bits[2], bits[3], bits[4], any_day=masks[2][1], any_weekday=masks[4][1])


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


Zone = Callable[[int], int]
"""Seconds to add to UTC at an instant."""

NEVER_S: Final = ZERO_TIME_S
"""What comes after no instant: nothing within five years."""

_YEARS: Final = 5


def utc(_: int) -> int:
    return 0


def next_after(schedule: CronSchedule | ConstantDelaySchedule, after_s: float, zone: Zone = utc) -> int:
    """The first instant later than this one, or :data:`NEVER_S`."""
    if isinstance(schedule, ConstantDelaySchedule):
        return floor(after_s) + schedule.seconds
    return _Walk(schedule, zone, floor(after_s) + 1).arrive()


def last_between(
    schedule: CronSchedule | ConstantDelaySchedule, after_s: int, until_s: float, zone: Zone = utc
) -> int | None:
    """The last instant later than ``after_s`` and not later than ``until_s``, in a few dozen looks.

    Between the two may lie years of minutes, and a schedule must not block other work.
    """
    first_s = next_after(schedule, after_s, zone)
    if first_s == NEVER_S or first_s > until_s:
        return None
    if isinstance(schedule, ConstantDelaySchedule):
        return first_s + floor((until_s - first_s) / schedule.seconds) * schedule.seconds
    low_s, high_s = first_s - 1, floor(until_s)  # what follows the low one is in time, what follows the high one is not
    while high_s - low_s > 1:
        middle_s = (low_s + high_s) // 2
        found_s = next_after(schedule, middle_s, zone)
        if found_s == NEVER_S or found_s > until_s:
            high_s = middle_s
        else:
            low_s = max(middle_s, found_s - 1)
    return next_after(schedule, low_s, zone)


class _Reading(NamedTuple):
    """What a clock on the wall shows."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    weekday: int


class _Walk:
    """A time that moves forward until every field matches.

    A step that carries into a larger field starts over with the months. ``_begun``: the smaller fields are at their
    beginning already.
    """

    def __init__(self, schedule: CronSchedule, zone: Zone, start_s: int) -> None:
        self._schedule = schedule
        self._zone = zone
        self._now_s = start_s
        self._begun = False

    def arrive(self) -> int:
        last_year = self._read().year + _YEARS
        while self._read().year <= last_year:
            if all(step() for step in (self._months, self._days, self._hours, self._minutes, self._seconds)):
                return self._now_s
        return NEVER_S

    def _months(self) -> bool:
        while not self._schedule.months >> (shown := self._read()).month & 1:
            if not self._begun:
                self._begun = True
                self._set(shown._replace(day=1, hour=0, minute=0, second=0))
                shown = self._read()
            self._set(shown._replace(month=shown.month + 1))
            if self._read().month == 1:
                return False
        return True

    def _days(self) -> bool:
        while not _is_day(self._schedule, shown := self._read()):
            if not self._begun:
                self._begun = True
                self._set(shown._replace(hour=0, minute=0, second=0))
                shown = self._read()
            before_s = self._now_s
            self._set(shown._replace(day=shown.day + 1))
            hour = self._read().hour  # no midnight, for the clocks change at it
            if hour:
                self._now_s += (24 - hour if hour > 12 else -hour) * 3600
            if self._now_s <= before_s:  # Samoa had no 30 December 2011; there the library never comes to an end
                self._now_s = before_s + 86400
            if self._read().day == 1:
                return False
        return True

    def _hours(self) -> bool:
        while not self._schedule.hours >> (shown := self._read()).hour & 1:
            if not self._begun:
                self._begun = True
                self._set(shown._replace(minute=0, second=0))
            self._now_s += 3600
            if self._read().hour == 0:
                return False
        return True

    def _minutes(self) -> bool:
        while not self._schedule.minutes >> self._read().minute & 1:
            if not self._begun:
                self._begun = True
                self._now_s -= self._now_s % 60
            self._now_s += 60
            if self._read().minute == 0:
                return False
        return True

    def _seconds(self) -> bool:
        shown = self._read()
        if shown.second == 0:
            return True
        self._begun = True
        self._now_s += 60 - shown.second
        return False

    def _read(self) -> _Reading:
        days, second = divmod(self._now_s + self._zone(self._now_s), 86400)
        year, month, day = date_of(days)
        return _Reading(year, month, day, second // 3600, second // 60 % 60, second % 60, (days + 4) % 7)

    def _set(self, shown: _Reading) -> None:
        """To an instant at which the wall clock shows this, or nearly, when clocks skip it."""
        carried, month = divmod(shown.month - 1, 12)
        days = days_of(shown.year + carried, month + 1, 1) + shown.day - 1
        as_utc_s = days * 86400 + shown.hour * 3600 + shown.minute * 60 + shown.second
        self._now_s = as_utc_s - self._zone(as_utc_s - self._zone(as_utc_s))


def _is_day(schedule: CronSchedule, shown: _Reading) -> bool:
    by_date = bool(schedule.days >> shown.day & 1)
    by_weekday = bool(schedule.weekdays >> shown.weekday & 1)
    if schedule.any_day or schedule.any_weekday:
        return by_date and by_weekday
    return by_date or by_weekday
