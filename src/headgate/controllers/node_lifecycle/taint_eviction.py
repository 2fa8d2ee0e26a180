"""Deletes pods on nodes whose ``NoExecute`` taints they do not tolerate, or no longer tolerate.

A pod that tolerates all taints for a limited time is deleted when the shortest of those times is over. The time starts
when the controller observes the taint; if the taint is removed before, the pod stays. :func:`stay_s` decides,
:class:`TaintEvictionController` keeps the time. ``controller.py`` sets the taints.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from math import inf
from typing import Any, Final

import msgspec

from headgate.controllers.framework.effects import Delete, Effect, EffectResponse, EmitEvent, Get, Patch
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.ownership.indexes import PodsByNode
from headgate.kube import conditions
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.kube.taints import NO_EXECUTE, Taint, Toleration, TolerationIndex
from headgate.kube.timestamps import format_time

Object = dict[str, Any]

COMPONENT: Final = "taint-eviction-controller"
_REASON: Final = "TaintManagerEviction"


class _Pod(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    node: str
    tolerations: tuple[Toleration, ...]


class _PodKey(msgspec.Struct, frozen=True):
    uid: str


class _CancelledEviction(msgspec.Struct, frozen=True):
    """A pod that was deleted before its eviction."""

    namespace: str
    name: str


def stay_s(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> float:
    """How long a pod may stay on a node with these taints: 0 not at all, infinite without a limit."""
    longest_s, index = inf, TolerationIndex(tolerations)
    for taint in taints:
        found = index.first_match(taint)  # only the first matching toleration counts
        if found is None:
            return 0.0
        seconds = found.get("tolerationSeconds")
        if seconds is not None:
            longest_s = min(longest_s, max(float(seconds), 0.0))
    return longest_s


class TaintEvictionController(Controller):
    name = "taint-eviction"

    def __init__(self) -> None:
        self._taints: Final[dict[str, tuple[Taint, ...]]] = {}
        self._pods: Final[dict[str, _Pod]] = {}
        self._on_node: Final = PodsByNode()
        self._due_s: Final[dict[str, float]] = {}
        """When pods with a limited toleration are evicted."""
        self._announced: Final[set[str]] = set()
        """Pods whose eviction was announced by an Event."""

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(NODES, frozenset({"spec.taints"})),
            WatchSpec(PODS, frozenset({"spec.nodeName", "spec.tolerations"})),
        )

    # -- watch events ----------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        return self._node_applied(obj) if resource == NODES else self._pod_applied(obj)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == NODES:
            self._taints.pop(name, None)
            return ()
        pod = self._pods.pop(uid, None)
        if pod is None:
            return ()
        self._on_node.drop(pod.node, uid)
        self._announced.discard(uid)
        return () if self._due_s.pop(uid, None) is None else (Enqueue(_CancelledEviction(namespace, name)),)

    def _node_applied(self, obj: Object) -> Iterable[Enqueue]:
        name = obj["metadata"]["name"]
        listed = (obj.get("spec") or {}).get("taints") or ()
        taints = tuple(each for each in listed if each.get("effect") == NO_EXECUTE)
        if taints == self._taints.get(name, ()):
            return ()
        if taints:
            self._taints[name] = taints
        else:
            del self._taints[name]
        return [Enqueue(_PodKey(each)) for each in sorted(self._on_node.of(name), key=self._key_of)]

    def _pod_applied(self, obj: Object) -> Iterable[Enqueue]:
        metadata, spec = obj["metadata"], obj.get("spec") or {}
        node = spec.get("nodeName") or ""
        if not node:
            return ()
        tolerations = tuple(spec.get("tolerations") or ())
        pod = _Pod(metadata["namespace"], metadata["name"], metadata["uid"], node, tolerations)
        if pod == self._pods.get(pod.uid):
            return ()
        self._pods[pod.uid] = pod
        self._on_node.add(node, pod.uid)
        return (Enqueue(_PodKey(pod.uid)),) if node in self._taints else ()

    def _key_of(self, uid: str) -> tuple[str, str]:
        return self._pods[uid].namespace, self._pods[uid].name

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: _PodKey | _CancelledEviction, now_s: float) -> ReconcileSteps:
        if isinstance(key, _CancelledEviction):
            yield _event("Cancelling deletion of", key.namespace, key.name)
            return Done()
        pod = self._pods.get(key.uid)
        if pod is None:
            return Done()
        taints = self._taints.get(pod.node, ())
        wait_s = stay_s(taints, pod.tolerations)
        due_s = self._due_s.get(pod.uid)
        if wait_s in (0.0, inf) and due_s is not None and (due_s > now_s or wait_s == inf):
            del self._due_s[pod.uid]
            yield _event("Cancelling deletion of", pod.namespace, pod.name)
        if wait_s == inf:
            self._announced.discard(pod.uid)
            return Done()
        if wait_s > 0:
            # A pod that already waits keeps its time of eviction, even if taints or tolerations have changed.
            due_s = self._due_s.setdefault(pod.uid, now_s + wait_s)
            if now_s < due_s:
                return RequeueAfter(due_s - now_s)
        problem = yield from self._evict(pod, now_s)
        if problem is not None:
            return RequeueWithBackoff(problem)
        self._due_s.pop(pod.uid, None)
        return Done()

    def _evict(self, pod: _Pod, now_s: float) -> Generator[Effect, EffectResponse, str | None]:
        if pod.uid not in self._announced:
            self._announced.add(pod.uid)
            yield _event("Marking for deletion", pod.namespace, pod.name)
        response = yield Get(PODS, pod.namespace, pod.name, ("metadata.generation", "status.conditions"))
        if response.missing or (response.ok and response.body["metadata"]["uid"] != pod.uid):
            return None
        if not response.ok:
            return response.message
        if not conditions.is_true((response.body.get("status") or {}).get("conditions"), conditions.DISRUPTION_TARGET):
            body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [_condition(response, now_s)]}}
            response = yield Patch(PODS, pod.namespace, pod.name, body, subresource="status")
            if not response.ok and not response.missing and not response.conflict:
                return response.message
        response = yield Delete(PODS, pod.namespace, pod.name, {"preconditions": {"uid": pod.uid}})
        return None if response.ok or response.missing or response.conflict else response.message


def _condition(response: EffectResponse, now_s: float) -> Object:
    generation = response.body["metadata"].get("generation")
    return {
        "type": conditions.DISRUPTION_TARGET,
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": format_time(now_s),
        **({"observedGeneration": generation} if generation else {}),
    }


def _event(action: str, namespace: str, name: str) -> EmitEvent:
    reference = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name}
    return EmitEvent(reference, "Normal", _REASON, f"{action} Pod {namespace}/{name}", COMPONENT)
