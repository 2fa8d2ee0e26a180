"""When a schedule comes due: the next instant after one, and the last one up to another.

Instants are whole seconds since 1970. A :data:`Zone` says how far its clocks are ahead of UTC at an instant; where
its rules come from is the caller's business. The walk from field to field is that of the library which Kubernetes
uses, step by step, because around a change of the clocks the steps decide: what would fall into a skipped hour is
skipped, and what falls into a repeated hour comes twice. Reading a schedule is ``kube/cron.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from typing import Final, NamedTuple

from headgate.kube.cron import Every, Schedule
from headgate.kube.timestamps import ZERO_TIME_S, date_of, days_of

Zone = Callable[[int], int]
"""Seconds to add to UTC at an instant."""

NEVER_S: Final = ZERO_TIME_S
"""What comes after no instant: nothing within five years."""

_YEARS: Final = 5


def utc(_: int) -> int:
    return 0


def next_after(schedule: Schedule | Every, after_s: float, zone: Zone = utc) -> int:
    """The first instant later than this one, or :data:`NEVER_S`."""
    if isinstance(schedule, Every):
        return floor(after_s) + schedule.seconds
    return _Walk(schedule, zone, floor(after_s) + 1).arrive()


def last_between(schedule: Schedule | Every, after_s: int, until_s: float, zone: Zone = utc) -> int | None:
    """The last instant later than ``after_s`` and not later than ``until_s``, in a few dozen looks.

    Between the two may lie years of minutes, and whoever wrote the schedule must not keep everybody waiting.
    """
    first_s = next_after(schedule, after_s, zone)
    if first_s == NEVER_S or first_s > until_s:
        return None
    if isinstance(schedule, Every):
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

    def __init__(self, schedule: Schedule, zone: Zone, start_s: int) -> None:
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


def _is_day(schedule: Schedule, shown: _Reading) -> bool:
    by_date = bool(schedule.days >> shown.day & 1)
    by_weekday = bool(schedule.weekdays >> shown.weekday & 1)
    if schedule.any_day or schedule.any_weekday:
        return by_date and by_weekday
    return by_date or by_weekday
