"""The quota controller: watches queues and workloads, calls the engine, and writes its decisions.

Effects of the engine wait here by workload until they are written. The writes of one workload are sequential, those of
different workloads parallel; the engine continues meanwhile, because it assumes its decisions. A write that the server
rejects because the workload changed is dropped and decided again from the server's state. A write with an unknown
outcome is resolved by reading the object.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import UNREACHABLE, Effect, EffectResponse, Get, ParallelRequests, Patch
from headgate.controllers.framework.mutation_cache import MutationCache, ObservedVersion
from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueWithBackoff,
    Result,
    WatchSpec,
    yield_each,
)
from headgate.kube.api_resources import LIMIT_RANGES, NAMESPACES, PODS, RUNTIME_CLASSES, APIResource
from headgate.kube.object_meta import resource_version_of
from headgate.quota import effects, names
from headgate.quota.api.admission_checks import is_check_active
from headgate.quota.api.local_queue import LocalQueue
from headgate.quota.api.workload import Workload, usage_of
from headgate.quota.controller import rejected_admissions
from headgate.quota.controller.finalizers import PROTECTED, InUseFinalizers, ProtectedObject
from headgate.quota.controller.pending_writes import PendingWrites
from headgate.quota.controller.rejected_admissions import RejectedAdmissions
from headgate.quota.controller.workload_writes import workload_write
from headgate.quota.engine import QuotaEngine, QuotaSettings
from headgate.quota.kinds.names import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from headgate.quota.metrics.quota_metrics import QuotaMetrics
from headgate.quota.status import queue_status
from headgate.quota.status.status_batches import PAUSE_S, StatusBatches
from headgate.quota.status.workload_counters import CountedWorkload, QueueRef, State, WorkloadCounters

Object = dict[str, Any]
Effects = list[effects.Effect]

_WATCHED: Final = (RESOURCE_FLAVORS, CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOADS, ADMISSION_CHECKS)


_POD_DEFAULTS: Final = {LIMIT_RANGES: frozenset({"spec.limits"}), RUNTIME_CLASSES: frozenset({"overhead"})}
"""What admission adds to pods, and so to what the templates of jobs ask for."""


_POD_FIELDS: Final = frozenset(
    {
        "metadata.annotations",
        "metadata.labels",
        "metadata.ownerReferences",
        "metadata.deletionTimestamp",
        "metadata.deletionGracePeriodSeconds",
        "spec",
        "status.phase",
        "status.containerStatuses",
        "status.initContainerStatuses",
        "status.conditions",
    }
)
"""What says how much of its quota a pod uses on its node, and until when."""


class _Cycle(msgspec.Struct, frozen=True):
    """Who gets quota."""


class _Writes(msgspec.Struct, frozen=True):
    """What is to be written to one workload."""

    key: str


class _Reports(msgspec.Struct, frozen=True):
    """The statuses of queues."""


_CYCLE: Final = _Cycle()
_AT_A_TIME: Final = 8192
"""Decisions after which others have their turn: the server may live in the same process."""
_REPORTS: Final = _Reports()


class QuotaController(Controller):
    name = "quota"

    def __init__(
        self,
        settings: QuotaSettings,
        metrics: QuotaMetrics | None = None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        """``warn``: told once of each way in which reservations of pods cannot be true."""
        self._warn: Final = warn
        self._warned: Final[set[str]] = set()
        self._engine: Final = QuotaEngine(settings)
        self._watches_pods: Final = settings.starts_after_terminating
        self._counters: Final = WorkloadCounters()
        self._metrics: Final = metrics or QuotaMetrics()
        self._metrics.attach(self._engine, self._counters)
        self._served: frozenset[APIResource] = frozenset()
        self._workloads: Final[MutationCache[str]] = MutationCache()  # by namespace/name
        self._queues: Final[dict[QueueRef, Object]] = {}
        self._pending_writes: Final = PendingWrites()
        self._refusals: Final = RejectedAdmissions()
        self._status_batches: Final = StatusBatches()
        self._below: Final[dict[str, dict[str, None]]] = {}  # local queues by cluster queue
        self._finalizers: Final = InUseFinalizers(self._engine, self._counters)
        self._above: Final[dict[str, str]] = {}  # the other way round
        self._counted_in: Final[dict[str, str]] = {}  # in which cluster queue the waiting of a local queue are counted
        self._applied: Final[dict[APIResource, Callable[[Object, float], Effects]]] = {
            RESOURCE_FLAVORS: self._engine.flavor_applied,
            CLUSTER_QUEUES: self._engine.cluster_queue_applied,
            COHORTS: self._engine.cohort_applied,
            LOCAL_QUEUES: self._engine.local_queue_applied,
            ADMISSION_CHECKS: self._check_applied,
            NAMESPACES: self._namespace_applied,
            LIMIT_RANGES: self._engine.limit_range_applied,
            RUNTIME_CLASSES: self._engine.runtime_class_applied,
        }
        self._removed: Final[dict[APIResource, Callable[[str, float], Effects]]] = {
            RESOURCE_FLAVORS: self._engine.flavor_removed,
            CLUSTER_QUEUES: self._engine.cluster_queue_removed,
            COHORTS: self._engine.cohort_removed,
            LOCAL_QUEUES: self._engine.local_queue_removed,
            WORKLOADS: self._engine.workload_removed,
            ADMISSION_CHECKS: self._engine.check_removed,
            NAMESPACES: self._engine.namespace_removed,
            LIMIT_RANGES: self._engine.limit_range_removed,
            RUNTIME_CLASSES: self._engine.runtime_class_removed,
        }

    @property
    def engine(self) -> QuotaEngine:
        """For explanations."""
        return self._engine

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        """Kinds that are not there yet are heard of when they come."""
        known = frozenset((*_WATCHED, *_POD_DEFAULTS))
        self._served = frozenset(row.resource for row in served.by_name.values()) & known
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        if WORKLOADS not in self._served:
            return ()
        kinds = [WatchSpec(resource, ALL_FIELDS) for resource in _WATCHED if resource in self._served]
        defaults = [WatchSpec(each, fields) for each, fields in _POD_DEFAULTS.items() if each in self._served]
        pods = [WatchSpec(PODS, _POD_FIELDS)] if self._watches_pods else []
        return [*kinds, *defaults, *pods, WatchSpec(NAMESPACES, frozenset({"metadata.labels"}))]

    # -- events in -------------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == WORKLOADS:
            return self._seen(obj, now_s, told=True)
        if resource == PODS:
            is_other = self._engine.pod_applied(obj)
            self._warn_of_ignored()
            return [Enqueue(_CYCLE)] if is_other else []
        if resource in (CLUSTER_QUEUES, LOCAL_QUEUES):
            self._queues[_place(resource, _key(obj))] = obj
        asked = self._applied[resource](obj, now_s)
        guarded = [Enqueue(self._finalizers.put(resource, obj))] if resource in PROTECTED else []
        return [*self._later(asked), *self._reported(resource, _key(obj)), *guarded, *self._unused(), Enqueue(_CYCLE)]

    def _warn_of_ignored(self) -> None:
        ignored = self._engine.ledger.occupancy.ignored
        if len(ignored) == len(self._warned):
            return
        for why, pod in ignored.items():
            if why not in self._warned:
                self._warned.add(why)
                self._warn(f"the annotation {names.QUOTA_RESERVATION} of pod {pod} is ignored: {why}")

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        key = f"{namespace}/{name}" if namespace else name
        if resource == PODS:
            return [Enqueue(_CYCLE)] if self._engine.pod_removed(uid) else []
        if resource == WORKLOADS:
            if self._workloads.remove(key, uid) is None:
                return ()  # another one has its name by now
            self._pending_writes.drop(key)
            self._refusals.forget(key)
            self._metrics.workload_changed(None, self._engine.workloads.get(key), None, now_s)
        elif resource in (CLUSTER_QUEUES, LOCAL_QUEUES):
            self._queues.pop(_place(resource, key), None)
            self._metrics.queue_removed(_place(resource, key))
        asked = self._removed[resource](key, now_s)
        if resource in PROTECTED:
            self._finalizers.remove(resource, name)
        return [*self._later(asked), *self._reported(resource, key), *self._unused(), Enqueue(_CYCLE)]

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        if resource != WORKLOADS:
            return ()
        lost = [(key.partition("/"), uid) for key, uid in self._workloads.missing(revision)]
        return [
            wake for (namespace, _, name), uid in lost for wake in self.removed(WORKLOADS, namespace, name, uid, now_s)
        ]

    def _check_applied(self, obj: Object, now_s: float) -> Effects:
        return self._engine.check_applied(obj["metadata"]["name"], is_check_active(obj), now_s)

    def _namespace_applied(self, obj: Object, now_s: float) -> Effects:
        metadata = obj["metadata"]
        return self._engine.namespace_applied(metadata["name"], metadata.get("labels") or {}, now_s)

    def _later(self, asked: Effects) -> list[Enqueue]:
        return [Enqueue(_Writes(key), after_s) for key, after_s in self._pending_writes.add(asked).items()]

    # -- counting --------------------------------------------------------------------------------------------------

    def _reported(self, resource: APIResource, key: str) -> list[Enqueue]:
        """Whose status may be another one now."""
        places: list[QueueRef] = []
        if resource == WORKLOADS:
            places = self._counters.put(key, self._counted(self._engine.workloads.get(key)))
        elif resource == LOCAL_QUEUES:
            local = self._engine.cache.local_queues.get(key)
            places = [("local queue", key), *self._set_cluster_queue(key, local)]
        elif resource == CLUSTER_QUEUES:
            places = [("cluster queue", key), *(("local queue", each) for each in self._below.get(key, ()))]
        elif resource in (RESOURCE_FLAVORS, COHORTS, ADMISSION_CHECKS):
            places = [place for place in self._queues if self._is_outdated(place)]
        self._status_batches.add(places)
        return [Enqueue(_REPORTS, PAUSE_S)] if places else []

    def _set_cluster_queue(self, key: str, local: LocalQueue | None) -> list[QueueRef]:
        """Those who wait in a local queue wait there now."""
        cluster_queue, counted_in = "" if local is None else local.cluster_queue, _counted_in(local)
        before = self._above.pop(key, "")
        if cluster_queue:
            self._above[key] = cluster_queue
        if before != cluster_queue:
            self._below.get(before, {}).pop(key, None)
            if cluster_queue:
                self._below.setdefault(cluster_queue, {})[key] = None
        if self._counted_in.pop(key, "") == counted_in:
            places = []
        else:
            places = self._counters.set_cluster_queue(key, counted_in)
        if counted_in:
            self._counted_in[key] = counted_in
        return places

    def _is_outdated(self, place: QueueRef) -> bool:
        """Whether a queue says of itself that it is active, and is not, or the other way round."""
        if place[0] != "cluster queue":
            return False
        activity = self._engine.cache.activity.get(place[1])
        shown = (self._queues[place].get("status") or {}).get("conditions") or [{}]
        return activity is not None and (shown[0].get("message") or "") != activity.message

    def _counted(self, workload: Workload | None) -> CountedWorkload | None:
        if workload is None or workload.is_finished:
            return None
        if workload.holds_quota and workload.admission is not None:
            state: State = "admitted" if workload.has(names.ADMITTED) else "reserving"
            usage = usage_of(workload, workload.admission)
            return CountedWorkload(workload.queue_key, workload.admission.cluster_queue, state, usage)
        if not workload.is_active or workload.gates:
            return None
        local = self._engine.cache.local_queues.get(workload.queue_key)
        return CountedWorkload(workload.queue_key, _counted_in(local), "waiting")

    # -- work ------------------------------------------------------------------------------------------------------

    def reconcile(self, key: _Cycle | _Writes | _Reports | ProtectedObject, now_s: float) -> ReconcileSteps:
        match key:
            case _Cycle():
                yield from ()
                return self._decide(now_s)
            case _Writes(workload):
                return (yield from self._write(workload, now_s))
            case _Reports():
                return (yield from self._report(now_s))
            case ProtectedObject():
                return (yield from self._sync_finalizer(key))

    def _decide(self, now_s: float) -> Result:
        ready, began_s = len(self._engine.queue_manager.ready()), self._metrics.clock()
        decided = self._engine.run_cycle(now_s, rounds=max(_AT_A_TIME // max(ready, 1), 1))
        if ready:
            self._metrics.attempted(decided, self._metrics.clock() - began_s)
        wakes = self._later(decided)
        if self._engine.queue_manager.ready():
            wakes.append(Enqueue(_CYCLE))
        next_s = self._engine.next_deadline_s()
        if next_s is not None:
            wakes.append(Enqueue(_CYCLE, max(next_s - now_s, 0.001)))
        return Done(wakes)

    def _write(self, key: str, now_s: float) -> ReconcileSteps:
        asked, workload = self._pending_writes.effects_of(key), self._workloads.get(key)
        if workload is None:
            self._pending_writes.drop(key)
            return Done()
        uid = workload["metadata"]["uid"]
        wanted = [effect for effect in asked if effect.uid == uid]
        if not wanted:
            self._pending_writes.drop(key)
            return Done()
        write, known = workload_write(workload, wanted, now_s), self._engine.workloads.get(key)
        metadata = workload["metadata"]
        guard = {"uid": uid, "resourceVersion": metadata["resourceVersion"]}
        answer, decided_on = EffectResponse(200, workload, now_s), ObservedVersion.of(workload)
        if write.spec is not None:
            body = {"metadata": guard, "spec": write.spec}
            answer = yield Patch(WORKLOADS, metadata["namespace"], metadata["name"], body, how="merge")
            if answer.ok:
                guard = {**guard, "resourceVersion": answer.body["metadata"]["resourceVersion"]}
                decided_on = ObservedVersion.of(answer.body)
        if answer.ok and write.status is not None:
            body = {"metadata": guard, "status": write.status}
            answer = yield Patch(
                WORKLOADS, metadata["namespace"], metadata["name"], body, how="merge", subresource="status"
            )
        if not answer.ok:
            return (yield from self._not_written(key, wanted, answer, decided_on))
        self._pending_writes.forget(key, wanted)
        self._refusals.forget(key)
        if known is not None:
            self._metrics.effects_written(workload, known, wanted, answer.now_s)
        yield from yield_each(write.events)
        revision = answer.body["metadata"]["resourceVersion"]
        for effect in wanted:
            self._engine.written(effect, int(revision) if revision.isdecimal() else 0)
        return Done([*self._seen(answer.body, answer.now_s), *self._more(key)])

    def _seen(self, workload: Object, now_s: float, *, told: bool = False) -> list[Enqueue]:
        """What the server answered counts as heard."""
        key = _key(workload)
        known = self._workloads.get(key)
        is_known = known is not None and ObservedVersion.of(known).is_same(workload)
        if not self._workloads.put(key, workload, told=told) or is_known:
            return []
        before = self._engine.workloads.get(key)
        asked = self._engine.workload_applied(workload, now_s)
        self._metrics.workload_changed(workload, before, self._engine.workloads.get(key), now_s)
        return [*self._later(asked), *self._reported(WORKLOADS, key), *self._unused(), Enqueue(_CYCLE)]

    def _unused(self) -> list[Enqueue]:
        return [Enqueue(each) for each in self._finalizers.terminating()]

    def _not_written(
        self, key: str, wanted: Effects, refusal: EffectResponse, decided_on: ObservedVersion
    ) -> Generator[Effect, EffectResponse, Result]:
        """Ask what is there now; if that is another version, everything is decided anew from it."""
        namespace, _, name = key.partition("/")
        live = yield Get(WORKLOADS, namespace, name)
        if not live.ok and not live.missing:
            return RequeueWithBackoff(refusal.message)
        until_s = None
        if live.ok and not refusal.conflict and decided_on.is_same(live.body):
            # The request was lost, rejected, or failed: it is retried with back-off.
            gives = any(isinstance(effect, effects.Admit) for effect in wanted)
            if not gives or refusal.status == UNREACHABLE:
                return RequeueWithBackoff(refusal.message)
            until_s = live.now_s + self._refusals.backoff_s(key)
            yield rejected_admissions.rejected_event(live.body, refusal.message)
        self._pending_writes.forget(key, wanted)
        wakes = list(self._seen(live.body, live.now_s)) if live.ok else []
        for effect in wanted:
            wakes += self._later(self._engine.refused(effect, live.now_s, until_s))
        return Done([*wakes, *self._more(key), Enqueue(_CYCLE)])

    def _more(self, key: str) -> list[Enqueue]:
        return [Enqueue(_Writes(key), self._pending_writes.after_s(key))] if key in self._pending_writes else []

    def _sync_finalizer(self, guarded: ProtectedObject) -> ReconcileSteps:
        write = self._finalizers.next(guarded)
        if write is None:
            return Done()
        answer = yield write
        if answer.ok:
            self._finalizers.answered(guarded, answer)
            return Done([Enqueue(guarded)])
        # The watch reports what changed meanwhile.
        return Done() if answer.missing or answer.conflict else RequeueWithBackoff(answer.message)

    def _report(self, now_s: float) -> ReconcileSteps:
        wanted = {}
        for place in self._status_batches.take(is_busy=bool(self._pending_writes)):
            patch = self._status_patch(place, now_s)
            if patch is not None:
                wanted[place] = patch
        answers = (yield ParallelRequests(tuple(wanted.values()))).parts if wanted else ()
        trouble = ""
        for place, each in zip(wanted, answers, strict=True):
            known = self._queues.get(place)
            if each.ok and known is not None and resource_version_of(each.body) >= resource_version_of(known):
                self._queues[place] = each.body  # else it was deleted or changed meanwhile
            if not each.ok and not each.missing and not each.conflict:
                self._status_batches.add([place])
                trouble = each.message
        if trouble:
            return RequeueWithBackoff(trouble)
        return Done([Enqueue(_REPORTS, PAUSE_S)] if self._status_batches else ())

    def _status_patch(self, place: QueueRef, now_s: float) -> Patch | None:
        """None if the queue says it already, or is gone."""
        queue = self._queues.get(place)
        if queue is None:
            return None
        is_local = place[0] == "local queue"
        make = queue_status.local_queue_status if is_local else queue_status.cluster_queue_status
        status = make(self._engine, self._counters, queue, now_s)
        if not queue_status.differs(queue, status):
            return None
        metadata = queue["metadata"]
        resource = LOCAL_QUEUES if is_local else CLUSTER_QUEUES
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        return Patch(resource, namespace, name, body, how="merge", subresource="status")


def _key(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def _counted_in(local: LocalQueue | None) -> str:
    """The cluster queue that counts those who wait in a local queue: none while it is stopped, as in Kueue."""
    return "" if local is None or local.stop_policy != names.NONE else local.cluster_queue


def _place(resource: APIResource, key: str) -> QueueRef:
    return ("cluster queue" if resource == CLUSTER_QUEUES else "local queue"), key
