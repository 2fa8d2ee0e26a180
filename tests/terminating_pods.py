"""A cluster with an API server, slow kubelets, and a scheduler with queues.

Requests of the scheduler are executed and shown at once; time is virtual. A deleted pod ends after ``stops_after_s``,
after its grace period, or (``math.inf``) never. ``history`` has every reason of every pod's ``PodScheduled`` condition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import msgspec

from clusters import a_node, a_pod
from headgate.capacity.conf import DEFAULTS as SETTINGS
from headgate.capacity.conf import SchedulerConf
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, POD_GROUPS, QUEUE_NAME, QUEUES, STAMP
from headgate.kube.timestamps import format_time
from headgate.scheduling.framework.effects import (
    Bind,
    Effect,
    EmitPodEvent,
    Preempt,
    RemoveSchedulingGate,
    RemoveStamp,
    SetStatus,
    WriteResult,
)
from headgate.scheduling.gates.queue_admission import QueueAdmissionSettings
from headgate.scheduling.scheduler import Scheduler
from unit.scheduling.queued_world import a_group, a_queue
from unit.scheduling.world import configured

Object = dict[str, Any]

DAY_S = 1_700_000_000.0
HOW = ("gated", "bare", "plain")
"""Behind the queue's gate; opted in, and created without the gate; not opted in."""


