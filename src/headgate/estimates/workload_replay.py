"""Replays Workloads in Kueue-style queues: the quota controller continues from the present state on a virtual clock.

An admitted Workload runs for its drawn time and is then finished. The job of an evicted Workload stops, and the
Workload is queued again. This holds for every kind of job: their controllers and pods take no part, so the estimate is
that of the admission. ``pod_replay.py`` does the same for pods in Volcano-style queues.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.controllers.framework.reconcile import Controller
from headgate.estimates.arrivals import (
    MAX_ARRIVALS,
    NO_ARRIVALS,
    ArrivalHistory,
    PastArrival,
    created_again,
    drawn_arrivals,
)
from headgate.estimates.pod_replay import MAX_STEPS, ReplayResult
from headgate.estimates.run_times import RunTimeDraw
from headgate.estimates.units import Unit
from headgate.jobs.framework.job_writes import release_quota, with_condition_set
from headgate.kube import conditions
from headgate.kube.api_resources import LIMIT_RANGES, NAMESPACES, RUNTIME_CLASSES, APIResource
from headgate.kube.lenient_reader import find_items, find_object
from headgate.quota.kinds.names import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from headgate.quota.names import ADMITTED, EVICTED, FINISHED, QUOTA_RESERVED
from headgate.simulate.cluster_state import Change, ClusterState
from headgate.simulate.controller_driver import ControllerDriver, VirtualAPI

Object = dict[str, Any]
MakeController = Callable[[], Controller]

SERVED: Final = (
    (NAMESPACES, "Namespace"),
    (LIMIT_RANGES, "LimitRange"),
    (RUNTIME_CLASSES, "RuntimeClass"),
    (RESOURCE_FLAVORS, "ResourceFlavor"),
    (ADMISSION_CHECKS, "AdmissionCheck"),
    (COHORTS, "Cohort"),
    (CLUSTER_QUEUES, "ClusterQueue"),
    (LOCAL_QUEUES, "LocalQueue"),
    (WORKLOADS, "Workload"),
)
"""The resources that a replay has, in the order in which their objects are created."""
_STOP_S: Final = 5.0
"""How long the pods of an evicted Workload take to stop."""
_MIN_STEP_S: Final = 0.001
_IDLE_LIMIT_S: Final = 7200.0
_END, _STOPPED, _ARRIVAL = range(3)


class WorkloadState(msgspec.Struct, frozen=True):
    """The present state. ``objects``: all that the quota controller watches, but no Workloads. ``workloads``: those
    that have not finished. ``units``: by namespace/name."""

    now_s: float
    objects: tuple[tuple[APIResource, Object], ...]
    workloads: tuple[Object, ...]
    units: Mapping[str, Unit]
    ended: tuple[Unit, ...] = ()
    arrivals: ArrivalHistory = NO_ARRIVALS


def workload_key(workload: Object) -> str:
    metadata = workload["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}"


class WorkloadReplay:
    """``targets``: by name, keys of Workloads; a target has started when all of them were admitted."""

    def __init__(
        self,
        make_controller: MakeController,
        state: WorkloadState,
        draw: RunTimeDraw,
        targets: Mapping[str, frozenset[str]],
        *,
        arrivals_seed: int | None,
    ) -> None:
        self.now_s = state.now_s
        self._draw = draw
        self._units = dict(state.units)
        self._running: dict[str, int] = {}  # by Workload: the number of its admission
        self._stopping: set[str] = set()
        self._waiting_for = {name: set(keys) for name, keys in targets.items()}
        self._target_of = {key: name for name, keys in targets.items() for key in keys}
        self._starts = dict.fromkeys(targets, math.inf)
        self._places: dict[str, dict[str, None]] = {name: {} for name in targets}
        self._events: list[tuple[float, int, int, Any]] = []
        self._last_event_s = state.now_s
        self._steps_without_event = 0
        self._numbers = itertools.count(1)
        self._state = ClusterState()
        self._api = VirtualAPI(self._state, self, lambda: self.now_s)
        self._controllers = ControllerDriver([make_controller()], self._state, self._api, SERVED, lambda: self.now_s)
        self._state.watch(WORKLOADS, self._observe)
        self._arrivals: Iterator[tuple[float, PastArrival]] = iter(())
        if arrivals_seed is not None:
            self._arrivals = itertools.islice(drawn_arrivals(state.arrivals, state.now_s, arrivals_seed), MAX_ARRIVALS)
        for resource, obj in (*state.objects, *((WORKLOADS, each) for each in state.workloads)):
            self._put(resource, obj)
        self._push_arrival()

    def _put(self, resource: APIResource, obj: Object) -> None:
        """The state of each replay owns the metadata: it writes revisions into it."""
        self._state.put(resource, {"status": {}, **obj, "metadata": dict(obj["metadata"])})

    def run(self, horizon_s: float) -> ReplayResult:
        """``horizon_s``: how much virtual time the replay may take."""
        limit_s = self.now_s + horizon_s
        self._settle()
        while self._waiting_for:
            at_s = self._next_s()
            if at_s is None or at_s > limit_s:
                break
            self.now_s = at_s
            self._steps_without_event += 1
            while self._events and self._events[0][0] <= at_s:
                self._last_event_s, kind, _, payload = heapq.heappop(self._events)
                self._steps_without_event = 0
                if kind == _END:
                    self._ends(*payload)
                elif kind == _STOPPED:
                    self._job_stopped(payload)
                else:
                    self._arrive(payload)
            self._settle()
        return ReplayResult(self._starts, {name: ", ".join(flavors) for name, flavors in self._places.items()})

    def settled(self) -> Sequence[Object]:
        """The Workloads after all that the quota controller decides at once."""
        self._settle()
        return tuple(self._state.objects(WORKLOADS).values())

    def _next_s(self) -> float | None:
        event_s = self._events[0][0] if self._events else math.inf
        deadline_s = self._controllers.next_deadline_s()
        may_wait = self._steps_without_event < MAX_STEPS and (
            self._events or deadline_s is None or deadline_s <= self._last_event_s + _IDLE_LIMIT_S
        )
        if deadline_s is not None and may_wait:
            event_s = min(event_s, max(deadline_s, self.now_s + _MIN_STEP_S))
        return event_s if event_s < math.inf else None

    def _settle(self) -> None:
        busy = True
        while busy:
            busy = self._state.deliver()
            busy |= self._controllers.step()
            busy |= self._state.deliver()

    def _push(self, at_s: float, kind: int, payload: Any) -> None:
        heapq.heappush(self._events, (at_s, kind, next(self._numbers), payload))

    def _push_arrival(self) -> None:
        drawn = next(self._arrivals, None)
        if drawn is not None:
            self._push(drawn[0], _ARRIVAL, drawn[1])

    def _arrive(self, arrival: PastArrival) -> None:
        objects, unit = created_again(arrival, next(self._numbers), self.now_s)
        for resource, obj in objects:
            if resource == WORKLOADS:
                self._units[workload_key(obj)] = unit
            self._put(resource, obj)
        self._push_arrival()

    # Workloads

    def _observe(self, change: Change) -> None:
        workload, key = change.obj, workload_key(change.obj)
        if change.gone:
            return
        listed = find_items(workload, "status", "conditions")
        holds_quota = conditions.is_true(listed, QUOTA_RESERVED)
        if conditions.is_true(listed, EVICTED) and holds_quota:
            if key not in self._stopping:
                self._stopping.add(key)
                self._running.pop(key, None)
                self._push(self.now_s + _STOP_S, _STOPPED, key)
        elif conditions.is_true(listed, ADMITTED) and holds_quota and key not in self._running:
            self._started(workload, key)

    def _started(self, workload: Object, key: str) -> None:
        number = self._running[key] = next(self._numbers)
        unit = self._units.get(key)
        if unit is not None:
            start_s = unit.started_s if unit.started_s is not None else self.now_s
            self._units[key] = msgspec.structs.replace(unit, started_s=None)  # if it is admitted again later
            end_s = max(start_s + self._draw.total_s(unit), self.now_s + _MIN_STEP_S)
            if end_s < math.inf:
                self._push(end_s, _END, (key, number))
        target = self._target_of.get(key)
        if target is not None and target in self._waiting_for:
            self._places[target].update(dict.fromkeys(flavors_of(workload)))
            self._waiting_for[target].discard(key)
            if not self._waiting_for[target]:
                del self._waiting_for[target]
                self._starts[target] = self.now_s

    def _find(self, key: str) -> Object | None:
        namespace, _, name = key.partition("/")
        return self._state.get(WORKLOADS, namespace, name)

    def _ends(self, key: str, number: int) -> None:
        """The job has finished; a finished Workload takes no part any more."""
        workload = self._find(key)
        if workload is None or self._running.get(key) != number:
            return  # it was evicted before its end
        listed = with_condition_set(
            workload, find_items(workload, "status", "conditions"), FINISHED, True, "Succeeded", "", self.now_s
        )
        status = {**find_object(workload, "status"), "conditions": listed}
        stored = self._state.put(WORKLOADS, {**workload, "metadata": dict(workload["metadata"]), "status": status})
        self._state.deliver()
        self._state.remove(WORKLOADS, self._find(key) or stored)

    def _job_stopped(self, key: str) -> None:
        """The pods of an evicted Workload have stopped: its quota is released, as the controller of its job does."""
        self._stopping.discard(key)
        workload = self._find(key)
        if workload is None:
            return
        eviction = conditions.find(find_items(workload, "status", "conditions"), EVICTED) or {}
        write = release_quota(workload, eviction, self.now_s).write
        assert write is not None
        self._api.respond(write)

    # Requests of the controller (``RequestHooks`` of ``controller_driver.py``)

    def created(self, resource: APIResource, obj: Object) -> Object:
        return {"status": {}, **obj}

    def delete_pod(self, pod: Object) -> None:
        raise AssertionError("the quota controller deletes no pods")


def flavors_of(workload: Object) -> list[str]:
    """The flavors of its admission, as ``resource from flavor``."""
    assigned: dict[str, None] = {}
    for each in find_items(workload, "status", "admission", "podSetAssignments"):
        for resource, flavor in sorted(find_object(each, "flavors").items()):
            assigned[f"{resource} from {flavor}"] = None
    return list(assigned)
