"""Times, durations and ages."""

from __future__ import annotations

import pytest

from headgate.kube import timestamps
from headgate.kube.timestamps import (
    format_duration,
    format_micro_time,
    format_micros,
    format_time,
    human_duration,
    parse_duration,
    parse_micro_time,
    parse_time,
    short_human_duration,
)


@pytest.mark.parametrize(
    ("text", "epoch_s"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2024-02-29T12:34:56Z", 1709210096),
        ("2024-02-29T14:34:56+02:00", 1709210096),
        ("2024-02-29T12:34:56.999Z", 1709210096),
        ("2024-02-29T12:34:56,999Z", 1709210096),
        ("0001-01-01T00:00:00Z", timestamps.ZERO_TIME_S),
        ("9999-12-31T23:59:59Z", 253402300799),
    ],
)
def test_a_time_is_read_in_whole_seconds(text: str, epoch_s: int) -> None:
    assert parse_time(text) == epoch_s


@pytest.mark.parametrize(
    "text", ["1970-01-01T00:00:00Z", "2000-02-29T23:59:59Z", "1900-03-01T00:00:00Z", "0000-12-31T00:00:00Z"]
)
def test_a_time_is_printed_as_it_was_read(text: str) -> None:
    read = parse_time(text)
    assert isinstance(read, int)
    assert format_time(read) == text


LAYOUT = '"2006-01-02T15:04:05Z07:00"'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", f'parsing time "" as {LAYOUT}: cannot parse "" as "2006"'),
        ("x", f'parsing time "x" as {LAYOUT}: cannot parse "x" as "2006"'),
        ("2024-1-01", f'parsing time "2024-1-01" as {LAYOUT}: cannot parse "1-01" as "01"'),
        ("2024-01-01 00:00:00Z", f'parsing time "2024-01-01 00:00:00Z" as {LAYOUT}: cannot parse " 00:00:00Z" as "T"'),
        ("2024-01-01T00:00:00", f'parsing time "2024-01-01T00:00:00" as {LAYOUT}: cannot parse "" as "Z07:00"'),
        ("2024-13-01T00:00:00Z", 'parsing time "2024-13-01T00:00:00Z": month out of range'),
        ("2023-02-29T00:00:00Z", 'parsing time "2023-02-29T00:00:00Z": day out of range'),
        ("2024-01-01T24:00:00Z", 'parsing time "2024-01-01T24:00:00Z": hour out of range'),
        ("2024-01-01T00:00:00+25:00", 'parsing time "2024-01-01T00:00:00+25:00": time zone offset hour out of range'),
        ("2024-01-01T00:00:00Zx", 'parsing time "2024-01-01T00:00:00Zx": extra text: "x"'),
        ('"é', f'parsing time "\\"\\xc3\\xa9" as {LAYOUT}: cannot parse "\\"\\xc3\\xa9" as "2006"'),
    ],
)
def test_a_bad_time_gives_gos_error(text: str, error: str) -> None:
    assert parse_time(text) == error


def test_a_micro_time_has_six_digits_neither_more_nor_less() -> None:
    assert parse_micro_time("1970-01-01T00:00:01.000002Z") == 1_000_002
    assert format_micros(1_000_002) == "1970-01-01T00:00:01.000002Z"
    assert format_micro_time(1.5) == "1970-01-01T00:00:01.500000Z"
    layout = '"2006-01-02T15:04:05.000000Z07:00"'
    meta, nanos = "1970-01-01T00:00:01Z", "1970-01-01T00:00:01.000002000Z"
    assert parse_micro_time(meta) == f'parsing time "{meta}" as {layout}: cannot parse "Z" as ".000000"'
    assert parse_micro_time(nanos) == f'parsing time "{nanos}" as {layout}: cannot parse "000Z" as "Z07:00"'


@pytest.mark.parametrize(
    ("text", "nanos", "printed"),
    [
        ("0", 0, "0s"),
        ("1h2m3.5s", 3_723_500_000_000, "1h2m3.5s"),
        ("90s", 90_000_000_000, "1m30s"),
        ("1h", 3_600_000_000_000, "1h0m0s"),
        ("-1.5ms", -1_500_000, "-1.5ms"),
        ("1us", 1_000, "1µs"),
        ("12ns", 12, "12ns"),
        ("+.5s", 500_000_000, "500ms"),
    ],
)
def test_a_duration_is_read_and_printed_as_go_does(text: str, nanos: int, printed: str) -> None:
    assert parse_duration(text) == nanos
    assert format_duration(nanos) == printed


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("1", 'time: missing unit in duration "1"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("2562048h", 'time: invalid duration "2562048h"'),
        ("9" * 30 + "s", f'time: invalid duration "{"9" * 30}s"'),
        ("1s" * 2_049, f'time: invalid duration "{"1s" * 2_049}"'),
    ],
)
def test_a_bad_duration_gives_gos_error(text: str, error: str) -> None:
    assert parse_duration(text) == error


@pytest.mark.parametrize(
    ("seconds", "age", "short"),
    [
        (-5, "<invalid>", "<invalid>"),
        (-1.5, "0s", "0s"),
        (0, "0s", "0s"),
        (119.9, "119s", "1m"),
        (120, "2m", "2m"),
        (310, "5m10s", "5m"),
        (601, "10m", "10m"),
        (3 * 3600, "3h", "3h"),
        (3 * 3600 + 300, "3h5m", "3h"),
        (47 * 3600, "47h", "1d"),
        (3 * 86400 + 4 * 3600, "3d4h", "3d"),
        (8 * 86400, "8d", "8d"),
        (2 * 365 * 86400, "2y", "2y"),
        (3 * 365 * 86400 + 86400, "3y1d", "3y"),
        (9 * 365 * 86400 + 86400, "9y", "9y"),
    ],
)
def test_an_age_is_printed_as_kubectl_does(seconds: float, age: str, short: str) -> None:
    assert human_duration(seconds) == age
    assert short_human_duration(seconds) == short
