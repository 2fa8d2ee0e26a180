"""When CronJobs are due, and which times they missed."""

from __future__ import annotations

import pytest

from headgate.controllers.cron_jobs.jobs import local_time
from headgate.controllers.cron_jobs.schedule import (
    MissedSchedules,
    ZonedSchedule,
    missed_schedules,
    next_check_s,
    read,
    zone_of,
)
from headgate.kube.cron import ConstantDelaySchedule, utc
from headgate.runtime.time_zones import find_zone

HOUR_S = 3600
HOURLY = {"schedule": "0 * * * *"}


def timetable(**spec: str) -> ZonedSchedule:
    found = read(spec, utc, find_zone)
    assert not isinstance(found, str), found
    return found


def test_a_zone_in_the_schedule_counts_and_is_not_supported() -> None:
    found = timetable(schedule="TZ=Asia/Kathmandu 0 0 * * *")
    assert found.is_unsupported
    assert found.zone(0) == 5.5 * HOUR_S, "as it was in 1970"
    assert read({"schedule": "TZ=No/Where * * * * *"}, utc, find_zone) == (
        "provided bad location No/Where: unknown time zone No/Where"
    )


def test_an_unknown_zone_is_a_problem() -> None:
    assert zone_of({"timeZone": "No/Where"}, find_zone) == "unknown time zone No/Where"
    assert zone_of({}, find_zone) is utc


def test_an_invalid_schedule_is_a_problem() -> None:
    assert read({"schedule": "x"}, utc, find_zone) == "expected exactly 5 fields, found 1: [x]"


def test_nothing_is_missed_before_the_first_time() -> None:
    assert missed_schedules(timetable(**HOURLY), 0, HOUR_S - 1) == MissedSchedules(0)


def test_one_time_is_missed_at_its_instant() -> None:
    assert missed_schedules(timetable(**HOURLY), 0, HOUR_S) == MissedSchedules(0, HOUR_S)


def test_the_last_missed_time_is_returned_with_the_approximate_number() -> None:
    assert missed_schedules(timetable(**HOURLY), 0, 5.5 * HOUR_S) == MissedSchedules(0, 5 * HOUR_S, 5)


def test_times_at_irregular_intervals_are_found() -> None:
    uneven = timetable(schedule="0 0,1,20 * * *")
    assert missed_schedules(uneven, 0, 47 * HOUR_S).last_s == 44 * HOUR_S


def test_intervals_keep_their_phase() -> None:
    every = ZonedSchedule(ConstantDelaySchedule(90), utc)
    assert missed_schedules(every, 7, 1000).last_s == 7 + 11 * 90
    assert next_check_s(every, 7, 1000) == 7 + 12 * 90 + 0.1 - 1000


def test_the_next_check_is_a_little_after_the_next_time() -> None:
    assert next_check_s(timetable(**HOURLY), 0, 10) == pytest.approx(HOUR_S + 0.1 - 10)
    assert next_check_s(timetable(**HOURLY), 0, 10 * HOUR_S + 1) == pytest.approx(HOUR_S + 0.1 - 1)
    assert next_check_s(timetable(schedule="0 0 31 2 *"), 0, 10) is None


def test_a_time_is_formatted_in_its_zone() -> None:
    berlin, newfoundland = find_zone("Europe/Berlin"), find_zone("America/St_Johns")
    assert berlin is not None
    assert newfoundland is not None
    assert local_time(1_700_000_000, utc) == "2023-11-14T22:13:20Z"
    assert local_time(1_700_000_000, berlin) == "2023-11-14T23:13:20+01:00"
    assert local_time(1_700_000_000, newfoundland) == "2023-11-14T18:43:20-03:30"
