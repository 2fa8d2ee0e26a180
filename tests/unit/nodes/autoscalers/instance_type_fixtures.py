"""A cloud and an API server on a virtual clock: they deliver pods and nodes to a model, and the machines it orders.

`FakeCloud` is the API and the cloud; `Scheduler` a tiny scheduler with a quota, so that scenarios with and without
gates need none of Headgate's engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.kube.timestamps import format_time
from headgate.nodes.autoscalers.instance_types import InstanceType, new_machine
from headgate.nodes.autoscalers.model import (
    AddMachine,
    AutoscalerModel,
    Effect,
    EmitAutoscalerEvent,
    RemoveMachine,
    TaintNode,
)

Object = dict[str, Any]

START_S = 1_000_000.0
ONE_CPU = InstanceType("one-cpu", {"cpu": "1", "memory": "4Gi", "pods": "110"})


class FakeCloud:
    def __init__(self, model: AutoscalerModel, *, join_s: float = 0.0, boot_s: float = 0.0) -> None:
        """A machine's Node appears `joins_s` after it was bought, and is Ready `boots_s` after that."""
        self.model = model
        self.now_s = START_S
        self.pods: dict[str, Object] = {}
        self.nodes: dict[str, Object] = {}
        self.bought: list[str] = []
        self.removed: list[str] = []
        self.tainted: list[str] = []
        self.events: list[EmitAutoscalerEvent] = []
        self._join_s, self._boot_s = join_s, boot_s
        self._pending: list[tuple[float, str, Object]] = []

    def start(self) -> FakeCloud:
        self.model.synced(self.now_s)
        return self

    # -- the API ---------------------------------------------------------------------------------------------------

    def pod(self, name: str, cpu: str = "1", reason: str = "Unschedulable", **more: Any) -> Object:
        """A pod that was just created, and found unschedulable at once unless said otherwise."""
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": format_time(self.now_s),
            "annotations": more.pop("annotations", {}),
        }
        owner = more.pop("owner", "")
        if owner:
            metadata["ownerReferences"] = [{"kind": owner, "name": "its", "uid": "o", "controller": True}]
        requests = {"cpu": cpu} if cpu else {}
        spec = {"schedulerName": "headgate", "containers": [{"name": "c", "resources": {"requests": requests}}], **more}
        self.pods[name] = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        if reason:
            self.set_scheduled_condition(name, reason)
        else:
            self.deliver_pod(name)
        return self.pods[name]

    def set_scheduled_condition(
        self, name: str, reason: str, status: str = "False", since_s: float | None = None
    ) -> None:
        since = format_time(self.now_s if since_s is None else since_s)
        condition = {"type": "PodScheduled", "status": status, "reason": reason, "lastTransitionTime": since}
        self.change(name, conditions=[condition])

    def change(self, name: str, **status: Any) -> None:
        pod = self.pods[name]
        self.pods[name] = {**pod, "status": {**pod["status"], **status}}
        self.deliver_pod(name)

    def bind(self, name: str, node: str) -> None:
        pod = self.pods[name]
        self.pods[name] = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        self.change(name, phase="Running", nominatedNodeName="")
        self.set_scheduled_condition(name, "", "True")

    def delete_pod(self, name: str) -> None:
        self.model.pod_removed(self.pods.pop(name)["metadata"]["uid"], self.now_s)

    def deliver_pod(self, name: str) -> None:
        self.model.pod_applied(self.pods[name], self.now_s)

    def add_node(self, node: Object, ready: str = "True") -> None:
        metadata = {"uid": f"uid-{node['metadata']['name']}", "creationTimestamp": format_time(self.now_s)}
        self.nodes[node["metadata"]["name"]] = {**node, "metadata": {**node["metadata"], **metadata}}
        self.report(node["metadata"]["name"], ready)

    def node(self, name: str, group: str = "", instance_type: InstanceType = ONE_CPU, ready: str = "True") -> None:
        self.add_node(new_machine(name, group, instance_type), ready)

    def report(self, name: str, ready: str) -> None:
        conditions = [{"type": "Ready", "status": ready}] if ready else []
        node = self.nodes[name]
        self.nodes[name] = {**node, "status": {**node["status"], "conditions": conditions}}
        self.model.node_applied(self.nodes[name], self.now_s)

    # -- time ------------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> list[Effect]:
        """What the model did in that time."""
        end_s = self.now_s + seconds
        out: list[Effect] = []
        while True:
            deadlines = [at_s for at_s in (self.model.next_deadline_s(),) if at_s is not None]
            deadlines += [at_s for at_s, _, _ in self._pending]
            if not deadlines or min(deadlines) > end_s:
                self.now_s = end_s
                return out
            self.now_s = max(self.now_s, min(deadlines))
            self._deliver()
            done = self.model.due(self.now_s)
            for effect in done:
                self._perform(effect)
            out += done

    def _deliver(self) -> None:
        due = sorted((each for each in self._pending if each[0] <= self.now_s), key=lambda each: each[0])
        self._pending = [each for each in self._pending if each[0] > self.now_s]
        for _, what, node in due:
            name = node["metadata"]["name"]
            if what == "join":
                self.add_node(node, "")
                self._pending.append((self.now_s + self._boot_s, "boot", node))
            elif name in self.nodes:
                self.report(name, "True")

    def _perform(self, effect: Effect) -> None:
        match effect:
            case AddMachine(node=node):
                self.bought.append(node["metadata"]["name"])
                self._pending.append((self.now_s + self._join_s, "join", node))
            case TaintNode(name=name, off=off):
                self.tainted = [each for each in self.tainted if each != name] + ([] if off else [name])
            case RemoveMachine(name=name, uid=uid):
                assert self.nodes.pop(name)["metadata"]["uid"] == uid
                self.removed.append(name)
                self.model.node_removed(name, self.now_s)
            case EmitAutoscalerEvent():
                self.events.append(effect)

    # -- questions -------------------------------------------------------------------------------------------------

    def idle(self) -> list[str]:
        used = {pod["spec"].get("nodeName") for pod in self.pods.values()}
        return [name for name in sorted(self.nodes) if name not in used]

    def reasons(self, name: str) -> list[str]:
        return [events.reason for events in self.events if events.name == name]


