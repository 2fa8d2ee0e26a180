"""The times of schedules against a reference that examines every minute."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.kube.cron import NEVER_S, CronSchedule, Zone, last_between, next_after, parse_schedule
from headgate.runtime.time_zones import find_zone

# Clocks that change by whole hours: where they change by half of one, the library misses minutes, and so do we.
ZONES: Final = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "America/Sao_Paulo", "Africa/Cairo")
MINUTES: Final = 3 * 1440
# Days around changes of clocks in some of these zones, and an ordinary one.
DAYS: Final = (
    "2024-03-09",
    "2024-03-30",
    "2024-10-26",
    "2024-11-02",
    "2018-11-03",
    "2018-02-17",
    "2024-04-25",
    "2024-07-01",
)


def slow_next(schedule: CronSchedule, after_s: int, zone: ZoneInfo, until_s: int) -> int | None:
    for at_s in range(after_s - after_s % 60 + 60, until_s + 1, 60):
        shown = datetime.fromtimestamp(at_s, zone)
        by_date = bool(schedule.days >> shown.day & 1)
        by_weekday = bool(schedule.weekdays >> (shown.isoweekday() % 7) & 1)
        either = schedule.any_day or schedule.any_weekday
        if (
            schedule.minutes >> shown.minute & 1
            and schedule.hours >> shown.hour & 1
            and schedule.months >> shown.month & 1
            and (by_date and by_weekday if either else by_date or by_weekday)
        ):
            return at_s
    return None


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> str:
    numbers = st.integers(low, high)
    first, last = sorted((draw(numbers), draw(numbers)))
    step = draw(st.integers(1, high))
    return draw(
        st.sampled_from(["*", f"*/{step}", str(first), f"{first}-{last}", f"{first}-{last}/{step}", f"{first},{last}"])
    )


schedules: Final = st.builds(
    lambda *parts: " ".join(parts), fields(0, 59), fields(0, 5), fields(1, 31), fields(1, 12), fields(0, 6)
)
starts: Final = st.builds(
    lambda day, second: int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()) + second,
    st.sampled_from(DAYS),
    st.integers(0, 86400),
)


def read(text: str, where: str) -> tuple[CronSchedule, Zone, ZoneInfo]:
    schedule, zone = parse_schedule(text), find_zone(where)
    assert isinstance(schedule, CronSchedule)
    assert zone is not None
    return schedule, zone, ZoneInfo(where)


@settings(max_examples=150, deadline=None)
@given(schedules, st.sampled_from(ZONES), starts)
def test_the_next_time_is_the_first_minute_at_which_the_clock_matches(text: str, where: str, after_s: int) -> None:
    schedule, zone, clock = read(text, where)
    until_s = after_s + MINUTES * 60
    expected = slow_next(schedule, after_s, clock, until_s)
    found_s = next_after(schedule, after_s, zone)
    assert (found_s if found_s != NEVER_S and found_s <= until_s else None) == expected


@settings(max_examples=100, deadline=None)
@given(schedules, st.sampled_from(ZONES), starts, st.integers(0, 86400))
def test_the_last_time_up_to_now_is_the_last_of_all_of_them(text: str, where: str, after_s: int, span_s: int) -> None:
    schedule, zone, clock = read(text, where)
    until_s, last = after_s + span_s, None
    at_s = slow_next(schedule, after_s, clock, until_s)
    while at_s is not None:
        last, at_s = at_s, slow_next(schedule, at_s, clock, until_s)
    assert last_between(schedule, after_s, until_s, zone) == last
