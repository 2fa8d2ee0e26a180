"""The pod garbage collector: deletes pods whose node is gone or out of service, and terminating pods without a node.

A pod whose node is gone is deleted after 40 seconds, because the node may return or its watch event may be late; before
that, the controller reads the node from the API server. Finished pods are kept up to a number; beyond it the oldest are
deleted. The kubelet deletes pods on existing nodes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from heapq import nsmallest
from typing import Any, Final

import msgspec

from headgate.controllers.framework.effects import Delete, Effect, EffectResponse, Get, Patch
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.kube import conditions
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.kube.timestamps import format_time

Object = dict[str, Any]

QUARANTINE_S: Final = 40.0
FINISHED_KEPT: Final = 12_500
_EXCESS_CHECK_S: Final = 20.0
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_REFUSED_FOR_GOOD: Final = frozenset({409, 422})
_POD_FIELDS: Final = frozenset(
    {
        "metadata.deletionTimestamp",
        "metadata.creationTimestamp",
        "spec.nodeName",
        "status.phase",
        "status.reason",
    }
)


class _Pod(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    node: str
    deleting: bool
    age: tuple[bool, str, str]
    """The order in which finished pods are deleted: evicted ones first, then by age, then by name."""


class _Node(msgspec.Struct, frozen=True):
    name: str


class _OrphanedPod(msgspec.Struct, frozen=True):
    uid: str


class _TerminatedPodThreshold(msgspec.Struct, frozen=True):
    """The key for the limit of finished pods."""


class PodGCController(Controller):
    name = "pod-garbage-collector"

    def __init__(self, finished_kept: int = FINISHED_KEPT, quarantine_s: float = QUARANTINE_S) -> None:
        self._finished_kept = finished_kept
        self._quarantine_s = quarantine_s
        self._in_service: Final[dict[str, bool]] = {}  # all existing nodes
        self._missing_since_s: Final[dict[str, float]] = {}
        self._pods: Final[dict[str, _Pod]] = {}
        self._on_node: Final[dict[str, set[str]]] = {}
        self._finished: Final[set[str]] = set()

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(PODS, _POD_FIELDS),
            WatchSpec(NODES, frozenset({"spec.taints", "status.conditions"})),
        )

    # -- watch events ----------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        return self._node_applied(obj) if resource == NODES else self._pod_applied(obj, now_s)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            self._drop(uid)
            return ()
        self._in_service.pop(name, None)
        return self._node_missing(name, now_s) if name in self._on_node else ()

    def _node_applied(self, obj: Object) -> Iterable[Enqueue]:
        name = obj["metadata"]["name"]
        self._missing_since_s.pop(name, None)
        ready = conditions.is_true((obj.get("status") or {}).get("conditions"), "Ready")
        taints = (obj.get("spec") or {}).get("taints") or ()
        serving = ready or all(taint.get("key") != _OUT_OF_SERVICE for taint in taints)
        was_serving = self._in_service.get(name, True)
        self._in_service[name] = serving
        if serving or not was_serving:
            return ()
        return [Enqueue(_OrphanedPod(uid)) for uid in sorted(self._on_node.get(name, ())) if self._pods[uid].deleting]

    def _pod_applied(self, obj: Object, now_s: float) -> Iterable[Enqueue]:
        pod, phase = _read(obj)
        finished = phase in _FINISHED
        before = self._pods.get(pod.uid)
        if not pod.node and not pod.deleting and not finished:
            return ()
        if finished:
            self._finished.add(pod.uid)
        if pod != before:
            self._pods[pod.uid] = pod
        if pod.node and (before is None or before.node != pod.node):
            self._on_node.setdefault(pod.node, set()).add(pod.uid)
        enqueues: list[Enqueue] = []
        if finished and len(self._finished) > self._finished_kept:
            enqueues.append(Enqueue(_TerminatedPodThreshold(), _EXCESS_CHECK_S))
        if pod.node and pod.node not in self._in_service:
            enqueues += self._node_missing(pod.node, now_s)
        elif pod.deleting and not self._in_service.get(pod.node, False):
            enqueues.append(Enqueue(_OrphanedPod(pod.uid)))
        return enqueues

    def _node_missing(self, node: str, now_s: float) -> Iterable[Enqueue]:
        self._missing_since_s.setdefault(node, now_s)
        return (Enqueue(_Node(node), self._quarantine_s),)

    def _drop(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        self._finished.discard(uid)
        if pod is not None and pod.node:
            uids = self._on_node[pod.node]
            uids.discard(uid)
            if not uids:
                del self._on_node[pod.node]
                self._missing_since_s.pop(pod.node, None)

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: _Node | _OrphanedPod | _TerminatedPodThreshold, now_s: float) -> ReconcileSteps:
        match key:
            case _Node(name):
                return (yield from self._delete_pods_on(name, now_s))
            case _OrphanedPod(uid):
                pod = self._pods.get(uid)
                if pod is None or not pod.deleting or self._in_service.get(pod.node, False):
                    return Done()
                return _result_of((yield from _delete_pod(pod)))
            case _TerminatedPodThreshold():
                return (yield from self._delete_oldest_finished())

    def _delete_pods_on(self, name: str, now_s: float) -> ReconcileSteps:
        since_s = self._missing_since_s.get(name)
        if since_s is None or name in self._in_service:
            return Done()
        if now_s < since_s + self._quarantine_s:
            return RequeueAfter(since_s + self._quarantine_s - now_s)
        response = yield Get(NODES, "", name, ("metadata.uid",))
        if not response.missing:
            return Done() if response.ok else RequeueWithBackoff(response.message)
        problem = None
        for uid in sorted(self._on_node.get(name, ())):
            pod = self._pods.get(uid)
            if pod is not None:
                problem = (yield from _delete_pod(pod, node_is_gone=True)) or problem
        return _result_of(problem)

    def _delete_oldest_finished(self) -> ReconcileSteps:
        excess = len(self._finished) - self._finished_kept
        problem = None
        finished = (self._pods[uid] for uid in self._finished)
        for pod in nsmallest(excess, finished, key=lambda each: each.age) if excess > 0 else ():
            problem = (yield from _delete_pod(pod)) or problem
        return _result_of(problem)


def _read(obj: Object) -> tuple[_Pod, str]:
    metadata, status = obj["metadata"], obj.get("status") or {}
    phase: str = status.get("phase", "")
    evicted = phase == "Failed" and status.get("reason") == "Evicted"
    age = (not evicted, metadata.get("creationTimestamp", ""), metadata["name"])
    node = (obj.get("spec") or {}).get("nodeName", "")
    deleting = "deletionTimestamp" in metadata
    return _Pod(metadata["namespace"], metadata["name"], metadata["uid"], node, deleting, age), phase


def _delete_pod(pod: _Pod, *, node_is_gone: bool = False) -> Generator[Effect, EffectResponse, str | None]:
    """Sets the pod to Failed, unless it has finished, and deletes it without a grace period."""
    response = yield Get(PODS, pod.namespace, pod.name, ("metadata.generation", "status.phase", "status.conditions"))
    if response.missing or (response.ok and response.body["metadata"]["uid"] != pod.uid):
        return None
    if not response.ok:
        return response.message
    status = response.body.get("status") or {}
    if status.get("phase") not in _FINISHED:
        body = {"metadata": {"uid": pod.uid}, "status": _failed(response, node_is_gone)}
        response = yield Patch(PODS, pod.namespace, pod.name, body, subresource="status")
        if not response.ok:
            return None if response.missing or response.status in _REFUSED_FOR_GOOD else response.message
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
    response = yield Delete(PODS, pod.namespace, pod.name, options)
    return None if response.ok or response.missing or response.conflict else response.message


def _failed(response: EffectResponse, node_is_gone: bool) -> Object:
    generation = response.body["metadata"].get("generation")
    observed = {"observedGeneration": generation} if generation else {}
    status: Object = {"phase": "Failed", **observed}
    if node_is_gone:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            **observed,
        }
        known = (response.body.get("status") or {}).get("conditions")
        status["conditions"] = conditions.with_condition(known, condition, format_time(response.now_s))
    return status


def _result_of(problem: str | None) -> Done | RequeueWithBackoff:
    return Done() if problem is None else RequeueWithBackoff(problem)