class Scheduler:
    """One queue with capacity for so many pods of 1 CPU. If `gated`, the pods without capacity are hidden."""

    def __init__(self, cloud: FakeCloud, quota_cpus: int, *, gated: bool) -> None:
        self.cloud, self.quota_cpus, self.gated = cloud, quota_cpus, gated
        self.reserved: list[str] = []

    def submit(self, *names: str) -> None:
        for name in names:
            self.cloud.pod(name, reason="SchedulingGated" if self.gated else "")
        self.work()

    def work(self) -> None:
        cloud = self.cloud
        self.reserved = [name for name in self.reserved if name in cloud.pods]
        for name, pod in list(cloud.pods.items()):
            if pod["spec"].get("nodeName"):
                continue
            if name not in self.reserved and len(self.reserved) < self.quota_cpus:
                self.reserved.append(name)
            free = [node for node in cloud.idle() if _is_ready(cloud.nodes[node])]
            if name in self.reserved and free:
                cloud.bind(name, free[0])
            elif (name in self.reserved or not self.gated) and not _is_unschedulable(pod):
                cloud.set_scheduled_condition(name, "Unschedulable")

    def finish(self, name: str) -> None:
        self.cloud.delete_pod(name)
        self.work()

    def run(self, seconds: float) -> None:
        """The scheduler looks once a second."""
        for _ in range(int(seconds)):
            self.cloud.run(1.0)
            self.work()


def _is_ready(node: Mapping[str, Any]) -> bool:
    return any(each["status"] == "True" for each in node["status"].get("conditions") or ())


def _is_unschedulable(pod: Mapping[str, Any]) -> bool:
    return any(each["reason"] == "Unschedulable" for each in pod["status"].get("conditions") or ())
