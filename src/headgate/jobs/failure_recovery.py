"""Failure recovery: deletes pods that terminate for too long by force, if their users have allowed it.

Users allow it by the annotation ``kueue.x-k8s.io/safe-to-forcefully-delete: "true"``. There are two cases.

- The node has the taint ``node.kubernetes.io/unreachable``, and the feature gate FailureRecoveryPolicy is on, as in
  Kueue: the pod is set to Failed a minute after its deletion timestamp and deleted without a grace period.
- The node is Ready, and ``--force-delete-terminating-pods-after`` is set: the pod is deleted without a grace period
  that long after twice its grace period, counted from when its deletion began or its node became Ready. A kubelet that
  restarts, or that could not reach the API server, begins the grace period later than the deletion timestamp says. The
  status of the pod is not changed, because the kubelet writes it.

``controllers/pod_gc.py`` handles pods of deleted nodes; ``terminating_pods.py`` reports pods. See ADR 0040.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

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
from headgate.kube.taints import NOT_READY, UNREACHABLE
from headgate.kube.timestamps import format_time, parse_time

Object = dict[str, Any]
NodeState = tuple[Literal["ready", "not ready", "unreachable"], float]
"""The second value: since when the node is ready; zero if it is not."""

FORCED_AFTER_S: Final = 60.0
"""How long after its deletion timestamp a pod on an unreachable node is deleted by force."""
CONDITION: Final = "KueueFailureRecovery"
REASON: Final = "KueueForcefullyDeleted"
_COMPONENT: Final = "kueue-failure-recovery"
_UNKNOWN: Final[NodeState] = ("not ready", 0.0)
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_NODE_FIELDS: Final = frozenset({"spec.taints", "status.conditions"})
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
    version: str
    node: str
    deletion_s: float
    grace_s: int
    finished: bool
    has_condition: bool
    """Whether the pod has the condition ``CONDITION``, which is set before the pod is deleted by force."""


class FailureRecovery(Controller):
    name = "failure-recovery"

    def __init__(self, *, handles_unreachable: bool = True, ready_after_s: float | None = None) -> None:
        """``handles_unreachable``: the feature gate FailureRecoveryPolicy. ``ready_after_s``: how long after twice its
        grace period a pod on a Ready node is deleted by force; None: never."""
        self._handles_unreachable: Final = handles_unreachable
        self._ready_after_s: Final = ready_after_s
        self._nodes: Final[dict[str, NodeState]] = {}
        self._pods: Final[dict[str, _Pod]] = {}  # by uid: pods that may be deleted by force, until they have been
        self._pods_by_node: Final = PodsByNode()

    def watches(self) -> Iterable[WatchSpec]:
        return WatchSpec(NODES, _NODE_FIELDS), WatchSpec(PODS, _POD_FIELDS)

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        return self._node_applied(obj, now_s) if resource == NODES else self._pod_applied(obj)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == NODES:
            self._nodes.pop(name, None)
        else:
            self._drop(uid)
        return ()

    def _node_applied(self, obj: Object, now_s: float) -> Iterable[Enqueue]:
        name, state = obj["metadata"]["name"], _node_state(obj, now_s)
        if self._nodes.get(name) == state:
            return ()
        self._nodes[name] = state
        return [Enqueue(uid) for uid in sorted(self._pods_by_node.of(name), key=lambda uid: _name_of(self._pods[uid]))]

    def _pod_applied(self, obj: Object) -> Iterable[Enqueue]:
        pod = _read_deletable_pod(obj)
        self._drop(obj["metadata"]["uid"])
        if pod is None:
            return ()
        self._pods[pod.uid] = pod
        self._pods_by_node.add(pod.node, pod.uid)
        return (Enqueue(pod.uid),) if self._force_delete_at_s(pod) is not None else ()

    def _drop(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._pods_by_node.drop(pod.node, uid)

    def _force_delete_at_s(self, pod: _Pod) -> float | None:
        """None if the pod is not deleted by force while its node is in its present state."""
        state, ready_since_s = self._nodes.get(pod.node, _UNKNOWN)
        if state == "unreachable" and self._handles_unreachable:
            return pod.deletion_s + FORCED_AFTER_S
        if state == "ready" and self._ready_after_s is not None and pod.grace_s:
            return max(pod.deletion_s - pod.grace_s, ready_since_s) + 2 * pod.grace_s + self._ready_after_s
        return None

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        pod = self._pods.get(key)
        force_delete_at_s = None if pod is None else self._force_delete_at_s(pod)
        if pod is None or force_delete_at_s is None:
            return Done()
        if now_s < force_delete_at_s:
            return RequeueAfter(force_delete_at_s - now_s)
        if self._nodes[pod.node][0] == "ready":
            return (yield from self._delete_on_ready_node(pod))
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
            yield _event(pod, message)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
        response = yield Delete(PODS, pod.namespace, pod.name, options)
        return Done() if response.ok or response.missing or response.conflict else RequeueWithBackoff(response.message)

    def _delete_on_ready_node(self, pod: _Pod) -> ReconcileSteps:
        """The resourceVersion is a precondition: a pod that the kubelet has just changed is considered again."""
        preconditions = {"uid": pod.uid, "resourceVersion": pod.version}
        options = {"gracePeriodSeconds": 0, "preconditions": preconditions}
        response = yield Delete(PODS, pod.namespace, pod.name, options)
        if response.ok:
            yield _event(pod, _ready_message(pod, self._ready_after_s or 0.0))
        is_done = response.ok or response.missing or response.conflict  # after a conflict the watch shows the pod
        return Done() if is_done else RequeueWithBackoff(response.message)


def _read_deletable_pod(obj: Object) -> _Pod | None:
    """The decoded pod; None if it may not be deleted by force, or has been deleted by force already."""
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
    return _Pod(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        str(metadata.get("resourceVersion") or ""),
        node,
        deletion_s,
        grace_s,
        status.get("phase") in _FINISHED,
        has_condition,
    )


def _node_state(node: Object, now_s: float) -> NodeState:
    """From the taints of the node lifecycle controller and the condition Ready."""
    keys = {each.get("key") for each in (node.get("spec") or {}).get("taints") or ()}
    if UNREACHABLE in keys:
        return "unreachable", 0.0
    ready = conditions.find((node.get("status") or {}).get("conditions"), "Ready") or {}
    if NOT_READY in keys or ready.get("status") != "True":
        return "not ready", 0.0
    since_s = parse_time(ready.get("lastTransitionTime") or "")
    return "ready", now_s if isinstance(since_s, str) else float(since_s)


def _name_of(pod: _Pod) -> tuple[str, str]:
    return pod.namespace, pod.name


def _message(pod: _Pod) -> str:
    return (
        f"Pod forcefully terminated after {pod.grace_s + FORCED_AFTER_S:.0f}s grace period due to unreachable node "
        f"`{pod.node}` (triggered by `{SAFE_TO_FORCEFULLY_DELETE}` annotation)"
    )


def _ready_message(pod: _Pod, after_s: float) -> str:
    return (
        f"Pod deleted without a grace period {after_s:.0f}s after twice its grace period of {pod.grace_s}s, because it "
        f"still terminates on node `{pod.node}`, which is Ready (triggered by `{SAFE_TO_FORCEFULLY_DELETE}` annotation)"
    )


def _event(pod: _Pod, message: str) -> EmitEvent:
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
    }
    return EmitEvent(reference, "Warning", REASON, message, _COMPONENT)


def _condition(message: str, now_s: float) -> Object:
    times = {"lastTransitionTime": format_time(now_s)}
    return {"type": CONDITION, "status": "True", "reason": REASON, "message": message, **times}
