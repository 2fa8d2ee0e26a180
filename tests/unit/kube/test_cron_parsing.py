"""Parsing of cron schedules, and its errors."""

from __future__ import annotations

import pytest

from headgate.kube import cron
from headgate.kube.cron import MAX_SCHEDULE_CHARACTERS, ConstantDelaySchedule, CronSchedule, parse_schedule


def _values(mask: int) -> list[int]:
    return [value for value in range(64) if mask >> value & 1]


def test_five_fields_are_parsed_to_masks() -> None:
    schedule = parse_schedule("*/20 8-10 1,15 jan-mar SUN")
    assert isinstance(schedule, CronSchedule)
    assert _values(schedule.minutes) == [0, 20, 40]
    assert _values(schedule.hours) == [8, 9, 10]
    assert _values(schedule.days) == [1, 15]
    assert _values(schedule.months) == [1, 2, 3]
    assert _values(schedule.weekdays) == [0]
    assert not schedule.any_day
    assert not schedule.any_weekday


def test_a_step_after_one_number_runs_to_the_end() -> None:
    schedule = parse_schedule("50/4 * * * *")
    assert isinstance(schedule, CronSchedule)
    assert _values(schedule.minutes) == [50, 54, 58]
    assert schedule.any_day
    assert schedule.any_weekday


def test_a_stepped_star_is_no_star() -> None:
    schedule = parse_schedule("0 0 */2 * ?")
    assert isinstance(schedule, CronSchedule)
    assert not schedule.any_day
    assert schedule.any_weekday


@pytest.mark.parametrize(
    ("descriptor", "fields"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_a_descriptor_equals_its_fields(descriptor: str, fields: str) -> None:
    assert parse_schedule(descriptor) == parse_schedule(fields)


def test_every_is_a_duration_of_at_least_a_second() -> None:
    assert parse_schedule("@every 1h30m") == ConstantDelaySchedule(5400)
    assert parse_schedule("@every 5ms") == ConstantDelaySchedule(1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("* * * foo *", 'failed to parse int from foo: strconv.Atoi: parsing "foo": invalid syntax'),
        ("@often", "unrecognized descriptor: @often"),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
    ],
)
def test_an_invalid_schedule_gives_the_error_of_the_go_library(text: str, problem: str) -> None:
    assert parse_schedule(text) == problem


def _schedule_of_length(characters: int) -> str:
    fields = "0 0 1 1 *"
    return "," * (characters - len(fields)) + fields


def test_a_schedule_has_at_most_4096_characters() -> None:
    assert parse_schedule(_schedule_of_length(MAX_SCHEDULE_CHARACTERS)) == parse_schedule("0 0 1 1 *")
    problem = parse_schedule(_schedule_of_length(MAX_SCHEDULE_CHARACTERS + 1))
    assert problem == "a schedule has at most 4096 characters, found 4097"


def test_an_unchanged_schedule_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(text: str) -> ConstantDelaySchedule:
        parsed.append(text)
        return ConstantDelaySchedule(1)

    monkeypatch.setattr(cron, "_parse", parse)
    for _ in range(3):
        parse_schedule("1 2 3 4 5,6")
    assert parsed == ["1 2 3 4 5,6"]
    cron._parse_cached.cache_clear()
