"""The node lifecycle controller: marks nodes that stop reporting, and taints unready nodes until they are ready again.

A heartbeat of a node is a renewal of its Lease or a write of its status. It delays the deadline of the node and
enqueues nothing. When the deadline passes, the controller sets the conditions of the node to Unknown and its pods to
not ready. ``unknown_conditions.py`` and ``taints.py`` build the writes; ``zones.py`` decides which nodes get NoExecute
taints; ``taint_eviction.py`` deletes the pods.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.framework.effects import Effect, EffectResponse, EmitEvent, Patch
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    Result,
    WatchSpec,
)
from headgate.controllers.node_lifecycle.config import NodeLifecycleConfig
from headgate.controllers.node_lifecycle.node import LifecycleNode, read
from headgate.controllers.node_lifecycle.taints import no_execute_taints, outage_of, wanted_labels, wanted_taints
from headgate.controllers.node_lifecycle.unknown_conditions import unknown_conditions
from headgate.controllers.node_lifecycle.zones import EvictionZones
from headgate.controllers.ownership.indexes import PodsByNode
from headgate.kube import conditions
from headgate.kube.api_resources import LEASES, NODES, PODS, APIResource
from headgate.kube.timestamps import format_time

Object = dict[str, Any]

COMPONENT: Final = "node-controller"
_LEASES_OF_NODES: Final = "kube-node-lease"
_NODE_FIELDS: Final = frozenset(
    {
        *("metadata.creationTimestamp", "metadata.labels"),
        *("spec.taints", "spec.unschedulable", "status.conditions"),
    }
)


class _Pod(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    node: str
    is_ready: bool


class _Health(msgspec.Struct):
    """What this process has observed about a node, which is not in the API. Mutable."""

    node: LifecycleNode
    heartbeat_s: float
    """When its last heartbeat was observed, by the clock of this process."""
    unready_since_s: float
    is_registered: bool = False
    must_mark_pods: bool = False
    """Its pods must be marked as not ready."""


class _NodeKey(msgspec.Struct, frozen=True):
    name: str


class _PodKey(msgspec.Struct, frozen=True):
    """A pod that was bound to an unready node."""

    uid: str


class NodeLifecycleController(Controller):
    name = "node-lifecycle"

    def __init__(self, config: NodeLifecycleConfig | None = None) -> None:
        self._config = config or NodeLifecycleConfig()
        self._zones = EvictionZones(self._config)
        self._nodes: Final[dict[str, _Health]] = {}
        self._deleted_nodes: Final[dict[str, str]] = {}
        self._renewals: Final[dict[str, str]] = {}
        self._pods: Final[dict[str, _Pod]] = {}
        self._on_node: Final = PodsByNode()

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(NODES, _NODE_FIELDS),
            WatchSpec(LEASES, frozenset({"spec.renewTime"})),
            WatchSpec(PODS, frozenset({"spec.nodeName", "status.conditions"})),
        )

    # -- watch events ----------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == LEASES:
            self._lease_applied(obj, now_s)
            return ()
        return self._node_applied(read(obj), now_s) if resource == NODES else self._pod_applied(obj)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == LEASES:
            if namespace == _LEASES_OF_NODES:
                self._renewals.pop(name, None)
        elif resource == PODS:
            self._drop_pod(uid)
        elif name in self._nodes and self._nodes[name].node.uid == uid:
            del self._nodes[name]
            self._deleted_nodes[name] = uid
            return [Enqueue(_NodeKey(name)), *self._set_zone(name, None, now_s)]
        return ()

    def _lease_applied(self, obj: Object, now_s: float) -> None:
        metadata = obj["metadata"]
        if metadata.get("namespace") != _LEASES_OF_NODES:
            return
        name, renewed = metadata["name"], (obj.get("spec") or {}).get("renewTime") or ""
        if renewed > self._renewals.get(name, ""):  # the text order is the time order
            self._renewals[name] = renewed
            if name in self._nodes:
                self._nodes[name].heartbeat_s = now_s

    def _node_applied(self, node: LifecycleNode, now_s: float) -> Iterable[Enqueue]:
        known = self._nodes.get(node.name)
        if known is None or known.node.uid != node.uid:
            has_heartbeat = node.heartbeat is not None or node.name in self._renewals
            self._nodes[node.name] = _Health(node, now_s if has_heartbeat else node.created_s, now_s)
            return [Enqueue(_NodeKey(node.name)), *self._set_zone(node.name, node, now_s)]
        if node.is_older_than(known.node):
            return ()
        before, known.node = known.node, node
        if node.heartbeat != before.heartbeat:
            known.heartbeat_s = now_s
        if (node.ready == "True") != (before.ready == "True"):
            known.unready_since_s = now_s
        enqueues = self._set_zone(node.name, node, now_s)
        return enqueues if node.readiness == before.readiness else [Enqueue(_NodeKey(node.name)), *enqueues]

    def _set_zone(self, name: str, node: LifecycleNode | None, now_s: float) -> list[Enqueue]:
        """Counts a node in its zone; ``None`` removes it."""
        was_fully_disrupted = self._zones.is_fully_disrupted
        zone, ready = (None, False) if node is None else (node.zone, node.ready == "True")
        found = self._zones.put(name, zone, ready=ready)
        if was_fully_disrupted and not self._zones.is_fully_disrupted:
            # The controller itself was probably disconnected, so missing heartbeats are not counted.
            for each in self._nodes.values():
                each.heartbeat_s = now_s
        return [Enqueue(_NodeKey(each)) for each in found]

    def _pod_applied(self, obj: Object) -> Iterable[Enqueue]:
        metadata, node = obj["metadata"], (obj.get("spec") or {}).get("nodeName") or ""
        if not node:
            return ()
        is_ready = conditions.is_true((obj.get("status") or {}).get("conditions"), conditions.POD_READY)
        before = self._pods.get(metadata["uid"])
        pod = _Pod(metadata["namespace"], metadata["name"], metadata["uid"], node, is_ready)
        if pod == before:
            return ()
        self._pods[pod.uid] = pod
        if before is not None:
            return ()
        self._on_node.add(node, pod.uid)
        return (Enqueue(_PodKey(pod.uid)),) if is_ready else ()

    def _drop_pod(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._on_node.drop(pod.node, uid)

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: _NodeKey | _PodKey, now_s: float) -> ReconcileSteps:
        if isinstance(key, _PodKey):
            pod = self._pods.get(key.uid)
            known = None if pod is None else self._nodes.get(pod.node)
            is_unready = known is not None and known.node.ready not in ("", "True")
            problem = (
                (yield from _mark_pod_not_ready(pod, now_s))
                if pod is not None and pod.is_ready and is_unready
                else None
            )
            return Done() if problem is None else RequeueWithBackoff(problem)
        if key.name in self._deleted_nodes:
            yield _node_event(
                key.name, self._deleted_nodes.pop(key.name), "RemovingNode", "Removing Node {} from Controller"
            )
        known = self._nodes.get(key.name)
        return Done() if known is None else (yield from self._monitor_health(known, now_s))

    def _monitor_health(self, known: _Health, now_s: float) -> ReconcileSteps:
        name, uid = known.node.name, known.node.uid
        if not known.is_registered:
            known.is_registered = True
            yield _node_event(name, uid, "RegisteredNode", "Registered Node {} in Controller")
        if now_s > self._deadline_s(known):
            was_ready = known.node.ready == "True"
            problem = yield from self._set_unknown(known, now_s)
            if problem is not None:
                return RequeueWithBackoff(problem)
            if was_ready:
                known.must_mark_pods = True
                text = f"Node {name} status is now: NodeNotReady"
                yield EmitEvent(_reference(name, uid), "Normal", "NodeNotReady", text, COMPONENT)
        if known.must_mark_pods:
            problem = None if known.node.ready == "True" else (yield from self._mark_pods_not_ready(name, now_s))
            if problem is not None:
                return RequeueWithBackoff(problem)
            known.must_mark_pods = False
        wait_s, evicts = self._check_eviction(known, now_s)
        problem = yield from self._update_taints(known, now_s, evicts=evicts)
        if problem is not None:
            return RequeueWithBackoff(problem)
        return self._next_check(known, wait_s, now_s)

    def _next_check(self, known: _Health, wait_s: float | None, now_s: float) -> Result:
        waits = [] if wait_s is None else [wait_s]
        if known.node.ready != "Unknown":
            waits.append(self._deadline_s(known) - now_s + 0.001)
        return RequeueAfter(max(min(waits), 0.001)) if waits else Done()

    def _deadline_s(self, known: _Health) -> float:
        return known.heartbeat_s + (self._config.grace_s if known.node.ready else self._config.startup_s)

    def _check_eviction(self, known: _Health, now_s: float) -> tuple[float | None, bool]:
        """The time until the next check, and whether the pods of the node must be evicted."""
        node = known.node
        zone = node.zone or ("", "")
        if not outage_of(node) or self._zones.is_fully_disrupted:
            return None, False
        if no_execute_taints(node):
            return None, True
        allowed_in_s = known.unready_since_s + self._config.monitor_s - now_s
        next_in_s = self._zones.next_eviction_in_s(zone, now_s)
        if next_in_s is None:
            return None, False
        if max(allowed_in_s, next_in_s) > 0:
            return max(allowed_in_s, next_in_s), False
        self._zones.record_eviction(zone, now_s)
        return None, True

    # -- writes ----------------------------------------------------------------------------------------------------

    def _set_unknown(self, known: _Health, now_s: float) -> Generator[Effect, EffectResponse, str | None]:
        found = unknown_conditions(known.node, now_s)
        if not found:
            return None
        body = {"metadata": {"resourceVersion": known.node.revision}, "status": {"conditions": found}}
        response = yield Patch(NODES, "", known.node.name, body, subresource="status")
        return self._observe_write(known, response, now_s)

    def _update_taints(
        self, known: _Health, now_s: float, *, evicts: bool
    ) -> Generator[Effect, EffectResponse, str | None]:
        taints, labels = wanted_taints(known.node, now_s, evicts=evicts), wanted_labels(known.node)
        if taints is None and not labels:
            return None
        body: Object = {"metadata": {"resourceVersion": known.node.revision}}
        if labels:
            body["metadata"]["labels"] = labels
        if taints is not None:
            body["spec"] = {"taints": taints or None}
        return self._observe_write(known, (yield Patch(NODES, "", known.node.name, body, how="merge")), now_s)

    def _observe_write(self, known: _Health, response: EffectResponse, now_s: float) -> str | None:
        """Stores the node of the response, unless the watch has shown a later version."""
        if not response.ok:
            return None if response.missing else response.message
        node = read(response.body)
        if node.uid == known.node.uid and not node.is_older_than(known.node):
            if (node.ready == "True") != (known.node.ready == "True"):
                known.unready_since_s = now_s
            known.node = node
        return None

    def _mark_pods_not_ready(self, name: str, now_s: float) -> Generator[Effect, EffectResponse, str | None]:
        problem = None
        pods = [self._pods[uid] for uid in self._on_node.of(name)]
        for pod in sorted((each for each in pods if each.is_ready), key=lambda each: (each.namespace, each.name)):
            if name in self._nodes and self._nodes[name].node.ready != "True":
                problem = (yield from _mark_pod_not_ready(pod, now_s)) or problem
        return problem


def _mark_pod_not_ready(pod: _Pod, now_s: float) -> Generator[Effect, EffectResponse, str | None]:
    """Marks a pod as not ready: its state is unknown, and it should get no traffic."""
    ready = {"type": conditions.POD_READY, "status": "False", "lastTransitionTime": format_time(now_s)}
    body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [ready]}}
    response = yield Patch(PODS, pod.namespace, pod.name, body, subresource="status")
    if not response.ok:
        return None if response.missing or response.conflict else response.message
    reference = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    yield EmitEvent(reference, "Warning", "NodeNotReady", "Node is not ready", COMPONENT)
    return None


def _node_event(name: str, uid: str, reason: str, text: str) -> EmitEvent:
    return EmitEvent(_reference(name, uid), "Normal", reason, f"Node {name} event: {text.format(name)}", COMPONENT)


def _reference(name: str, uid: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
