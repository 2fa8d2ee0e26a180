"""Scenarios of CronJobs: which times start a Job, and what is kept of it.

The status controls the times: schedules are daily, at an hour that has passed, and the last start is set days back. So
the next Job is due at once, and no other one during a scenario. Two scenarios wait for a real clock.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from real.workloads.manifests import cron_job
from real.workloads.scenario_cluster import WaitCondition, WorkloadCluster, scenario

Object = dict[str, Any]

BEGAN = datetime.now(UTC)
LONG: dict[str, str] = {}
"""No completions: such a Job runs until the test ends it."""
FAILS = {"run-for": "200ms", "exit-code": "1"}
PATH = "cronjobs/c"
A_MINUTE_S = 75.0


def daily(hours_ago: int) -> str:
    return f"0 {(BEGAN - timedelta(hours=hours_ago)).hour} * * *"


def days_back(days: int) -> str:
    return (BEGAN - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def make(cluster: WorkloadCluster, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    """Nothing is due yet: it was made after the hour of its schedule, wherever the clusters run."""
    cluster.create(cron_job("c", annotations, **{"schedule": daily(3), "timeZone": "Etc/UTC", **spec}))


def is_due(cluster: WorkloadCluster, hours_ago: int = 3, days: int = 3) -> None:
    """At another hour than before: the name of a Job is that of its time."""
    cluster.change(PATH, {"spec": {"schedule": daily(hours_ago)}})
    cluster.change(PATH, {"status": {"lastScheduleTime": days_back(days)}}, "status")


def jobs_are(cluster: WorkloadCluster, count: int, kind: str = "", active: int = 0) -> WaitCondition:
    """So many Jobs, which ended in that way, or run if none is named; so many are in the books."""

    def seen() -> tuple[list[Object], int]:
        found = [each.get("status") or {} for each in cluster.items(cluster.at("jobs"))]
        return found, len((cluster.read(PATH).get("status") or {}).get("active") or ())

    def is_so(status: Object) -> bool:
        if not kind:
            return status.get("ready") == 1
        return any(each["type"] == kind for each in status.get("conditions") or ())

    def holds() -> bool:
        found, listed = seen()
        return len(found) == count and listed == active and all(map(is_so, found))

    return WaitCondition(f"{count} jobs {kind}, {active} in the books", holds, seen)


def starts_what_was_missed(cluster: WorkloadCluster) -> None:
    make(cluster)
    cluster.checkpoint("nothing is due")
    is_due(cluster)
    cluster.checkpoint("the job has succeeded", jobs_are(cluster, 1, "Complete"), cluster.event("SawCompletedJob"))
    cluster.kubectl("get cronjobs")
    cluster.kubectl("get jobs")


def side_by_side(cluster: WorkloadCluster) -> None:
    make(cluster, LONG)
    is_due(cluster)
    cluster.checkpoint("a job runs", jobs_are(cluster, 1, active=1), cluster.pods_are(1, "Running"))
    is_due(cluster, 2)
    cluster.checkpoint("two jobs run", jobs_are(cluster, 2, active=2), cluster.pods_are(2, "Running"))


def forbids(cluster: WorkloadCluster) -> None:
    make(cluster, LONG, concurrencyPolicy="Forbid")
    is_due(cluster)
    cluster.checkpoint("a job runs", jobs_are(cluster, 1, active=1), cluster.pods_are(1, "Running"))
    is_due(cluster, 2)
    cluster.checkpoint(
        "one job runs",
        jobs_are(cluster, 1, active=1),
        cluster.event("JobAlreadyActive"),
        cluster.pods_are(1, "Running"),
    )


def replaces(cluster: WorkloadCluster) -> None:
    make(cluster, LONG, concurrencyPolicy="Replace")
    is_due(cluster)
    cluster.checkpoint("a job runs", jobs_are(cluster, 1, active=1), cluster.pods_are(1, "Running"))
    is_due(cluster, 2)
    cluster.checkpoint(
        "the second job runs",
        cluster.event("SuccessfulDelete"),
        jobs_are(cluster, 1, active=1),
        cluster.pods_are(1, "Running"),
    )


def suspended(cluster: WorkloadCluster) -> None:
    make(cluster, suspend=True)
    is_due(cluster)
    cluster.checkpoint("nothing is started", jobs_are(cluster, 0))
    cluster.kubectl("get cronjobs")
    cluster.kubectl('patch cronjob c -p {"spec":{"suspend":false}}')
    cluster.checkpoint("what was missed is", jobs_are(cluster, 1, "Complete"), cluster.event("SawCompletedJob"))


def keeps_a_few(cluster: WorkloadCluster) -> None:
    make(cluster, successfulJobsHistoryLimit=1)
    for title, hours_ago in (("one", 5), ("another one", 4), ("the last one", 3)):
        is_due(cluster, hours_ago)
        cluster.checkpoint(f"{title} is left", jobs_are(cluster, 1, "Complete"), _for(cluster, hours_ago))


def _for(cluster: WorkloadCluster, hours_ago: int) -> WaitCondition:
    """The only Job there is is that of this hour."""
    due_s = (BEGAN - timedelta(hours=hours_ago)).replace(minute=0, second=0).timestamp()
    name = f"c-{int(due_s) // 60}"

    def seen() -> list[str]:
        return [str(each["metadata"]["name"]) for each in cluster.items(cluster.at("jobs"))]

    return WaitCondition(f"{name} is alone", lambda: seen() == [name], seen)


def keeps_failures(cluster: WorkloadCluster) -> None:
    make(cluster, FAILS, failedJobsHistoryLimit=1)
    template = cluster.read(PATH)["spec"]["jobTemplate"]
    cluster.change(PATH, {"spec": {"jobTemplate": {"spec": {**template["spec"], "backoffLimit": 0}}}})
    is_due(cluster, 4)
    cluster.checkpoint("it has failed", jobs_are(cluster, 1, "Failed"), cluster.event("SawCompletedJob"))
    is_due(cluster, 3)
    cluster.checkpoint(
        "the last failure is left", jobs_are(cluster, 1, "Failed"), _for(cluster, 3), cluster.event("SuccessfulDelete")
    )


def too_many_missed(cluster: WorkloadCluster) -> None:
    make(cluster)
    is_due(cluster, days=150)
    cluster.checkpoint("one is started", jobs_are(cluster, 1, "Complete"), cluster.event("TooManyMissedTimes"))


def too_late(cluster: WorkloadCluster) -> None:
    make(cluster, startingDeadlineSeconds=600)
    is_due(cluster)
    cluster.checkpoint("nothing is started", jobs_are(cluster, 0))
    cluster.change(PATH, {"spec": {"startingDeadlineSeconds": 86400}})
    cluster.checkpoint(
        "it is not too late any more", jobs_are(cluster, 1, "Complete"), cluster.event("SawCompletedJob")
    )


def by_hand(cluster: WorkloadCluster) -> None:
    make(cluster, LONG)
    cluster.kubectl("create job by-hand --from=cronjob/c")
    cluster.checkpoint(
        "it runs and is nobody's", jobs_are(cluster, 1), cluster.pods_are(1, "Running"), cluster.event("UnexpectedJob")
    )
    cluster.kubectl("get jobs")
    cluster.kubectl("delete cronjob c")
    cluster.checkpoint("both are gone", cluster.gone(PATH, "jobs/by-hand"), cluster.pods_are(0))


def goes_missing(cluster: WorkloadCluster) -> None:
    make(cluster, LONG)
    is_due(cluster)
    cluster.wait(jobs_are(cluster, 1, active=1), cluster.pods_are(1, "Running"))
    cluster.kubectl("delete jobs --all", lines="last")
    cluster.checkpoint("it is missed", jobs_are(cluster, 0), cluster.event("MissingJob"), cluster.pods_are(0))


def never_comes(cluster: WorkloadCluster) -> None:
    cluster.create(cron_job("c"))
    cluster.checkpoint("nobody knows when", cluster.event("InvalidSchedule"), words=True)


def in_its_zone(cluster: WorkloadCluster) -> None:
    template = {"metadata": {"labels": {"team": "blue"}, "annotations": {"note": "x"}}}
    body = cron_job("c", schedule=daily(3), timeZone="Etc/UTC")
    body["spec"]["jobTemplate"] |= template
    cluster.create(body)
    nepal = BEGAN + timedelta(hours=5, minutes=45) - timedelta(hours=3)
    cluster.change(PATH, {"spec": {"timeZone": "Asia/Kathmandu", "schedule": f"0 {nepal.hour} * * *"}})
    cluster.change(PATH, {"status": {"lastScheduleTime": days_back(3)}}, "status")
    cluster.checkpoint("it was for an hour there", jobs_are(cluster, 1, "Complete"), cluster.event("SawCompletedJob"))
    cluster.kubectl("get cronjobs")


def every_minute(cluster: WorkloadCluster) -> None:
    cluster.create(cron_job("c", LONG, schedule="* * * * *", concurrencyPolicy="Forbid"))
    cluster.wait(jobs_are(cluster, 1, active=1), patience_s=A_MINUTE_S)
    cluster.change(PATH, {"spec": {"suspend": True}})
    cluster.checkpoint("the job of a real minute runs", jobs_are(cluster, 1, active=1), cluster.pods_are(1, "Running"))


def at_intervals(cluster: WorkloadCluster) -> None:
    cluster.create(cron_job("c", LONG, schedule="@every 15s", concurrencyPolicy="Forbid"))
    cluster.wait(jobs_are(cluster, 1, active=1))
    cluster.change(PATH, {"spec": {"suspend": True}})
    cluster.checkpoint("a job runs", jobs_are(cluster, 1, active=1), cluster.pods_are(1, "Running"))


def left_behind(cluster: WorkloadCluster) -> None:
    make(cluster, LONG)
    is_due(cluster)
    cluster.wait(jobs_are(cluster, 1, active=1), cluster.pods_are(1, "Running"))
    cluster.kubectl("delete cronjob c --cascade=orphan")
    cluster.checkpoint("its job is an orphan", cluster.gone(PATH), cluster.pods_are(1, "Running"))


SCENARIOS = [
    scenario("a cron job starts what it missed", starts_what_was_missed),
    scenario("a cron job allows jobs side by side", side_by_side),
    scenario("a cron job forbids a second job", forbids),
    scenario("a cron job replaces its job", replaces),
    scenario("a cron job is suspended and resumed", suspended),
    scenario("a cron job keeps a few successes", keeps_a_few),
    scenario("a cron job keeps a failure", keeps_failures),
    scenario("a cron job missed too many times", too_many_missed),
    scenario("a cron job is too late", too_late),
    scenario("a job is made from a cron job by hand", by_hand),
    scenario("a job of a cron job goes missing", goes_missing),
    scenario("a cron job that never comes", never_comes),
    scenario("a cron job in its time zone", in_its_zone),
    scenario("a cron job every minute", every_minute),
    scenario("a cron job at intervals", at_intervals),
    scenario("a cron job leaves its job behind", left_behind),
]
