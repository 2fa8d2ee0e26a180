"""The engines of a ``virtual_cluster.py`` that are not controllers: the scheduler, the hollow kubelets, an autoscaler.

They are the same engines as in ``headgate up``. Only the code that performs their writes is simpler here, because the
server of a virtual cluster responds at once and no request fails. In ``headgate up``, ``runtime/scheduler/``,
``nodes/io/kubelet_runner.py`` and ``nodes/io/autoscaler_runner.py`` perform the writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from headgate.cli.demos.virtual_cluster import EngineWrite, ObservedChange
from headgate.client import write_requests
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.nodes import effects as hollow_effects
from headgate.nodes.autoscalers.model import AddMachine, AutoscalerModel, RemoveMachine
from headgate.nodes.effect_requests import create_lease, request_for
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.runtime.scheduler.effect_patches import status_patch
from headgate.scheduling.framework.effects import Bind, Effect, Preempt, SetStatus, WriteResult
from headgate.scheduling.scheduler import Scheduler

Object = dict[str, Any]

_MAX_PODS: Final = 1000
_NOT_FOUND: Final = 404


class VirtualSchedulerEngine:
    """A scheduler on the virtual clock."""

    def __init__(self, scheduler: Scheduler, resources: Sequence[APIResource]) -> None:
        """``resources``: the served resources besides nodes and pods."""
        self._scheduler = scheduler
        self.resources = (NODES, *resources, PODS)
        self._now_s = 0.0
        self._pending: list[Effect] = []

    def observe(self, change: ObservedChange, now_s: float) -> None:
        metadata, scheduler = change.obj["metadata"], self._scheduler
        match change.resource, change.gone:
            case (resource, True) if resource == PODS:
                scheduler.pod_removed(metadata["uid"], now_s)
            case (resource, False) if resource == PODS:
                scheduler.pod_applied(change.obj, now_s)
            case (resource, True) if resource == NODES:
                scheduler.node_removed(metadata["name"], now_s)
            case (resource, False) if resource == NODES:
                scheduler.node_applied(change.obj, now_s)
            case (resource, True):
                scheduler.object_removed(resource, metadata.get("namespace", ""), metadata["name"], now_s)
            case (resource, False):
                scheduler.object_applied(resource, change.obj, now_s)

    def due(self, now_s: float) -> list[EngineWrite]:
        self._now_s = now_s
        pending, self._pending = self._pending, []
        return self._writes([*pending, *self._scheduler.step(now_s, _MAX_PODS)])

    def next_deadline_s(self) -> float | None:
        return self._scheduler.next_deadline_s()

    def _writes(self, wanted: Sequence[Effect]) -> list[EngineWrite]:
        found: list[EngineWrite] = []
        for each in wanted:
            if isinstance(each, Bind):
                request = write_requests.bind(each.pod.namespace, each.pod.name, each.pod.uid, each.node_name)
                found.append(EngineWrite(request, partial(self._handle_bind_response, each.pod.uid)))
            elif isinstance(each, SetStatus):
                found.append(EngineWrite(_status(each, self._now_s)))
            elif isinstance(each, Preempt):
                found += [
                    EngineWrite(write_requests.delete(PODS, victim.namespace, victim.name, victim.uid))
                    for victim in each.victims
                ]
                self._pending += self._scheduler.preempted(
                    each, [victim.uid for victim in each.victims], self._now_s, ok=True
                )
        return found

    def _handle_bind_response(self, uid: str, response: HTTPResponse) -> None:
        result = WriteResult.DONE if response.ok else WriteResult.LATER
        self._pending += self._scheduler.bound(uid, result, response.body.decode(errors="replace"), self._now_s)


def _status(effect: SetStatus, now_s: float) -> HTTPRequest:
    pod, body = effect.pod, status_patch(effect, now_s)
    return write_requests.patch(PODS, pod.namespace, pod.name, pod.uid, body, "strategic", "status")


class VirtualKubelets:
    """Hollow kubelets for all hollow nodes."""

    resources = (NODES, PODS)

    def __init__(self, kubelets: HollowKubelets) -> None:
        self._kubelets = kubelets
        self._missing_leases: list[EngineWrite] = []
        self._out: list[hollow_effects.Effect] = [*kubelets.nodes_synced(0.0), *kubelets.pods_synced(0.0)]

    def observe(self, change: ObservedChange, now_s: float) -> None:
        metadata, kubelets = change.obj["metadata"], self._kubelets
        if change.resource == NODES:
            remove = partial(kubelets.node_removed, metadata["name"], metadata["uid"])
            self._out += remove(now_s) if change.gone else kubelets.node_applied(change.obj, now_s)
        elif change.gone:
            self._out += kubelets.pod_removed(metadata["namespace"], metadata["name"], metadata["uid"], now_s)
        elif change.obj["spec"].get("nodeName"):
            self._out += kubelets.pod_applied(change.obj, now_s)

    def due(self, now_s: float) -> list[EngineWrite]:
        wanted = [*self._out, *self._kubelets.due(now_s)]
        self._out = []
        missing, self._missing_leases = self._missing_leases, []
        return [*missing, *(EngineWrite(request_for(each), partial(self._handle_response, each)) for each in wanted)]

    def _handle_response(self, effect: hollow_effects.Effect, response: HTTPResponse) -> None:
        if response.status == _NOT_FOUND and isinstance(effect, hollow_effects.RenewLease):
            self._missing_leases.append(EngineWrite(create_lease(effect)))

    def next_deadline_s(self) -> float | None:
        return self._kubelets.next_deadline_s()


class VirtualAutoscaler:
    """An autoscaler model. ``added``: the names of the nodes that it has added."""

    resources = (NODES, PODS)

    def __init__(self, model: AutoscalerModel) -> None:
        self._model = model
        self._synced = False
        self.added: list[str] = []

    def observe(self, change: ObservedChange, now_s: float) -> None:
        metadata, model = change.obj["metadata"], self._model
        if change.resource == NODES:
            remove: Callable[[], None] = partial(model.node_removed, metadata["name"], now_s)
            remove() if change.gone else model.node_applied(change.obj, now_s)
        elif change.gone:
            model.pod_removed(metadata["uid"], now_s)
        else:
            model.pod_applied(change.obj, now_s)

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
                self.added.append(each.node["metadata"]["name"])
                found.append(EngineWrite(write_requests.create(NODES, "", each.node)))
            elif isinstance(each, RemoveMachine):
                found.append(EngineWrite(write_requests.delete(NODES, "", each.name, each.uid)))
        return found

    def next_deadline_s(self) -> float | None:
        return self._model.next_deadline_s()
