"""The controller of jobs in Kueue's queues: watches jobs and Workloads and performs the steps of ``job_plan.py``.

A work-queue key stands for a job; events of its Workloads enqueue the same key. A restarted process continues from the
state on the server. ``quota/controller/`` reserves quota, ``controllers/jobs/`` creates pods.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Final

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import Create, Delete, Effect, EffectResponse, Get, Patch
from headgate.controllers.framework.first_lists import LIST_CHECK_S, FirstLists
from headgate.controllers.framework.mutation_cache import ObservedVersion
from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    WatchSpec,
    with_enqueues,
    yield_each,
)
from headgate.controllers.ownership.pods import seconds
from headgate.jobs.framework import flavors_and_priorities
from headgate.jobs.framework.activation_labels import is_deactivated_by_label, needs_label
from headgate.jobs.framework.decisions import rejected_start, written_decision
from headgate.jobs.framework.finalizer_restores import FinalizerRestores
from headgate.jobs.framework.flavors_and_priorities import FlavorsAndPriorities
from headgate.jobs.framework.job_cache import NO_OWNER, JobCache, Key, qualified_plural
from headgate.jobs.framework.job_plan import JobBlocked, JobPlanContext, has_condition, plan_job, plan_orphaned_workload
from headgate.jobs.framework.job_writes import (
    PassedOnLabel,
    PlannedWrite,
    adopt,
    evict_after_rejected_start,
    job_event,
    withdraw_start,
)
from headgate.jobs.framework.management import ManagementScope, known_ancestors
from headgate.jobs.framework.open_starts import OpenStarts
from headgate.jobs.framework.unread_objects import UnreadObjects, read_refused
from headgate.jobs.framework.workload import prebuilt_name, queue_of, workload_name
from headgate.jobs.framework.workload_equivalence import digest, equals_pod_sets
from headgate.jobs.gated_jobs import GatedJobs, GatedUnit, named_queues
from headgate.jobs.kinds.batch_job import BUILTIN_KINDS
from headgate.jobs.kinds.job_fields import Object
from headgate.jobs.kinds.job_kind import JobKind, job_pod_sets
from headgate.jobs.metrics import JobMetrics
from headgate.jobs.names import DEFAULT_QUEUE
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube.api_resources import NAMESPACES, APIResource
from headgate.kube.decisions import Decided, ignore_decision
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.object_meta import controller_of
from headgate.quota.controller.rejected_admissions import RejectedAdmissions
from headgate.quota.kinds.names import LOCAL_QUEUES, WORKLOADS
from headgate.quota.names import JOB_UID_LABEL, QUOTA_RESERVED

_RETRY_S: Final = 10.0
"""The delay before a blocked job is planned again."""
_LABELS: Final = frozenset({"metadata.labels", "metadata.creationTimestamp"})


class ManagedJobController(Controller):
    name = "managed jobs"

    def __init__(
        self,
        features: FeatureGates,
        settings: JobSettings = DEFAULT,
        metrics: JobMetrics | None = None,
        decided: Decided = ignore_decision,
        gated: GatedJobs | None = None,
    ) -> None:
        """``decided`` is called for each start and stop of a job. ``gated``: receives the gated jobs."""
        self._decided: Final = decided
        self._gated: Final = gated or GatedJobs()
        self._metrics: Final = metrics or JobMetrics()
        self._features: Final = features
        self._settings: Final = settings
        managed = [each for each in settings.kinds if each.gate is None]  # of the others the pods are managed
        resources = [each.resource for each in managed]
        unmanaged = (each for each in BUILTIN_KINDS if each.resource not in resources)  # their Workloads are finished
        self._kinds: Final = {qualified_plural(each.resource): each for each in (*managed, *unmanaged)}
        known = {kind: each for kind, each in known_ancestors(settings.kinds).items() if each in resources}
        self._cache: Final = JobCache(tuple(self._kinds.values()), self._workload_deleted)
        self._references: Final = FlavorsAndPriorities()
        self._namespaces: Final[dict[str, Mapping[str, str]]] = {}
        self._default_queues: Final[dict[str, str]] = {}  # by namespace: the creation time of its default LocalQueue
        cache = self._cache
        self._scope: Final = ManagementScope(
            settings, self._namespaces, self._default_queues, known, cache.get, cache.unfinished_workload
        )
        self._last_emitted: Final[dict[str, JobBlocked]] = {}  # by the uid of a job: the last emitted reason
        self._stored_digests: Final[dict[str, str]] = {}  # see JobPlanContext
        self._passed_on: Final[dict[str, PassedOnLabel]] = {}
        self._lost_holds: Final[dict[str, None]] = {}  # see JobPlanContext
        self._restores: Final = FinalizerRestores()
        self._open_starts: Final = OpenStarts()
        self._unread: Final[UnreadObjects[Key]] = UnreadObjects()
        self._affected: Final[dict[Key, list[Key]]] = {}  # by the key that is reconciled: others to reconcile then
        self._rejections: Final = RejectedAdmissions()
        self._served: frozenset[APIResource] = frozenset()
        self._first_lists: Final = FirstLists(
            (WORKLOADS, NAMESPACES), (*flavors_and_priorities.REFERENCED_RESOURCES, LOCAL_QUEUES)
        )

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._served = frozenset(row.resource for row in served.by_name.values())
        self._first_lists.keep(each.resource for each in self.watches())
        return ()

    def listing(self, resource: APIResource) -> Iterable[Enqueue]:
        self._first_lists.listing(resource)
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        if WORKLOADS not in self._served:
            return ()
        kinds = [each.resource for each in self._kinds.values()]
        resources = (*kinds, WORKLOADS, *flavors_and_priorities.REFERENCED_RESOURCES)
        whole = [WatchSpec(each, ALL_FIELDS) for each in resources if each in self._served]
        return [*whole, *(WatchSpec(each, _LABELS) for each in (NAMESPACES, LOCAL_QUEUES) if each in self._served)]

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        metadata = obj["metadata"]
        name = metadata["name"]
        if resource in flavors_and_priorities.REFERENCED_RESOURCES:
            self._references.put(resource, obj)
        elif resource == NAMESPACES:
            return self._namespace_relabelled(name, metadata.get("labels") or {})
        elif resource == LOCAL_QUEUES:
            if name == DEFAULT_QUEUE:
                self._default_queues[metadata["namespace"]] = metadata.get("creationTimestamp") or ""
        else:
            keys = self._cache.put(resource, obj, from_watch=True)
            self._gated.expect(keys)
            return _enqueue(keys)
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource in flavors_and_priorities.REFERENCED_RESOURCES:
            self._references.remove(resource, name)
        elif resource == NAMESPACES:
            self._namespaces.pop(name, None)
        elif resource == LOCAL_QUEUES:
            if name == DEFAULT_QUEUE:
                self._default_queues.pop(namespace, None)
        else:
            self._last_emitted.pop(uid, None)
            self._stored_digests.pop(uid, None)
            self._passed_on.pop(uid, None)
            self._lost_holds.pop(uid, None)
            self._restores.forget(uid)
            self._open_starts.forget(uid)
            return _enqueue(self._cache.remove(resource, namespace, name, uid))
        return ()

    def _workload_deleted(self, workload: Object) -> None:
        """A Workload may be deleted at once, without a version that shows its deletion: it has no finalizer if another
        client, or an uninstallation, has removed it."""
        uid = _owner_uid(workload)
        if self._cache.owner_index.key_of(uid) is not None and is_deactivated_by_label(workload):
            self._lost_holds[uid] = None

    def _namespace_relabelled(self, namespace: str, labels: Mapping[str, str]) -> list[Enqueue]:
        before, selector = self._namespaces.get(namespace), self._settings.namespaces
        self._namespaces[namespace] = labels
        is_changed = before is None or selector.matches(before) != selector.matches(labels)
        return _enqueue(self._cache.owner_index.in_namespace(namespace)) if is_changed else []

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        self._first_lists.synced(resource)
        return _enqueue(self._cache.synced(resource, revision))

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        if self._first_lists.awaited(now_s):  # a Workload that is not known yet is not missing
            return RequeueAfter(LIST_CHECK_S)
        result = yield from self._reconcile(key, now_s)
        self._gated.reconciled(key)
        due_s = self._restores.take_due_s(self._cache.workloads(key))
        again = [] if due_s is None else [Enqueue(key, max(due_s - now_s, 0.0))]
        return with_enqueues(result, key, [*_enqueue(self._affected.pop(key, ())), *again])

    def _reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        error = yield from self._read_due(key, now_s)
        if error:
            return RequeueWithBackoff(error)
        if key[0] == NO_OWNER:
            plans = (self._plan_ownerless(each, now_s) for each in self._cache.workloads(key))
            planned = next((planned for planned in plans if planned is not None), None)
            return Done() if planned is None else (yield from self._write(key, planned))
        kind = self._kinds[key[0]]
        job = self._cache.get(kind.resource, *key[1:])
        uid = "" if job is None else job["metadata"]["uid"]
        known = self._cache.workloads(key)
        own = [each for each in known if _owner_uid(each) == uid]
        if len(own) < len(known):
            live = yield Get(kind.resource, *key[1:])
            if not live.ok and not live.missing:
                return RequeueWithBackoff(live.message)
            live_uid = live.body["metadata"]["uid"] if live.ok else ""
            for each in known:
                planned = plan_orphaned_workload(each, now_s) if _owner_uid(each) not in (uid, live_uid) else None
                if planned is not None:
                    return (yield from self._write(key, planned))
            if live_uid != uid:
                return Done(_enqueue(self._cache.put(kind.resource, live.body))) if live.ok else Done()
        if job is None:
            self._metrics.job_released(key)
            self._gated.remove(key)
            self._rejections.forget(str(key))
            return Done()
        if not needs_label(kind, job):
            self._lost_holds.pop(uid, None)
        step = plan_job(kind, job, own, self._prebuilt_workload(job), self._plan_context(now_s))
        self._report_gate(key, kind, job, step.gate if isinstance(step, JobBlocked) else "")
        if isinstance(step, JobBlocked):
            yield from self._emit_once(kind, job, step)
            return RequeueAfter(_RETRY_S) if step.is_warning else Done()
        return Done() if step is None else (yield from self._write(key, step))

    def _report_gate(self, key: Key, kind: JobKind, job: Object, gate: str) -> None:
        """``gate``: empty if the job is not gated."""
        created_s = seconds(job["metadata"].get("creationTimestamp"))
        self._metrics.job_gated(key, kind.kind.kind, gate, created_s)
        if not gate:
            self._gated.remove(key)
            return
        templates = [each.charged for each in job_pod_sets(kind, job)]
        gated_job = GatedUnit(kind.kind.kind, key[1], key[2], gate, created_s or 0.0)
        self._gated.put(key, gated_job, named_queues(key[1], queue_of(job), templates))

    def _plan_ownerless(self, workload: Object, now_s: float) -> PlannedWrite | None:
        """The write for a Workload without owner references whose label names the uid of a job: that job becomes its
        controller if it exists; otherwise the Workload is finished."""
        uid = workload["metadata"]["labels"][JOB_UID_LABEL]
        key = self._cache.owner_index.key_of(uid)
        job = None if key is None else self._cache.get(self._kinds[key[0]].resource, *key[1:])
        if key is None or job is None or workload_name(self._kinds[key[0]], job) != workload["metadata"]["name"]:
            return plan_orphaned_workload(workload, now_s)
        return adopt(self._kinds[key[0]], job, workload)

    def _prebuilt_workload(self, job: Object) -> Object | None:
        name = prebuilt_name(job)
        return self._cache.get(WORKLOADS, job["metadata"]["namespace"], name) if name else None

    def _emit_once(self, kind: JobKind, job: Object, blocked: JobBlocked) -> Generator[Effect, EffectResponse]:
        """Emits an Event if the reason differs from the last one."""
        uid = job["metadata"]["uid"]
        if self._last_emitted.get(uid) != blocked:
            self._last_emitted[uid] = blocked
            yield job_event(kind, job, blocked.reason, blocked.message, is_warning=blocked.is_warning)

    def _write(self, key: Key, planned: PlannedWrite) -> ReconcileSteps:
        """Performs the write and applies the response to the cache."""
        write = planned.write
        if write is None:
            return Done()
        name = write.obj["metadata"]["name"] if isinstance(write, Create) else write.name
        planned_from = None if isinstance(write, Create) else self._observed(write)
        response = yield write
        is_unchanged = isinstance(write, Patch) and planned_from is not None and planned_from.is_same(response.body)
        if planned.starts and (response.refused or (response.ok and is_unchanged)):
            message = response.message if response.refused else "the server kept what it had"
            return (yield from self._release_quota(key, message, response.now_s))
        if response.ok and self._has_dropped_fields(write, response):
            self._stored_digests[response.body["metadata"]["uid"]] = digest(_sent_pod_sets(write))
        elif response.ok and is_unchanged:
            # The server may drop the field because its schema does not have it. Without back-off the write would be
            # repeated at once, again and again.
            return RequeueWithBackoff(f"{write.resource.plural} {write.namespace}/{name}: the server kept what it had")
        if planned.starts and response.ok:
            self._rejections.forget(str(key))
        if planned.starts and response.may_be_performed and planned_from is not None:
            self._open_starts.add(planned_from, response.now_s)
        if not response.ok:
            is_unknown = response.unknown and not response.refused
            live = yield from self._read(key, Get(write.resource, write.namespace, name), is_due=is_unknown)
            is_own = not isinstance(write, Create) or any(
                each["metadata"]["name"] == name for each in self._cache.workloads(key)
            )
            if not is_own and not response.unknown:
                kind = self._kinds[key[0]]
                job = self._cache.get(kind.resource, *key[1:])
                message = f"Workload {write.namespace}/{name} belongs to another owner" if live.ok else response.message
                if job is not None:
                    yield from self._emit_once(kind, job, JobBlocked("ErrWorkloadCompose", message))
                return RequeueWithBackoff(message)
            # After a conflict the job is planned again at once, from the object that was read; after other errors with
            # back-off.
            is_read = live.ok or live.missing
            return Done([Enqueue(key)]) if response.conflict and is_read else RequeueWithBackoff(response.message)
        if planned.passes_on is not None:
            self._passed_on[planned.passes_on.job_uid] = planned.passes_on
        if isinstance(write, Create):
            self._record_creation(key, response.now_s)
        self._report_decision(key, planned, response)
        yield from yield_each(planned.events)
        metadata = response.body.get("metadata") or {}
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            return Done(_enqueue([key, *self._forget(write.resource, write.namespace, name)]))
        if metadata.get("uid"):
            return Done(_enqueue([key, *self._cache.put(write.resource, response.body)]))
        return Done([Enqueue(key)])

    def _read_due(self, key: Key, now_s: float) -> Generator[Effect, EffectResponse, str]:
        """Reads the objects whose version must be known before the next plan. Returns why one cannot be read, or an
        empty text."""
        for read in self._unread.of(key):
            live = yield from self._read(key, read, is_due=True)
            if self._is_unserved(read, live):
                self._unread.discard(key, read)
            elif not live.ok and not live.missing:
                return (yield from self._report_failed_read(key, read, live))
        job = self._cached_job(key)
        if job is not None and self._open_starts.must_read(job, now_s):
            read = Get(self._kinds[key[0]].resource, *key[1:])
            live = yield from self._read(key, read)
            if live.ok:
                self._open_starts.settle(live.body, now_s)
            elif self._is_unserved(read, live):
                self._open_starts.forget(job["metadata"]["uid"])
            elif not live.missing:
                return (yield from self._report_failed_read(key, read, live))
        return ""

    def _report_failed_read(
        self, key: Key, read: Get, response: EffectResponse
    ) -> Generator[Effect, EffectResponse, str]:
        """Returns why the read failed, and emits an Event if a right is missing."""
        job = self._cached_job(key)
        if response.refused and job is not None:
            yield from self._emit_once(self._kinds[key[0]], job, read_refused(read, response.message))
        return response.message

    def _is_unserved(self, read: Get, response: EffectResponse) -> bool:
        """Whether the server does not have the kind any more, so that the object does not exist."""
        return response.status == 404 and read.resource not in self._served

    def _cached_job(self, key: Key) -> Object | None:
        return None if key[0] == NO_OWNER else self._cache.get(self._kinds[key[0]].resource, *key[1:])

    def _read(self, key: Key, read: Get, *, is_due: bool = False) -> Generator[Effect, EffectResponse, EffectResponse]:
        """Applies the object on the server to the cache. ``is_due``: if it cannot be read, it is read before the next
        plan."""
        known = self._cache.get(read.resource, read.namespace, read.name)
        live = yield read
        if not live.ok and not live.missing:
            if is_due:
                self._unread.add(key, read)
            return live
        self._unread.discard(key, read)
        affected: list[Key] = []
        if live.ok:
            affected = self._cache.put(read.resource, live.body)
        elif known is not None:
            affected = self._cache.remove(read.resource, read.namespace, read.name, known["metadata"]["uid"])
        self._affected.setdefault(key, []).extend(each for each in affected if each != key)
        return live

    def _report_decision(self, key: Key, planned: PlannedWrite, response: EffectResponse) -> None:
        if not isinstance(planned.write, Patch) or planned.write.resource == WORKLOADS:
            return
        admitted = next((each for each in self._cache.workloads(key) if has_condition(each, QUOTA_RESERVED)), None)
        kind = self._kinds[key[0]].kind.kind
        decision = written_decision(kind, response.body, planned, admitted, response.now_s)
        if decision is not None:
            self._decided(decision)

    def _release_quota(self, key: Key, message: str, now_s: float) -> ReconcileSteps:
        """Releases the quota of a job whose start the server rejects, so that other workloads can use it until the
        retry."""
        kind = self._kinds[key[0]]
        job = self._cache.get(kind.resource, *key[1:])
        admitted = [each for each in self._cache.workloads(key) if has_condition(each, QUOTA_RESERVED)]
        if job is None or not admitted:
            return RequeueWithBackoff(message)
        yield from self._emit_once(kind, job, JobBlocked("FailedToStart", message))
        self._decided(rejected_start(kind.kind.kind, job, message))
        if self._open_starts.is_open(job):
            return (yield from self._write(key, withdraw_start(kind, job)))
        planned = evict_after_rejected_start(admitted[0], message, now_s + self._rejections.backoff_s(str(key)), now_s)
        return (yield from self._write(key, planned))

    def _has_dropped_fields(self, write: Create | Patch | Delete, response: EffectResponse) -> bool:
        """Whether the server did not store all fields of the pod sets that were sent, and this is not recorded yet."""
        sent, uid = _sent_pod_sets(write), response.body.get("metadata", {}).get("uid")
        return bool(sent) and not equals_pod_sets(response.body, sent) and self._stored_digests.get(uid) != digest(sent)

    def _observed(self, write: Patch | Delete) -> ObservedVersion | None:
        known = self._cache.get(write.resource, write.namespace, write.name)
        return None if known is None else ObservedVersion.of(known)

    def _record_creation(self, key: Key, now_s: float) -> None:
        kind = self._kinds[key[0]]
        job = self._cache.get(kind.resource, *key[1:])
        if job is not None:
            self._metrics.created(kind.kind.kind, seconds(job["metadata"].get("creationTimestamp")), now_s)

    def _forget(self, resource: APIResource, namespace: str, name: str) -> list[Key]:
        """Returns the affected keys."""
        known = self._cache.get(resource, namespace, name)
        return [] if known is None else self._cache.remove(resource, namespace, name, known["metadata"]["uid"])

    def _plan_context(self, now_s: float) -> JobPlanContext:
        features = self._features
        return JobPlanContext(
            self._references.flavors,
            self._references.classes,
            self._scope,
            features.scheduling_gated_by,
            features.admission_gated_by,
            self._stored_digests,
            now_s,
            features.activation_labels,
            self._passed_on,
            self._open_starts.is_open,
            self._lost_holds,
            lambda workload: self._restores.may_restore(workload, now_s),
            self._cache.child_jobs,
        )


def _enqueue(keys: Iterable[Key]) -> list[Enqueue]:
    return [Enqueue(key) for key in dict.fromkeys(keys)]


def _sent_pod_sets(write: Create | Patch | Delete) -> list[Object]:
    """The pod sets in a write of a Workload."""
    if isinstance(write, Delete) or write.resource != WORKLOADS:
        return []
    body = write.obj if isinstance(write, Create) else write.body
    return (body.get("spec") or {}).get("podSets") or []


def _owner_uid(workload: Object) -> str:
    return str((controller_of(workload) or {}).get("uid", ""))
