"""When schedules are due. The table has the results of the library that Kubernetes uses (robfig/cron v3.0.1)."""

from __future__ import annotations

import pytest

from headgate.kube.cron import (
    NEVER_S,
    ConstantDelaySchedule,
    CronSchedule,
    Zone,
    last_between,
    next_after,
    parse_schedule,
    time_zone_prefix,
    utc,
)
from headgate.kube.timestamps import format_time, parse_time
from headgate.runtime.time_zones import find_zone

EXPECTED_TIMES = [
    ("Europe/Berlin", "30 2 * * *", "2024-03-30T12:00:00Z", "2024-04-01T00:30:00Z"),
    ("Europe/Berlin", "30 2 * * *", "2024-03-30T01:30:00Z", "2024-04-01T00:30:00Z"),
    ("Europe/Berlin", "30 2 * * *", "2024-10-26T23:00:00Z", "2024-10-27T00:30:00Z"),
    ("Europe/Berlin", "30 2 * * *", "2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z"),
    ("Europe/Berlin", "30 2 * * *", "2024-10-27T01:30:00Z", "2024-10-28T01:30:00Z"),
    ("America/New_York", "0 * * * *", "2024-03-10T06:30:00Z", "2024-03-10T07:00:00Z"),
    ("America/New_York", "15 1-3 * * *", "2024-11-03T05:15:00Z", "2024-11-03T06:15:00Z"),
    ("America/Sao_Paulo", "0 0 * * *", "2018-11-03T12:00:00Z", "2018-11-05T02:00:00Z"),
    ("America/Sao_Paulo", "30 0 4 11 *", "2018-11-01T12:00:00Z", "2019-11-04T03:30:00Z"),
    ("America/Havana", "0 0 10 3 *", "2024-03-01T00:00:00Z", "2025-03-10T04:00:00Z"),
    ("Australia/Lord_Howe", "0 2 * * *", "2024-04-06T14:30:00Z", "2024-04-07T15:30:00Z"),
    ("Australia/Lord_Howe", "10 2 * * *", "2024-10-05T12:00:00Z", "2024-10-06T15:10:00Z"),
    ("Asia/Kathmandu", "0 6 * * 1", "2024-05-05T00:00:00Z", "2024-05-06T00:15:00Z"),
    ("Africa/Cairo", "0 0 * * 5", "2024-04-25T00:00:00Z", "2024-05-02T21:00:00Z"),
    ("UTC", "0 0 29 2 *", "2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"),
    ("UTC", "0 0 31 2 *", "2024-01-01T00:00:00Z", "never"),
    ("UTC", "0 0 13 * 5", "2024-01-01T00:00:00Z", "2024-01-05T00:00:00Z"),
    ("UTC", "0 0 */2 * 5", "2024-01-01T00:00:00Z", "2024-01-03T00:00:00Z"),
    ("UTC", "59 23 31 12 *", "2024-12-31T23:59:00Z", "2025-12-31T23:59:00Z"),
    ("UTC", "*/7 * * * *", "2024-01-01T00:56:30Z", "2024-01-01T01:00:00Z"),
    ("UTC", "@hourly", "2024-01-01T00:59:59Z", "2024-01-01T01:00:00Z"),
    ("UTC", "@weekly", "2024-01-06T23:59:59Z", "2024-01-07T00:00:00Z"),
    ("UTC", "@every 90s", "2024-01-01T00:00:07Z", "2024-01-01T00:01:37Z"),
    ("UTC", "@every 1h30m0.7s", "2024-01-01T00:00:07Z", "2024-01-01T01:30:07Z"),
]


def schedule(text: str) -> CronSchedule | ConstantDelaySchedule:
    parsed = parse_schedule(text)
    assert not isinstance(parsed, str), parsed
    return parsed


def instant(text: str) -> int:
    parsed = parse_time(text)
    assert isinstance(parsed, int), parsed
    return parsed


def zone(name: str) -> Zone:
    found = find_zone(name)
    assert found is not None
    return found


@pytest.mark.parametrize(("where", "text", "after", "expected"), EXPECTED_TIMES)
def test_the_next_time_is_the_one_of_the_go_library(where: str, text: str, after: str, expected: str) -> None:
    found_s = next_after(schedule(text), instant(after), zone(where))
    assert ("never" if found_s == NEVER_S else format_time(found_s)) == expected


def test_a_part_of_a_second_does_not_count() -> None:
    assert next_after(schedule("* * * * *"), 59.9) == 60
    assert next_after(schedule("* * * * *"), 60.2) == 120
    assert next_after(ConstantDelaySchedule(10), 5.5) == 15


def test_the_day_that_samoa_skipped_is_passed_over() -> None:
    apia = zone("Pacific/Apia")
    found_s = next_after(schedule("0 4 30 * *"), instant("2011-12-28T23:48:54Z"), apia)
    assert format_time(found_s + apia(found_s)) == "2012-01-30T04:00:00Z"


def test_the_last_of_many_times_is_found_by_bisection() -> None:
    calls: list[int] = []

    def counted(at_s: int) -> int:
        calls.append(at_s)
        return 0

    every_minute_of_half_a_year = schedule("* * * 1-6 *")
    now_s = instant("2024-06-30T23:59:30Z")
    found = last_between(every_minute_of_half_a_year, instant("2023-07-01T00:00:00Z"), now_s, counted)
    assert found == instant("2024-06-30T23:59:00Z")
    assert len(calls) < 20_000


def test_nothing_is_due_before_the_first_time() -> None:
    assert last_between(schedule("0 0 1 1 *"), 0, 86400) is None
    assert last_between(schedule("0 0 31 2 *"), 0, 86400) is None
    assert last_between(ConstantDelaySchedule(100), 0, 99) is None
    assert last_between(ConstantDelaySchedule(100), 0, 1000.5) == 1000


def test_an_unknown_zone_is_none() -> None:
    assert [find_zone(each) for each in ("Nowhere/Land", "", "../etc", "Europe")] == [None] * 4
    assert zone("UTC")(0) == utc(0) == 0


def test_a_zone_may_precede_the_schedule() -> None:
    assert time_zone_prefix("CRON_TZ=Europe/Berlin 0 * * * *") == "Europe/Berlin"
    assert time_zone_prefix("0 * * * *") == ""


def test_instants_in_the_year_9999_work() -> None:
    year_9999 = instant("9999-06-01T00:00:00Z")
    assert next_after(schedule("0 0 1 7 *"), year_9999, zone("Europe/Berlin")) > year_9999


@pytest.mark.parametrize(
    ("text", "is_never"),
    [
        (", * * * *", True),
        ("* , * * *", True),
        ("* * , * *", True),
        ("* * * , *", True),
        ("* * * * ,", True),
        ("* * , * ,", True),
        ("0 0 , * 1", False),
        ("0 0 1 * ,", False),
    ],
)
def test_a_field_of_commas_matches_nothing_and_is_not_searched(text: str, is_never: bool) -> None:
    calls: list[int] = []

    def counted(at_s: int) -> int:
        calls.append(at_s)
        return 0

    assert (next_after(schedule(text), 0, counted) == NEVER_S) is is_never
    assert len(calls) < 1_000
