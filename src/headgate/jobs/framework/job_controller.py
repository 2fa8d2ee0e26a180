"""The controller of jobs in Kueue's queues: watches jobs and Workloads and performs the steps of ``job_plan.py``.

A key is a job's name; events of its Workloads queue it, too. A restarted process continues from the server's state.
``quota/controller/`` reserves quota, ``controllers/jobs/`` creates pods.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Final

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import Create, Delete, Effect, EffectResponse, Get, Patch
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
    yield_each,
)
from headgate.controllers.ownership.pods import seconds
from headgate.jobs.framework import flavors_and_priorities
from headgate.jobs.framework.flavors_and_priorities import FlavorsAndPriorities
from headgate.jobs.framework.job_cache import NO_OWNER, JobCache, Key, qualified_plural
from headgate.jobs.framework.job_plan import JobBlocked, JobPlanContext, has_condition, plan_job, plan_orphaned_workload
from headgate.jobs.framework.job_writes import PlannedWrite, adopt, job_event, start_refused
from headgate.jobs.framework.management import ManagementScope, known_ancestors
from headgate.jobs.framework.workload import prebuilt_name, workload_name
from headgate.jobs.framework.workload_equivalence import digest, equals_pod_sets
from headgate.jobs.kinds.job_kind import JobKind, Object
from headgate.jobs.metrics import JobMetrics
from headgate.jobs.names import DEFAULT_QUEUE
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube.api_resources import NAMESPACES, APIResource
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
        self, features: FeatureGates, settings: JobSettings = DEFAULT, metrics: JobMetrics | None = None
    ) -> None:
        self._metrics: Final = metrics or JobMetrics()
        self._features: Final = features
        self._settings: Final = settings
        self._kinds: Final = {qualified_plural(each.resource): each for each in settings.kinds}
        resources = [each.resource for each in settings.kinds]
        known = {kind: each for kind, each in known_ancestors(settings.kinds).items() if each in resources}
        self._cache: Final = JobCache(settings.kinds)
        self._references: Final = FlavorsAndPriorities()
        self._namespaces: Final[dict[str, Mapping[str, str]]] = {}
        self._defaults: Final[dict[str, str]] = {}
        cache = self._cache
        self._scope: Final = ManagementScope(
            settings, self._namespaces, self._defaults, known, cache.get, cache.unfinished
        )
        self._emitted: Final[dict[str, JobBlocked]] = {}  # by the uid of a job: the last emitted reason
        self._stored_digests: Final[dict[str, str]] = {}
        self._rejections: Final = RejectedAdmissions()
        self._served: frozenset[APIResource] = frozenset()

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._served = frozenset(row.resource for row in served.by_name.values())
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        if WORKLOADS not in self._served:
            return ()
        kinds = [each.resource for each in self._kinds.values()]
        wanted = (*kinds, WORKLOADS, *flavors_and_priorities.REFERENCED_RESOURCES)
        whole = [WatchSpec(each, ALL_FIELDS) for each in wanted if each in self._served]
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
                self._defaults[metadata["namespace"]] = metadata.get("creationTimestamp") or ""
        else:
            return _enqueue(self._cache.put(resource, obj, from_watch=True))
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource in flavors_and_priorities.REFERENCED_RESOURCES:
            self._references.remove(resource, name)
        elif resource == NAMESPACES:
            self._namespaces.pop(name, None)
        elif resource == LOCAL_QUEUES:
            if name == DEFAULT_QUEUE:
                self._defaults.pop(namespace, None)
        else:
            self._emitted.pop(uid, None)
            self._stored_digests.pop(uid, None)
            return _enqueue(self._cache.remove(resource, namespace, name, uid))
        return ()

    def _namespace_relabelled(self, namespace: str, labels: Mapping[str, str]) -> list[Enqueue]:
        before, selector = self._namespaces.get(namespace), self._settings.namespaces
        self._namespaces[namespace] = labels
        is_changed = before is None or selector.matches(before) != selector.matches(labels)
        return _enqueue(self._cache.owner_index.in_namespace(namespace)) if is_changed else []

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        return _enqueue(self._cache.synced(resource, revision))

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
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
            self._rejections.forget(str(key))
            return Done()
        step = plan_job(kind, job, own, self._prebuilt_workload(job), self._plan_context(now_s))
        gate = step.gate if isinstance(step, JobBlocked) else ""
        self._metrics.job_gated(key, kind.kind.kind, gate, seconds(job["metadata"].get("creationTimestamp")))
        if isinstance(step, JobBlocked):
            yield from self._emit_once(kind, job, step)
            return RequeueAfter(_RETRY_S) if step.is_warning else Done()
        return Done() if step is None else (yield from self._write(key, step))

    def _plan_ownerless(self, workload: Object, now_s: float) -> PlannedWrite | None:
        """The write for a Workload whose owner only its label names: adoption by that job if it exists."""
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
        if self._emitted.get(uid) != blocked:
            self._emitted[uid] = blocked
            yield job_event(kind, job, blocked.reason, blocked.message, is_warning=blocked.is_warning)

    def _write(self, key: Key, planned: PlannedWrite) -> ReconcileSteps:
        write = planned.write
        if write is None:
            return Done()
        name = write.obj["metadata"]["name"] if isinstance(write, Create) else write.name
        decided_on = None if isinstance(write, Create) else self._observed(write)
        response = yield write
        is_unchanged = isinstance(write, Patch) and decided_on is not None and decided_on.is_same(response.body)
        if planned.starts and (response.refused or (response.ok and is_unchanged)):
            message = response.message if response.refused else "the server kept what it had"
            return (yield from self._release_quota(key, message, response.now_s))
        if response.ok and self._stores_less(write, response):
            self._stored_digests[response.body["metadata"]["uid"]] = digest(_sent(write))
        elif response.ok and is_unchanged:
            # Without back-off, a server that drops the field (a schema without it) would get the write forever.
            return RequeueWithBackoff(f"{write.resource.plural} {write.namespace}/{name}: the server kept what it had")
        if planned.starts and response.ok:
            self._rejections.forget(str(key))
        if not response.ok:
            live = yield Get(write.resource, write.namespace, name)
            affected = self._cache.put(write.resource, live.body) if live.ok else []
            if live.missing and not isinstance(write, Create):
                self._forget(write.resource, write.namespace, name)
            if isinstance(write, Create) and key not in affected and not response.unknown:
                kind = self._kinds[key[0]]
                job = self._cache.get(kind.resource, *key[1:])
                message = f"Workload {write.namespace}/{name} belongs to another owner" if live.ok else response.message
                if job is not None:
                    yield from self._emit_once(kind, job, JobBlocked("ErrWorkloadCompose", message))
                return RequeueWithBackoff(message)
            # After a conflict the job is planned again at once; after other errors with back-off.
            return Done([Enqueue(key)]) if response.conflict else RequeueWithBackoff(response.message)
        if isinstance(write, Create):
            self._measure(key, response.now_s)
        yield from yield_each(planned.events)
        metadata = response.body.get("metadata") or {}
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self._forget(write.resource, write.namespace, name)
        elif metadata.get("uid"):
            return Done(_enqueue([key, *self._cache.put(write.resource, response.body)]))
        return Done([Enqueue(key)])

    def _release_quota(self, key: Key, message: str, now_s: float) -> ReconcileSteps:
        """Releases the quota of a job whose start the server rejects, so that others may use it meanwhile."""
        kind = self._kinds[key[0]]
        job = self._cache.get(kind.resource, *key[1:])
        admitted = [each for each in self._cache.workloads(key) if has_condition(each, QUOTA_RESERVED)]
        if job is None or not admitted:
            return RequeueWithBackoff(message)
        yield from self._emit_once(kind, job, JobBlocked("FailedToStart", message))
        planned = start_refused(admitted[0], message, now_s + self._rejections.backoff_s(str(key)), now_s)
        return (yield from self._write(key, planned))

    def _stores_less(self, write: Create | Patch | Delete, response: EffectResponse) -> bool:
        """Whether the server stores less of the pod sets than was sent, and this is not recorded yet."""
        sent, uid = _sent(write), response.body.get("metadata", {}).get("uid")
        return bool(sent) and not equals_pod_sets(response.body, sent) and self._stored_digests.get(uid) != digest(sent)

    def _observed(self, write: Patch | Delete) -> ObservedVersion | None:
        known = self._cache.get(write.resource, write.namespace, write.name)
        return None if known is None else ObservedVersion.of(known)

    def _measure(self, key: Key, now_s: float) -> None:
        kind = self._kinds[key[0]]
        job = self._cache.get(kind.resource, *key[1:])
        if job is not None:
            self._metrics.created(kind.kind.kind, seconds(job["metadata"].get("creationTimestamp")), now_s)

    def _forget(self, resource: APIResource, namespace: str, name: str) -> None:
        known = self._cache.get(resource, namespace, name)
        if known is not None:
            self._cache.remove(resource, namespace, name, known["metadata"]["uid"])

    def _plan_context(self, now_s: float) -> JobPlanContext:
        features = self._features
        gating, holding = features.scheduling_gated_by, features.admission_gated_by
        return JobPlanContext(
            self._references.flavors,
            self._references.classes,
            self._scope,
            gating,
            holding,
            self._stored_digests,
            now_s,
        )


def _enqueue(keys: Iterable[Key]) -> list[Enqueue]:
    return [Enqueue(key) for key in dict.fromkeys(keys)]


def _sent(write: Create | Patch | Delete) -> list[Object]:
    """The pod sets in a write of a Workload."""
    if isinstance(write, Delete) or write.resource != WORKLOADS:
        return []
    body = write.obj if isinstance(write, Create) else write.body
    return (body.get("spec") or {}).get("podSets") or []


def _owner_uid(workload: Object) -> str:
    return str((controller_of(workload) or {}).get("uid", ""))