def a_queued_pod(name: str, cpu: int, how: str = "gated", queue: str = "q", group: str = "", **spec: Any) -> Object:
    gates = [{"name": GATE}] if how == "gated" else []
    pod = a_pod(name, {"cpu": str(cpu)}, schedulingGates=gates, **spec)
    said = {QUEUE_NAME: queue, **({} if how == "plain" else {OPT_IN: "true"})}
    pod["metadata"]["annotations"] = {**said, **({GROUP_NAMES[0]: group} if group else {})}
    pod["metadata"]["generation"] = 1
    if gates:
        pod["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}
    return pod


class TerminatingCluster:
    def __init__(
        self,
        nodes: Mapping[str, int],
        queues: Iterable[Object] = (),
        groups: Iterable[Object] = (),
        *,
        by_queues: bool = True,
        all_profiles_wait: bool = False,
        settings: SchedulerConf = SETTINGS,
    ) -> None:
        self.now_s = 1000.0
        self.nodes = {name: a_node(name, cpu=str(cpu)) for name, cpu in nodes.items()}
        self.queues = {each["metadata"]["name"]: each for each in queues}
        self.groups = {each["metadata"]["name"]: each for each in groups}
        self.pods: dict[str, Object] = {}
        self.history: dict[str, list[str]] = {}
        self.ends_s: dict[str, float] = {}
        self.evicted: list[str] = []
        self.retracts: list[str] = []
        self._by_queues = by_queues
        self._all_profiles_wait = all_profiles_wait
        self._settings = settings
        self.start()

    def start(self) -> None:
        """A scheduler that knows what the API server shows, and nothing else."""
        read, makers = configured(())
        if self._by_queues:
            profiles = tuple(msgspec.structs.replace(each, queues=self._settings) for each in read.profiles)
            read = msgspec.structs.replace(read, profiles=profiles)
        queueing = QueueAdmissionSettings(time_of_day=lambda: DAY_S + self.now_s)
        self.scheduler = Scheduler(read, makers, queueing=queueing, all_profiles_wait=self._all_profiles_wait)
        for queue in self.queues.values() if self._by_queues else ():
            self.scheduler.object_applied(QUEUES, queue, self.now_s)
        for group in self.groups.values() if self._by_queues else ():
            self.scheduler.object_applied(POD_GROUPS, group, self.now_s)
        for node in self.nodes.values():
            self.scheduler.node_applied(node, self.now_s)
        for name in self.pods:
            self._show(name)

    # What users and nodes do

    def create(self, *pods: Object) -> None:
        for pod in pods:
            name = pod["metadata"]["name"]
            pod["metadata"].setdefault("creationTimestamp", format_time(DAY_S + self.now_s))
            self.pods[name] = pod
            self.history[name] = []
            self._show(name)
        self.settle()

    def run_pod(self, name: str, cpu: int, node: str, how: str = "gated", **more: Any) -> None:
        """A pod that was let in and bound long ago."""
        pod = a_queued_pod(name, cpu, how, nodeName=node, **more)
        pod["spec"]["schedulingGates"] = []
        self.create(pod)

    def delete(self, *names: str, grace_s: float | None = None, stops_after_s: float | None = None) -> None:
        for name in names:
            wire = self.pods[name]
            asked_s = wire["spec"].get("terminationGracePeriodSeconds", 30) if grace_s is None else grace_s
            if not wire["spec"].get("nodeName"):
                self.vanish(name)
                continue
            told = format_time(DAY_S + self.now_s + asked_s)
            # A second deletion may shorten the time that is left, and never lengthens it.
            wire["metadata"]["deletionTimestamp"] = min(told, wire["metadata"].get("deletionTimestamp", told))
            took_s = min(asked_s, math.inf) if stops_after_s is None else stops_after_s
            self.ends_s[name] = self.now_s + took_s
            self._show(name)
        self.settle()

    def vanish(self, name: str) -> None:
        uid = self.pods.pop(name)["metadata"]["uid"]
        self.ends_s.pop(name, None)
        self.scheduler.pod_removed(uid, self.now_s)

    def change_node(self, name: str, **more: Any) -> None:
        self.nodes[name] = a_node(name, **more)
        self.scheduler.node_applied(self.nodes[name], self.now_s)
        self.settle()

    def remove_node(self, name: str) -> None:
        del self.nodes[name]
        self.scheduler.node_removed(name, self.now_s)
        self.settle()

    def set_limit(self, name: str, cpu: int) -> None:
        self.queues[name] = a_queue(name, str(cpu))
        self.scheduler.object_applied(QUEUES, self.queues[name], self.now_s)
        self.settle()

    def set_group(self, group: Object) -> None:
        """Create or change a PodGroup."""
        self.groups[group["metadata"]["name"]] = group
        self.scheduler.object_applied(POD_GROUPS, group, self.now_s)
        self.settle()

    def remove_group(self, name: str) -> None:
        del self.groups[name]
        self.scheduler.object_removed(POD_GROUPS, "default", name, self.now_s)
        self.settle()

    def move(self, name: str, group: str) -> None:
        """A pod is given the name of another group, or of none."""
        annotations = dict(self.pods[name]["metadata"]["annotations"])
        annotations.pop(GROUP_NAMES[0], None)
        self.pods[name]["metadata"]["annotations"] = {**annotations, **({GROUP_NAMES[0]: group} if group else {})}
        self._show(name)
        self.settle()

    def resize(self, name: str, cpu: int) -> None:
        container = self.pods[name]["spec"]["containers"][0]
        container["resources"] = {"requests": {"cpu": str(cpu)}}
        self.pods[name]["metadata"]["generation"] += 1
        self._show(name)
        self.settle()

    # Time

    def run(self, for_s: float) -> None:
        """Kubelets end pods and the scheduler is woken, each at its time."""
        end_s = self.now_s + for_s
        while True:
            wake_s = self.scheduler.next_deadline_s()
            ends = min(self.ends_s.items(), key=lambda pair: (pair[1], pair[0]), default=("", math.inf))
            next_s = min(math.inf if wake_s is None else wake_s, ends[1])
            if next_s > end_s:
                break
            self.now_s = max(self.now_s, next_s)
            if ends[1] <= self.now_s:
                self.vanish(ends[0])
            self.settle()
        self.now_s = end_s
        self.settle()

    def settle(self) -> None:
        for _ in range(1000):
            effects = self.scheduler.step(self.now_s, 100)
            if not effects:
                return
            self._perform(effects)
        raise AssertionError("it does not come to rest")

    # What the scheduler wants written

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case RemoveSchedulingGate(pod, stamp):
                    self._perform(self._lift(pod.name, stamp))
                case RemoveStamp(pod, stamp):
                    self._perform(self._unstamp(pod.name, stamp))
                case SetStatus(pod, condition, promise):
                    self._set_status(pod.name, condition, promise)
                case RemoveStamp(pod, stamp):
                    if self.pods[pod.name]["metadata"]["annotations"].get(STAMP) == stamp:
                        del self.pods[pod.name]["metadata"]["annotations"][STAMP]
                        self._show(pod.name)
                case Bind(pod, node_name):
                    self.pods[pod.name]["spec"]["nodeName"] = node_name
                    self._perform(self.scheduler.bound(pod.uid, WriteResult.DONE, "", self.now_s))
                    self._show(pod.name)
                case Preempt(_, _, victims):
                    self._preempt(effect, [each.name for each in victims])
                case EmitPodEvent():
                    pass
                case _:
                    raise AssertionError(effect)

    def _lift(self, name: str, stamp: str) -> list[Effect]:
        wire = self.pods[name]
        wire["spec"]["schedulingGates"] = []
        wire["metadata"]["generation"] += 1
        wire["metadata"]["annotations"][STAMP] = stamp
        said = self.scheduler.gate_removed(wire["metadata"]["uid"], WriteResult.DONE, "", self.now_s)
        self._show(name)
        return said

    def _unstamp(self, name: str, stamp: str) -> list[Effect]:
        wire = self.pods[name]
        has_it = wire["metadata"]["annotations"].get(STAMP) == stamp
        if has_it:
            assert not wire["spec"].get("nodeName")
            del wire["metadata"]["annotations"][STAMP]
            self.retracts.append(name)
        result = WriteResult.DONE if has_it else WriteResult.TAKEN
        said = self.scheduler.stamp_removed(wire["metadata"]["uid"], stamp, result, self.now_s)
        self._show(name)
        return said

    def _set_status(self, name: str, condition: Mapping[str, Any] | None, promise: str | None) -> None:
        status = self.pods[name].setdefault("status", {})
        if condition is not None:
            assert not (self.pods[name]["spec"].get("schedulingGates") and condition["reason"] == "Unschedulable")
            status["conditions"] = [dict(condition)]
            self.history[name].append(condition["reason"])
        if promise is not None:
            status["nominatedNodeName"] = promise
        self._show(name)

    def _preempt(self, effect: Preempt, names: list[str]) -> None:
        for name in names:
            wire = self.pods[name]
            grace_s = wire["spec"].get("terminationGracePeriodSeconds", 30)
            wire["metadata"]["deletionTimestamp"] = format_time(DAY_S + self.now_s + grace_s)
            self.ends_s[name] = self.now_s + grace_s
            self.evicted.append(name)
            self._show(name)
        told = [self.pods[name]["metadata"]["uid"] for name in names]
        self._perform(self.scheduler.preempted(effect, told, self.now_s, ok=True))

    def _show(self, name: str) -> None:
        self.scheduler.pod_applied(deepcopy(self.pods[name]), self.now_s)

    # What can be seen

    def node_of(self, name: str) -> str:
        return str(self.pods[name]["spec"].get("nodeName", ""))

    def promise(self, name: str) -> str:
        return str(self.pods[name].get("status", {}).get("nominatedNodeName", ""))

    def reason(self, name: str) -> str:
        said = self.pods[name].get("status", {}).get("conditions") or [{}]
        return str(said[0].get("reason", ""))

    def message(self, name: str) -> str:
        return str(self.pods[name]["status"]["conditions"][0].get("message", ""))


__all__ = ["DAY_S", "HOW", "TerminatingCluster", "a_group", "a_queue", "a_queued_pod"]
