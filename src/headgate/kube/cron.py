"""Parses cron schedules and finds the instants at which they are due.

:func:`parse_schedule` reads five fields, or a descriptor such as ``@hourly`` or ``@every 1h30m``. It returns a
:class:`CronSchedule` (bit *n* of a mask set: value *n* matches), a :class:`ConstantDelaySchedule`, or the error text of
the library that Kubernetes uses. :func:`time_zone_prefix` reads a time zone that precedes the fields.

Instants are whole seconds since 1970. A :data:`Zone` returns the offset of its clocks from UTC at an instant; the
caller provides it (``runtime/time_zones.py``). The search uses the same steps as that library, because they decide what
happens at a clock change: an instant in a skipped hour is skipped, an instant in a repeated hour occurs twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
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
MAX_SCHEDULE_CHARACTERS: Final = 4_096
"""Longer texts are not schedules. Kubernetes reads texts of any length; all values of all fields, each by its number,
have fewer than 400 characters."""


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
    """When a schedule is due. In each number, bit *n* is set if the value *n* matches.

    ``any_day`` and ``any_weekday``: the field is ``*``. If neither is ``*``, a day matches if its day of the month or
    its weekday matches; otherwise both must match.
    """

    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    any_day: bool
    any_weekday: bool

    @property
    def can_match(self) -> bool:
        """Whether every field has a value. A field that consists of commas has none."""
        fields = (bool(self.days), bool(self.weekdays))
        has_day = all(fields) if self.any_day or self.any_weekday else any(fields)
        return has_day and bool(self.minutes and self.hours and self.months)


class ConstantDelaySchedule(msgspec.Struct, frozen=True):
    """``@every``: due every so many seconds."""

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


class _ParseError(Exception):
    """Raised and caught in this module."""


def parse_schedule(text: str) -> CronSchedule | ConstantDelaySchedule | str:
    if len(text) > MAX_SCHEDULE_CHARACTERS:
        return f"a schedule has at most {MAX_SCHEDULE_CHARACTERS} characters, found {len(text)}"
    return _parse_cached(text)


@lru_cache(maxsize=1024)  # a controller reads the same schedule at every reconcile
def _parse_cached(text: str) -> CronSchedule | ConstantDelaySchedule | str:
    try:
        return _parse(text)
    except _ParseError as problem:
        return str(problem)


def time_zone_prefix(text: str) -> str:
    """The time zone at the beginning of the text (``TZ=Europe/Berlin ...``), or an empty text."""
    return text.partition(" ")[0].partition("=")[2] if text.startswith(_ZONES) else ""


def _parse(text: str) -> CronSchedule | ConstantDelaySchedule:
    if not text:
        raise _ParseError("empty spec string")
    if text.startswith(_ZONES):
        text = text.partition(" ")[2].strip()
    if text.startswith("@every "):
        nanos = parse_duration(text.removeprefix("@every "))
        if isinstance(nanos, str):
            raise _ParseError(f"failed to parse duration {text}: {nanos}")
        return ConstantDelaySchedule(max(nanos // 1_000_000_000, 1))
    if text.startswith("@") and text not in _DESCRIPTORS:
        raise _ParseError(f"unrecognized descriptor: {text}")
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != len(_FIELDS):
        raise _ParseError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    masks = [_field(field, bounds) for field, bounds in zip(fields, _FIELDS, strict=True)]
    bits = [mask for mask, _ in masks]
    return CronSchedule(bits[0], bits[1], bits[2], bits[3], bits[4], any_day=masks[2][1], any_weekday=masks[4][1])


def _field(text: str, bounds: _Bounds) -> tuple[int, bool]:
    """The mask of a field, and whether one of its expressions is ``*``."""
    mask, star = 0, False
    for expression in filter(None, text.split(",")):
        bits, is_star = _range(expression, bounds)
        mask |= bits
        star = star or is_star
    return mask, star


def _range(expression: str, bounds: _Bounds) -> tuple[int, bool]:
    """The mask of ``a-b/step``, and whether it is ``*`` without a step."""
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
            raise _ParseError(f"too many hyphens: {expression}")
    step = 1
    if len(range_and_step) == 2:
        step = _integer(range_and_step[1])
        if len(limits) == 1:
            end = bounds.high
        star = star and step <= 1
    elif len(range_and_step) > 2:
        raise _ParseError(f"too many slashes: {expression}")
    if start < bounds.low:
        raise _ParseError(f"beginning of range ({start}) below minimum ({bounds.low}): {expression}")
    if end > bounds.high:
        raise _ParseError(f"end of range ({end}) above maximum ({bounds.high}): {expression}")
    if start > end:
        raise _ParseError(f"beginning of range ({start}) beyond end of range ({end}): {expression}")
    if step == 0:
        raise _ParseError(f"step of range should be a positive number: {expression}")
    return sum(1 << value for value in range(start, end + 1, step)), star


def _number(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    return _integer(text) if named is None else named


def _integer(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise _ParseError(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: invalid syntax")
    number = int(text[:30])
    if not -_MAX_INT64 - 1 <= number <= _MAX_INT64:
        raise _ParseError(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: value out of range")
    if number < 0:
        raise _ParseError(f"negative number ({number}) not allowed: {text}")
    return number


Zone = Callable[[int], int]
"""Seconds to add to UTC at an instant."""

NEVER_S: Final = ZERO_TIME_S
"""The result if there is no instant within five years."""

_MAX_YEARS: Final = 5


def utc(_: int) -> int:
    return 0


def next_after(schedule: CronSchedule | ConstantDelaySchedule, after_s: float, zone: Zone = utc) -> int:
    """The first instant later than this one, or :data:`NEVER_S`."""
    if isinstance(schedule, ConstantDelaySchedule):
        return floor(after_s) + schedule.seconds
    if not schedule.can_match:  # a search would look at every minute of five years
        return NEVER_S
    return _Search(schedule, zone, floor(after_s) + 1).run()


def last_between(
    schedule: CronSchedule | ConstantDelaySchedule, after_s: int, until_s: float, zone: Zone = utc
) -> int | None:
    """The last instant later than ``after_s`` and not later than ``until_s``.

    The search is a bisection: a schedule of every minute over several years must not block other work.
    """
    first_s = next_after(schedule, after_s, zone)
    if first_s == NEVER_S or first_s > until_s:
        return None
    if isinstance(schedule, ConstantDelaySchedule):
        return first_s + floor((until_s - first_s) / schedule.seconds) * schedule.seconds
    # In each step, the next instant after low_s is in the interval, and the next instant after high_s is not.
    low_s, high_s = first_s - 1, floor(until_s)
    while high_s - low_s > 1:
        middle_s = (low_s + high_s) // 2
        found_s = next_after(schedule, middle_s, zone)
        if found_s == NEVER_S or found_s > until_s:
            high_s = middle_s
        else:
            low_s = max(middle_s, found_s - 1)
    return next_after(schedule, low_s, zone)


class _WallClock(NamedTuple):
    """A local date and time."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    weekday: int


