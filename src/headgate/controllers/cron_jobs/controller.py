"""The CronJob controller: starts a Job whenever a CronJob is due. See the package for the parts.

The name of a Job follows from its scheduled time. A controller that stops between the creation and the status write
therefore creates no second Job: the name is taken, and the Job is added to the status then.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final, Literal

from headgate.controllers.cron_jobs import jobs as job_builder
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
from headgate.kube.cron import MAX_SCHEDULE_CHARACTERS, Zone
from headgate.kube.field_errors import quote
from headgate.kube.object_meta import is_controlled_by

Object = dict[str, Any]

_OWNER: Final = OwnerKind(job_builder.CRON_JOB, CRON_JOBS, JOBS, "cronjob-controller", selects=False)
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
        self._cache: Final = OwnershipCache(_OWNER)

    def watches(self) -> Iterable[WatchSpec]:
        return WatchSpec(CRON_JOBS, ALL_FIELDS), WatchSpec(JOBS, _JOB_FIELDS)

    # -- watch events ----------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == JOBS:
            return map(Enqueue, self._cache.dependent_applied(obj))
        before = self._cache.owner((obj["metadata"]["namespace"], obj["metadata"]["name"]))
        return [Enqueue(key, self._after_s(before, obj, now_s)) for key in self._cache.owner_applied(obj)]

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == JOBS:
            return map(Enqueue, self._cache.dependent_removed(namespace, name, uid))
        self._cache.owner_removed(namespace, name, uid)
        return ()

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        return map(Enqueue, self._cache.synced(revision)) if resource == JOBS else ()

    def _after_s(self, before: Object | None, now: Object, now_s: float) -> float:
        """The delay of the next reconcile. A changed schedule starts no Job for a time in the past."""
        if before is None or all(before["spec"].get(each) == now["spec"].get(each) for each in _TIMING):
            return 0.0
        zoned_schedule = self._read_schedule(now)
        if isinstance(zoned_schedule, str):
            return 0.0
        last_schedule = (now.get("status") or {}).get("lastScheduleTime")
        return next_check_s(zoned_schedule, since_s(now, last_schedule), now_s) or 0.0

    def _read_schedule(self, cron: Object) -> ZonedSchedule | str:
        zone = zone_of(cron["spec"], self._find_zone)
        return zone if isinstance(zone, str) else read(cron["spec"], zone, self._find_zone)

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        cron = self._cache.owner(key)
        if cron is None:
            return Done()
        status = CronJobStatus(cron)
        yield from self._delete_oldest_jobs(cron, status)
        result = yield from self._sync(cron, status, now_s)
        if status.has_changed:
            response = yield Replace(CRON_JOBS, *key, {**cron, "status": status.wire}, subresource="status")
            if response.ok:
                self._cache.owner_applied(response.body)
            elif not response.missing:
                return RequeueWithBackoff(response.message)
        return result

    def _jobs(self, cron: Object) -> list[Object]:
        found = self._cache.dependents(cron["metadata"]["uid"]).values()
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    def _delete_oldest_jobs(self, cron: Object, status: CronJobStatus) -> Generator[Effect, EffectResponse, None]:
        jobs = [each for each in self._jobs(cron) if not self._cache.is_terminating(each["metadata"]["uid"])]
        for job in job_builder.beyond_history_limits(cron["spec"], jobs):
            yield from self._delete(cron, status, job["metadata"]["name"], job["metadata"]["uid"])

    def _sync(self, cron: Object, status: CronJobStatus, now_s: float) -> ReconcileSteps:
        """Updates the status, and starts a Job if one is due."""
        yield from self._record_finished_jobs(cron, status)
        problem = yield from self._remove_missing_jobs(cron, status)
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
        zoned_schedule = read(spec, zone, self._find_zone)
        if isinstance(zoned_schedule, str):
            text = f"unparseable schedule: {quote(spec['schedule'][:MAX_SCHEDULE_CHARACTERS])} : {zoned_schedule}"
            yield _event(cron, "Warning", "UnparseableSchedule", text)
            return Done()
        if zoned_schedule.is_unsupported:
            text = f"CRON_TZ or TZ used in schedule {quote(spec['schedule'])} is not officially supported"
            page = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"
            yield _event(cron, "Warning", "UnsupportedSchedule", f"{text}, see {page} for more details")
        found = missed_schedules(
            zoned_schedule, since_s(cron, status.last_schedule), now_s, spec.get("startingDeadlineSeconds")
        )
        if found.problem is not None:
            text = f"invalid schedule: {spec['schedule']} : {found.problem}"
            yield _event(cron, "Warning", "InvalidSchedule", text)
            return Done()
        if found.last_s is not None:
            if found.count > MANY:
                text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
                yield _event(cron, "Warning", "TooManyMissedTimes", text)
            problem = yield from self._start(cron, status, found.last_s, zone)
            if problem is not None:
                return RequeueWithBackoff(problem)
        return _requeue(next_check_s(zoned_schedule, since_s(cron, status.last_schedule), now_s))

    def _record_finished_jobs(self, cron: Object, status: CronJobStatus) -> Generator[Effect, EffectResponse, None]:
        for job in self._jobs(cron):
            name, uid = job["metadata"]["name"], job["metadata"]["uid"]
            condition_type, is_known = job_builder.finished_type(job), status.has(uid)
            if condition_type is None:
                if not is_known and not self._cache.is_terminating(uid):
                    text = f"Saw a job that the controller did not create or forgot: {name}"
                    yield _event(cron, "Warning", "UnexpectedJob", text)
                continue
            if is_known:
                status.remove_active(uid)
                yield _event(
                    cron, "Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: {condition_type}"
                )
            if condition_type == "Complete":
                status.succeeded((job.get("status") or {}).get("completionTime"))

    def _remove_missing_jobs(
        self, cron: Object, status: CronJobStatus
    ) -> Generator[Effect, EffectResponse, str | None]:
        """Removes deleted Jobs from the status. It reads each Job from the API server, because the watch may be
        late."""
        dependents = self._cache.dependents(cron["metadata"]["uid"])
        for each in status.active:
            name, uid = each.get("name", ""), each.get("uid", "")
            if uid in dependents:
                continue
            if name:
                response = yield Get(JOBS, cron["metadata"]["namespace"], name, ("metadata.uid",))
                if response.ok and response.body["metadata"]["uid"] == uid:
                    continue
                if not response.ok and not response.missing:
                    return response.message
            yield _event(cron, "Normal", "MissingJob", f"Active job went missing: {name}")
            status.remove_active(uid)
        return None

    def _start(
        self, cron: Object, status: CronJobStatus, due_s: int, zone: Zone
    ) -> Generator[Effect, EffectResponse, str | None]:
        policy = cron["spec"].get("concurrencyPolicy")
        if status.has_name(job_builder.name_of(cron, due_s)):
            return None
        if policy == "Forbid" and status.active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            yield _event(cron, "Normal", "JobAlreadyActive", text)
            return None
        if policy == "Replace":
            for each in status.active:
                problem = yield from self._delete(cron, status, each["name"], each["uid"])
                if problem is not None:
                    return f"could not replace job {cron['metadata']['namespace']}/{each['name']}: {problem}"
        return (yield from self._create_job(cron, status, due_s, zone))

    def _create_job(
        self, cron: Object, status: CronJobStatus, due_s: int, zone: Zone
    ) -> Generator[Effect, EffectResponse, str | None]:
        namespace, body = cron["metadata"]["namespace"], job_builder.job_from(cron, due_s, zone)
        name = body["metadata"]["name"]
        response = yield Create(JOBS, namespace, body)
        if response.ok:
            yield _event(cron, "Normal", "SuccessfulCreate", f"Created job {name}")
        elif response.conflict:
            response = yield Get(JOBS, namespace, name)
            if not response.ok:
                return response.message
            if not is_controlled_by(response.body, cron) or status.has(response.body["metadata"]["uid"]):
                return None
        else:
            if not response.has_cause(_TERMINATING) and not response.unknown:
                yield _event(cron, "Warning", "FailedCreate", f"Error creating job: {response.message}")
            return response.message
        self._cache.observe_write(response.body)
        status.started(job_builder.reference_to(response.body), due_s)
        return None

    def _delete(
        self, cron: Object, status: CronJobStatus, name: str, uid: str
    ) -> Generator[Effect, EffectResponse, str | None]:
        options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        response = yield Delete(JOBS, cron["metadata"]["namespace"], name, options)
        if response.ok:
            self._cache.deletion_accepted(uid)
            yield _event(cron, "Normal", "SuccessfulDelete", f"Deleted job {name}")
        elif response.missing:
            self._cache.deletion_confirmed(uid)
        elif not response.conflict:  # a conflict: the Job was deleted, and a new one has its name
            yield _event(cron, "Warning", "FailedDelete", f"Deleted job: {response.message}")
            return response.message
        status.remove_active(uid)
        return None


def _requeue(after_s: float | None) -> Result:
    return Done() if after_s is None else RequeueAfter(after_s)


def _event(cron: Object, kind: Literal["Normal", "Warning"], reason: str, message: str) -> EmitEvent:
    return EmitEvent(object_reference(cron, job_builder.CRON_JOB), kind, reason, message, _OWNER.component)
