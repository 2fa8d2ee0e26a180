"""The CronJob controller: starts a Job whenever a CronJob is due. See the package for the parts.

The name of a Job follows from its scheduled time. A controller that stops between the creation and the status write
therefore creates no second Job: the name is taken, and the Job is added to the status then.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final, Literal

from headgate.controllers.cron_jobs import jobs as making
from headgate.controllers.cron_jobs.schedule import (
    MANY,
    FindZone,
    ZonedSchedule,
    missed_schedules,
    next_check_s,
    read,
    since_s,
    zone_of,
)
from headgate.controllers.cron_jobs.status import CronJobStatus
from headgate.controllers.framework.effects import Create, Delete, Effect, EffectResponse, EmitEvent, Get, Replace
from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    Result,
    WatchSpec,
)
from headgate.controllers.ownership.cache import Key, OwnerKind, OwnershipCache
from headgate.controllers.ownership.pods import object_reference
from headgate.kube.api_resources import CRON_JOBS, JOBS, APIResource
from headgate.kube.cron import Zone
from headgate.kube.field_errors import quote
from headgate.kube.object_meta import is_controlled_by

Object = dict[str, Any]

_OWNER: Final = OwnerKind(making.CRON_JOB, CRON_JOBS, JOBS, "cronjob-controller", selects=False)
_JOB_FIELDS: Final = frozenset(
    {
        "metadata.ownerReferences",
        "metadata.deletionTimestamp",
        "status.conditions",
        "status.startTime",
        "status.completionTime",
    }
)
_TIMING: Final = ("schedule", "timeZone")
_TERMINATING: Final = "NamespaceTerminating"


class CronJobController(Controller):
    """``find_zone`` returns the rules of a time zone by name."""

    name = "cron-jobs"

    def __init__(self, find_zone: FindZone) -> None:
        self._find_zone = find_zone
        self._family: Final = OwnershipCache(_OWNER)

    def watches(self) -> Iterable[WatchSpec]:
        return WatchSpec(CRON_JOBS, ALL_FIELDS), WatchSpec(JOBS, _JOB_FIELDS)

    # -- events in -------------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == JOBS:
            return map(Enqueue, self._family.dependent_applied(obj))
        before = self._family.owner((obj["metadata"]["namespace"], obj["metadata"]["name"]))
        return [Enqueue(key, self._after_s(before, obj, now_s)) for key in self._family.owner_applied(obj)]

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == JOBS:
            return map(Enqueue, self._family.dependent_removed(namespace, name, uid))
        self._family.owner_removed(namespace, name, uid)
        return ()

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        return map(Enqueue, self._family.synced(revision)) if resource == JOBS else ()

    def _after_s(self, before: Object | None, now: Object, now_s: float) -> float:
        """A new schedule counts from now on: what would have been due by it before is no reason to start."""
        if before is None or all(before["spec"].get(each) == now["spec"].get(each) for each in _TIMING):
            return 0.0
        timetable = self._timetable(now)
        if isinstance(timetable, str):
            return 0.0
        last_schedule = (now.get("status") or {}).get("lastScheduleTime")
        return next_check_s(timetable, since_s(now, last_schedule), now_s) or 0.0

    def _timetable(self, cron: Object) -> ZonedSchedule | str:
        zone = zone_of(cron["spec"], self._find_zone)
        return zone if isinstance(zone, str) else read(cron["spec"], zone, self._find_zone)

    # -- work ------------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        cron = self._family.owner(key)
        if cron is None:
            return Done()
        books = CronJobStatus(cron)
        yield from self._forget_oldest(cron, books)
        verdict = yield from self._look(cron, books, now_s)
        if books.has_changed:
            answer = yield Replace(CRON_JOBS, *key, {**cron, "status": books.wire}, subresource="status")
            if answer.ok:
                self._family.owner_applied(answer.body)
            elif not answer.missing:
                return RequeueWithBackoff(answer.message)
        return verdict

    def _jobs(self, cron: Object) -> list[Object]:
        found = self._family.dependents(cron["metadata"]["uid"]).values()
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    def _forget_oldest(self, cron: Object, books: CronJobStatus) -> Generator[Effect, EffectResponse, None]:
        there = [each for each in self._jobs(cron) if not self._family.is_terminating(each["metadata"]["uid"])]
        for job in making.beyond_history_limits(cron["spec"], there):
            yield from self._delete(cron, books, job["metadata"]["name"], job["metadata"]["uid"])

    def _look(self, cron: Object, books: CronJobStatus, now_s: float) -> ReconcileSteps:
        """Update the status, and start a Job if one is due."""
        yield from self._see(cron, books)
        problem = yield from self._miss(cron, books)
        if problem is not None:
            return RequeueWithBackoff(problem)
        spec = cron["spec"]
        if "deletionTimestamp" in cron["metadata"]:
            return Done()
        zone = zone_of(spec, self._find_zone)
        if isinstance(zone, str):
            yield _event(cron, "Warning", "UnknownTimeZone", f"invalid timeZone: {quote(spec['timeZone'])}: {zone}")
            return Done()
        if spec.get("suspend"):
            return Done()
        timetable = read(spec, zone, self._find_zone)
        if isinstance(timetable, str):
            text = f"unparseable schedule: {quote(spec['schedule'])} : {timetable}"
            yield _event(cron, "Warning", "UnparseableSchedule", text)
            return Done()
        if timetable.is_unsupported:
            text = f"CRON_TZ or TZ used in schedule {quote(spec['schedule'])} is not officially supported"
            page = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"
            yield _event(cron, "Warning", "UnsupportedSchedule", f"{text}, see {page} for more details")
        found = missed_schedules(
            timetable, since_s(cron, books.last_schedule), now_s, spec.get("startingDeadlineSeconds")
        )
        if found.problem is not None:
            text = f"invalid schedule: {spec['schedule']} : {found.problem}"
            yield _event(cron, "Warning", "InvalidSchedule", text)
            return Done()
        if found.last_s is not None:
            if found.count > MANY:
                text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
                yield _event(cron, "Warning", "TooManyMissedTimes", text)
            problem = yield from self._start(cron, books, found.last_s, zone)
            if problem is not None:
                return RequeueWithBackoff(problem)
        return _rest(next_check_s(timetable, since_s(cron, books.last_schedule), now_s))

    def _see(self, cron: Object, books: CronJobStatus) -> Generator[Effect, EffectResponse, None]:
        for job in self._jobs(cron):
            name, uid = job["metadata"]["name"], job["metadata"]["uid"]
            ending, is_known = making.finished_type(job), books.has(uid)
            if ending is None:
                if not is_known and not self._family.is_terminating(uid):
                    text = f"Saw a job that the controller did not create or forgot: {name}"
                    yield _event(cron, "Warning", "UnexpectedJob", text)
                continue
            if is_known:
                books.remove_active(uid)
                yield _event(cron, "Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: {ending}")
            if ending == "Complete":
                books.succeeded((job.get("status") or {}).get("completionTime"))

    def _miss(self, cron: Object, books: CronJobStatus) -> Generator[Effect, EffectResponse, str | None]:
        """Strike off Jobs that are gone. The watch may be late: the server knows."""
        there = self._family.dependents(cron["metadata"]["uid"])
        for each in books.active:
            name, uid = each.get("name", ""), each.get("uid", "")
            if uid in there:
                continue
            if name:
                answer = yield Get(JOBS, cron["metadata"]["namespace"], name, ("metadata.uid",))
                if answer.ok and answer.body["metadata"]["uid"] == uid:
                    continue
                if not answer.ok and not answer.missing:
                    return answer.message
            yield _event(cron, "Normal", "MissingJob", f"Active job went missing: {name}")
            books.remove_active(uid)
        return None

    def _start(
        self, cron: Object, books: CronJobStatus, due_s: int, zone: Zone
    ) -> Generator[Effect, EffectResponse, str | None]:
        policy = cron["spec"].get("concurrencyPolicy")
        if books.has_name(making.name_of(cron, due_s)):
            return None
        if policy == "Forbid" and books.active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            yield _event(cron, "Normal", "JobAlreadyActive", text)
            return None
        if policy == "Replace":
            for each in books.active:
                problem = yield from self._delete(cron, books, each["name"], each["uid"])
                if problem is not None:
                    return f"could not replace job {cron['metadata']['namespace']}/{each['name']}: {problem}"
        return (yield from self._make(cron, books, due_s, zone))

    def _make(
        self, cron: Object, books: CronJobStatus, due_s: int, zone: Zone
    ) -> Generator[Effect, EffectResponse, str | None]:
        namespace, body = cron["metadata"]["namespace"], making.job_from(cron, due_s, zone)
        name = body["metadata"]["name"]
        answer = yield Create(JOBS, namespace, body)
        if answer.ok:
            yield _event(cron, "Normal", "SuccessfulCreate", f"Created job {name}")
        elif answer.conflict:
            answer = yield Get(JOBS, namespace, name)
            if not answer.ok:
                return answer.message
            if not is_controlled_by(answer.body, cron) or books.has(answer.body["metadata"]["uid"]):
                return None
        else:
            if not answer.has_cause(_TERMINATING) and not answer.unknown:
                yield _event(cron, "Warning", "FailedCreate", f"Error creating job: {answer.message}")
            return answer.message
        self._family.wrote(answer.body)
        books.started(making.reference_to(answer.body), due_s)
        return None

    def _delete(
        self, cron: Object, books: CronJobStatus, name: str, uid: str
    ) -> Generator[Effect, EffectResponse, str | None]:
        options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        answer = yield Delete(JOBS, cron["metadata"]["namespace"], name, options)
        if answer.ok:
            self._family.deletion_accepted(uid)
            yield _event(cron, "Normal", "SuccessfulDelete", f"Deleted job {name}")
        elif answer.missing:
            self._family.deletion_confirmed(uid)
        elif not answer.conflict:  # another one of that name: it is gone all the same
            yield _event(cron, "Warning", "FailedDelete", f"Deleted job: {answer.message}")
            return answer.message
        books.remove_active(uid)
        return None


def _rest(after_s: float | None) -> Result:
    return Done() if after_s is None else RequeueAfter(after_s)


def _event(cron: Object, kind: Literal["Normal", "Warning"], reason: str, message: str) -> EmitEvent:
    return EmitEvent(object_reference(cron, making.CRON_JOB), kind, reason, message, _OWNER.component)
