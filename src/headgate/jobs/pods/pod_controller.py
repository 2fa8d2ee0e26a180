"""The controller of pods in Kueue's queues: watches pods and Workloads, and performs the writes of ``pod_plan.py``.

A work-queue key stands for a *unit*: a single pod or a pod group. A restarted process continues from the state on the
server. ``quota/controller/`` reserves quota; ``admission/`` adds the gate when a pod is created.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import (
    Create,
    Delete,
    Effect,
    EffectResponse,
    Get,
    ParallelRequests,
    Patch,
    RequestEffect,
)
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
from headgate.jobs.framework.decisions import rejected_start, startable_s, written_decision
from headgate.jobs.framework.finalizer_restores import FinalizerRestores
from headgate.jobs.framework.flavors_and_priorities import FlavorsAndPriorities
from headgate.jobs.framework.job_plan import JobBlocked, has_condition, plan_orphaned_workload
from headgate.jobs.framework.job_writes import PlannedWrite, evict_after_rejected_start
from headgate.jobs.framework.management import UnknownAncestor, known_ancestors
from headgate.jobs.framework.open_starts import OpenStarts
from headgate.jobs.framework.unread_objects import UnreadObjects, read_refused
from headgate.jobs.gated_jobs import GatedJobs, GatedUnit, named_queues
from headgate.jobs.metrics import JobMetrics
from headgate.jobs.names import ADMISSION_GATE
from headgate.jobs.pods import ancestor_gates
from headgate.jobs.pods.group_workload import workload_name
from headgate.jobs.pods.managed_pod import ManagedPod
from headgate.jobs.pods.pod_cache import UNMANAGED, Key, ManagedPodCache, is_of_group
from headgate.jobs.pods.pod_metadata import is_gated
from headgate.jobs.pods.pod_plan import plan_pods
from headgate.jobs.pods.pod_plan_input import ConfirmNoWorkload, PodPlanContext, WaitUntil
from headgate.jobs.pods.pod_unit import PodUnit
from headgate.jobs.pods.pod_writes import pod_event, remove_finalizers
from headgate.jobs.pods.quota_release import release_of_pods
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube import conditions
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.decisions import Decided, ignore_decision
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.object_meta import owner_references
from headgate.quota.controller.rejected_admissions import RejectedAdmissions
from headgate.quota.kinds.names import WORKLOADS
from headgate.quota.names import FINISHED, QUOTA_RESERVED, RESOURCE_IN_USE

Object = dict[str, Any]

_RETRY_S: Final = 10.0
"""The delay before a blocked unit is planned again."""
_LARGE_GROUP: Final = 100
_BATCH_DELAY_S: Final = 30e-6
"""The delay, for each pod of a large group, before the group is reconciled. The events that arrive during the delay
lead to one reconciliation."""


class ManagedPodController(Controller):
    name = "managed pods"

    def __init__(
        self,
        features: FeatureGates,
        settings: JobSettings = DEFAULT,
        metrics: JobMetrics | None = None,
        decided: Decided = ignore_decision,
        gated: GatedJobs | None = None,
    ) -> None:
        """``decided`` is called when the gate of a pod is removed, and when a pod is stopped. ``gated``: receives the
        gated pods and pod groups."""
        self._decided: Final = decided
        self._gated: Final = gated or GatedJobs()
        self.metrics: Final = metrics or JobMetrics()
        self._release: Final = release_of_pods(features, settings.quota_release)
        self._honours_scheduling_gates: Final = features.scheduling_gated_by
        self._honours_admission_gates: Final = features.admission_gated_by
        self._starts_after_terminating: Final = features.start_after_terminating_pods
        self._max_wait_s: Final = settings.max_wait_s
        self._cache: Final = ManagedPodCache()
        self._ancestor_gates: Final = ancestor_gates.AncestorGates(
            known_ancestors(settings.kinds), manages_all=settings.manages_all
        )
        self._references: Final = FlavorsAndPriorities()
        self._last_emitted: Final[dict[Key, JobBlocked]] = {}
        self._restores: Final = FinalizerRestores()
        self._open_starts: Final = OpenStarts()
        self._unread: Final[UnreadObjects[Key]] = UnreadObjects()
        self._affected: Final[dict[Key, list[Key]]] = {}  # by the key that is reconciled: others to reconcile then
        self._rejections: Final = RejectedAdmissions()
        self._served: frozenset[APIResource] = frozenset()
        self._first_lists: Final = FirstLists((WORKLOADS,), flavors_and_priorities.REFERENCED_RESOURCES)

    @property
    def terminating_released(self) -> int:
        """Terminating pods whose quota is already released."""
        return self.metrics.terminating_released

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
        resources = (PODS, WORKLOADS, *flavors_and_priorities.REFERENCED_RESOURCES)
        found = [WatchSpec(each, ALL_FIELDS) for each in resources if each in self._served]
        ancestors = sorted(self._ancestor_gates.resources & self._served, key=lambda each: (each.group, each.plural))
        return [
            *found,
            *(WatchSpec(each, ancestor_gates.FIELDS) for each in ancestors if self._honours_scheduling_gates),
        ]

    # -- watch events ----------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource in flavors_and_priorities.REFERENCED_RESOURCES:
            self._references.put(resource, obj)
        elif resource in (PODS, WORKLOADS):
            return self._enqueue(self._put(resource, obj, from_watch=True))
        else:
            return self._enqueue(self._ancestor_gates.put(resource, obj))
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource in flavors_and_priorities.REFERENCED_RESOURCES:
            self._references.remove(resource, name)
        elif resource == PODS:
            self._open_starts.forget(uid)
            return self._enqueue(self._cache.remove_pod(namespace, name, uid))
        elif resource == WORKLOADS:
            self._restores.forget(uid)
            return self._enqueue(self._cache.remove_workload(namespace, name, uid))
        else:
            return self._enqueue(self._ancestor_gates.remove(resource, namespace, name))
        return ()

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        self._first_lists.synced(resource)
        return self._enqueue(self._cache.synced(resource == PODS, revision)) if resource in (PODS, WORKLOADS) else ()

    def _put(self, resource: APIResource, obj: Object, *, from_watch: bool) -> list[Key]:
        put = self._cache.put_pod if resource == PODS else self._cache.put_workload
        return put(obj, from_watch=from_watch)

    def _enqueue(self, keys: Iterable[Key]) -> list[Enqueue]:
        sizes = {key: self._cache.size(key) for key in keys}
        self._gated.expect(sizes)
        return [Enqueue(key, size * _BATCH_DELAY_S if size > _LARGE_GROUP else 0.0) for key, size in sizes.items()]

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        if self._first_lists.awaited(now_s):  # a Workload that is not known yet is not missing
            return RequeueAfter(LIST_CHECK_S)
        result = yield from self._reconcile(key, now_s)
        self._gated.reconciled(key)
        due_s = self._restores.take_due_s(self._cache.workloads(key))
        again = [] if due_s is None else [Enqueue(key, max(due_s - now_s, 0.0))]
        return with_enqueues(result, key, [*self._enqueue(self._affected.pop(key, ())), *again])

    def _reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        error = yield from self._read_due(key, now_s)
        if error:
            return RequeueWithBackoff(error)
        members, workloads = self._cache.members(key), self._cache.workloads(key)
        if not members:
            self._last_emitted.pop(key, None)
            self._rejections.forget(str(key))
            self.metrics.job_released(key)
            self._gated.remove(key)
            return (yield from self._finish_orphaned_workloads(key, workloads, now_s))
        own = [each for each in workloads if is_of_group(each) or _is_owned_by(each, members)]
        if len(own) < len(workloads):
            return (
                yield from self._finish_orphaned_workloads(key, [each for each in workloads if each not in own], now_s)
            )
        unit = PodUnit(key, tuple(members))
        if key[0] == UNMANAGED:
            return (yield from self._write(unit, remove_finalizers(members)))
        step = plan_pods(unit, own, self._plan_context(key, now_s))
        self._report_gate(unit, step.gate if isinstance(step, JobBlocked) else "")
        if isinstance(step, ConfirmNoWorkload):
            live = yield Get(WORKLOADS, key[1], workload_name(unit))
            if not live.ok and not live.missing:
                return RequeueWithBackoff(live.message)
            if live.ok and key in self._store(key, WORKLOADS, live.body):
                return Done([Enqueue(key)])
            step = step.writes
        match step:
            case JobBlocked():
                yield from self._emit_once(unit, step)
                return RequeueAfter(_RETRY_S) if step.is_warning else Done()
            case WaitUntil(until_s, why):
                if why is not None:
                    yield from self._emit_once(unit, why)
                return RequeueAfter(max(until_s - now_s, 0.0) + 0.001)
            case tuple():
                open_until_s = self._open_until_s(members)
                if open_until_s is not None and any(map(_releases_quota, step)):
                    return RequeueAfter(max(open_until_s - now_s, 0.0) + 0.001)
                return (yield from self._write(unit, step))
            case _:
                return Done()

    def _report_gate(self, unit: PodUnit, gate: str) -> None:
        """``gate``: empty if the unit is not gated."""
        pod, created_s = unit.representative, seconds(unit.representative.created)
        self.metrics.job_gated(unit.key, "Pod", gate, created_s)
        if not gate:
            self._gated.remove(unit.key)
            return
        kind, namespace, name = "Pod group" if unit.is_group else "Pod", *unit.key[1:]
        queues = named_queues(namespace, pod.queue, [pod.pod])
        self._gated.put(unit.key, GatedUnit(kind, namespace, name, gate, created_s or 0.0), queues)

    def _finish_orphaned_workloads(self, key: Key, workloads: Sequence[Object], now_s: float) -> ReconcileSteps:
        """Finishes Workloads whose pods are not in the cache, after it has read from the server that the pods do not
        exist."""
        for workload in workloads:
            planned = plan_orphaned_workload(workload, now_s)
            if planned is None or planned.write is None:
                continue
            owners = [str(each.get("name", "")) for each in owner_references(workload) if each.get("kind") == "Pod"]
            response = yield ParallelRequests(tuple(Get(PODS, key[1], name) for name in owners))
            owner_uids = {each.get("uid") for each in owner_references(workload)}
            for each in response.parts:
                if not each.ok and not each.missing:
                    return RequeueWithBackoff(each.message)
                is_owner = each.ok and each.body["metadata"]["uid"] in owner_uids
                if is_owner and self._store(key, PODS, each.body):
                    return Done([Enqueue(key)])
            done = yield planned.write
            is_read = yield from self._observe(key, planned.write, done)
            is_planned_again = done.ok or (done.conflict and is_read)
            return Done([Enqueue(key)]) if is_planned_again else RequeueWithBackoff(done.message)
        return Done()

    def _write(self, unit: PodUnit, plans: Sequence[PlannedWrite]) -> ReconcileSteps:
        """Performs all writes in parallel. A rejected write does not affect the others."""
        writes = [planned.write for planned in plans if planned.write is not None]  # plans for pods always have a write
        patched_objects = [self._find_patched_object(write) for write in writes]
        if len(writes) == 1:
            responses: Sequence[EffectResponse] = [(yield writes[0])]
        else:
            responses = (yield ParallelRequests(tuple(writes))).parts
        rejection = start_rejection = ""
        handled_count = 0
        for planned, write, before, response in zip(plans, writes, patched_objects, responses, strict=True):
            if response.ok and _has_changed(before, response):
                handled_count += 1
                if planned.starts:
                    self._rejections.forget(str(unit.key))
                self._measure(unit, write, before, response)
                self._report_decision(unit, planned, response)
                yield from yield_each(planned.events)
                yield from self._observe(unit.key, write, response)
                continue
            if planned.starts and response.may_be_performed and not response.refused and before is not None:
                self._open_starts.add(ObservedVersion.of(before), response.now_s)
            is_read = yield from self._observe(unit.key, write, response)
            if (response.conflict or response.missing) and not response.refused and not isinstance(write, Create):
                handled_count += 1  # the pod has changed: the unit is planned again
                rejection = rejection or ("" if is_read else response.message)
            else:
                message = yield from self._report_rejection(unit, write, response)
                rejection = rejection or message
                start_rejection = start_rejection or (
                    message if planned.starts and (response.ok or response.refused) else ""
                )
        if start_rejection:
            self._decided(rejected_start("Pod", unit.representative.pod, start_rejection))
        if start_rejection and (yield from self._release_quota(unit.key, start_rejection, responses[0].now_s)):
            return Done([Enqueue(unit.key)])
        return RequeueWithBackoff(rejection) if rejection or not handled_count else Done([Enqueue(unit.key)])

    def _release_quota(self, key: Key, message: str, now_s: float) -> Generator[Effect, EffectResponse, bool]:
        """Releases the quota of pods whose start the server rejects, unless other pods of the group run or may have
        been started. Returns whether the quota was released."""
        workloads = [each for each in self._cache.workloads(key) if has_condition(each, QUOTA_RESERVED)]
        members = self._cache.members(key)
        if not workloads or any(not each.is_gated and not each.has_ended for each in members):
            return False
        if self._open_until_s(members) is not None:
            return False
        planned = evict_after_rejected_start(workloads[0], message, now_s + self._rejections.backoff_s(str(key)), now_s)
        if planned.write is None:
            return False
        response = yield planned.write
        yield from self._observe(key, planned.write, response)
        if response.ok:
            yield from yield_each(planned.events)
        return response.ok

    def _open_until_s(self, members: Sequence[ManagedPod]) -> float | None:
        """The time until which a request whose outcome is unknown may start a pod; None if there is no such request."""
        found = (self._open_starts.until_s(each.pod) for each in members)
        return max((each for each in found if each is not None), default=None)

    def _measure(self, unit: PodUnit, write: RequestEffect, before: Object | None, response: EffectResponse) -> None:
        """Observes the latency of a Workload creation or a gate removal."""
        if isinstance(write, Create):
            self.metrics.created("Pod", seconds(unit.representative.created), response.now_s)
        elif isinstance(write, Patch) and write.resource == PODS:
            if before is None or not is_gated(before) or is_gated(response.body):
                return
            for workload in self._cache.workloads(unit.key)[:1]:
                status = workload.get("status") or {}
                queue = str((status.get("admission") or {}).get("clusterQueue", ""))
                self.metrics.ungated(ADMISSION_GATE, queue, unit.is_group, startable_s(status), response.now_s)

    def _report_decision(self, unit: PodUnit, planned: PlannedWrite, response: EffectResponse) -> None:
        write = planned.write
        if not isinstance(write, Patch | Delete) or write.resource != PODS:
            return
        pod = next((each.pod for each in unit.members if each.name == write.name), None)
        workload = next(iter(self._cache.workloads(unit.key)), None)
        decision = None if pod is None else written_decision("Pod", pod, planned, workload, response.now_s)
        if decision is not None:
            self._decided(decision)

    def _find_patched_object(self, write: Create | Patch | Delete) -> Object | None:
        """The cached object that a patch was planned from; None for other writes. It is read before the request is
        sent, because a watch event may replace it before the response arrives."""
        if not isinstance(write, Patch):
            return None
        return self._cache.find(write.resource == PODS, write.namespace, write.name)

    def _observe(
        self, key: Key, write: Create | Patch | Delete, response: EffectResponse
    ) -> Generator[Effect, EffectResponse, bool]:
        """Applies the object of the response to the cache, or reads it if the response has none. Returns whether the
        cache has the present state of the object."""
        name = write.obj["metadata"]["name"] if isinstance(write, Create) else write.name
        is_deleted = isinstance(write, Delete) and response.ok
        has_no_object = is_deleted and not (response.body.get("metadata") or {}).get("deletionTimestamp")
        if has_no_object or not (response.ok or response.missing):
            is_unknown = response.unknown and not response.refused
            return not (yield from self._read(key, (Get(write.resource, write.namespace, name),), is_due=is_unknown))
        known = None if isinstance(write, Create) else self._cache.find(write.resource == PODS, write.namespace, name)
        self._apply(key, write.resource, known, response)
        return True

    def _read_due(self, key: Key, now_s: float) -> Generator[Effect, EffectResponse, str]:
        """Reads the objects whose version must be known before the next plan. Returns why one cannot be read, or an
        empty text."""
        settled_by_read = [each for each in self._cache.members(key) if self._open_starts.must_read(each.pod, now_s)]
        reads = [*self._unread.of(key), *(Get(PODS, key[1], each.name) for each in settled_by_read)]
        failed = yield from self._read(key, tuple(dict.fromkeys(reads)), is_due=True)
        if not failed:
            for each in settled_by_read:
                known = self._cache.find(True, key[1], each.name)
                if known is not None:
                    self._open_starts.settle(known, now_s)
            return ""
        refused = next(((read, response) for read, response in failed if response.refused), None)
        members = self._cache.members(key)
        if refused is not None and members:
            yield from self._emit_once(PodUnit(key, tuple(members)), read_refused(refused[0], refused[1].message))
        return failed[0][1].message

    def _read(
        self, key: Key, reads: Sequence[Get], *, is_due: bool
    ) -> Generator[Effect, EffectResponse, list[tuple[Get, EffectResponse]]]:
        """Applies the objects on the server to the cache. Returns the reads that failed. ``is_due``: these are
        repeated before the next plan."""
        known = [self._cache.find(each.resource == PODS, each.namespace, each.name) for each in reads]
        if len(reads) == 1:
            responses: Sequence[EffectResponse] = [(yield reads[0])]
        else:
            responses = (yield ParallelRequests(tuple(reads))).parts if reads else ()
        failed: list[tuple[Get, EffectResponse]] = []
        for read, before, response in zip(reads, known, responses, strict=True):
            if response.ok or response.missing:
                self._unread.discard(key, read)
                self._apply(key, read.resource, before, response)
            elif response.status == 404 and read.resource not in self._served:
                self._unread.discard(key, read)  # the kind is not served any more, and its objects do not exist
            else:
                failed.append((read, response))
                if is_due:
                    self._unread.add(key, read)
        return failed

    def _apply(self, key: Key, resource: APIResource, known: Object | None, response: EffectResponse) -> None:
        """Applies an object, or its absence, to the cache. ``known``: the cached object that is absent then."""
        if not response.missing and not _is_gone(response.body):
            self._store(key, resource, response.body)
        elif known is not None:
            metadata = known["metadata"]
            remove = self._cache.remove_pod if resource == PODS else self._cache.remove_workload
            self._keep_affected(key, remove(metadata["namespace"], metadata["name"], metadata["uid"]))

    def _store(self, key: Key, resource: APIResource, obj: Object) -> list[Key]:
        """Applies an object of a response to the cache. Returns the affected keys."""
        affected = self._put(resource, obj, from_watch=False)
        self._keep_affected(key, affected)
        return affected

    def _keep_affected(self, key: Key, affected: Iterable[Key]) -> None:
        """Other keys are enqueued after the reconciliation of ``key``: the watch may show no further change."""
        self._affected.setdefault(key, []).extend(each for each in affected if each != key)

    def _report_rejection(
        self, unit: PodUnit, write: RequestEffect, response: EffectResponse
    ) -> Generator[Effect, EffectResponse, str]:
        """Returns why the write failed, and emits an Event if the user has to act."""
        message = "the server kept what it had" if response.ok else response.message
        if isinstance(write, Create) and not response.unknown:
            name = write.obj["metadata"]["name"]
            if response.conflict and self._cache.workloads(unit.key):
                return message
            if response.conflict and unit.is_group:
                text = f'A Workload named "{name}" already exists but is not a pod group workload'
                yield from self._emit_once(
                    unit, JobBlocked("WorkloadNameConflict", f"{text}; this pod group cannot be admitted")
                )
            else:
                yield from self._emit_once(unit, JobBlocked("ErrWorkloadCompose", message))
        elif isinstance(write, Patch) and "schedulingGates" in write.body.get("spec", ()):
            if response.unknown and not response.refused:
                return message
            yield from self._emit_once(unit, JobBlocked("FailedToStart", f"pod '{write.name}': {message}"))
        return message

    def _emit_once(self, unit: PodUnit, blocked: JobBlocked) -> Generator[Effect, EffectResponse]:
        """Emits an Event if the reason differs from the last one."""
        if self._last_emitted.get(unit.key) != blocked:
            self._last_emitted[unit.key] = blocked
            yield pod_event(unit.representative, blocked.reason, blocked.message, is_warning=blocked.is_warning)

    def _plan_context(self, key: Key, now_s: float) -> PodPlanContext:

        def gate_of_pod(pod: Object) -> str | UnknownAncestor | None:
            return self._ancestor_gates.gate_of_pod(pod, key) if self._honours_scheduling_gates else None

        return PodPlanContext(
            self._references.flavors,
            self._references.classes,
            self._release,
            gate_of_pod,
            self._honours_admission_gates,
            now_s,
            self._starts_after_terminating,
            self._max_wait_s,
            lambda workload: self._restores.may_restore(workload, now_s),
        )


def _releases_quota(planned: PlannedWrite) -> bool:
    """Whether the Workload has no quota after the write, or is finished, or may be deleted."""
    write = planned.write
    if write is None or write.resource != WORKLOADS or isinstance(write, Create):
        return False
    if isinstance(write, Delete):
        return True
    status = write.body.get("status") or {}
    is_finished = conditions.is_true(status.get("conditions"), FINISHED)
    metadata = write.body["metadata"]
    may_be_deleted = "finalizers" in metadata and RESOURCE_IN_USE not in (metadata["finalizers"] or ())
    return is_finished or "admission" in status or may_be_deleted


def _has_changed(before: Object | None, response: EffectResponse) -> bool:
    """Whether the write changed the object. If not, it is retried with back-off."""
    return before is None or not ObservedVersion.of(before).is_same(response.body)


def _is_owned_by(workload: Object, members: Sequence[ManagedPod]) -> bool:
    owners = {each.get("uid") for each in owner_references(workload)}
    return any(each.uid in owners for each in members)


def _is_gone(obj: Object) -> bool:
    """Whether this was the last version of a deleted object: no finalizer and no grace period is left."""
    metadata = obj["metadata"]
    delays_deletion = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return not delays_deletion and bool(metadata.get("deletionTimestamp"))
