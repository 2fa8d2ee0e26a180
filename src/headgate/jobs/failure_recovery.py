"""Failure recovery: ends terminating pods on unreachable nodes when their users have declared that this is safe.

Feature gate FailureRecoveryPolicy, as in Kueue: a terminating pod with the annotation
``kueue.x-k8s.io/safe-to-forcefully-delete: "true"`` on a node with the taint ``node.kubernetes.io/unreachable`` is set
to Failed a minute after its deletion timestamp and deleted without a grace period, so that its quota and its name are
free. ``controllers/pod_gc.py`` handles pods of deleted nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.framework.effects import Delete, EmitEvent, Patch
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
from headgate.jobs.names import SAFE_TO_FORCEFULLY_DELETE
from headgate.kube import conditions
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.kube.taints import UNREACHABLE
from headgate.kube.timestamps import format_time, parse_time

Object = dict[str, Any]

FORCED_AFTER_S: Final = 60.0
CONDITION: Final = "KueueFailureRecovery"
REASON: Final = "KueueForcefullyDeleted"
_COMPONENT: Final = "kueue-failure-recovery"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_POD_FIELDS: Final = frozenset(
    {
        "metadata.annotations",
        "metadata.deletionTimestamp",
        "metadata.deletionGracePeriodSeconds",
        "spec.nodeName",
        "status.phase",
        "status.conditions",
    }
)


class _Pod(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    node: str
    due_s: float
    grace_s: int
    finished: bool
    has_condition: bool
    """Whether the pod has the condition of a forced deletion."""


class FailureRecovery(Controller):
    name = "failure-recovery"

    def __init__(self) -> None:
        self._unreachable: Final[set[str]] = set()
        self._pods: Final[dict[str, _Pod]] = {}  # pods that may be deleted by force, and are not yet
        self._on_node: Final = PodsByNode()

    def watches(self) -> Iterable[WatchSpec]:
        return WatchSpec(NODES, frozenset({"spec.taints"})), WatchSpec(PODS, _POD_FIELDS)

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        return self._node_applied(obj) if resource == NODES else self._pod_applied(obj)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == NODES:
            self._unreachable.discard(name)
        else:
            self._drop(uid)
        return ()

    def _node_applied(self, obj: Object) -> Iterable[Enqueue]:
        name = obj["metadata"]["name"]
        taints = (obj.get("spec") or {}).get("taints") or ()
        if all(each.get("key") != UNREACHABLE for each in taints):
            self._unreachable.discard(name)
            return ()
        if name in self._unreachable:
            return ()
        self._unreachable.add(name)
        return [Enqueue(uid) for uid in sorted(self._on_node.of(name), key=lambda uid: _name_of(self._pods[uid]))]

    def _pod_applied(self, obj: Object) -> Iterable[Enqueue]:
        pod = _read(obj)
        self._drop(obj["metadata"]["uid"])
        if pod is None:
            return ()
        self._pods[pod.uid] = pod
        self._on_node.add(pod.node, pod.uid)
        return (Enqueue(pod.uid),) if pod.node in self._unreachable else ()

    def _drop(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._on_node.drop(pod.node, uid)

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        pod = self._pods.get(key)
        if pod is None or pod.node not in self._unreachable:
            return Done()
        if now_s < pod.due_s:
            return RequeueAfter(pod.due_s - now_s)
        if not pod.has_condition:
            message = _message(pod)
            status: Object = {"conditions": [_condition(message, now_s)]}
            if not pod.finished:
                status["phase"] = "Failed"
            body = {"metadata": {"uid": pod.uid}, "status": status}
            response = yield Patch(PODS, pod.namespace, pod.name, body, subresource="status")
            if response.missing or response.conflict:
                return Done()
            if not response.ok:
                return RequeueWithBackoff(response.message)
            reference = {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            }
            yield EmitEvent(reference, "Warning", REASON, message, _COMPONENT)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
        response = yield Delete(PODS, pod.namespace, pod.name, options)
        return Done() if response.ok or response.missing or response.conflict else RequeueWithBackoff(response.message)


def _read(obj: Object) -> _Pod | None:
    """The pod, if it may be deleted by force and was not yet."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    node = (obj.get("spec") or {}).get("nodeName") or ""
    deletion_s = parse_time(metadata.get("deletionTimestamp") or "")
    is_safe = (metadata.get("annotations") or {}).get(SAFE_TO_FORCEFULLY_DELETE) == "true"
    if isinstance(deletion_s, str) or not node or not is_safe:
        return None
    grace_s = metadata.get("deletionGracePeriodSeconds") or 0
    has_condition = conditions.is_true(status.get("conditions"), CONDITION)
    if has_condition and not grace_s:
        return None
    finished = status.get("phase") in _FINISHED
    due_s = deletion_s + FORCED_AFTER_S
    return _Pod(metadata["namespace"], metadata["name"], metadata["uid"], node, due_s, grace_s, finished, has_condition)


def _name_of(pod: _Pod) -> tuple[str, str]:
    return pod.namespace, pod.name


def _message(pod: _Pod) -> str:
    return (
        f"Pod forcefully terminated after {pod.grace_s + FORCED_AFTER_S:.0f}s grace period due to unreachable node "
        f"`{pod.node}` (triggered by `{SAFE_TO_FORCEFULLY_DELETE}` annotation)"
    )


def _condition(message: str, now_s: float) -> Object:
    times = {"lastTransitionTime": format_time(now_s)}
    return {"type": CONDITION, "status": "True", "reason": REASON, "message": message, **times}
