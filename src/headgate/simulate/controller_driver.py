"""Runs controllers on the simulated cluster: their watches, their work queue, and the requests that they make.

``runtime/controller_manager.py`` does the same on an API server. A request is answered at once from the cluster state,
with the rules that controllers rely on: uids and revisions as preconditions, ``status`` as a subresource, generations,
and finalizers.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from headgate.apimachinery.patch.merge_patch import apply_merge_patch
from headgate.apimachinery.patch.result import PatchResult
from headgate.controllers.framework import effects
from headgate.controllers.framework.discovery import DiscoveredKind, DiscoveredKinds
from headgate.controllers.framework.effects import Effect, EffectResponse, EmitEvent, ParallelRequests
from headgate.controllers.framework.reconcile import Controller, Done, Enqueue, RequeueAfter, RequeueWithBackoff
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.timestamps import format_time
from headgate.simulate.cluster_state import Change, ClusterState

Object = dict[str, Any]

_RETRY_S: Final = 1.0
_FINALIZERS: Final = "$deleteFromPrimitiveList/finalizers"
_VERBS: Final = frozenset({"create", "delete", "get", "list", "patch", "update", "watch"})


class RequestHooks(Protocol):
    """What the simulation does for requests of controllers."""

    def created(self, resource: APIResource, obj: Object) -> Object:
        """A new object: returns it as it is stored."""

    def delete_pod(self, pod: Object) -> None:
        """A pod is to be deleted."""


class VirtualAPI:
    """Answers requests of controllers."""

    def __init__(self, state: ClusterState, hooks: RequestHooks, now_s: Callable[[], float]) -> None:
        self._state = state
        self._hooks = hooks
        self._now_s = now_s
        self._uids = itertools.count(1)

    def respond(self, effect: Effect) -> EffectResponse:
        now_s = self._now_s()
        match effect:
            case EmitEvent():
                return EffectResponse(202, {}, now_s)
            case ParallelRequests(requests):
                return EffectResponse(200, {}, now_s, tuple(map(self.respond, requests)))
            case effects.Get(resource, namespace, name):
                found = self._state.get(resource, namespace, name)
                return _missing(name, now_s) if found is None else EffectResponse(200, found, now_s)
            case effects.List(resource, namespace):
                items = [each for key, each in self._state.objects(resource).items() if namespace in ("", key[0])]
                return EffectResponse(200, {"items": items}, now_s)
            case effects.Create(resource, namespace, obj):
                return self.create(resource, namespace, obj)
            case effects.Replace(resource, namespace, name, obj, subresource):
                return self._write(resource, namespace, name, obj, subresource, lambda old: obj)
            case effects.Patch(resource, namespace, name, body, how, subresource):
                merge = _strategic if how == "strategic" else _merged
                return self._write(resource, namespace, name, body, subresource, lambda old: merge(old, body))
            case effects.Delete(resource, namespace, name, options):
                return self._delete(resource, namespace, name, options)
            case _:
                raise AssertionError(f"{type(effect).__name__} is not used by the controllers of a simulation")

    def create(self, resource: APIResource, namespace: str, obj: Object) -> EffectResponse:
        now_s, name = self._now_s(), obj["metadata"]["name"]
        if self._state.get(resource, namespace, name) is not None:
            return EffectResponse(409, {"message": f'{resource.plural} "{name}" already exists'}, now_s)
        metadata = {
            **obj["metadata"],
            **({"namespace": namespace} if resource.namespaced else {}),
            "uid": f"{resource.plural}-{next(self._uids)}",
            "creationTimestamp": format_time(now_s),
            "generation": 1,
        }
        stored = self._hooks.created(resource, {**obj, "metadata": metadata})
        return EffectResponse(201, self._state.put(resource, stored), now_s)

    def _write(
        self,
        resource: APIResource,
        namespace: str,
        name: str,
        body: Object,
        subresource: str,
        change: Callable[[Object], Object],
    ) -> EffectResponse:
        now_s, old = self._now_s(), self._state.get(resource, namespace, name)
        if old is None:
            return _missing(name, now_s)
        for field in ("uid", "resourceVersion"):
            wanted = (body.get("metadata") or {}).get(field)
            if wanted is not None and wanted != old["metadata"][field]:
                return EffectResponse(409, {"message": f"{field} is {old['metadata'][field]}, not {wanted}"}, now_s)
        new = dict(change(old))
        if subresource == "status":
            new = {**old, "metadata": dict(old["metadata"]), "status": new.get("status") or {}}
        else:
            new["metadata"] = {**new["metadata"], "uid": old["metadata"]["uid"]}
            if "status" in old:
                new["status"] = old["status"]
            if new.get("spec") != old.get("spec"):
                new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        stored = self._state.put(resource, new)
        self.remove_if_released(resource, stored)
        return EffectResponse(200, stored, now_s)

    def _delete(self, resource: APIResource, namespace: str, name: str, options: Object) -> EffectResponse:
        now_s, old = self._now_s(), self._state.get(resource, namespace, name)
        if old is None:
            return _missing(name, now_s)
        uid = (options.get("preconditions") or {}).get("uid")
        if uid is not None and uid != old["metadata"]["uid"]:
            return EffectResponse(409, {"message": "the uid differs"}, now_s)
        if resource == PODS:
            self._hooks.delete_pod(old)
        elif old["metadata"].get("finalizers"):
            metadata = {**old["metadata"], "deletionTimestamp": format_time(now_s)}
            self._state.put(resource, {**old, "metadata": metadata})
        else:
            self._state.remove(resource, old)
        return EffectResponse(200, old, now_s)

    def remove_if_released(self, resource: APIResource, obj: Object) -> None:
        """Removes an object that was deleted and has no more finalizers. A pod is removed after it has stopped."""
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
            return
        if resource != PODS or not obj["spec"].get("nodeName") or obj["status"].get("phase") in ("Succeeded", "Failed"):
            self._state.remove(resource, obj)


def _missing(name: str, now_s: float) -> EffectResponse:
    return EffectResponse(404, {"message": f"{name} not found", "details": {"name": name}}, now_s)


def _merged(old: Object, body: Object) -> Object:
    patched = apply_merge_patch(old, body, strict_decoding=False)
    assert isinstance(patched, PatchResult), patched
    return dict(patched.value)


def _strategic(old: Object, body: Object) -> Object:
    """The only strategic patch of these controllers: the job controller removes its finalizer from pods."""
    metadata = body["metadata"]
    assert set(body) == {"metadata"}, body
    assert set(metadata) <= {"uid", "resourceVersion", _FINALIZERS}, body
    kept = [each for each in old["metadata"].get("finalizers") or () if each not in metadata.get(_FINALIZERS, ())]
    new = {name: value for name, value in old["metadata"].items() if name != "finalizers"}
    return {**old, "metadata": {**new, "finalizers": kept} if kept else new}


class ControllerDriver:
    """``kinds``: the resources that the cluster serves, with their kinds."""

    def __init__(
        self,
        controllers: Iterable[Controller],
        state: ClusterState,
        api: VirtualAPI,
        kinds: Iterable[tuple[APIResource, str]],
        now_s: Callable[[], float],
    ) -> None:
        self._controllers = list(controllers)
        self._api = api
        self._now_s = now_s
        self._due: dict[tuple[int, Any], None] = {}
        self._delayed: list[tuple[float, int, tuple[int, Any]]] = []
        self._delayed_until: dict[tuple[int, Any], float] = {}
        self._numbers = itertools.count()
        rows = tuple(DiscoveredKind(resource, kind, _VERBS) for resource, kind in kinds)
        served = DiscoveredKinds(rows, {(each.api_version, each.kind): each for each in rows})
        for index, controller in enumerate(self._controllers):
            self._enqueue(index, controller.discovered(served))
            for spec in controller.watches():
                state.watch(spec.resource, self._watcher(index, controller))

    def _watcher(self, index: int, controller: Controller) -> Callable[[Change], None]:
        def observe(change: Change) -> None:
            metadata = change.obj["metadata"]
            if change.gone:
                key = metadata.get("namespace") or "", metadata["name"]
                self._enqueue(index, controller.removed(change.resource, *key, metadata["uid"], self._now_s()))
            else:
                self._enqueue(index, controller.applied(change.resource, change.obj, self._now_s()))

        return observe

    def next_deadline_s(self) -> float | None:
        while self._delayed and self._delayed_until.get(self._delayed[0][2]) != self._delayed[0][0]:
            heapq.heappop(self._delayed)
        return self._delayed[0][0] if self._delayed else None

    def step(self) -> bool:
        """Reconciles the keys that are due. Returns whether there were any."""
        now_s = self._now_s()
        deadline_s = self.next_deadline_s()
        while deadline_s is not None and deadline_s <= now_s:
            item = heapq.heappop(self._delayed)[2]
            del self._delayed_until[item]
            self._due[item] = None
            deadline_s = self.next_deadline_s()
        if not self._due:
            return False
        items, self._due = self._due, {}
        for item in items:
            self._reconcile(item)
        return True

    def _enqueue(self, index: int, enqueues: Iterable[Enqueue]) -> None:
        for each in enqueues:
            self._add((index, each.key), each.after_s)

    def _add(self, item: tuple[int, Any], after_s: float) -> None:
        """A key that is already due sooner keeps its time."""
        if item in self._due:
            return
        if after_s <= 0:
            self._delayed_until.pop(item, None)
            self._due[item] = None
            return
        at_s = self._now_s() + after_s
        if at_s < self._delayed_until.get(item, float("inf")):
            self._delayed_until[item] = at_s
            heapq.heappush(self._delayed, (at_s, next(self._numbers), item))

    def _reconcile(self, item: tuple[int, Any]) -> None:
        index, key = item
        steps = self._controllers[index].reconcile(key, self._now_s())
        try:
            effect = next(steps)
            while True:
                effect = steps.send(self._api.respond(effect))
        except StopIteration as done:
            match done.value:
                case Done(enqueues):
                    self._enqueue(index, enqueues)
                case RequeueAfter(after_s):
                    self._add(item, after_s)
                case RequeueWithBackoff(_, enqueues):
                    self._enqueue(index, enqueues)
                    self._add(item, _RETRY_S)
