"""The controller of pods in Kueue's queues: watches pods and Workloads and performs ``pod_plan.py`` in batches.

A key is a single pod or a group. A restarted process continues from the server's state. ``quota/controller/`` reserves
quota; ``admission/`` adds the gate when a pod is created.
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
from headgate.jobs.framework.job_plan import JobBlocked, has_condition, plan_orphaned_workload
from headgate.jobs.framework.job_writes import PlannedWrite, start_refused
from headgate.jobs.framework.management import UnknownAncestor, known_ancestors
from headgate.jobs.metrics import JobMetrics
from headgate.jobs.names import ADMISSION_GATE
from headgate.jobs.pods import ancestor_gates
from headgate.jobs.pods.group_workload import workload_name
from headgate.jobs.pods.managed_pod import ManagedPod
from headgate.jobs.pods.pod_cache import UNKNOWN_OWNER, Key, ManagedPodCache, is_of_group
from headgate.jobs.pods.pod_metadata import is_gated
from headgate.jobs.pods.pod_plan import plan_pods
from headgate.jobs.pods.pod_plan_input import ConfirmNoWorkload, PodPlanContext, WaitUntil
from headgate.jobs.pods.pod_unit import PodUnit
from headgate.jobs.pods.pod_writes import pod_event, remove_finalizers
from headgate.jobs.pods.quota_release import release_of_pods
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube import conditions
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.object_meta import owner_references
from headgate.quota.controller.rejected_admissions import RejectedAdmissions
from headgate.quota.kinds.names import WORKLOADS
from headgate.quota.names import ADMITTED, QUOTA_RESERVED, WAITING_FOR_TERMINATING_PODS

Object = dict[str, Any]

_RETRY_S: Final = 10.0
"""The delay before a blocked unit is planned again."""
_LARGE: Final = 100
_BATCH_S: Final = 30e-6
"""The delay per pod of a large group: events of many pods lead to one reconciliation."""


class ManagedPodController(Controller):
    name = "managed pods"

    def __init__(
        self, features: FeatureGates, settings: JobSettings = DEFAULT, metrics: JobMetrics | None = None
    ) -> None:
        self.metrics: Final = metrics or JobMetrics()
        self._release: Final = release_of_pods(features, settings.quota_release)
        self._gating: Final = features.scheduling_gated_by
        self._holding: Final = features.admission_gated_by
        self._starts_late: Final = features.start_after_terminating_pods
        self._max_wait_s: Final = settings.max_wait_s
        self._cache: Final = ManagedPodCache()
        self._ancestor_gates: Final = ancestor_gates.AncestorGates(
            known_ancestors(settings.kinds), manages_all=settings.manages_all
        )
        self._references: Final = FlavorsAndPriorities()
        self._emitted: Final[dict[Key, JobBlocked]] = {}
        self._rejections: Final = RejectedAdmissions()
        self._served: frozenset[APIResource] = frozenset()

    @property
    def terminating_released(self) -> int:
        """Terminating pods whose quota is already released."""
        return self.metrics.terminating_released

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._served = frozenset(row.resource for row in served.by_name.values())
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        if WORKLOADS not in self._served:
            return ()
        wanted = (PODS, WORKLOADS, *flavors_and_priorities.REFERENCED_RESOURCES)
        found = [WatchSpec(each, ALL_FIELDS) for each in wanted if each in self._served]
        ancestors = sorted(self._ancestor_gates.resources & self._served, key=lambda each: (each.group, each.plural))
        return [*found, *(WatchSpec(each, ancestor_gates.FIELDS) for each in ancestors if self._gating)]

    # -- events in -------------------------------------------------------------------------------------------------

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
            return self._enqueue(self._cache.remove_pod(namespace, name, uid))
        elif resource == WORKLOADS:
            return self._enqueue(self._cache.remove_workload(namespace, name, uid))
        else:
            return self._enqueue(self._ancestor_gates.remove(resource, namespace, name))
        return ()

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        return self._enqueue(self._cache.synced(resource == PODS, revision)) if resource in (PODS, WORKLOADS) else ()

    def _put(self, resource: APIResource, obj: Object, *, from_watch: bool) -> list[Key]:
        put = self._cache.put_pod if resource == PODS else self._cache.put_workload
        return put(obj, from_watch=from_watch)

    def _enqueue(self, keys: Iterable[Key]) -> list[Enqueue]:
        sizes = {key: self._cache.size(key) for key in keys}
        return [Enqueue(key, size * _BATCH_S if size > _LARGE else 0.0) for key, size in sizes.items()]

    # -- work ------------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        members, workloads = self._cache.members(key), self._cache.workloads(key)
        self._count(key, members, workloads)
        if not members:
            self._emitted.pop(key, None)
            self._rejections.forget(str(key))
            self.metrics.job_released(key)
            return (yield from self._orphaned(key, workloads, now_s))
        own = [each for each in workloads if is_of_group(each) or _is_of(each, members)]
        if len(own) < len(workloads):
            return (yield from self._orphaned(key, [each for each in workloads if each not in own], now_s))
        unit = PodUnit(key, tuple(members))
        if key[0] == UNKNOWN_OWNER:
            return (yield from self._write(unit, remove_finalizers(members)))
        step = plan_pods(unit, own, self._plan_context(key, now_s))
        self.metrics.job_gated(
            key, "Pod", step.gate if isinstance(step, JobBlocked) else "", seconds(unit.first.created)
        )
        if isinstance(step, ConfirmNoWorkload):
            live = yield Get(WORKLOADS, key[1], workload_name(unit))
            if not live.ok and not live.missing:
                return RequeueWithBackoff(live.message)
            if live.ok and key in self._cache.put_workload(live.body, from_watch=False):
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
                return (yield from self._write(unit, step))
            case _:
                return Done()

    def _orphaned(self, key: Key, workloads: Sequence[Object], now_s: float) -> ReconcileSteps:
        """Workloads without known pods: the server is asked for the pods before quota is released."""
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
                if is_owner and self._cache.put_pod(each.body, from_watch=False):
                    return Done([Enqueue(key)])
            done = yield planned.write
            yield from self._observe(planned.write, done)
            return Done([Enqueue(key)]) if done.ok or done.conflict else RequeueWithBackoff(done.message)
        return Done()

    def _write(self, unit: PodUnit, plans: Sequence[PlannedWrite]) -> ReconcileSteps:
        """Performs all writes in parallel. A rejected write does not affect the others."""
        writes = [planned.write for planned in plans if planned.write is not None]  # all of them
        decided_on = [self._known(write) for write in writes]
        if len(writes) == 1:
            responses: Sequence[EffectResponse] = [(yield writes[0])]
        else:
            responses = (yield ParallelRequests(tuple(writes))).parts
        rejection = start_rejection = ""
        done = 0
        for planned, write, before, response in zip(plans, writes, decided_on, responses, strict=True):
            if response.ok and _has_changed(before, response):
                done += 1
                if planned.starts:
                    self._rejections.forget(str(unit.key))
                self._measure(unit, write, before, response)
                yield from yield_each(planned.events)
                yield from self._observe(write, response)
                continue
            yield from self._observe(write, response)
            if (response.conflict or response.missing) and not response.refused and not isinstance(write, Create):
                done += 1  # it changed meanwhile: planned again
            else:
                message = yield from self._report_rejection(unit, write, response)
                rejection = rejection or message
                start_rejection = start_rejection or (
                    message if planned.starts and (response.ok or response.refused) else ""
                )
        if start_rejection and (yield from self._release_quota(unit.key, start_rejection, responses[0].now_s)):
            return Done([Enqueue(unit.key)])
        return RequeueWithBackoff(rejection) if rejection or not done else Done([Enqueue(unit.key)])

    def _release_quota(self, key: Key, message: str, now_s: float) -> Generator[Effect, EffectResponse, bool]:
        """Releases the quota of pods of which none may start, unless pods of the group run. Returns whether it did."""
        workloads = [each for each in self._cache.workloads(key) if has_condition(each, QUOTA_RESERVED)]
        if not workloads or any(not each.is_gated and not each.has_ended for each in self._cache.members(key)):
            return False
        planned = start_refused(workloads[0], message, now_s + self._rejections.backoff_s(str(key)), now_s)
        if planned.write is None:
            return False
        response = yield planned.write
        yield from self._observe(planned.write, response)
        if response.ok:
            yield from yield_each(planned.events)
        return response.ok

    def _measure(self, unit: PodUnit, write: RequestEffect, before: Object | None, response: EffectResponse) -> None:
        """Observes the latency of a Workload creation or a gate removal."""
        if isinstance(write, Create):
            self.metrics.created("Pod", seconds(unit.first.created), response.now_s)
        elif isinstance(write, Patch) and write.resource == PODS:
            if before is None or not is_gated(before) or is_gated(response.body):
                return
            for workload in self._cache.workloads(unit.key)[:1]:
                status = workload.get("status") or {}
                queue = str((status.get("admission") or {}).get("clusterQueue", ""))
                self.metrics.ungated(ADMISSION_GATE, queue, unit.is_group, _startable_s(status), response.now_s)

    def _known(self, write: Create | Patch | Delete) -> Object | None:
        """The object that a patch was decided on. Read before the request, because the watch may be faster than the
        response."""
        if not isinstance(write, Patch):
            return None
        return self._cache.known(write.resource == PODS, write.namespace, write.name)

    def _observe(self, write: Create | Patch | Delete, response: EffectResponse) -> Generator[Effect, EffectResponse]:
        """Takes over the object from the response, or reads it if the response has none."""
        name = write.obj["metadata"]["name"] if isinstance(write, Create) else write.name
        is_deleted = isinstance(write, Delete) and response.ok
        has_no_object = is_deleted and not (response.body.get("metadata") or {}).get("deletionTimestamp")
        if has_no_object or not (response.ok or response.missing):
            response = yield Get(write.resource, write.namespace, name)
        if response.missing or (response.ok and _is_gone(response.body)):
            known = self._cache.known(write.resource == PODS, write.namespace, name)
            if known is not None and not isinstance(write, Create):
                self._forget(write.resource, write.namespace, name, known["metadata"]["uid"])
        elif response.ok:
            self._put(write.resource, response.body, from_watch=False)

    def _forget(self, resource: APIResource, namespace: str, name: str, uid: str) -> None:
        remove = self._cache.remove_pod if resource == PODS else self._cache.remove_workload
        remove(namespace, name, uid)

    def _report_rejection(
        self, unit: PodUnit, write: RequestEffect, response: EffectResponse
    ) -> Generator[Effect, EffectResponse, str]:
        """Returns the message, and emits an Event if the user has to act."""
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
        if self._emitted.get(unit.key) != blocked:
            self._emitted[unit.key] = blocked
            yield pod_event(unit.first, blocked.reason, blocked.message, is_warning=blocked.is_warning)

    def _count(self, key: Key, members: Sequence[ManagedPod], workloads: Sequence[Object]) -> None:
        holds = any(has_condition(each, QUOTA_RESERVED) for each in workloads)
        terminating = (
            0 if holds else sum(each.is_terminating and each.is_bound and not each.has_ended for each in members)
        )
        self.metrics.set_terminating_released(key, terminating)

    def _plan_context(self, key: Key, now_s: float) -> PodPlanContext:

        def gate_of_pod(pod: Object) -> str | UnknownAncestor | None:
            return self._ancestor_gates.gate_of_pod(pod, key) if self._gating else None

        return PodPlanContext(
            self._references.flavors,
            self._references.classes,
            self._release,
            gate_of_pod,
            self._holding,
            now_s,
            self._starts_late,
            self._max_wait_s,
        )


def _startable_s(status: Object) -> float | None:
    """The time of the admission, or the end of the wait for terminating pods if that is later."""
    found = (conditions.find(status.get("conditions"), each) or {} for each in (ADMITTED, WAITING_FOR_TERMINATING_PODS))
    known = [since_s for each in found if (since_s := seconds(each.get("lastTransitionTime"))) is not None]
    return max(known, default=None)


def _has_changed(before: Object | None, response: EffectResponse) -> bool:
    """Whether the write changed the object. If not, it is retried with back-off."""
    return before is None or not ObservedVersion.of(before).is_same(response.body)


def _is_of(workload: Object, members: Sequence[ManagedPod]) -> bool:
    owners = {each.get("uid") for each in owner_references(workload)}
    return any(each.uid in owners for each in members)


def _is_gone(obj: Object) -> bool:
    """Whether this was the last version of a deleted object: no finalizer and no grace period is left."""
    metadata = obj["metadata"]
    is_ended = not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")
    return is_ended and bool(metadata.get("deletionTimestamp"))
