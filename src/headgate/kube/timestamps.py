"""Times and durations on the wire, as integers and back.

``Time`` is RFC 3339 in whole seconds, ``MicroTime`` has exactly six digits after the point, a duration is Go's
``1h2m3.5s``, and an age is what ``kubectl get`` prints. Instants are seconds (or microseconds) since 1970, UTC;
durations are nanoseconds. A parser returns an integer or the error text of the API server.

The functions do not read a clock: the caller passes ``now``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from math import floor
from typing import Final

ZERO_TIME_S: Final = -62135596800
"""1 January of the year 1: Go's zero time, which the API prints as ``null``."""

TIME_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
MICRO_TIME_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"

_MAX_CACHED_CHARACTERS: Final = 40  # no valid time is longer
_DAYS_OF_MONTH: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse_time(text: str) -> int | str:
    """Seconds since 1970, rounded down. A returned string is the error text."""
    micros = _parse_cached(text, TIME_LAYOUT) if len(text) <= _MAX_CACHED_CHARACTERS else _parse(text, TIME_LAYOUT)
    return micros if isinstance(micros, str) else micros // 1_000_000


def parse_micro_time(text: str) -> int | str:
    """Microseconds since 1970. A returned string is the error text."""
    return (
        _parse_cached(text, MICRO_TIME_LAYOUT)
        if len(text) <= _MAX_CACHED_CHARACTERS
        else _parse(text, MICRO_TIME_LAYOUT)
    )


def format_time(epoch_s: float) -> str:
    return _format_second(floor(epoch_s))


