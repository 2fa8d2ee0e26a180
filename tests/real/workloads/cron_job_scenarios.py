"""Stories of CronJobs: which times start a Job, and what is kept of it.

Times are driven by what a status says: schedules are daily, at an hour that is over, and the last start is set days
back; so the next Job is due at once, and no other while a story is told. Two stories wait for a real clock.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from real.workloads.manifests import cron_job
from real.workloads.scenario_cluster import Hold, Workplace, story

Object = dict[str, Any]

BEGAN = datetime.now(UTC)
LONG: dict[str, str] = {}
"""No wish: such a Job runs until somebody ends it."""
FAILS = {"run-for": "200ms", "exit-code": "1"}
PATH = "cronjobs/c"
A_MINUTE_S = 75.0


def daily(hours_ago: int) -> str:
    return f"0 {(BEGAN - timedelta(hours=hours_ago)).hour} * * *"


def days_back(days: int) -> str:
    return (BEGAN - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def make(place: Workplace, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    """Nothing is due yet: it was made after the hour of its schedule, wherever the clusters run."""
    place.create(cron_job("c", annotations, **{"schedule": daily(3), "timeZone": "Etc/UTC", **spec}))


def is_due(place: Workplace, hours_ago: int = 3, days: int = 3) -> None:
    """At another hour than before: the name of a Job is that of its time."""
    place.change(PATH, {"spec": {"schedule": daily(hours_ago)}})
    place.change(PATH, {"status": {"lastScheduleTime": days_back(days)}}, "status")


def jobs_are(place: Workplace, count: int, kind: str = "", active: int = 0) -> Hold:
    """So many Jobs, which ended in that way, or run if none is named; so many are in the books."""

    def seen() -> tuple[list[Object], int]:
        found = [each.get("status") or {} for each in place.items(place.at("jobs"))]
        return found, len((place.read(PATH).get("status") or {}).get("active") or ())

    def is_so(status: Object) -> bool:
        if not kind:
            return status.get("ready") == 1
        return any(each["type"] == kind for each in status.get("conditions") or ())

    def holds() -> bool:
        found, listed = seen()
        return len(found) == count and listed == active and all(map(is_so, found))

    return Hold(f"{count} jobs {kind}, {active} in the books", holds, seen)


def starts_what_was_missed(place: Workplace) -> None:
    make(place)
    place.stop("nothing is due")
    is_due(place)
    place.stop("the job has succeeded", jobs_are(place, 1, "Complete"), place.event("SawCompletedJob"))
    place.kubectl("get cronjobs")
    place.kubectl("get jobs")


def side_by_side(place: Workplace) -> None:
    make(place, LONG)
    is_due(place)
    place.stop("a job runs", jobs_are(place, 1, active=1), place.pods_are(1, "Running"))
    is_due(place, 2)
    place.stop("two jobs run", jobs_are(place, 2, active=2), place.pods_are(2, "Running"))


def forbids(place: Workplace) -> None:
    make(place, LONG, concurrencyPolicy="Forbid")
    is_due(place)
    place.stop("a job runs", jobs_are(place, 1, active=1), place.pods_are(1, "Running"))
    is_due(place, 2)
    place.stop(
        "one job runs", jobs_are(place, 1, active=1), place.event("JobAlreadyActive"), place.pods_are(1, "Running")
    )


def replaces(place: Workplace) -> None:
    make(place, LONG, concurrencyPolicy="Replace")
    is_due(place)
    place.stop("a job runs", jobs_are(place, 1, active=1), place.pods_are(1, "Running"))
    is_due(place, 2)
    place.stop(
        "the second job runs",
        place.event("SuccessfulDelete"),
        jobs_are(place, 1, active=1),
        place.pods_are(1, "Running"),
    )


def suspended(place: Workplace) -> None:
    make(place, suspend=True)
    is_due(place)
    place.stop("nothing is started", jobs_are(place, 0))
    place.kubectl("get cronjobs")
    place.kubectl('patch cronjob c -p {"spec":{"suspend":false}}')
    place.stop("what was missed is", jobs_are(place, 1, "Complete"), place.event("SawCompletedJob"))


def keeps_a_few(place: Workplace) -> None:
    make(place, successfulJobsHistoryLimit=1)
    for title, hours_ago in (("one", 5), ("another one", 4), ("the last one", 3)):
        is_due(place, hours_ago)
        place.stop(f"{title} is left", jobs_are(place, 1, "Complete"), _for(place, hours_ago))


def _for(place: Workplace, hours_ago: int) -> Hold:
    """The only Job there is is that of this hour."""
    due_s = (BEGAN - timedelta(hours=hours_ago)).replace(minute=0, second=0).timestamp()
    name = f"c-{int(due_s) // 60}"

    def seen() -> list[str]:
        return [str(each["metadata"]["name"]) for each in place.items(place.at("jobs"))]

    return Hold(f"{name} is alone", lambda: seen() == [name], seen)


def keeps_failures(place: Workplace) -> None:
    make(place, FAILS, failedJobsHistoryLimit=1)
    template = place.read(PATH)["spec"]["jobTemplate"]
    place.change(PATH, {"spec": {"jobTemplate": {"spec": {**template["spec"], "backoffLimit": 0}}}})
    is_due(place, 4)
    place.stop("it has failed", jobs_are(place, 1, "Failed"), place.event("SawCompletedJob"))
    is_due(place, 3)
    place.stop(
        "the last failure is left", jobs_are(place, 1, "Failed"), _for(place, 3), place.event("SuccessfulDelete")
    )


def too_many_missed(place: Workplace) -> None:
    make(place)
    is_due(place, days=150)
    place.stop("one is started", jobs_are(place, 1, "Complete"), place.event("TooManyMissedTimes"))


def too_late(place: Workplace) -> None:
    make(place, startingDeadlineSeconds=600)
    is_due(place)
    place.stop("nothing is started", jobs_are(place, 0))
    place.change(PATH, {"spec": {"startingDeadlineSeconds": 86400}})
    place.stop("it is not too late any more", jobs_are(place, 1, "Complete"), place.event("SawCompletedJob"))


def by_hand(place: Workplace) -> None:
    make(place, LONG)
    place.kubectl("create job by-hand --from=cronjob/c")
    place.stop(
        "it runs and is nobody's", jobs_are(place, 1), place.pods_are(1, "Running"), place.event("UnexpectedJob")
    )
    place.kubectl("get jobs")
    place.kubectl("delete cronjob c")
    place.stop("both are gone", place.gone(PATH, "jobs/by-hand"), place.pods_are(0))


def goes_missing(place: Workplace) -> None:
    make(place, LONG)
    is_due(place)
    place.wait(jobs_are(place, 1, active=1), place.pods_are(1, "Running"))
    place.kubectl("delete jobs --all", lines="last")
    place.stop("it is missed", jobs_are(place, 0), place.event("MissingJob"), place.pods_are(0))


def never_comes(place: Workplace) -> None:
    place.create(cron_job("c"))
    place.stop("nobody knows when", place.event("InvalidSchedule"), words=True)


def in_its_zone(place: Workplace) -> None:
    template = {"metadata": {"labels": {"team": "blue"}, "annotations": {"note": "x"}}}
    body = cron_job("c", schedule=daily(3), timeZone="Etc/UTC")
    body["spec"]["jobTemplate"] |= template
    place.create(body)
    nepal = BEGAN + timedelta(hours=5, minutes=45) - timedelta(hours=3)
    place.change(PATH, {"spec": {"timeZone": "Asia/Kathmandu", "schedule": f"0 {nepal.hour} * * *"}})
    place.change(PATH, {"status": {"lastScheduleTime": days_back(3)}}, "status")
    place.stop("it was for an hour there", jobs_are(place, 1, "Complete"), place.event("SawCompletedJob"))
    place.kubectl("get cronjobs")


def every_minute(place: Workplace) -> None:
    place.create(cron_job("c", LONG, schedule="* * * * *", concurrencyPolicy="Forbid"))
    place.wait(jobs_are(place, 1, active=1), patience_s=A_MINUTE_S)
    place.change(PATH, {"spec": {"suspend": True}})
    place.stop("the job of a real minute runs", jobs_are(place, 1, active=1), place.pods_are(1, "Running"))


def at_intervals(place: Workplace) -> None:
    place.create(cron_job("c", LONG, schedule="@every 15s", concurrencyPolicy="Forbid"))
    place.wait(jobs_are(place, 1, active=1))
    place.change(PATH, {"spec": {"suspend": True}})
    place.stop("a job runs", jobs_are(place, 1, active=1), place.pods_are(1, "Running"))


def left_behind(place: Workplace) -> None:
    make(place, LONG)
    is_due(place)
    place.wait(jobs_are(place, 1, active=1), place.pods_are(1, "Running"))
    place.kubectl("delete cronjob c --cascade=orphan")
    place.stop("its job is an orphan", place.gone(PATH), place.pods_are(1, "Running"))


SCENARIOS = [
    story("a cron job starts what it missed", starts_what_was_missed),
    story("a cron job allows jobs side by side", side_by_side),
    story("a cron job forbids a second job", forbids),
    story("a cron job replaces its job", replaces),
    story("a cron job is suspended and resumed", suspended),
    story("a cron job keeps a few successes", keeps_a_few),
    story("a cron job keeps a failure", keeps_failures),
    story("a cron job missed too many times", too_many_missed),
    story("a cron job is too late", too_late),
    story("a job is made from a cron job by hand", by_hand),
    story("a job of a cron job goes missing", goes_missing),
    story("a cron job that never comes", never_comes),
    story("a cron job in its time zone", in_its_zone),
    story("a cron job every minute", every_minute),
    story("a cron job at intervals", at_intervals),
    story("a cron job leaves its job behind", left_behind),
]
