"""The engines of a ``virtual_cluster.py`` that are not controllers: the scheduler, the hollow kubelets, an autoscaler.

They are the real engines; only their writes are simplified here, because a virtual cluster responds at once and loses
nothing. On a real clock, ``runtime/scheduler/``, ``nodes/io/kubelet_runner.py`` and ``nodes/io/autoscaler_runner.py``
do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from headgate.cli.demos.virtual_cluster import EngineWrite, ObservedChange
from headgate.client import write_requests
from headgate.http.transport import HTTPResponse
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.kube.timestamps import format_time
from headgate.nodes import effects as hollow_effects
from headgate.nodes.autoscalers.model import AddMachine, AutoscalerModel, RemoveMachine
from headgate.nodes.effect_requests import create_lease, request_for
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.scheduling.framework.effects import Bind, Effect, Preempt, SetStatus, WriteResult
from headgate.scheduling.scheduler import Scheduler

Object = dict[str, Any]

_MOST: Final = 1000
_NOT_FOUND: Final = 404


class VirtualSchedulerEngine:
    """A scheduler on the virtual clock."""

    def __init__(self, scheduler: Scheduler, resources: Sequence[APIResource]) -> None:
        """``resources``: what of the things around nodes and pods the server serves."""
        self._scheduler = scheduler
        self.resources = (NODES, *resources, PODS)
        self._now_s = 0.0
        self._owed: list[Effect] = []

    def observe(self, told: ObservedChange, now_s: float) -> None:
        metadata, scheduler = told.obj["metadata"], self._scheduler
        match told.resource, told.gone:
            case (resource, True) if resource == PODS:
                scheduler.pod_removed(metadata["uid"], now_s)
            case (resource, False) if resource == PODS:
                scheduler.pod_applied(told.obj, now_s)
            case (resource, True) if resource == NODES:
                scheduler.node_removed(metadata["name"], now_s)
            case (resource, False) if resource == NODES:
                scheduler.node_applied(told.obj, now_s)
            case (resource, True):
                scheduler.object_removed(resource, metadata.get("namespace", ""), metadata["name"], now_s)
            case (resource, False):
                scheduler.object_applied(resource, told.obj, now_s)

    def due(self, now_s: float) -> list[EngineWrite]:
        self._now_s = now_s
        owed, self._owed = self._owed, []
        return self._writes([*owed, *self._scheduler.step(now_s, _MOST)])

    def next_s(self) -> float | None:
        return self._scheduler.next_deadline_s()

    def _writes(self, wanted: Sequence[Effect]) -> list[EngineWrite]:
        found: list[EngineWrite] = []
        for each in wanted:
            if isinstance(each, Bind):
                request = write_requests.bind(each.pod.namespace, each.pod.name, each.pod.uid, each.node_name)
                found.append(EngineWrite(request, partial(self._bound, each.pod.uid)))
            elif isinstance(each, SetStatus):
                found.append(EngineWrite(_status(each, self._now_s)))
            elif isinstance(each, Preempt):
                found += [
                    EngineWrite(write_requests.delete(PODS, victim.namespace, victim.name, victim.uid))
                    for victim in each.victims
                ]
                self._owed += self._scheduler.preempted(
                    each, [victim.uid for victim in each.victims], self._now_s, ok=True
                )
        return found

    def _bound(self, uid: str, answer: HTTPResponse) -> None:
        result = WriteResult.DONE if answer.ok else WriteResult.LATER
        self._owed += self._scheduler.bound(uid, result, answer.body.decode(errors="replace"), self._now_s)


def _status(told: SetStatus, now_s: float) -> Any:
    status: Object = {}
    if told.condition is not None:
        status["conditions"] = [{**told.condition, "lastTransitionTime": format_time(now_s)}]
    if told.nominated_node is not None:
        status["nominatedNodeName"] = told.nominated_node or None
    pod = told.pod
    return write_requests.patch(PODS, pod.namespace, pod.name, pod.uid, {"status": status}, "strategic", "status")


class VirtualKubelets:
    """Hollow kubelets for every node that is marked as simulated."""

    resources = (NODES, PODS)

    def __init__(self, hollow: HollowKubelets) -> None:
        self._hollow = hollow
        self._missing: list[EngineWrite] = []
        self._out: list[hollow_effects.Effect] = [*hollow.nodes_synced(0.0), *hollow.pods_synced(0.0)]

    def observe(self, told: ObservedChange, now_s: float) -> None:
        metadata, hollow = told.obj["metadata"], self._hollow
        if told.resource == NODES:
            gone = partial(hollow.node_removed, metadata["name"], metadata["uid"])
            self._out += gone(now_s) if told.gone else hollow.node_applied(told.obj, now_s)
        elif told.gone:
            self._out += hollow.pod_removed(metadata["namespace"], metadata["name"], metadata["uid"], now_s)
        elif told.obj["spec"].get("nodeName"):
            self._out += hollow.pod_applied(told.obj, now_s)

    def due(self, now_s: float) -> list[EngineWrite]:
        wanted = [*self._out, *self._hollow.due(now_s)]
        self._out = []
        missing, self._missing = self._missing, []
        return [*missing, *(EngineWrite(request_for(each), partial(self._answered, each)) for each in wanted)]

    def _answered(self, effect: hollow_effects.Effect, answer: HTTPResponse) -> None:
        if answer.status == _NOT_FOUND and isinstance(effect, hollow_effects.RenewLease):
            self._missing.append(EngineWrite(create_lease(effect)))

    def next_s(self) -> float | None:
        return self._hollow.next_deadline_s()


class VirtualAutoscaler:
    """A model of an autoscaler, and what it bought."""

    resources = (NODES, PODS)

    def __init__(self, model: AutoscalerModel) -> None:
        self._model = model
        self._synced = False
        self.bought: list[str] = []

    def observe(self, told: ObservedChange, now_s: float) -> None:
        metadata, model = told.obj["metadata"], self._model
        if told.resource == NODES:
            gone: Callable[[], None] = partial(model.node_removed, metadata["name"], now_s)
            gone() if told.gone else model.node_applied(told.obj, now_s)
        elif told.gone:
            model.pod_removed(metadata["uid"], now_s)
        else:
            model.pod_applied(told.obj, now_s)

    def due(self, now_s: float) -> list[EngineWrite]:
        if not self._synced:
            self._synced = True
            self._model.synced(now_s)
        found: list[EngineWrite] = []
        deadline_s = self._model.next_deadline_s()
        if deadline_s is None or deadline_s > now_s:
            return found
        for each in self._model.due(now_s):
            if isinstance(each, AddMachine):
                self.bought.append(each.node["metadata"]["name"])
                found.append(EngineWrite(write_requests.create(NODES, "", each.node)))
            elif isinstance(each, RemoveMachine):
                found.append(EngineWrite(write_requests.delete(NODES, "", each.name, each.uid)))
        return found

    def next_s(self) -> float | None:
        return self._model.next_deadline_s()
