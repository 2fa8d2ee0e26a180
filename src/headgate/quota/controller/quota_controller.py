"""The quota controller: watches queues and workloads, calls the quota engine (``quota/engine.py``), and writes its
decisions.

Effects of the engine wait here, by workload, until they are written. The writes of one workload are sequential, those
of different workloads parallel; the engine continues meanwhile, because it assumes that its decisions are written. A
write that the server rejects because the workload changed is dropped, and the engine decides again from the version on
the server. A write with an unknown outcome is resolved by reading the object.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import UNREACHABLE, Effect, EffectResponse, Get, ParallelRequests, Patch
from headgate.controllers.framework.first_lists import LIST_CHECK_S, FirstLists
from headgate.controllers.framework.mutation_cache import MutationCache, ObservedVersion
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    Result,
    WatchSpec,
    yield_each,
)
from headgate.kube.api_resources import LIMIT_RANGES, NAMESPACES, PODS, RUNTIME_CLASSES, APIResource
from headgate.kube.decisions import Decided, ignore_decision
from headgate.kube.object_meta import resource_version_of
from headgate.quota import effects, names
from headgate.quota.api.local_queue import LocalQueue
from headgate.quota.api.workload import Workload, usage_of
from headgate.quota.controller import rejected_admissions
from headgate.quota.controller.decisions import refused_decision, written_decisions
from headgate.quota.controller.engine_inputs import EngineInputs
from headgate.quota.controller.finalizers import PROTECTED, InUseFinalizers, ProtectedObject
from headgate.quota.controller.pending_writes import PendingWrites
from headgate.quota.controller.rejected_admissions import MAX_REQUEST_S, RejectedAdmissions, may_be_performed
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


class _Cycle(msgspec.Struct, frozen=True):
    """The work-queue key of the admission cycle."""


class _Writes(msgspec.Struct, frozen=True):
    """The work-queue key of the pending writes of one workload."""

    key: str


class _Reports(msgspec.Struct, frozen=True):
    """The work-queue key of the writes of queue statuses."""


_CYCLE: Final = _Cycle()
_DECISIONS_PER_RUN: Final = 8192
"""The number of decisions after which the event loop runs other tasks: the server may be in the same process."""
_REPORTS: Final = _Reports()
_NEEDED: Final = frozenset((RESOURCE_FLAVORS, CLUSTER_QUEUES, LOCAL_QUEUES))
"""Kinds that must be served before anything is decided. An installation creates the definitions one after the other."""
_REQUIRED_LISTS: Final = (*_NEEDED, COHORTS, WORKLOADS, ADMISSION_CHECKS, NAMESPACES)
_OPTIONAL_LISTS: Final = (PODS, LIMIT_RANGES, RUNTIME_CLASSES)


class QuotaController(Controller):
    name = "quota"

    def __init__(
        self,
        settings: QuotaSettings,
        metrics: QuotaMetrics | None = None,
        warn: Callable[[str], None] = lambda text: None,
        decided: Decided = ignore_decision,
    ) -> None:
        """``warn`` is called once for each kind of problem with the reservations of pods; ``decided`` for each decision
        that was written."""
        self._warn: Final = warn
        self._decided: Final = decided
        self._warned: Final[set[str]] = set()
        self._engine: Final = QuotaEngine(settings)
        self._inputs: Final = EngineInputs(self._engine, watches_pods=settings.starts_after_terminating)
        self._counters: Final = WorkloadCounters()
        self._metrics: Final = metrics or QuotaMetrics()
        self._metrics.attach(self._engine, self._counters)
        self._workloads: Final[MutationCache[str]] = MutationCache()  # by namespace/name
        self._queues: Final[dict[QueueRef, Object]] = {}
        self._pending_writes: Final = PendingWrites()
        self._rejections: Final = RejectedAdmissions()
        self._first_lists: Final = FirstLists(_REQUIRED_LISTS, _OPTIONAL_LISTS)
        self._has_warned_of_lists = False
        self._status_batches: Final = StatusBatches()
        self._local_queues_of: Final[dict[str, dict[str, None]]] = {}  # by ClusterQueue
        self._finalizers: Final = InUseFinalizers(self._engine, self._counters)
        self._cluster_queue_of: Final[dict[str, str]] = {}  # by LocalQueue
        # By LocalQueue: the ClusterQueue that counts its pending workloads.
        self._counted_in: Final[dict[str, str]] = {}

    @property
    def engine(self) -> QuotaEngine:
        """For explanations."""
        return self._engine

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._inputs.discovered(served)
        if not self._engine.is_held:
            return ()
        watched = {each.resource for each in self._inputs.watches()}
        self._first_lists.keep(watched | _NEEDED if watched else ())
        return (Enqueue(_CYCLE),)

    def watches(self) -> Iterable[WatchSpec]:
        return self._inputs.watches()

    # -- the first lists ----------------------------------------------------------------------------------------------

    def listing(self, resource: APIResource) -> Iterable[Enqueue]:
        if not self._engine.is_held:
            self._engine.hold()
            self._first_lists.listing(*_NEEDED - {each.resource for each in self._inputs.watches()})
        self._first_lists.listing(resource)
        return (Enqueue(_CYCLE),)

    def _awaits_lists(self, now_s: float) -> bool:
        """Whether objects may exist that are not known yet. Then nothing is decided, and nothing is written about
        objects that seem to be missing."""
        awaited = self._first_lists.awaited(now_s)
        if awaited and self._first_lists.is_late(now_s) and not self._has_warned_of_lists:
            self._has_warned_of_lists = True
            listed = ", ".join(f"{each.plural}.{each.group}" if each.group else each.plural for each in awaited)
            self._warn(f"no workload is admitted until these kinds are served and can be listed: {listed}")
        return bool(awaited)

    # -- watch events -------------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == WORKLOADS:
            return self._observe(obj, now_s, from_watch=True)
        if resource == PODS:
            is_changed = self._engine.pod_applied(obj)
            self._warn_of_ignored()
            return [Enqueue(_CYCLE)] if is_changed else []
        if resource in (CLUSTER_QUEUES, LOCAL_QUEUES):
            self._queues[_queue_ref(resource, _key(obj))] = obj
        decided = self._inputs.applied[resource](obj, now_s)
        protected = [Enqueue(self._finalizers.put(resource, obj))] if resource in PROTECTED else []
        return [
            *self._enqueue_writes(decided),
            *self._enqueue_reports(resource, _key(obj)),
            *protected,
            *self._enqueue_terminating(),
            Enqueue(_CYCLE),
        ]

    def _warn_of_ignored(self) -> None:
        ignored = self._engine.ledger.occupancy.ignored
        if len(ignored) == len(self._warned):
            return
        for problem, pod in ignored.items():
            if problem not in self._warned:
                self._warned.add(problem)
                self._warn(f"the annotation {names.QUOTA_RESERVATION} of pod {pod} is ignored: {problem}")

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        key = f"{namespace}/{name}" if namespace else name
        if resource == PODS:
            return [Enqueue(_CYCLE)] if self._engine.pod_removed(uid) else []
        if resource == WORKLOADS:
            if self._workloads.remove(key, uid) is None:
                return ()  # a new object has the name now
            self._pending_writes.drop(key)
            self._rejections.forget(key)
            self._metrics.workload_changed(None, self._engine.workloads.get(key), None, now_s)
        elif resource in (CLUSTER_QUEUES, LOCAL_QUEUES):
            self._queues.pop(_queue_ref(resource, key), None)
            self._metrics.queue_removed(_queue_ref(resource, key))
        decided = self._inputs.removed[resource](key, now_s)
        if resource in PROTECTED:
            self._finalizers.remove(resource, name)
        return [
            *self._enqueue_writes(decided),
            *self._enqueue_reports(resource, key),
            *self._enqueue_terminating(),
            Enqueue(_CYCLE),
        ]

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        self._first_lists.synced(resource)
        if resource != WORKLOADS:
            return [Enqueue(_CYCLE)] if self._engine.is_held else []
        lost = [(key.partition("/"), uid) for key, uid in self._workloads.missing(revision)]
        return [
            *(
                each
                for (namespace, _, name), uid in lost
                for each in self.removed(WORKLOADS, namespace, name, uid, now_s)
            ),
            Enqueue(_CYCLE),
        ]

    def _enqueue_writes(self, decided: Effects) -> list[Enqueue]:
        return [Enqueue(_Writes(key), after_s) for key, after_s in self._pending_writes.add(decided).items()]

    # -- counting --------------------------------------------------------------------------------------------------

    def _enqueue_reports(self, resource: APIResource, key: str) -> list[Enqueue]:
        """Enqueues the statuses that may have changed."""
        queue_refs: list[QueueRef] = []
        if resource == WORKLOADS:
            queue_refs = self._counters.put(key, self._counted(self._engine.workloads.get(key)))
        elif resource == LOCAL_QUEUES:
            local = self._engine.cache.local_queues.get(key)
            queue_refs = [("local queue", key), *self._set_cluster_queue(key, local)]
        elif resource == CLUSTER_QUEUES:
            queue_refs = [
                ("cluster queue", key),
                *(("local queue", each) for each in self._local_queues_of.get(key, ())),
            ]
        elif resource in (RESOURCE_FLAVORS, COHORTS, ADMISSION_CHECKS):
            queue_refs = [queue_ref for queue_ref in self._queues if self._is_outdated(queue_ref)]
        self._status_batches.add(queue_refs)
        return [Enqueue(_REPORTS, PAUSE_S)] if queue_refs else []

    def _set_cluster_queue(self, key: str, local: LocalQueue | None) -> list[QueueRef]:
        """Moves the pending workloads of a LocalQueue to its present ClusterQueue. Returns the changed queues."""
        cluster_queue, counted_in = "" if local is None else local.cluster_queue, _counted_in(local)
        before = self._cluster_queue_of.pop(key, "")
        if cluster_queue:
            self._cluster_queue_of[key] = cluster_queue
        if before != cluster_queue:
            self._local_queues_of.get(before, {}).pop(key, None)
            if cluster_queue:
                self._local_queues_of.setdefault(cluster_queue, {})[key] = None
        if self._counted_in.pop(key, "") == counted_in:
            queue_refs = []
        else:
            queue_refs = self._counters.set_cluster_queue(key, counted_in)
        if counted_in:
            self._counted_in[key] = counted_in
        return queue_refs

    def _is_outdated(self, queue_ref: QueueRef) -> bool:
        """Whether the Active condition in the status of a ClusterQueue is outdated."""
        if queue_ref[0] != "cluster queue":
            return False
        activity = self._engine.cache.activity.get(queue_ref[1])
        shown = (self._queues[queue_ref].get("status") or {}).get("conditions") or [{}]
        return activity is not None and (shown[0].get("message") or "") != activity.message

    def _counted(self, workload: Workload | None) -> CountedWorkload | None:
        """The workload as the counters count it; ``None`` if they do not."""
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

    # -- reconcilers --------------------------------------------------------------------------------------------------

    def reconcile(self, key: _Cycle | _Writes | _Reports | ProtectedObject, now_s: float) -> ReconcileSteps:
        if self._awaits_lists(now_s):
            return RequeueAfter(LIST_CHECK_S)
        match key:
            case _Cycle():
                yield from ()
                return self._decide(now_s)
            case _Writes(workload):
                return (yield from self._write(workload, now_s))
            case _Reports():
                return (yield from self._write_queue_statuses(now_s))
            case ProtectedObject():
                return (yield from self._sync_finalizer(key))

    def _decide(self, now_s: float) -> Result:
        """Runs the admission cycle and enqueues the writes that follow."""
        released = self._engine.release(now_s) if self._engine.is_held else []
        ready, began_s = len(self._engine.queue_manager.ready()), self._metrics.clock()
        decided = self._engine.run_cycle(now_s, rounds=max(_DECISIONS_PER_RUN // max(ready, 1), 1))
        if ready:
            self._metrics.attempted(decided, self._metrics.clock() - began_s)
        enqueues = self._enqueue_writes([*released, *decided])
        if self._engine.queue_manager.ready():
            enqueues.append(Enqueue(_CYCLE))
        next_s = self._engine.next_deadline_s()
        if next_s is not None:
            enqueues.append(Enqueue(_CYCLE, max(next_s - now_s, 0.001)))
        return Done(enqueues)

    def _write(self, key: str, now_s: float) -> ReconcileSteps:
        decided, workload = self._pending_writes.effects_of(key), self._workloads.get(key)
        if workload is None:
            self._pending_writes.drop(key)
            return Done()
        uid = workload["metadata"]["uid"]
        applicable = [effect for effect in decided if effect.uid == uid]
        if not applicable:
            self._pending_writes.drop(key)
            return Done()
        has_admission = any(isinstance(each, effects.Admit) for each in applicable)
        if has_admission and not self._engine.may_write_admission(key):
            return self._withdraw(key, applicable, now_s)
        unanswered = self._rejections.find_open(key)
        if has_admission and unanswered is not None:
            return (yield from self._handle_rejection(key, applicable, unanswered.rejection, unanswered.decided_on))
        write, known = workload_write(workload, applicable, now_s), self._engine.workloads.get(key)
        metadata = workload["metadata"]
        precondition = {"uid": uid, "resourceVersion": metadata["resourceVersion"]}
        response, decided_on = EffectResponse(200, workload, now_s), ObservedVersion.of(workload)
        if write.spec is not None or write.metadata is not None:
            body: Object = {"metadata": {**precondition, **(write.metadata or {})}}
            if write.spec is not None:
                body["spec"] = write.spec
            response = yield Patch(WORKLOADS, metadata["namespace"], metadata["name"], body, how="merge")
            if response.ok:
                precondition = {**precondition, "resourceVersion": response.body["metadata"]["resourceVersion"]}
                decided_on = ObservedVersion.of(response.body)
        if response.ok and write.status is not None:
            body = {"metadata": precondition, "status": write.status}
            response = yield Patch(
                WORKLOADS, metadata["namespace"], metadata["name"], body, how="merge", subresource="status"
            )
        if not response.ok:
            return (yield from self._handle_rejection(key, applicable, response, decided_on))
        self._pending_writes.forget(key, applicable)
        self._rejections.forget(key)
        if known is not None:
            self._metrics.effects_written(workload, known, applicable, response.now_s)
            for decision in written_decisions(known, applicable, response.now_s):
                self._decided(decision)
        yield from yield_each(write.events)
        revision = response.body["metadata"]["resourceVersion"]
        for effect in applicable:
            self._engine.written(effect, int(revision) if revision.isdecimal() else 0)
        return Done([*self._observe(response.body, response.now_s), *self._enqueue_remaining(key)])

    def _withdraw(self, key: str, decided: Effects, now_s: float) -> Result:
        """Drops writes that a later version of the workload forbids. The engine decides again."""
        self._pending_writes.forget(key, decided)
        again = [effect for each in decided for effect in self._engine.refused(each, now_s)]
        return Done([*self._enqueue_writes(again), *self._enqueue_remaining(key), Enqueue(_CYCLE)])

    def _observe(self, workload: Object, now_s: float, *, from_watch: bool = False) -> list[Enqueue]:
        """Applies a version of a workload that the watch or a response shows."""
        key = _key(workload)
        known = self._workloads.get(key)
        is_known = known is not None and ObservedVersion.of(known).is_same(workload)
        if not self._workloads.put(key, workload, from_watch=from_watch) or is_known:
            return []
        before = self._engine.workloads.get(key)
        decided = self._engine.workload_applied(workload, now_s)
        self._metrics.workload_changed(workload, before, self._engine.workloads.get(key), now_s)
        return [
            *self._enqueue_writes(decided),
            *self._enqueue_reports(WORKLOADS, key),
            *self._enqueue_terminating(),
            Enqueue(_CYCLE),
        ]

    def _enqueue_terminating(self) -> list[Enqueue]:
        return [Enqueue(each) for each in self._finalizers.terminating()]

    def _handle_rejection(
        self, key: str, applicable: Effects, rejection: EffectResponse, decided_on: ObservedVersion
    ) -> Generator[Effect, EffectResponse, Result]:
        """Reads the workload. If it is another version, the engine decides again from it."""
        namespace, _, name = key.partition("/")
        has_admission = any(isinstance(effect, effects.Admit) for effect in applicable)
        if has_admission and may_be_performed(rejection):
            self._rejections.keep_open(key, rejection, decided_on)
        live = yield Get(WORKLOADS, namespace, name)
        if not live.ok and not live.missing:
            return RequeueWithBackoff(rejection.message)
        until_s = None
        if live.ok and not rejection.conflict and decided_on.is_same(live.body):
            # The request was lost, rejected, or failed: it is retried with back-off.
            if not has_admission or rejection.status == UNREACHABLE:
                return RequeueWithBackoff(rejection.message)
            unanswered = self._rejections.find_open(key)
            if unanswered is not None:
                changed = yield self._pending_patch(key, live, rejection.message)
                remaining_s = unanswered.sent_s + MAX_REQUEST_S - live.now_s
                if changed.conflict or changed.missing:
                    return RequeueWithBackoff(rejection.message)
                if not changed.ok and remaining_s > 0:
                    return RequeueWithBackoff(rejection.message, [Enqueue(_Writes(key), remaining_s)])
                live = changed if changed.ok else live
            until_s = live.now_s + self._rejections.backoff_s(key)
            yield rejected_admissions.rejected_event(live.body, rejection.message)
            known = self._engine.workloads.get(key)
            if known is not None:
                self._decided(refused_decision(known, rejected_admissions.REASON, rejection.message))
        self._rejections.close(key)
        self._pending_writes.forget(key, applicable)
        enqueues = list(self._observe(live.body, live.now_s)) if live.ok else []
        for effect in applicable:
            enqueues += self._enqueue_writes(self._engine.refused(effect, live.now_s, until_s))
        return Done([*enqueues, *self._enqueue_remaining(key), Enqueue(_CYCLE)])

    def _pending_patch(self, key: str, live: EffectResponse, reason: str) -> Patch:
        """Changes the version of the workload, so that an admission that is still in progress is rejected."""
        metadata = live.body["metadata"]
        text = self._rejections.pending_text(key, reason)
        pending = effects.SetCondition(
            key, metadata["uid"], names.QUOTA_RESERVED, False, names.PENDING_EVALUATION, text
        )
        body = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": workload_write(live.body, [pending], live.now_s).status,
        }
        return Patch(WORKLOADS, metadata["namespace"], metadata["name"], body, how="merge", subresource="status")

    def _enqueue_remaining(self, key: str) -> list[Enqueue]:
        return [Enqueue(_Writes(key), self._pending_writes.after_s(key))] if key in self._pending_writes else []

    def _sync_finalizer(self, protected: ProtectedObject) -> ReconcileSteps:
        write = self._finalizers.next(protected)
        if write is None:
            return Done()
        response = yield write
        if response.ok:
            self._finalizers.response_received(protected, response)
            return Done([Enqueue(protected)])
        # If the object changed, the watch shows it and enqueues it again.
        return Done() if response.missing or response.conflict else RequeueWithBackoff(response.message)

    def _write_queue_statuses(self, now_s: float) -> ReconcileSteps:
        patches = {}
        for queue_ref in self._status_batches.take(is_busy=bool(self._pending_writes)):
            patch = self._status_patch(queue_ref, now_s)
            if patch is not None:
                patches[queue_ref] = patch
        responses = (yield ParallelRequests(tuple(patches.values()))).parts if patches else ()
        error = ""
        for queue_ref, each in zip(patches, responses, strict=True):
            known = self._queues.get(queue_ref)
            if each.ok and known is not None and resource_version_of(each.body) >= resource_version_of(known):
                self._queues[queue_ref] = each.body  # otherwise the watch has shown a newer version
            if not each.ok and not each.missing and not each.conflict:
                self._status_batches.add([queue_ref])
                error = each.message
        if error:
            return RequeueWithBackoff(error)
        return Done([Enqueue(_REPORTS, PAUSE_S)] if self._status_batches else ())

    def _status_patch(self, queue_ref: QueueRef, now_s: float) -> Patch | None:
        """None if the status is up to date, or the queue was deleted."""
        queue = self._queues.get(queue_ref)
        if queue is None:
            return None
        is_local = queue_ref[0] == "local queue"
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
    """The ClusterQueue that counts the pending workloads of a LocalQueue: none while it is stopped, as in Kueue."""
    return "" if local is None or local.stop_policy != names.NONE else local.cluster_queue


def _queue_ref(resource: APIResource, key: str) -> QueueRef:
    return ("cluster queue" if resource == CLUSTER_QUEUES else "local queue"), key
