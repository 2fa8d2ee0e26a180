"""Runs the scheduler on the simulated cluster: watches, steps, and the writes that the API dispatcher makes elsewhere.

``runtime/scheduler/`` does the same on an API server. Here a write succeeds at once; its result goes back to the
scheduler, and its change to all watchers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from headgate.capacity.names import LAPSED
from headgate.kube.api_resources import NODES, PODS
from headgate.scheduling.cache.pod import TERMINAL_PHASES, PodInfo
from headgate.scheduling.framework.effects import (
    Bind,
    Effect,
    Preempt,
    RemoveSchedulingGate,
    RemoveStamp,
    SetStatus,
    WriteResult,
)
from headgate.scheduling.scheduler import Scheduler
from headgate.simulate import pod_objects
from headgate.simulate.cluster_state import Change, ClusterState

Object = dict[str, Any]

_MAX_PODS: Final = 100_000
_GONE: Final = WriteResult.GONE
_DONE: Final = WriteResult.DONE


class PodObserver(Protocol):
    """Hears what the scheduler did with pods."""

    def pod_admitted(self, pod: Object, now_s: float) -> None: ...

    def pod_bound(self, pod: Object, node_name: str, now_s: float) -> None: ...

    def pod_evicted(self, pod: Object, now_s: float) -> None:
        """The pod is a preemption victim and must be deleted."""


class SchedulerDriver:
    def __init__(
        self, scheduler: Scheduler, state: ClusterState, observer: PodObserver, now_s: Callable[[], float]
    ) -> None:
        self._scheduler = scheduler
        self._state = state
        self._observer = observer
        self._now_s = now_s
        self._is_changed = True
        for resource in scheduler.cluster.watched():
            if resource not in (NODES, PODS):
                state.watch(resource, self._observe)
        state.watch(NODES, self._observe_node)
        state.watch(PODS, self._observe_pod)

    # Watches

    def _observe_pod(self, change: Change) -> None:
        self._is_changed = True
        obj = change.obj
        if change.gone or obj["status"].get("phase") in TERMINAL_PHASES:  # its watch shows only live pods
            self._scheduler.pod_removed(obj["metadata"]["uid"], self._now_s())
        else:
            self._scheduler.pod_applied(obj, self._now_s())

    def _observe_node(self, change: Change) -> None:
        self._is_changed = True
        if change.gone:
            self._scheduler.node_removed(change.obj["metadata"]["name"], self._now_s())
        else:
            self._scheduler.node_applied(change.obj, self._now_s())

    def _observe(self, change: Change) -> None:
        self._is_changed = True
        metadata = change.obj["metadata"]
        if change.gone:
            namespace = metadata.get("namespace") or ""
            self._scheduler.object_removed(change.resource, namespace, metadata["name"], self._now_s())
        else:
            self._scheduler.object_applied(change.resource, change.obj, self._now_s())

    # Steps

    def step(self) -> bool:
        """Runs the scheduler if an event or a deadline requires it. Returns whether it wrote anything."""
        now_s = self._now_s()
        if not self._is_changed:
            deadline_s = self._scheduler.next_deadline_s()
            if deadline_s is None or deadline_s > now_s:
                return False
        self._is_changed = False
        effects = self._scheduler.step(now_s, _MAX_PODS)
        if effects:
            self._is_changed = True
            self._perform(effects, now_s)
        return bool(effects)

    def next_deadline_s(self) -> float | None:
        return self._scheduler.next_deadline_s()

    def _perform(self, effects: Iterable[Effect], now_s: float) -> None:
        """Performs effects in order, and after them those that follow from their results."""
        pending = deque(effects)
        while pending:
            effect = pending.popleft()
            if isinstance(effect, Bind):
                pending += self._bind(effect, now_s)
            elif isinstance(effect, RemoveSchedulingGate):
                pending += self._remove_gate(effect, now_s)
            elif isinstance(effect, SetStatus):
                pod = self._find(effect.pod)
                if pod is not None:
                    condition, node = effect.condition, effect.nominated_node
                    self._state.put(PODS, pod_objects.with_status(pod, condition, node, now_s))
            elif isinstance(effect, Preempt):
                pending += self._preempt(effect, now_s)
            elif isinstance(effect, RemoveStamp):
                pending += self._remove_stamp(effect, now_s)
            # Other effects are Events, and writes about volumes, which a trace does not have.

    def _find(self, pod: PodInfo) -> Object | None:
        found = self._state.get(PODS, pod.namespace, pod.name)
        return found if found is not None and found["metadata"]["uid"] == pod.uid else None

    def _bind(self, bind: Bind, now_s: float) -> list[Effect]:
        uid, pod = bind.pod.uid, self._find(bind.pod)
        if pod is None:
            return self._scheduler.bound(uid, _GONE, "the pod does not exist", now_s)
        if "deletionTimestamp" in pod["metadata"] or pod["spec"].get("nodeName"):
            return self._scheduler.bound(uid, WriteResult.TAKEN, "the pod has a node or is terminating", now_s)
        if pod["spec"].get("schedulingGates"):
            return self._scheduler.bound(uid, WriteResult.GATED, "the pod has scheduling gates", now_s)
        stored = self._state.put(PODS, pod_objects.bound(pod, bind.node_name, now_s))
        self._observer.pod_bound(stored, bind.node_name, now_s)
        return self._scheduler.bound(uid, _DONE, "", now_s)

    def _remove_gate(self, removal: RemoveSchedulingGate, now_s: float) -> list[Effect]:
        uid, pod = removal.pod.uid, self._find(removal.pod)
        if pod is None:
            return self._scheduler.gate_removed(uid, _GONE, "the pod does not exist", now_s)
        stored = self._state.put(PODS, pod_objects.without_queue_gate(pod, removal.stamp))
        self._observer.pod_admitted(stored, now_s)
        return self._scheduler.gate_removed(uid, _DONE, "", now_s)

    def _remove_stamp(self, removal: RemoveStamp, now_s: float) -> list[Effect]:
        uid, pod = removal.pod.uid, self._find(removal.pod)
        if pod is None:
            return self._scheduler.stamp_removed(uid, removal.stamp, _GONE, now_s)
        record = {LAPSED: removal.lapse} if removal.lapse else {}
        changed = pod_objects.without_stamp(pod, removal.stamp, record)
        if changed is not pod:
            self._state.put(PODS, changed)
        return self._scheduler.stamp_removed(uid, removal.stamp, _DONE, now_s)

    def _preempt(self, preempt: Preempt, now_s: float) -> list[Effect]:
        evicted = []
        for victim in preempt.victims:
            pod = self._find(victim)
            if pod is not None:
                evicted.append(victim.uid)
                self._observer.pod_evicted(pod, now_s)
        return self._scheduler.preempted(preempt, evicted, now_s, ok=True)
