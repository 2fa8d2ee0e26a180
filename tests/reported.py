"""A small API for tests of reporting: objects as the server has them, told to the engine and to the reporter alike."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from itertools import count
from typing import Any

from headgate.apimachinery.patch.merge_patch import apply_merge_patch
from headgate.apimachinery.patch.result import PatchResult
from headgate.capacity.api.stamp import Stamp, write_stamp
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.engine import QueueEngine
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, QUEUE_NAME, QUEUES, STAMP, TASK_SPEC
from headgate.capacity.status.status_reporter import CreateMissingObject, StatusPatch, StatusReporter
from headgate.kube.timestamps import format_time

Object = dict[str, Any]

NOTHING = {"pending": 0, "inqueue": 0, "running": 0, "unknown": 0, "completed": 0}

NAMESPACE = "ns"


class Cluster:
    """``keeps``: which part of a status the server keeps of what it is sent."""

    def __init__(
        self,
        *schedulers: str,
        keeps: Callable[[Object], Object] = lambda status: status,
        makes_groups: bool = False,
    ) -> None:
        self.engine = QueueEngine()
        self.engine.namespace_applied({"metadata": {"name": NAMESPACE}})
        self.reporting = StatusReporter(self.engine, schedulers or ("volcano",), creates_groups=makes_groups)
        self.queues: dict[str, Object] = {}
        self.groups: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.now_s = 1_000.0
        self.writes: list[StatusPatch | CreateMissingObject] = []
        self.fails = 0
        self._keeps = keeps
        self._uids = count(1)

    # What people and other components write

    def queue(self, name: str, *, asked: str = "", state: str = "", **spec: Any) -> Object:
        """``state``: what somebody writes into its status."""
        found = self.queues.get(name) or {"metadata": {"name": name, "uid": f"q{next(self._uids)}"}, "status": {}}
        metadata = {**found["metadata"], "annotations": {"headgate.dev/state": asked} if asked else {}}
        status = {**found["status"], **({"state": state} if state else {})}
        made = self.queues[name] = {"metadata": metadata, "spec": spec, "status": status}
        self._tell_queue(made)
        return made

    def remove_queue(self, name: str) -> None:
        del self.queues[name]
        self.engine.queue_removed(name)
        self.reporting.queue_removed(name, self.now_s)

    def group(self, name: str, **spec: Any) -> Object:
        uid = self.groups[name]["metadata"]["uid"] if name in self.groups else f"g{next(self._uids)}"
        status = self.groups[name]["status"] if name in self.groups else {}
        metadata = {"namespace": NAMESPACE, "name": name, "uid": uid}
        made = self.groups[name] = {"metadata": metadata, "spec": spec, "status": status}
        self._tell_group(made)
        return made

    def remove_group(self, name: str) -> None:
        del self.groups[name]
        self.engine.group_removed(NAMESPACE, name)
        self.reporting.group_removed(NAMESPACE, name, self.now_s)

    def pod(self, name: str, **fields: Any) -> Object:
        """``group``, ``queue``, ``role``, ``node``, ``phase``, ``gates``, ``admitted`` (a queue), ``unschedulable``,
        ``reason`` (of the condition), ``leaving``, ``cpu``; what is not named stays as it was."""
        told = {**self.pods.get(name, {"uid": f"p{next(self._uids)}", "phase": "Pending", "cpu": 1000}), **fields}
        self.pods[name] = told
        self.engine.task_applied(_task(name, told))
        self.reporting.pod_applied(_pod(name, told), self.now_s)
        return told

    def remove_pod(self, name: str) -> None:
        told = self.pods.pop(name)
        ended = told["phase"] in ("Succeeded", "Failed")
        self.engine.task_removed(told["uid"])
        self.reporting.pod_removed(told["uid"], self.now_s, ended=ended)

    def adopt(self, other: Cluster, seed: int) -> None:
        """The objects of another cluster, told in some order."""
        tellings: list[Callable[[], None]] = []
        for name, told in other.pods.items():
            tellings.append(functools.partial(self._adopt_pod, name, told))
        for name, wire in other.queues.items():
            self.queues[name] = wire
            tellings.append(functools.partial(self._tell_queue, wire))
        for name, wire in other.groups.items():
            self.groups[name] = wire
            tellings.append(functools.partial(self._tell_group, wire))
        random.Random(seed).shuffle(tellings)
        for tell in tellings:
            tell()

    def _adopt_pod(self, name: str, told: Object) -> None:
        self.pods[name] = told
        self.pod(name)

    # What the reporter does

    def synced(self) -> None:
        self.reporting.synced(self.now_s)

    def run(self, seconds: float = 30.0, tick_s: float = 0.25) -> int:
        """Time passes, and what is to be written is written; how many writes that took."""
        before = len(self.writes)
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            for effect in self.reporting.due_patches(self.now_s, format_time(self.now_s), 100):
                self.writes.append(effect)
                self._perform(effect)
            self.now_s += tick_s
        return len(self.writes) - before

    def _perform(self, effect: StatusPatch | CreateMissingObject) -> None:
        if self.fails:
            self.fails -= 1
            if isinstance(effect, StatusPatch):
                self.reporting.patch_succeeded(effect, None, self.now_s)
            return
        if isinstance(effect, CreateMissingObject):
            made = effect.obj
            add = self.queue if effect.resource == QUEUES else self.group
            add(made["metadata"]["name"], **made["spec"])
            return
        place = self.groups if effect.namespace else self.queues
        found = place.get(effect.name)
        if found is None or found["metadata"]["uid"] != effect.uid:
            self.reporting.patch_succeeded(effect, {}, self.now_s)
            return
        patched = apply_merge_patch(found["status"], effect.patch)
        assert isinstance(patched, PatchResult)
        status = self._keeps(patched.value)
        place[effect.name] = {**found, "status": status}
        self.reporting.patch_succeeded(effect, status, self.now_s)
        (self._tell_group if effect.namespace else self._tell_queue)(place[effect.name])

    def _tell_queue(self, wire: Object) -> None:
        self.engine.queue_applied(wire)
        self.reporting.queue_applied(wire, self.now_s)

    def _tell_group(self, wire: Object) -> None:
        self.engine.group_applied(wire)
        self.reporting.group_applied(wire, self.now_s)

    # What it came to

    def status(self, name: str) -> Object:
        found: Object = (self.groups.get(name) or self.queues[name])["status"]
        return found

    def said(self, name: str) -> dict[str, str]:
        """Its conditions: reasons by type."""
        return {each["type"]: each["reason"] for each in self.status(name).get("conditions") or ()}


def _annotations(told: Object) -> dict[str, str]:
    pairs = {
        GROUP_NAMES[0]: told.get("group", ""),
        QUEUE_NAME: told.get("queue", ""),
        TASK_SPEC: told.get("role", ""),
        OPT_IN: "true" if GATE in told.get("gates", ()) or told.get("admitted") else "",
        STAMP: write_stamp(_stamp(told)) if told.get("admitted") else "",
    }
    return {name: value for name, value in pairs.items() if value}


def _stamp(told: Object) -> Stamp:
    return Stamp(told["uid"], told["admitted"], {"cpu": told["cpu"]}, "2026-01-01T00:00:00.000000Z")


def _pod(name: str, told: Object) -> Object:
    reason = told.get("reason") or ("Unschedulable" if told.get("unschedulable") else "")
    scheduled = {"type": "PodScheduled", "status": "False", "reason": reason}
    metadata = {"name": name, "namespace": NAMESPACE, "uid": told["uid"], "annotations": _annotations(told)}
    return {
        "metadata": {**metadata, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if told.get("leaving") else {})},
        "spec": {
            "schedulerName": told.get("scheduler", "volcano"),
            "nodeName": told.get("node", ""),
            "schedulingGates": [{"name": each} for each in told.get("gates", ())],
        },
        "status": {"phase": told["phase"], "conditions": [scheduled] if reason else []},
    }


def _task(name: str, told: Object) -> TaskInfo:
    return TaskInfo(
        uid=told["uid"],
        namespace=NAMESPACE,
        name=name,
        requests={"cpu": told["cpu"]},
        group=told.get("group", ""),
        queue=told.get("queue", ""),
        role=told.get("role", ""),
        opted_in=bool(GATE in told.get("gates", ()) or told.get("admitted")),
        gates=tuple(told.get("gates", ())),
        stamp=_stamp(told) if told.get("admitted") else None,
        node_name=told.get("node", ""),
        leaving=bool(told.get("leaving")) or told["phase"] in ("Succeeded", "Failed"),
        ended=told["phase"] in ("Succeeded", "Failed"),
    )


def started(**limits: Any) -> Cluster:
    """With the queues root, default and blue, all reported."""
    cluster = Cluster("volcano", **limits)
    for name in ("root", "default", "blue"):
        cluster.queue(name)
    cluster.synced()
    cluster.run()
    cluster.writes.clear()
    return cluster


def phases(cluster: Cluster, queue: str) -> Object:
    status = cluster.status(queue)
    return {name: status[name] for name in NOTHING if status[name]}
