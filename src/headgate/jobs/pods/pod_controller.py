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

_PATIENCE_S: Final = 10.0
"""How soon it is looked again for what a pod lacks."""
_LARGE: Final = 100
_GATHER_S: Final = 30e-6
"""A large group is looked at as a whole, but not for each of its pods: news of it are gathered, so long for each."""


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
        self._told: Final[dict[Key, JobBlocked]] = {}
        self._refusals: Final = RejectedAdmissions()
        self._served: frozenset[APIResource] = frozenset()

    @property
    def terminating_released(self) -> int:
        """Pods that still run while what they were given is free already."""
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
            return self._wake(self._put(resource, obj))
        else:
            return self._wake(self._ancestor_gates.put(resource, obj))
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource in flavors_and_priorities.REFERENCED_RESOURCES:
            self._references.remove(resource, name)
        elif resource == PODS:
            return self._wake(self._cache.remove_pod(namespace, name, uid))
        elif resource == WORKLOADS:
            return self._wake(self._cache.remove_workload(namespace, name, uid))
        else:
            return self._wake(self._ancestor_gates.remove(resource, namespace, name))
        return ()

    def _put(self, resource: APIResource, obj: Object) -> list[Key]:
        return self._cache.put_pod(obj) if resource == PODS else self._cache.put_workload(obj)

    def _wake(self, keys: Iterable[Key]) -> list[Enqueue]:
        sizes = {key: self._cache.size(key) for key in keys}
        return [Enqueue(key, size * _GATHER_S if size > _LARGE else 0.0) for key, size in sizes.items()]

    # -- work ------------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        members, workloads = self._cache.members(key), self._cache.workloads(key)
        self._count(key, members, workloads)
        if not members:
            self._told.pop(key, None)
            self._refusals.forget(str(key))
            self.metrics.job_released(key)
            return (yield from self._orphaned(key, workloads, now_s))
        mine = [each for each in workloads if is_of_group(each) or _is_of(each, members)]
        if len(mine) < len(workloads):
            return (yield from self._orphaned(key, [each for each in workloads if each not in mine], now_s))
        unit = PodUnit(key, tuple(members))
        if key[0] == UNKNOWN_OWNER:
            return (yield from self._write(unit, remove_finalizers(members)))
        step = plan_pods(unit, mine, self._plan_context(key, now_s))
        self.metrics.job_gated(
            key, "Pod", step.gate if isinstance(step, JobBlocked) else "", seconds(unit.first.created)
        )
        if isinstance(step, ConfirmNoWorkload):
            live = yield Get(WORKLOADS, key[1], workload_name(unit))
            if not live.ok and not live.missing:
                return RequeueWithBackoff(live.message)
            if live.ok and key in self._cache.put_workload(live.body):
                return Done([Enqueue(key)])
            step = step.acts
        match step:
            case JobBlocked():
                yield from self._emit_once(unit, step)
                return RequeueAfter(_PATIENCE_S) if step.is_warning else Done()
            case WaitUntil(until_s, why):
                if why is not None:
                    yield from self._emit_once(unit, why)
                return RequeueAfter(max(until_s - now_s, 0.0) + 0.001)
            case tuple():
                return (yield from self._write(unit, step))
            case _:
                return Done()

    def _orphaned(self, key: Key, workloads: Sequence[Object], now_s: float) -> ReconcileSteps:
        """Workloads whose pods are gone, as far as is known: that is asked once more before anything is given back."""
        for workload in workloads:
            act = plan_orphaned_workload(workload, now_s)
            if act is None or act.write is None:
                continue
            owners = [str(each.get("name", "")) for each in owner_references(workload) if each.get("kind") == "Pod"]
            answer = yield ParallelRequests(tuple(Get(PODS, key[1], name) for name in owners))
            there = {each.get("uid") for each in owner_references(workload)}
            for each in answer.parts:
                if not each.ok and not each.missing:
                    return RequeueWithBackoff(each.message)
                if each.ok and each.body["metadata"]["uid"] in there and self._cache.put_pod(each.body):
                    return Done([Enqueue(key)])
            done = yield act.write
            yield from self._seen(act.write, done)
            return Done([Enqueue(key)]) if done.ok or done.conflict else RequeueWithBackoff(done.message)
        return Done()

    def _write(self, unit: PodUnit, acts: Sequence[PlannedWrite]) -> ReconcileSteps:
        """All of it at once; what one of them is refused keeps no other from going on."""
        writes = [act.write for act in acts if act.write is not None]  # all of them
        decided_on = [self._known(write) for write in writes]
        if len(writes) == 1:
            answers: Sequence[EffectResponse] = [(yield writes[0])]
        else:
            answers = (yield ParallelRequests(tuple(writes))).parts
        refused = denied = ""
        done = 0
        for act, write, before, answer in zip(acts, writes, decided_on, answers, strict=True):
            if answer.ok and _has_changed(before, answer):
                done += 1
                if act.starts:
                    self._refusals.forget(str(unit.key))
                self._measure(unit, write, before, answer)
                yield from yield_each(act.events)
                yield from self._seen(write, answer)
                continue
            yield from self._seen(write, answer)
            if (answer.conflict or answer.missing) and not answer.refused and not isinstance(write, Create):
                done += 1  # it is something else by now: decided anew
            else:
                message = yield from self._refused(unit, write, answer)
                refused = refused or message
                denied = denied or (message if act.starts and (answer.ok or answer.refused) else "")
        if denied and (yield from self._give_back(unit.key, denied, answers[0].now_s)):
            return Done([Enqueue(unit.key)])
        return RequeueWithBackoff(refused) if refused or not done else Done([Enqueue(unit.key)])

    def _give_back(self, key: Key, why: str, now_s: float) -> Generator[Effect, EffectResponse, bool]:
        """The quota of pods of which none may start; whether that was done. Pods of a group that run use theirs."""
        workloads = [each for each in self._cache.workloads(key) if has_condition(each, QUOTA_RESERVED)]
        if not workloads or any(not each.is_gated and not each.is_over for each in self._cache.members(key)):
            return False
        act = start_refused(workloads[0], why, now_s + self._refusals.backoff_s(str(key)), now_s)
        if act.write is None:
            return False
        answer = yield act.write
        yield from self._seen(act.write, answer)
        if answer.ok:
            yield from yield_each(act.events)
        return answer.ok

    def _measure(self, unit: PodUnit, write: RequestEffect, before: Object | None, answer: EffectResponse) -> None:
        """How soon a Workload was made, or a gate lifted."""
        if isinstance(write, Create):
            self.metrics.created("Pod", seconds(unit.first.created), answer.now_s)
        elif isinstance(write, Patch) and write.resource == PODS:
            if before is None or not is_gated(before) or is_gated(answer.body):
                return
            for workload in self._cache.workloads(unit.key)[:1]:
                status = workload.get("status") or {}
                queue = str((status.get("admission") or {}).get("clusterQueue", ""))
                self.metrics.ungated(ADMISSION_GATE, queue, unit.is_group, _startable_s(status), answer.now_s)

    def _known(self, write: Create | Patch | Delete) -> Object | None:
        """What a patch is decided on, before it is sent: the watch may tell of its result before the answer comes."""
        if not isinstance(write, Patch):
            return None
        return self._cache.known(write.resource == PODS, write.namespace, write.name)

    def _seen(self, write: Create | Patch | Delete, answer: EffectResponse) -> Generator[Effect, EffectResponse]:
        """What the server answered counts as heard; where it did not say, it is asked."""
        name = write.obj["metadata"]["name"] if isinstance(write, Create) else write.name
        is_deleted = isinstance(write, Delete) and answer.ok
        says_nothing = is_deleted and not (answer.body.get("metadata") or {}).get("deletionTimestamp")
        if says_nothing or not (answer.ok or answer.missing):
            answer = yield Get(write.resource, write.namespace, name)
        if answer.missing or (answer.ok and _is_gone(answer.body)):
            known = self._cache.known(write.resource == PODS, write.namespace, name)
            if known is not None and not isinstance(write, Create):
                self._forget(write.resource, write.namespace, name, known["metadata"]["uid"])
        elif answer.ok:
            self._put(write.resource, answer.body)

    def _forget(self, resource: APIResource, namespace: str, name: str, uid: str) -> None:
        remove = self._cache.remove_pod if resource == PODS else self._cache.remove_workload
        remove(namespace, name, uid)

    def _refused(
        self, unit: PodUnit, write: RequestEffect, answer: EffectResponse
    ) -> Generator[Effect, EffectResponse, str]:
        """Why; and a user is told what only he can mend."""
        message = "the server kept what it had" if answer.ok else answer.message
        if isinstance(write, Create) and not answer.unknown:
            name = write.obj["metadata"]["name"]
            if answer.conflict and self._cache.workloads(unit.key):
                return message
            if answer.conflict and unit.is_group:
                text = f'A Workload named "{name}" already exists but is not a pod group workload'
                yield from self._emit_once(
                    unit, JobBlocked("WorkloadNameConflict", f"{text}; this pod group cannot be admitted")
                )
            else:
                yield from self._emit_once(unit, JobBlocked("ErrWorkloadCompose", message))
        elif isinstance(write, Patch) and "schedulingGates" in write.body.get("spec", ()):
            if answer.unknown and not answer.refused:
                return message
            yield from self._emit_once(unit, JobBlocked("FailedToStart", f"pod '{write.name}': {message}"))
        return message

    def _emit_once(self, unit: PodUnit, wait: JobBlocked) -> Generator[Effect, EffectResponse]:
        """Once, until it is something else."""
        if self._told.get(unit.key) != wait:
            self._told[unit.key] = wait
            yield pod_event(unit.first, wait.reason, wait.message, is_warning=wait.is_warning)

    def _count(self, key: Key, members: Sequence[ManagedPod], workloads: Sequence[Object]) -> None:
        holds = any(has_condition(each, QUOTA_RESERVED) for each in workloads)
        ending = 0 if holds else sum(each.is_leaving and each.is_bound and not each.is_over for each in members)
        self.metrics.set_terminating_released(key, ending)

    def _plan_context(self, key: Key, now_s: float) -> PodPlanContext:

        def held_by(pod: Object) -> str | UnknownAncestor | None:
            return self._ancestor_gates.gate_of_pod(pod, key) if self._gating else None

        return PodPlanContext(
            self._references.flavors,
            self._references.classes,
            self._release,
            held_by,
            self._holding,
            now_s,
            self._starts_late,
            self._max_wait_s,
        )


def _startable_s(status: Object) -> float | None:
    """Since when pods may start: since their admission, or since no terminating pods were waited for any more."""
    found = (conditions.find(status.get("conditions"), each) or {} for each in (ADMITTED, WAITING_FOR_TERMINATING_PODS))
    known = [since_s for each in found if (since_s := seconds(each.get("lastTransitionTime"))) is not None]
    return max(known, default=None)


def _has_changed(before: Object | None, answer: EffectResponse) -> bool:
    """A server that does not keep what is written would be asked for ever."""
    return before is None or not ObservedVersion.of(before).is_same(answer.body)


def _is_of(workload: Object, members: Sequence[ManagedPod]) -> bool:
    owners = {each.get("uid") for each in owner_references(workload)}
    return any(each.uid in owners for each in members)


def _is_gone(obj: Object) -> bool:
    """Whether that was its last version: nothing keeps it, and nobody has to end it first."""
    metadata = obj["metadata"]
    is_ended = not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")
    return is_ended and bool(metadata.get("deletionTimestamp"))
