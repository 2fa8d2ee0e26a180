"""Replays pods in Volcano-style queues: the scheduler continues from the present state on a virtual clock.

Pods that run end when the draw says, pods that the scheduler binds run for their drawn time, and drawn arrivals are
created. A preempted pod is created again. The replay ends when all pods that are asked about have a node, or at the
horizon. ``workload_replay.py`` does the same for Workloads.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.estimates.arrivals import (
    MAX_ARRIVALS,
    NO_ARRIVALS,
    ArrivalHistory,
    PastArrival,
    as_created,
    created_again,
    drawn_arrivals,
)
from headgate.estimates.run_times import RunTimeDraw
from headgate.estimates.units import Unit, time_s
from headgate.kube import conditions
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.lenient_reader import get_path
from headgate.kube.timestamps import format_time
from headgate.scheduling.scheduler import Scheduler
from headgate.simulate import job_objects, pod_objects
from headgate.simulate.cluster_state import ClusterState
from headgate.simulate.scheduler_driver import SchedulerDriver

Object = dict[str, Any]
MakeScheduler = Callable[[Callable[[], float], Callable[[str], None]], Scheduler]

_STOP_S: Final = 5.0
"""How long a deleted pod keeps its node, at most."""
_MIN_STEP_S: Final = 0.001
MAX_STEPS: Final = 50
"""How many deadlines of an engine pass between two events. A scheduler tries again and again without a change: if it
still fails then, only an event helps."""
_IDLE_LIMIT_S: Final = 900.0
"""How long a replay goes on after its last event: longer than any back-off of the scheduler."""
_END, _GONE, _ARRIVAL = range(3)


class PodReplayState(msgspec.Struct, frozen=True):
    """The present state. ``objects``: all that the scheduler watches, but no pods. ``pods``: those that have not ended.
    ``units``: by the uid of a pod. ``ended``: units whose run times are learned from."""

    now_s: float
    objects: tuple[tuple[APIResource, Object], ...]
    pods: tuple[Object, ...]
    units: Mapping[str, Unit]
    ended: tuple[Unit, ...] = ()
    arrivals: ArrivalHistory = NO_ARRIVALS


class ReplayResult(msgspec.Struct, frozen=True):
    """``starts``: by target, when it started; infinite if it did not before the horizon. ``places``: the node of a pod,
    or the flavors of a Workload, by target."""

    starts: Mapping[str, float]
    places: Mapping[str, str]


class PodReplay:
    """``targets``: by name, the uids of pods; a target has started when all its pods have a node."""

    def __init__(
        self,
        make_scheduler: MakeScheduler,
        state: PodReplayState,
        draw: RunTimeDraw,
        targets: Mapping[str, frozenset[str]],
        *,
        arrivals_seed: int | None,
    ) -> None:
        self.now_s = state.now_s
        self._draw = draw
        self._units = dict(state.units)
        self._keys: dict[str, tuple[str, str]] = {}  # namespace and name, by uid
        self._last_event_s = state.now_s
        self._steps_without_event = 0
        self._waiting_for = {name: set(uids) for name, uids in targets.items()}
        self._targets_of: dict[str, list[str]] = {}  # by uid; pods of one gang may be in several
        for name, uids in targets.items():
            for uid in uids:
                self._targets_of.setdefault(uid, []).append(name)
        self._starts = dict.fromkeys(targets, math.inf)
        self._places: dict[str, dict[str, None]] = {name: {} for name in targets}
        self._events: list[tuple[float, int, int, Any]] = []
        self._numbers = itertools.count(1)
        self._state = ClusterState()
        self._driver = SchedulerDriver(
            make_scheduler(lambda: self.now_s, lambda problem: None), self._state, self, lambda: self.now_s
        )
        self._arrivals: Iterator[tuple[float, PastArrival]] = iter(())
        if arrivals_seed is not None:
            self._arrivals = itertools.islice(drawn_arrivals(state.arrivals, state.now_s, arrivals_seed), MAX_ARRIVALS)
        self._put_present_state(state)

    def _put_present_state(self, state: PodReplayState) -> None:
        for resource, obj in state.objects:
            self._put(resource, obj)
        for pod in state.pods:
            metadata = pod["metadata"]
            node, uid = (pod.get("spec") or {}).get("nodeName"), metadata["uid"]
            self._put(PODS, pod)
            unit = self._units.get(uid)
            if metadata.get("deletionTimestamp"):
                deleted_s = time_s(metadata["deletionTimestamp"]) or self.now_s
                gone_s = max(min(deleted_s, self.now_s + _STOP_S), self.now_s + _MIN_STEP_S)
                self._push(gone_s, _GONE, (uid, pod if _is_preempted(pod) else None))
            elif node and unit is not None:
                started_s = self.now_s if unit.started_s is None else unit.started_s
                self._push_end(uid, max(started_s + self._draw.total_s(unit), self.now_s + _MIN_STEP_S))
        self._push_arrival()

    def _put(self, resource: APIResource, obj: Object) -> None:
        """The state of each replay owns the metadata: it writes revisions into it."""
        metadata = dict(obj["metadata"])
        if resource == PODS:
            self._keys[metadata["uid"]] = metadata.get("namespace") or "", metadata["name"]
        self._state.put(resource, {**obj, "metadata": metadata})

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
                    self._pod_ends(payload)
                elif kind == _GONE:
                    self._pod_gone(*payload)
                else:
                    self._arrive(payload)
            self._settle()
        return ReplayResult(self._starts, {name: ", ".join(nodes) for name, nodes in self._places.items()})

    def settled(self) -> Sequence[Object]:
        """The pods after all that the scheduler decides at once: bound, preempted, or with a condition that says why
        they wait."""
        self._settle()
        return tuple(self._state.objects(PODS).values())

    def _next_s(self) -> float | None:
        """The next event, or the next deadline of the scheduler. Deadlines alone do not keep it going for ever."""
        event_s = self._events[0][0] if self._events else math.inf
        deadline_s = self._driver.next_deadline_s()
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
            busy |= self._driver.step()
            self._state.deliver()

    def _push(self, at_s: float, kind: int, payload: Any) -> None:
        heapq.heappush(self._events, (at_s, kind, next(self._numbers), payload))

    def _push_end(self, uid: str, at_s: float) -> None:
        if at_s < math.inf:
            self._push(at_s, _END, uid)

    def _push_arrival(self) -> None:
        drawn = next(self._arrivals, None)
        if drawn is not None:
            self._push(drawn[0], _ARRIVAL, drawn[1])

    def _arrive(self, arrival: PastArrival) -> None:
        objects, unit = created_again(arrival, next(self._numbers), self.now_s)
        for resource, obj in objects:
            if resource == PODS:
                self._units[obj["metadata"]["uid"]] = unit
            self._put(resource, obj)
        self._push_arrival()

    # Called by the scheduler's driver

    def pod_admitted(self, pod: Object, now_s: float) -> None:
        pass

    def pod_bound(self, pod: Object, node_name: str, now_s: float) -> None:
        uid = pod["metadata"]["uid"]
        unit = self._units.get(uid)
        if unit is not None:
            self._push_end(uid, now_s + self._draw.total_s(unit))
        for target in self._targets_of.pop(uid, ()):
            self._places[target][node_name] = None
            self._waiting_for[target].discard(uid)
            if not self._waiting_for[target]:
                del self._waiting_for[target]
                self._starts[target] = now_s

    def pod_evicted(self, pod: Object, now_s: float) -> None:
        """The scheduler preempts the pod. It leaves its node, and is created again."""
        metadata = pod["metadata"]
        grace_s = float((pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 0)
        self._state.put(PODS, pod_objects.terminating(pod, now_s + grace_s, grace_s, now_s, preempted=True))
        self._push(now_s + min(grace_s, _STOP_S), _GONE, (metadata["uid"], pod))

    # Events

    def _find(self, uid: str) -> Object | None:
        found = self._state.get(PODS, *self._keys[uid])
        return found if found is not None and found["metadata"]["uid"] == uid else None

    def _pod_ends(self, uid: str) -> None:
        pod = self._find(uid)
        if pod is not None and not pod["metadata"].get("deletionTimestamp"):
            self._state.remove(PODS, pod)

    def _pod_gone(self, uid: str, evicted: Object | None) -> None:
        pod = self._find(uid)
        if pod is not None:
            self._state.remove(PODS, pod)
        if evicted is None:
            return
        again = as_new_pod(evicted, next(self._numbers), self.now_s)
        unit = self._units.get(uid)
        if unit is not None:
            self._units[again["metadata"]["uid"]] = unit
        self._put(PODS, again)


def _is_preempted(pod: Object) -> bool:
    """Whether it terminates because of a preemption: its owner will create it again."""
    found = conditions.find(get_path(pod, ("status", "conditions")), conditions.DISRUPTION_TARGET) or {}
    return found.get("status") == "True" and found.get("reason") == conditions.PREEMPTION_BY_SCHEDULER


def as_new_pod(pod: Object, number: int, now_s: float) -> Object:
    """The pod that its owner creates in place of a preempted one."""
    made = as_created(PODS, pod)
    name = f"{pod['metadata']['name']}-again-{number}"
    metadata = {**made["metadata"], "creationTimestamp": format_time(now_s)}
    return job_objects.stored_pod({**made, "metadata": metadata}, name, f"pod-{name}")