class _Search:
    """Moves a time forward until every field matches.

    Each of the functions ``_months`` to ``_seconds`` moves the time until one field matches. It returns false if that
    has increased a larger field (from December to January); then the search starts again with the months.
    ``_truncated``: the smaller fields are already at their minimum.
    """

    def __init__(self, schedule: CronSchedule, zone: Zone, start_s: int) -> None:
        self._schedule = schedule
        self._zone = zone
        self._now_s = start_s
        self._truncated = False

    def run(self) -> int:
        last_year = self._wall_clock().year + _MAX_YEARS
        while self._wall_clock().year <= last_year:
            if all(step() for step in (self._months, self._days, self._hours, self._minutes, self._seconds)):
                return self._now_s
        return NEVER_S

    def _months(self) -> bool:
        while not self._schedule.months >> (clock := self._wall_clock()).month & 1:
            if not self._truncated:
                self._truncated = True
                self._set(clock._replace(day=1, hour=0, minute=0, second=0))
                clock = self._wall_clock()
            self._set(clock._replace(month=clock.month + 1))
            if self._wall_clock().month == 1:
                return False
        return True

    def _days(self) -> bool:
        while not _day_matches(self._schedule, clock := self._wall_clock()):
            if not self._truncated:
                self._truncated = True
                self._set(clock._replace(hour=0, minute=0, second=0))
                clock = self._wall_clock()
            before_s = self._now_s
            self._set(clock._replace(day=clock.day + 1))
            hour = self._wall_clock().hour  # not 0 if a clock change has removed midnight
            if hour:
                self._now_s += (24 - hour if hour > 12 else -hour) * 3600
            if self._now_s <= before_s:  # Samoa had no 30 December 2011; the library loops forever there
                self._now_s = before_s + 86400
            if self._wall_clock().day == 1:
                return False
        return True

    def _hours(self) -> bool:
        while not self._schedule.hours >> (clock := self._wall_clock()).hour & 1:
            if not self._truncated:
                self._truncated = True
                self._set(clock._replace(minute=0, second=0))
            self._now_s += 3600
            if self._wall_clock().hour == 0:
                return False
        return True

    def _minutes(self) -> bool:
        while not self._schedule.minutes >> self._wall_clock().minute & 1:
            if not self._truncated:
                self._truncated = True
                self._now_s -= self._now_s % 60
            self._now_s += 60
            if self._wall_clock().minute == 0:
                return False
        return True

    def _seconds(self) -> bool:
        clock = self._wall_clock()
        if clock.second == 0:
            return True
        self._truncated = True
        self._now_s += 60 - clock.second
        return False

    def _wall_clock(self) -> _WallClock:
        days, second = divmod(self._now_s + self._zone(self._now_s), 86400)
        year, month, day = date_of(days)
        return _WallClock(year, month, day, second // 3600, second // 60 % 60, second % 60, (days + 4) % 7)

    def _set(self, clock: _WallClock) -> None:
        """Sets the instant with this local time, or one near it if a clock change skips it."""
        carried, month = divmod(clock.month - 1, 12)
        days = days_of(clock.year + carried, month + 1, 1) + clock.day - 1
        as_utc_s = days * 86400 + clock.hour * 3600 + clock.minute * 60 + clock.second
        self._now_s = as_utc_s - self._zone(as_utc_s - self._zone(as_utc_s))


def _day_matches(schedule: CronSchedule, clock: _WallClock) -> bool:
    by_date = bool(schedule.days >> clock.day & 1)
    by_weekday = bool(schedule.weekdays >> clock.weekday & 1)
    if schedule.any_day or schedule.any_weekday:
        return by_date and by_weekday
    return by_date or by_weekday
