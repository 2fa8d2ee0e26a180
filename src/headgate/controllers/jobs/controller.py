"""The Job controller: watches jobs and pods, and enqueues jobs. ``job_reconciler.py`` reconciles them.

A job is enqueued when it changes, shortly after its pods change, so that many changes lead to one reconcile, and when a
time that it waits for has passed. ``orphan_pods.py`` removes the finalizer of tracked pods that no job will count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.jobs import backoff, orphan_pods
from headgate.controllers.jobs.job_pods import TRACKING, JobPodCache
from headgate.controllers.jobs.job_reconciler import COMPONENT, JobReconciler
from headgate.controllers.jobs.pod_template import KIND
from headgate.controllers.jobs.spec import is_managed_elsewhere
from headgate.controllers.jobs.status import is_finished
from headgate.controllers.ownership import dependents, pods
from headgate.controllers.ownership.adoption import claim
from headgate.controllers.ownership.cache import Key, OwnerKind, OwnershipCache
from headgate.kube.api_resources import JOBS, PODS, APIResource
from headgate.kube.feature_gates import DEFAULTS, FeatureGates
from headgate.kube.object_meta import resource_version_of

Object = dict[str, Any]

_BATCH_S: Final = 0.02
_BATCH_PER_POD_S: Final = 20e-6
_POD_FIELDS: Final = pods.FIELDS | {
    "metadata.deletionGracePeriodSeconds",
    "spec.initContainers",
    "status.containerStatuses",
    "status.initContainerStatuses",
}
_NEW: Final = backoff.BackoffRecord()


class _OrphanPod(msgspec.Struct, frozen=True):
    """A tracked pod that may have no job."""

    uid: str


class _DeletedJob(msgspec.Struct, frozen=True):
    """The pods of a deleted job."""

    job_uid: str


class JobController(Controller):
    """Keys are jobs (namespace and name), orphan pods, and deleted jobs."""

    name = "job"

    def __init__(self, random_suffix: Callable[[], str], features: FeatureGates = DEFAULTS) -> None:
        self._random_suffix: Final = random_suffix
        self._clears_start: Final = features.mutable_scheduling_directives_for_suspended_jobs
        self._cache: Final = OwnershipCache(OwnerKind(KIND, JOBS, PODS, COMPONENT))
        self._members: Final = JobPodCache(self._cache)
        self._records: Final[dict[str, backoff.BackoffRecord]] = {}  # by the job's uid

    def watches(self) -> Iterable[WatchSpec]:
        return WatchSpec(JOBS, ALL_FIELDS), WatchSpec(PODS, _POD_FIELDS)

    # -- watch events ----------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        return self._pod_applied(obj) if resource == PODS else self._job_applied(obj)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            self._members.drop(uid)
            return self._enqueue_batched(self._cache.dependent_removed(namespace, name, uid))
        self._records.pop(uid, None)
        self._cache.owner_removed(namespace, name, uid)
        return [Enqueue(_DeletedJob(uid))] if self._cache.dependents(uid) else ()

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        return self._enqueue_batched(self._cache.synced(revision)) if resource == PODS else ()

    def _job_applied(self, job: Object) -> Iterable[Enqueue]:
        known = self._cache.owner((job["metadata"]["namespace"], job["metadata"]["name"]))
        if known is not None and resource_version_of(known) == resource_version_of(job):
            return ()  # the watch event of this controller's own write, whose response is already in the cache
        keys = self._cache.owner_applied(job)
        if not keys or not is_finished(job):
            return [Enqueue(key) for key in keys]
        remaining = sorted(self._cache.dependents(job["metadata"]["uid"]).items())
        return [Enqueue(_OrphanPod(uid)) for uid, pod in remaining if orphan_pods.is_orphan(self._cache, pod)]

    def _pod_applied(self, pod: Object) -> Iterable[Enqueue]:
        enqueues = self._enqueue_batched(self._cache.dependent_applied(pod))
        if orphan_pods.is_orphan(self._cache, pod):
            enqueues.append(Enqueue(_OrphanPod(pod["metadata"]["uid"]), _BATCH_S))
        return enqueues

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key | _OrphanPod | _DeletedJob, now_s: float) -> ReconcileSteps:
        match key:
            case _OrphanPod(uid):
                return (yield from orphan_pods.release_orphan(self._cache, uid))
            case _DeletedJob(job_uid):
                return (yield from orphan_pods.release_pods_of(self._cache, job_uid))
            case _:
                return (yield from self._reconcile_job(key, now_s))

    def _reconcile_job(self, key: Key, now_s: float) -> ReconcileSteps:
        job = self._unfinished_job(key)
        if job is None:
            return Done()
        problem = (yield from dependents.resolve_unconfirmed(self._cache, job)) or (
            yield from claim(self._cache, key, finalizers=(TRACKING,))
        )
        if problem is not None:
            return RequeueWithBackoff(problem)
        job = self._unfinished_job(key)  # it may have changed during the requests
        if job is None:
            return Done()
        uid = job["metadata"]["uid"]
        members, record = self._members.of(uid), self._records.get(uid, _NEW)
        reconciler = JobReconciler(
            self._cache, job, members, record, self._random_suffix, now_s, clears_start=self._clears_start
        )
        result = yield from reconciler.run()
        if self._unfinished_job(key) is None:
            self._records.pop(uid, None)
        elif reconciler.is_written:
            self._records[uid] = reconciler.record
        return result

    def _unfinished_job(self, key: Key) -> Object | None:
        """The job, if it exists, is managed by this controller and has not finished."""
        job = self._cache.owner(key)
        if job is None or is_managed_elsewhere(job):
            return None
        return None if is_finished(job) else job

    def _enqueue_batched(self, keys: Iterable[Key]) -> list[Enqueue]:
        """Delays the reconcile, so that the changes of many pods lead to one reconcile. The delay is longer for jobs
        with more pods."""
        return [Enqueue(key, _BATCH_S + _BATCH_PER_POD_S * self._size(key)) for key in keys]

    def _size(self, key: Key) -> int:
        job = self._cache.owner(key)
        return 0 if job is None else len(self._cache.dependents(job["metadata"]["uid"]))