@lru_cache(maxsize=64)
def _format_second(epoch_s: int) -> str:
    minutes, second = divmod(epoch_s, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    year, month, day = date_of(days)
    sign = "-" if year < 0 else ""  # a time zone may move a time before the year 0
    return f"{sign}{abs(year):04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"


def format_micros(epoch_us: int) -> str:
    seconds, micros = divmod(epoch_us, 1_000_000)
    return f"{format_time(seconds)[:-1]}.{micros:06}Z"


def format_micro_time(epoch_s: float) -> str:
    return format_micros(floor(epoch_s * 1_000_000))


def days_of(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 in the Gregorian calendar, any year."""
    year -= month <= 2  # years start in March, so that a leap day is the last one
    era_day = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + era_day - 719468


def date_of(days: int) -> tuple[int, int, int]:
    """The inverse of :func:`days_of`."""
    era, day_of_era = divmod(days + 719468, 146097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = (shifted_month + 2) % 12 + 1
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted_month + 2) // 5 + 1


class _ParseError(Exception):
    """Raised and caught in this module."""


def _parse(text: str, layout: str) -> int | str:
    try:
        return _read(text, layout)
    except _ParseError as problem:
        return f"parsing time {_quote(text)}{problem}"


_parse_cached: Final = lru_cache(maxsize=4096)(_parse)


def _read(text: str, layout: str) -> int:
    """Parses field by field, as Go does, because the error contains the field that is wrong."""
    rest = text

    def parse_error(element: str) -> _ParseError:
        return _ParseError(f" as {_quote(layout)}: cannot parse {_quote(rest)} as {_quote(element)}")

    def literal(expected: str) -> None:
        nonlocal rest
        if not rest.startswith(expected):
            raise parse_error(expected)
        rest = rest[1:]

    def number(element: str, pattern: str, low: int, high: int, field_name: str) -> int:
        nonlocal rest
        match = re.match(pattern, rest)
        if match is None:
            raise parse_error(element)
        if not low <= int(match.group()) <= high:
            raise _ParseError(f": {field_name} out of range")
        rest = rest[match.end() :]
        return int(match.group())

    year = number("2006", "[0-9]{4}", 0, 9999, "year")
    literal("-")
    month = number("01", "[0-9]{2}", 1, 12, "month")
    literal("-")
    day = number("02", "[0-9]{2}", 0, 99, "day")
    literal("T")
    hour = number("15", "[0-9]{1,2}", 0, 23, "hour")
    literal(":")
    minute = number("04", "[0-9]{2}", 0, 59, "minute")
    literal(":")
    second = number("05", "[0-9]{2}", 0, 59, "second")

    micros = 0
    if layout == MICRO_TIME_LAYOUT:
        fraction = re.match("[.,][0-9]{6}", rest)
        if fraction is None:
            raise parse_error(".000000")
    else:
        fraction = re.match("[.,][0-9]+", rest)
    if fraction is not None:
        micros = int(fraction.group()[1:7].ljust(6, "0"))
        rest = rest[fraction.end() :]

    offset_s = 0
    if rest.startswith("Z"):
        rest = rest[1:]
    else:
        zone = re.match("(.)([0-9]{2}):(..)", rest)
        if zone is not None and int(zone.group(2)) > 24:
            raise _ParseError(": time zone offset hour out of range")
        zone = re.match("(.)([0-9]{2}):([0-9]{2})", rest)
        if zone is not None and int(zone.group(3)) > 60:
            raise _ParseError(": time zone offset minute out of range")
        if zone is None or zone.group(1) not in "+-":
            raise parse_error("Z07:00")
        offset_s = int(f"{zone.group(1)}1") * (int(zone.group(2)) * 60 + int(zone.group(3))) * 60
        rest = rest[zone.end() :]
    if rest:
        raise _ParseError(f": extra text: {_quote(rest)}")
    is_leap_february = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _DAYS_OF_MONTH[month - 1] + is_leap_february:
        raise _ParseError(": day out of range")
    return (days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset_s) * 1_000_000 + micros


def _quote(text: str) -> str:
    """``text`` in double quotes, with ``\\x`` escapes for characters that are not printable ASCII."""

    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'

    def escaped() -> Iterator[str]:
        for char in text:
            if char in '"\\':
                yield "\\" + char
            elif " " <= char < "\x80":
                yield char
            else:
                yield "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))

    return '"' + "".join(escaped()) + '"'


_UNITS_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5
    "μs": 1_000,  # U+03BC
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)", re.DOTALL)
_MAX_NS: Final = (1 << 63) - 1
MAX_DURATION_CHARACTERS: Final = 4_096
"""Longer texts are not durations. Go parses any number of parts, but prints at most 29 characters."""
MAX_DURATION_HOURS: Final = "2562047h"
"""The longest duration in whole hours, 292 years, for texts of errors."""


def parse_duration(text: str) -> int | str:
    """Nanoseconds of a Go duration such as ``1h2m3.5s``. A returned string is the error text."""
    position = 1 if text[:1] in ("+", "-") else 0
    if text[position:] == "0":
        return 0
    if position == len(text) or len(text) > MAX_DURATION_CHARACTERS:
        return _invalid_duration(text)
    total = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None or not (match.group(1) or match.group(2)) or len(match.group(1).lstrip("0")) > 19:
            return _invalid_duration(text)
        whole, fraction, unit = int(match.group(1).lstrip("0") or "0"), match.group(2), match.group(3)
        if whole > _MAX_NS + 1:
            return _invalid_duration(text)
        if not unit:
            return f"time: missing unit in duration {_quote(text)}"
        if unit not in _UNITS_NS:
            return f"time: unknown unit {_quote(unit)} in duration {_quote(text)}"
        total += whole * _UNITS_NS[unit]
        if fraction:
            digits = fraction[:18]
            total += int(int(digits) * (_UNITS_NS[unit] / 10 ** len(digits)))
        if total > _MAX_NS + 1:
            return _invalid_duration(text)
        position = match.end()
    if text.startswith("-"):
        return -total
    return total if total <= _MAX_NS else _invalid_duration(text)


def _invalid_duration(text: str) -> str:
    return f"time: invalid duration {_quote(text)}"


def format_duration(nanos: int) -> str:
    """As Go prints it: ``1h0m0s``, ``1.5s``, ``100ms``."""
    if nanos == 0:
        return "0s"
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if nanos < size * 1000:
            return f"{sign}{_decimal(nanos, size)}{unit}"
    minutes, nanos = divmod(nanos, _UNITS_NS["m"])
    out = f"{_decimal(nanos, _UNITS_NS['s'])}s"
    if minutes:
        out = f"{minutes % 60}m{out}"
    if minutes >= 60:
        out = f"{minutes // 60}h{out}"
    return sign + out


def _decimal(nanos: int, size: int) -> str:
    whole, rest = divmod(nanos, size)
    return f"{whole}.{rest:0{len(str(size)) - 1}}".rstrip("0") if rest else str(whole)


def human_duration(seconds: float) -> str:
    """An age in one or two units, as ``kubectl get`` prints it: ``5m10s``, ``3d4h``, ``2y``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"  # clocks may differ by a second; a larger difference is an error
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _two_units(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two_units(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two_units(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def human_age(seconds: float) -> str:
    """As :func:`human_duration`, for a sentence: 0s for a time that is later than the reader's clock shows."""
    return human_duration(max(seconds, 0.0))


def _two_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}" + (f"{small}{small_unit}" if small else "")


def short_human_duration(seconds: float) -> str:
    """An age in one unit: ``5m``, ``3d``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h"), (86400 * 365, 86400, "d")):
        if whole < limit:
            return f"{max(whole, 0) // size}{unit}"
    return f"{whole // (86400 * 365)}y"
