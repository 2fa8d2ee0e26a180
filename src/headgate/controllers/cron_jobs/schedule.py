"""When a CronJob has to start a Job: its schedule in its time zone, and the scheduled times that were missed.

A CronJob that was not reconciled for a long time starts only the last of the Jobs that it missed. The number of missed
Jobs is estimated from the first two missed times, as in Kubernetes, and is used only for a warning if there are many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.controllers.ownership.pods import seconds
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

Object = dict[str, Any]
FindZone = Callable[[str], Zone | None]

MANY: Final = 100
_MARGIN_S: Final = 0.1
"""The check runs this long after the scheduled time, so that the time has passed at the check."""
_TOO_CLOSE: Final = "time difference between two schedules is less than 1 second"


class ZonedSchedule(msgspec.Struct, frozen=True):
    """``is_unsupported``: the schedule contains the time zone, which is not supported officially."""

    schedule: CronSchedule | ConstantDelaySchedule
    zone: Zone
    is_unsupported: bool = False


class MissedSchedules(msgspec.Struct, frozen=True):
    """The scheduled times after ``since_s`` that were missed: the last one, if any, and their approximate number."""

    since_s: float
    last_s: int | None = None
    count: int = 0
    problem: str | None = None


def zone_of(spec: Mapping[str, Any], find_zone: FindZone) -> Zone | str:
    """The zone of ``spec.timeZone``, or an error text."""
    name = spec.get("timeZone")
    zone = utc if not name else find_zone(name)
    return f"unknown time zone {name}" if zone is None else zone


def read(spec: Mapping[str, Any], zone: Zone, find_zone: FindZone) -> ZonedSchedule | str:
    """The schedule of a CronJob, or an error text."""
    text = spec.get("schedule", "")
    schedule = parse_schedule(text)
    if isinstance(schedule, str):
        return schedule
    if "TZ" not in text:
        return ZonedSchedule(schedule, zone)
    name = time_zone_prefix(text)
    zone_in_schedule = find_zone(name) if name else utc
    if zone_in_schedule is None:
        return f"provided bad location {name}: unknown time zone {name}"
    return ZonedSchedule(schedule, zone_in_schedule, is_unsupported=True)


def since_s(cron: Object, last_schedule: str | None) -> float:
    """The start of the search for missed times: the last started one, or the creation of the CronJob."""
    found = seconds(last_schedule) if last_schedule else seconds(cron["metadata"].get("creationTimestamp"))
    return found or 0.0


def missed_schedules(
    zoned_schedule: ZonedSchedule, from_s: float, now_s: float, deadline_s: int | None = None
) -> MissedSchedules:
    """The scheduled times since ``from_s`` that were missed. ``deadline_s``: times that are longer ago are ignored."""
    if deadline_s is not None:
        from_s = max(from_s, now_s - deadline_s)
    schedule, zone = zoned_schedule.schedule, zoned_schedule.zone
    first_s = next_after(schedule, from_s, zone)
    if first_s == NEVER_S:
        return MissedSchedules(from_s, problem=_TOO_CLOSE)
    if now_s < first_s:
        return MissedSchedules(from_s)
    second_s = next_after(schedule, first_s, zone)
    if now_s < second_s:
        return MissedSchedules(from_s, first_s)
    if second_s == NEVER_S:
        return MissedSchedules(from_s, problem=_TOO_CLOSE)
    between_s = second_s - first_s
    count = int(now_s - first_s) // between_s + 1
    near_s = first_s + (count - 2) * between_s
    return MissedSchedules(from_s, last_between(schedule, near_s, now_s, zone), count)


def next_check_s(zoned_schedule: ZonedSchedule, from_s: float, now_s: float) -> float | None:
    """The seconds until the next scheduled time; ``None`` if there is none."""
    found = missed_schedules(zoned_schedule, from_s, now_s)
    base_s = found.since_s if found.last_s is None and not found.count and not found.problem else found.last_s
    due_s = next_after(zoned_schedule.schedule, now_s if base_s is None else base_s, zoned_schedule.zone)
    return None if due_s == NEVER_S else max(due_s + _MARGIN_S - now_s, _MARGIN_S)
