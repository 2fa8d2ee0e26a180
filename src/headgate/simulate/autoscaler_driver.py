"""Runs an autoscaler model on the simulated cluster, and starts and removes the machines that it orders.

``nodes/io/autoscaler_runner.py`` does the same on an API server. A new node has the not-ready taint, as the API server
adds it, until its machine has booted; the simulation reports that to :meth:`AutoscalerDriver.booted`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from headgate.kube.api_resources import NODES, PODS
from headgate.kube.taints import NOT_READY
from headgate.kube.timestamps import format_time
from headgate.nodes.autoscalers.model import AddMachine, AutoscalerModel, RemoveMachine, TaintNode
from headgate.simulate.cluster_state import Change, ClusterState

Object = dict[str, Any]

_NOT_READY_TAINT: Final = {"key": NOT_READY, "effect": "NoSchedule"}
_TERMINAL: Final = ("Succeeded", "Failed")


class MachineObserver(Protocol):
    def machine_ordered(self, node: Object, now_s: float) -> None: ...

    def machine_deleted(self, node: Object, now_s: float) -> None: ...


class AutoscalerDriver:
    def __init__(
        self, model: AutoscalerModel, state: ClusterState, observer: MachineObserver, now_s: Callable[[], float]
    ) -> None:
        self._model = model
        self._state = state
        self._observer = observer
        self._now_s = now_s
        state.watch(NODES, self._observe_node)
        state.watch(PODS, self._observe_pod)

    def start(self) -> None:
        """All objects of the snapshot have been delivered."""
        self._model.synced(self._now_s())

    def _observe_pod(self, change: Change) -> None:
        if change.gone:
            self._model.pod_removed(change.obj["metadata"]["uid"], self._now_s())
        else:
            self._model.pod_applied(change.obj, self._now_s())

    def _observe_node(self, change: Change) -> None:
        if change.gone:
            self._model.node_removed(change.obj["metadata"]["name"], self._now_s())
        else:
            self._model.node_applied(change.obj, self._now_s())

    def next_deadline_s(self) -> float | None:
        return self._model.next_deadline_s()

    def step(self) -> bool:
        """Returns whether the model changed any node."""
        now_s, acted = self._now_s(), False
        deadline_s = self._model.next_deadline_s()
        if deadline_s is None or deadline_s > now_s:
            return False
        for effect in self._model.due(now_s):
            if isinstance(effect, AddMachine):
                acted = True
                self._add(effect.node, now_s)
            elif isinstance(effect, RemoveMachine | TaintNode):
                node = self._state.get(NODES, "", effect.name)
                if node is not None and node["metadata"]["uid"] == effect.uid:
                    acted = True
                    if isinstance(effect, TaintNode):
                        self._taint(node, effect)
                    else:
                        self._observer.machine_deleted(node, now_s)
        return acted

    def _add(self, node: Object, now_s: float) -> None:
        name = node["metadata"]["name"]
        metadata = {**node["metadata"], "uid": f"node-{name}", "creationTimestamp": format_time(now_s)}
        spec = {**node["spec"], "taints": [*(node["spec"].get("taints") or ()), _NOT_READY_TAINT]}
        stored = self._state.put(NODES, {**node, "metadata": metadata, "spec": spec})
        self._observer.machine_ordered(stored, now_s)

    def _taint(self, node: Object, effect: TaintNode) -> None:
        taints = [each for each in node["spec"].get("taints") or () if each["key"] != effect.key]
        if not effect.off:
            taints.append({"key": effect.key, "effect": "NoSchedule"})
        self._state.put(NODES, {**node, "metadata": dict(node["metadata"]), "spec": {**node["spec"], "taints": taints}})


def ready_node(node: Object, now_s: float) -> Object:
    """The node after its machine has booted."""
    spec = dict(node.get("spec") or {})
    taints = [each for each in spec.pop("taints", None) or () if each["key"] != NOT_READY]
    if taints:
        spec["taints"] = taints
    status = dict(node.get("status") or {})
    status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": format_time(now_s)}]
    status.setdefault("allocatable", status.get("capacity"))
    return {**node, "metadata": dict(node["metadata"]), "spec": spec, "status": status}
