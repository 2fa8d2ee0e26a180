"""A pretend cluster for hollow kubelets: objects, a clock that a test moves, and the little of an API server it takes.

Writes are carried out at once and come back as events, until nothing moves any more. Deletion is the API server's:
a bound pod that runs gets a grace period, and goes when it is deleted with none.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from headgate.kube.timestamps import format_time
from headgate.nodes.effects import (
    CreateNode,
    DeleteNode,
    DeletePod,
    Effect,
    PatchNodeStatus,
    PatchNodeTaints,
    PatchPodStatus,
    RenewLease,
)
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.options import HollowOptions

Object = dict[str, Any]

T0 = 1_700_000_000.0


def a_node(name: str = "n", *, pods: str = "110", **annotations: str) -> Object:
    notes = {"kwok.x-k8s.io/node": "fake"}
    notes |= {f"headgate.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    sizes = {"cpu": "4", "memory": "8Gi", "pods": pods}
    return {
        "metadata": {"name": name, "annotations": notes},
        "spec": {"podCIDR": "10.1.1.0/24"},
        "status": {"capacity": dict(sizes), "allocatable": dict(sizes)},
    }


def a_pod(name: str = "p", node: str = "n", cpu: str = "1", **more: Any) -> Object:
    """``more``: fields of the spec; ``annotations``, ``owner`` ("batch/v1 Job") and ``finalizers`` of the metadata."""
    notes = {f"headgate.dev/{key}": value for key, value in more.pop("annotations", {}).items()}
    metadata: Object = {"name": name, "namespace": "a", "annotations": notes, "generation": 1}
    if "owner" in more:
        api_version, _, kind = more.pop("owner").rpartition(" ")
        metadata["ownerReferences"] = [{"apiVersion": api_version, "kind": kind, "controller": True}]
    if "finalizers" in more:
        metadata["finalizers"] = more.pop("finalizers")
    container = {"name": "c", "image": "img", "resources": {"requests": {"cpu": cpu}}}
    spec = {"nodeName": node, "containers": [container], "restartPolicy": "Never", **more}
    scheduled = {"type": "PodScheduled", "status": "True"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": [scheduled]}}


class FakeCluster:
    def __init__(self, options: HollowOptions | None = None, wanted: list[Object] | None = None) -> None:
        self.now_s = T0
        self.options = options
        self.kubelets = HollowKubelets(options, wanted or [])
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.effects_done: list[Effect] = []
        self.broken: Callable[[Effect], bool] = lambda effect: False
        self._uids = 0

    # -- what a test does ------------------------------------------------------------------------------------------

    def start(self) -> FakeCluster:
        """Tells the machine everything that there is, pods first, as if they were listed sooner."""
        for pod in list(self.pods.values()):
            self.perform(self.kubelets.pod_applied(copy.deepcopy(pod), self.now_s))
        self.perform(self.kubelets.pods_synced(self.now_s))
        for node in list(self.nodes.values()):
            self.perform(self.kubelets.node_applied(copy.deepcopy(node), self.now_s))
        self.perform(self.kubelets.nodes_synced(self.now_s))
        return self

    def restart(self) -> FakeCluster:
        """The kubelets' process dies and comes back."""
        self.kubelets = HollowKubelets(self.options)
        self.effects_done.clear()
        return self.start()

    def add(self, *objects: Object, quietly: bool = False) -> FakeCluster:
        for obj in objects:
            self._uids += 1
            metadata = {**obj["metadata"], "uid": f"u{self._uids}", "creationTimestamp": format_time(self.now_s)}
            kind = self.pods if "namespace" in metadata else self.nodes
            kind[metadata["name"]] = {**copy.deepcopy(obj), "metadata": metadata}
            if not quietly:
                self.deliver(kind[metadata["name"]])
        return self

    def advance(self, seconds: float) -> FakeCluster:
        """Moves the clock, stopping at every timer."""
        end_s = self.now_s + seconds
        while (deadline := self.kubelets.next_deadline_s()) is not None and deadline <= end_s:
            self.now_s = max(deadline, self.now_s)
            self.perform(self.kubelets.due(self.now_s))
        self.now_s = end_s
        return self

    def delete_pod(self, name: str, grace_s: int = 30) -> FakeCluster:
        pod = self.pods[name]
        terminal = pod["status"]["phase"] in ("Succeeded", "Failed")
        self._delete(pod, 0 if terminal else grace_s)
        return self

    def delete_node(self, name: str) -> FakeCluster:
        node = self.nodes.pop(name)
        self.perform(self.kubelets.node_removed(name, node["metadata"]["uid"], self.now_s))
        return self

    def edit(self, obj: Object) -> FakeCluster:
        self.deliver(obj)
        return self

    # -- what a test asks ------------------------------------------------------------------------------------------

    def status(self, name: str = "p") -> Object:
        status: Object = self.pods[name]["status"]
        return status

    def phase(self, name: str = "p") -> str:
        phase: str = self.status(name)["phase"]
        return phase

    def condition(self, kind: str, name: str = "p") -> tuple[str, str]:
        return _condition(self.status(name), kind)

    def ready(self, name: str = "n") -> str:
        return _condition(self.nodes[name]["status"], "Ready")[0]

    def taints(self, name: str = "n") -> list[str]:
        return [taint["key"] for taint in self.nodes[name]["spec"].get("taints", [])]

    def kinds(self) -> list[str]:
        return [type(effect).__name__ for effect in self.effects_done]

    # -- the API server --------------------------------------------------------------------------------------------

    def deliver(self, obj: Object) -> None:
        said = copy.deepcopy(obj)
        if "namespace" in said["metadata"]:
            self.perform(self.kubelets.pod_applied(said, self.now_s))
        else:
            self.perform(self.kubelets.node_applied(said, self.now_s))

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if self.broken(effect):
                self.perform(self.kubelets.failed(effect, self.now_s))
                continue
            self.effects_done.append(effect)
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case CreateNode(node=node):
                self.add(node)
            case PatchNodeStatus(name=name, uid=uid, status=status):
                self._patch(self.nodes.get(name), uid, status)
            case PatchPodStatus(name=name, uid=uid, status=status):
                self._patch(self.pods.get(name), uid, status)
            case PatchNodeTaints(name=name, taints=taints):
                self._taint(self.nodes[name], taints)
            case DeleteNode(name=name):
                self.delete_node(name)
            case DeletePod(name=name, uid=uid):
                pod = self.pods.get(name)
                if pod is not None and pod["metadata"]["uid"] == uid:
                    self._delete(pod, 0)
            case RenewLease():
                pass

    def _patch(self, obj: Object | None, uid: str, patch: Object) -> None:
        if obj is None or obj["metadata"]["uid"] != uid:
            return
        status = obj["status"]
        conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
        for change in patch.get("conditions", []):
            if change.get("$patch") == "delete":
                conditions.pop(change["type"], None)
                continue
            merged = {**conditions.get(change["type"], {}), **change}
            conditions[change["type"]] = {key: value for key, value in merged.items() if value is not None}
        obj["status"] = {**status, **patch, "conditions": list(conditions.values())}
        for name in ("capacity", "allocatable"):
            if name in patch:
                obj["status"][name] = {**status.get(name, {}), **patch[name]}
        self.deliver(obj)

    def _taint(self, node: Object, changes: list[Object]) -> None:
        taints = node["spec"].get("taints", [])
        for change in changes:
            taints = [taint for taint in taints if taint["key"] != change["key"]]
            if change.get("$patch") != "delete":
                taints.append(change)
        node["spec"]["taints"] = taints
        self.deliver(node)

    def _delete(self, pod: Object, grace_s: int) -> None:
        metadata = pod["metadata"]
        if grace_s == 0 and not metadata.get("finalizers"):
            del self.pods[metadata["name"]]
            self.perform(self.kubelets.pod_removed("a", metadata["name"], metadata["uid"], self.now_s))
            return
        metadata["deletionTimestamp"] = format_time(self.now_s + grace_s)
        metadata["deletionGracePeriodSeconds"] = grace_s
        self.deliver(pod)


def _condition(status: Object, kind: str) -> tuple[str, str]:
    for condition in status.get("conditions", []):
        if condition["type"] == kind:
            return condition["status"], condition.get("reason", "")
    return "", ""
