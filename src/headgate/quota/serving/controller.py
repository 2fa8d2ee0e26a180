"""Quota on an API server: hears of queues and workloads, lets the engine decide, and writes what it decided.

What the engine asks for waits here by workload until it is written; one workload's writes go out one after the other,
those of different workloads side by side, and the engine goes on meanwhile: it remembers what it promised. A write that
was refused because the workload changed is forgotten and decided anew from what the server says now; one of which
nobody knows whether it was done is settled by asking.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

import msgspec

from headgate.kube.resource import LIMIT_RANGES, NAMESPACES, PODS, RUNTIME_CLASSES, Resource
from headgate.kube.revisions import revision_of
from headgate.owners.contract import WHOLE, Again, Controller, Done, Interest, Steps, Verdict, Wake, one_by_one
from headgate.owners.effects import UNREACHABLE, Answer, Effect, Get, Patch, Together
from headgate.owners.latest import Latest
from headgate.owners.observed import ObservedVersion
from headgate.owners.served import Served
from headgate.quota import effects, names
from headgate.quota.checks import is_check_active
from headgate.quota.engine import Engine, Settings
from headgate.quota.kinds.names import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from headgate.quota.local_queue import LocalQueue
from headgate.quota.metrics.board import QuotaMetrics
from headgate.quota.serving import refusals, reports
from headgate.quota.serving.asked import Asked
from headgate.quota.serving.census import Census, Place, Standing, State
from headgate.quota.serving.guarding import GUARDED, Guarded, Guards
from headgate.quota.serving.overdue import PAUSE_S, Overdue
from headgate.quota.serving.refusals import Refusals
from headgate.quota.serving.writing import write_of
from headgate.quota.workload import Workload, usage_of

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


class Quota(Controller):
    name = "quota"

    def __init__(
        self, settings: Settings, metrics: QuotaMetrics | None = None, warn: Callable[[str], None] = lambda text: None
    ) -> None:
        """``warn``: told once of each way in which reservations of pods cannot be true."""
        self._warn: Final = warn
        self._warned: Final[set[str]] = set()
        self._engine: Final = Engine(settings)
        self._watches_pods: Final = settings.starts_after_terminating
        self._census: Final = Census()
        self._metrics: Final = metrics or QuotaMetrics()
        self._metrics.attach(self._engine, self._census)
        self._served: frozenset[Resource] = frozenset()
        self._workloads: Final[Latest[str]] = Latest()  # by namespace/name
        self._queues: Final[dict[Place, Object]] = {}
        self._asked: Final = Asked()
        self._refusals: Final = Refusals()
        self._overdue: Final = Overdue()
        self._below: Final[dict[str, dict[str, None]]] = {}  # local queues by cluster queue
        self._guards: Final = Guards(self._engine, self._census)
        self._above: Final[dict[str, str]] = {}  # the other way round
        self._counted_in: Final[dict[str, str]] = {}  # in which cluster queue the waiting of a local queue are counted
        self._applied: Final[dict[Resource, Callable[[Object, float], Effects]]] = {
            RESOURCE_FLAVORS: self._engine.flavor_applied,
            CLUSTER_QUEUES: self._engine.cluster_queue_applied,
            COHORTS: self._engine.cohort_applied,
            LOCAL_QUEUES: self._engine.local_queue_applied,
            ADMISSION_CHECKS: self._check_applied,
            NAMESPACES: self._namespace_applied,
            LIMIT_RANGES: self._engine.limit_range_applied,
            RUNTIME_CLASSES: self._engine.runtime_class_applied,
        }
        self._removed: Final[dict[Resource, Callable[[str, float], Effects]]] = {
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
    def engine(self) -> Engine:
        """For who explains."""
        return self._engine

    def learn(self, served: Served) -> Iterable[Wake]:
        """Kinds that are not there yet are heard of when they come."""
        known = frozenset((*_WATCHED, *_POD_DEFAULTS))
        self._served = frozenset(row.resource for row in served.by_name.values()) & known
        return ()

    def interests(self) -> Iterable[Interest]:
        if WORKLOADS not in self._served:
            return ()
        kinds = [Interest(resource, WHOLE) for resource in _WATCHED if resource in self._served]
        defaults = [Interest(each, fields) for each, fields in _POD_DEFAULTS.items() if each in self._served]
        pods = [Interest(PODS, _POD_FIELDS)] if self._watches_pods else []
        return [*kinds, *defaults, *pods, Interest(NAMESPACES, frozenset({"metadata.labels"}))]

    # -- events in -------------------------------------------------------------------------------------------------

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        if resource == WORKLOADS:
            return self._seen(obj, now_s, told=True)
        if resource == PODS:
            is_other = self._engine.pod_applied(obj)
            self._warn_of_ignored()
            return [Wake(_CYCLE)] if is_other else []
        if resource in (CLUSTER_QUEUES, LOCAL_QUEUES):
            self._queues[_place(resource, _key(obj))] = obj
        asked = self._applied[resource](obj, now_s)
        guarded = [Wake(self._guards.put(resource, obj))] if resource in GUARDED else []
        return [*self._later(asked), *self._reported(resource, _key(obj)), *guarded, *self._unused(), Wake(_CYCLE)]

    def _warn_of_ignored(self) -> None:
        ignored = self._engine.book.occupancy.ignored
        if len(ignored) == len(self._warned):
            return
        for why, pod in ignored.items():
            if why not in self._warned:
                self._warned.add(why)
                self._warn(f"the annotation {names.QUOTA_RESERVATION} of pod {pod} is ignored: {why}")

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        key = f"{namespace}/{name}" if namespace else name
        if resource == PODS:
            return [Wake(_CYCLE)] if self._engine.pod_removed(uid) else []
        if resource == WORKLOADS:
            if self._workloads.remove(key, uid) is None:
                return ()  # another one has its name by now
            self._asked.drop(key)
            self._refusals.forget(key)
            self._metrics.heard(None, self._engine.workloads.get(key), None, now_s)
        elif resource in (CLUSTER_QUEUES, LOCAL_QUEUES):
            self._queues.pop(_place(resource, key), None)
            self._metrics.queue_gone(_place(resource, key))
        asked = self._removed[resource](key, now_s)
        if resource in GUARDED:
            self._guards.remove(resource, name)
        return [*self._later(asked), *self._reported(resource, key), *self._unused(), Wake(_CYCLE)]

    def synced(self, resource: Resource, revision: str, now_s: float) -> Iterable[Wake]:
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

    def _later(self, asked: Effects) -> list[Wake]:
        return [Wake(_Writes(key), after_s) for key, after_s in self._asked.add(asked).items()]

    # -- counting --------------------------------------------------------------------------------------------------

    def _reported(self, resource: Resource, key: str) -> list[Wake]:
        """Whose status may be another one now."""
        places: list[Place] = []
        if resource == WORKLOADS:
            places = self._census.put(key, self._standing(self._engine.workloads.get(key)))
        elif resource == LOCAL_QUEUES:
            local = self._engine.world.local_queues.get(key)
            places = [("local queue", key), *self._lead(key, local)]
        elif resource == CLUSTER_QUEUES:
            places = [("cluster queue", key), *(("local queue", each) for each in self._below.get(key, ()))]
        elif resource in (RESOURCE_FLAVORS, COHORTS, ADMISSION_CHECKS):
            places = [place for place in self._queues if self._is_outdated(place)]
        self._overdue.add(places)
        return [Wake(_REPORTS, PAUSE_S)] if places else []

    def _lead(self, key: str, local: LocalQueue | None) -> list[Place]:
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
            places = self._census.lead(key, counted_in)
        if counted_in:
            self._counted_in[key] = counted_in
        return places

    def _is_outdated(self, place: Place) -> bool:
        """Whether a queue says of itself that it is active, and is not, or the other way round."""
        if place[0] != "cluster queue":
            return False
        activity = self._engine.world.activity.get(place[1])
        shown = (self._queues[place].get("status") or {}).get("conditions") or [{}]
        return activity is not None and (shown[0].get("message") or "") != activity.message

    def _standing(self, workload: Workload | None) -> Standing | None:
        if workload is None or workload.is_finished:
            return None
        if workload.holds_quota and workload.admission is not None:
            state: State = "admitted" if workload.has(names.ADMITTED) else "reserving"
            usage = usage_of(workload, workload.admission)
            return Standing(workload.queue_key, workload.admission.cluster_queue, state, usage)
        if not workload.is_active or workload.gates:
            return None
        local = self._engine.world.local_queues.get(workload.queue_key)
        return Standing(workload.queue_key, _counted_in(local), "waiting")

    # -- work ------------------------------------------------------------------------------------------------------

    def work(self, key: _Cycle | _Writes | _Reports | Guarded, now_s: float) -> Steps:
        match key:
            case _Cycle():
                yield from ()
                return self._decide(now_s)
            case _Writes(workload):
                return (yield from self._write(workload, now_s))
            case _Reports():
                return (yield from self._report(now_s))
            case Guarded():
                return (yield from self._guard(key))

    def _decide(self, now_s: float) -> Verdict:
        ready, began_s = len(self._engine.queueing.ready()), self._metrics.clock()
        decided = self._engine.cycle(now_s, rounds=max(_AT_A_TIME // max(ready, 1), 1))
        if ready:
            self._metrics.attempted(decided, self._metrics.clock() - began_s)
        wakes = self._later(decided)
        if self._engine.queueing.ready():
            wakes.append(Wake(_CYCLE))
        next_s = self._engine.next_deadline_s()
        if next_s is not None:
            wakes.append(Wake(_CYCLE, max(next_s - now_s, 0.001)))
        return Done(wakes)

    def _write(self, key: str, now_s: float) -> Steps:
        asked, workload = self._asked.of(key), self._workloads.get(key)
        if workload is None:
            self._asked.drop(key)
            return Done()
        uid = workload["metadata"]["uid"]
        wanted = [effect for effect in asked if effect.uid == uid]
        if not wanted:
            self._asked.drop(key)
            return Done()
        write, known = write_of(workload, wanted, now_s), self._engine.workloads.get(key)
        metadata = workload["metadata"]
        guard = {"uid": uid, "resourceVersion": metadata["resourceVersion"]}
        answer, decided_on = Answer(200, workload, now_s), ObservedVersion.of(workload)
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
        self._asked.forget(key, wanted)
        self._refusals.forget(key)
        if known is not None:
            self._metrics.wrote(workload, known, wanted, answer.now_s)
        yield from one_by_one(write.events)
        revision = answer.body["metadata"]["resourceVersion"]
        for effect in wanted:
            self._engine.written(effect, int(revision) if revision.isdecimal() else 0)
        return Done([*self._seen(answer.body, answer.now_s), *self._more(key)])

    def _seen(self, workload: Object, now_s: float, *, told: bool = False) -> list[Wake]:
        """What the server answered counts as heard."""
        key = _key(workload)
        known = self._workloads.get(key)
        is_known = known is not None and ObservedVersion.of(known).is_same(workload)
        if not self._workloads.put(key, workload, told=told) or is_known:
            return []
        before = self._engine.workloads.get(key)
        asked = self._engine.workload_applied(workload, now_s)
        self._metrics.heard(workload, before, self._engine.workloads.get(key), now_s)
        return [*self._later(asked), *self._reported(WORKLOADS, key), *self._unused(), Wake(_CYCLE)]

    def _unused(self) -> list[Wake]:
        return [Wake(each) for each in self._guards.leaving()]

    def _not_written(
        self, key: str, wanted: Effects, refusal: Answer, decided_on: ObservedVersion
    ) -> Generator[Effect, Answer, Verdict]:
        """Ask what is there now; if that is another version, everything is decided anew from it."""
        namespace, _, name = key.partition("/")
        live = yield Get(WORKLOADS, namespace, name)
        if not live.ok and not live.missing:
            return Again(refusal.message)
        until_s = None
        if live.ok and not refusal.conflict and decided_on.is_same(live.body):
            # It was not heard, or the server will not have it, or cannot: it is tried again, later each time.
            gives = any(isinstance(effect, effects.Admit) for effect in wanted)
            if not gives or refusal.status == UNREACHABLE:
                return Again(refusal.message)
            until_s = live.now_s + self._refusals.wait_s(key)
            yield refusals.told(live.body, refusal.message)
        self._asked.forget(key, wanted)
        wakes = list(self._seen(live.body, live.now_s)) if live.ok else []
        for effect in wanted:
            wakes += self._later(self._engine.refused(effect, live.now_s, until_s))
        return Done([*wakes, *self._more(key), Wake(_CYCLE)])

    def _more(self, key: str) -> list[Wake]:
        return [Wake(_Writes(key), self._asked.after_s(key))] if key in self._asked else []

    def _guard(self, guarded: Guarded) -> Steps:
        write = self._guards.next(guarded)
        if write is None:
            return Done()
        answer = yield write
        if answer.ok:
            self._guards.answered(guarded, answer)
            return Done([Wake(guarded)])
        # What changed meanwhile is told.
        return Done() if answer.missing or answer.conflict else Again(answer.message)

    def _report(self, now_s: float) -> Steps:
        wanted = {}
        for place in self._overdue.take(is_busy=bool(self._asked)):
            patch = self._status_patch(place, now_s)
            if patch is not None:
                wanted[place] = patch
        answers = (yield Together(tuple(wanted.values()))).parts if wanted else ()
        trouble = ""
        for place, each in zip(wanted, answers, strict=True):
            known = self._queues.get(place)
            if each.ok and known is not None and revision_of(each.body) >= revision_of(known):
                self._queues[place] = each.body  # else it has gone meanwhile, or something else was heard of it
            if not each.ok and not each.missing and not each.conflict:
                self._overdue.add([place])
                trouble = each.message
        if trouble:
            return Again(trouble)
        return Done([Wake(_REPORTS, PAUSE_S)] if self._overdue else ())

    def _status_patch(self, place: Place, now_s: float) -> Patch | None:
        """None if the queue says it already, or is gone."""
        queue = self._queues.get(place)
        if queue is None:
            return None
        is_local = place[0] == "local queue"
        make = reports.local_queue_status if is_local else reports.cluster_queue_status
        status = make(self._engine, self._census, queue, now_s)
        if not reports.differs(queue, status):
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


def _place(resource: Resource, key: str) -> Place:
    return ("cluster queue" if resource == CLUSTER_QUEUES else "local queue"), key
