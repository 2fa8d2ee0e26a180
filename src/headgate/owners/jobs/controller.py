"""The Job controller: hears of jobs and pods, and says which jobs need work. The work itself is ``work.py``'s.

A job is looked at when it changes, a moment after its pods change (they come in bursts), and when a time is over that
it waits for. Tracked pods that have nobody to count them are freed (``loose.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from headgate.kube.features import DEFAULTS, Features
from headgate.kube.resource import JOBS, PODS, Resource
from headgate.kube.revisions import revision_of
from headgate.owners.contract import WHOLE, Again, Controller, Done, Interest, Steps, Wake
from headgate.owners.families import making, pods
from headgate.owners.families.claiming import claim
from headgate.owners.families.family import Family, Key, OwnerKind
from headgate.owners.jobs import backoff, loose
from headgate.owners.jobs.bodies import KIND
from headgate.owners.jobs.members import TRACKING, Members
from headgate.owners.jobs.spec import is_managed_elsewhere
from headgate.owners.jobs.status import is_finished
from headgate.owners.jobs.work import COMPONENT, Work

Object = dict[str, Any]

_GATHERING_S: Final = 0.02
_GATHERING_PER_POD_S: Final = 20e-6
_POD_FIELDS: Final = pods.FIELDS | {
    "metadata.deletionGracePeriodSeconds",
    "spec.initContainers",
    "status.containerStatuses",
    "status.initContainerStatuses",
}
_NEW: Final = backoff.Record()


class _Loose(msgspec.Struct, frozen=True):
    """A tracked pod that may have nobody."""

    uid: str


class _Left(msgspec.Struct, frozen=True):
    """The pods that a job left behind."""

    job_uid: str


class Jobs(Controller):
    """Keys are jobs (namespace and name), loose pods, and jobs that are gone."""

    name = "job"

    def __init__(self, draw: Callable[[], str], features: Features = DEFAULTS) -> None:
        self._draw: Final = draw
        self._clears_start: Final = features.mutable_scheduling_directives_for_suspended_jobs
        self._family: Final = Family(OwnerKind(KIND, JOBS, PODS, COMPONENT))
        self._members: Final = Members(self._family)
        self._records: Final[dict[str, backoff.Record]] = {}  # by the job's uid

    def interests(self) -> Iterable[Interest]:
        return Interest(JOBS, WHOLE), Interest(PODS, _POD_FIELDS)

    # -- events in -------------------------------------------------------------------------------------------------

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        return self._pod_applied(obj) if resource == PODS else self._job_applied(obj)

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        if resource == PODS:
            self._members.drop(uid)
            return self._soon(self._family.dependent_removed(namespace, name, uid))
        self._records.pop(uid, None)
        self._family.owner_removed(namespace, name, uid)
        return [Wake(_Left(uid))] if self._family.dependents(uid) else ()

    def synced(self, resource: Resource, revision: str, now_s: float) -> Iterable[Wake]:
        return self._soon(self._family.synced(revision)) if resource == PODS else ()

    def _job_applied(self, job: Object) -> Iterable[Wake]:
        known = self._family.owner((job["metadata"]["namespace"], job["metadata"]["name"]))
        if known is not None and revision_of(known) == revision_of(job):
            return ()  # the echo of a write of ours, which would have been refused if anything else had changed
        keys = self._family.owner_applied(job)
        if not keys or not is_finished(job):
            return [Wake(key) for key in keys]
        left = sorted(self._family.dependents(job["metadata"]["uid"]).items())
        return [Wake(_Loose(uid)) for uid, pod in left if loose.is_loose(self._family, pod)]

    def _pod_applied(self, pod: Object) -> Iterable[Wake]:
        wakes = self._soon(self._family.dependent_applied(pod))
        if loose.is_loose(self._family, pod):
            wakes.append(Wake(_Loose(pod["metadata"]["uid"]), _GATHERING_S))
        return wakes

    # -- work ------------------------------------------------------------------------------------------------------

    def work(self, key: Key | _Loose | _Left, now_s: float) -> Steps:
        match key:
            case _Loose(uid):
                return (yield from loose.free_loose(self._family, uid))
            case _Left(job_uid):
                return (yield from loose.free_all_of(self._family, job_uid))
            case _:
                return (yield from self._work_on(key, now_s))

    def _work_on(self, key: Key, now_s: float) -> Steps:
        job = self._open(key)
        if job is None:
            return Done()
        problem = (yield from making.settle(self._family, job)) or (
            yield from claim(self._family, key, finalizers=(TRACKING,))
        )
        if problem is not None:
            return Again(problem)
        job = self._open(key)  # it may have changed meanwhile
        if job is None:
            return Done()
        uid = job["metadata"]["uid"]
        members, record = self._members.of(uid), self._records.get(uid, _NEW)
        work = Work(self._family, job, members, record, self._draw, now_s, clears_start=self._clears_start)
        verdict = yield from work.run()
        if self._open(key) is None:
            self._records.pop(uid, None)
        elif work.is_written:
            self._records[uid] = work.record
        return verdict

    def _open(self, key: Key) -> Object | None:
        """The job, if there is one that is ours to work on and not finished."""
        job = self._family.owner(key)
        if job is None or is_managed_elsewhere(job):
            return None
        return None if is_finished(job) else job

    def _soon(self, keys: Iterable[Key]) -> list[Wake]:
        """News of pods come in bursts: one work for all of them, and the larger the job, the more of them."""
        return [Wake(key, _GATHERING_S + _GATHERING_PER_POD_S * self._size(key)) for key in keys]

    def _size(self, key: Key) -> int:
        job = self._family.owner(key)
        return 0 if job is None else len(self._family.dependents(job["metadata"]["uid"]))
