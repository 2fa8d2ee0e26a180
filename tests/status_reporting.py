"""A small API for tests of status reporting: every change of an object is shown to the engine and to the reporter."""

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
        stored_part: Callable[[Object], Object] = lambda status: status,
        creates_groups: bool = False,
    ) -> None:
        self.engine = QueueEngine()
        self.engine.namespace_applied({"metadata": {"name": NAMESPACE}})
        self.reporter = StatusReporter(self.engine, schedulers or ("volcano",), creates_groups=creates_groups)
        self.queues: dict[str, Object] = {}
        self.groups: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.now_s = 1_000.0
        self.writes: list[StatusPatch | CreateMissingObject] = []
        self.failures_left = 0
        self._stored_part = stored_part
        self._uids = count(1)

    # Writes of users and other components

    def queue(self, name: str, *, annotation: str = "", state: str = "", **spec: Any) -> Object:
        """``state``: written into its status."""
        found = self.queues.get(name) or {"metadata": {"name": name, "uid": f"q{next(self._uids)}"}, "status": {}}
        metadata = {**found["metadata"], "annotations": {"headgate.dev/state": annotation} if annotation else {}}
        status = {**found["status"], **({"state": state} if state else {})}
        wire = self.queues[name] = {"metadata": metadata, "spec": spec, "status": status}
        self._apply_queue(wire)
        return wire

    def remove_queue(self, name: str) -> None:
        del self.queues[name]
        self.engine.queue_removed(name)
        self.reporter.queue_removed(name, self.now_s)

    def group(self, name: str, **spec: Any) -> Object:
        uid = self.groups[name]["metadata"]["uid"] if name in self.groups else f"g{next(self._uids)}"
        status = self.groups[name]["status"] if name in self.groups else {}
        metadata = {"namespace": NAMESPACE, "name": name, "uid": uid}
        wire = self.groups[name] = {"metadata": metadata, "spec": spec, "status": status}
        self._apply_group(wire)
        return wire

    def remove_group(self, name: str) -> None:
        del self.groups[name]
        self.engine.group_removed(NAMESPACE, name)
        self.reporter.group_removed(NAMESPACE, name, self.now_s)

    def pod(self, name: str, **fields: Any) -> Object:
        """``group``, ``queue``, ``role``, ``node``, ``phase``, ``gates``, ``admitted`` (a queue), ``unschedulable``,
        ``reason`` (of the condition), ``leaving``, ``cpu``; other fields stay unchanged."""
        pod_fields = {**self.pods.get(name, {"uid": f"p{next(self._uids)}", "phase": "Pending", "cpu": 1000}), **fields}
        self.pods[name] = pod_fields
        self.engine.task_applied(_task(name, pod_fields))
        self.reporter.pod_applied(_pod(name, pod_fields), self.now_s)
        return pod_fields

    def remove_pod(self, name: str) -> None:
        fields = self.pods.pop(name)
        ended = fields["phase"] in ("Succeeded", "Failed")
        self.engine.task_removed(fields["uid"])
        self.reporter.pod_removed(fields["uid"], self.now_s, from_terminal_watch=ended)

    def adopt(self, other: Cluster, seed: int) -> None:
        """Apply the objects of another cluster in a random order."""
        calls: list[Callable[[], None]] = []
        for name, fields in other.pods.items():
            calls.append(functools.partial(self._adopt_pod, name, fields))
        for name, wire in other.queues.items():
            self.queues[name] = wire
            calls.append(functools.partial(self._apply_queue, wire))
        for name, wire in other.groups.items():
            self.groups[name] = wire
            calls.append(functools.partial(self._apply_group, wire))
        random.Random(seed).shuffle(calls)
        for call in calls:
            call()

    def _adopt_pod(self, name: str, fields: Object) -> None:
        self.pods[name] = fields
        self.pod(name)

    # The reporter

    def synced(self) -> None:
        self.reporter.synced(self.now_s)

    def run(self, seconds: float = 30.0, tick_s: float = 0.25) -> int:
        """Advance the clock and perform due writes. Returns their number."""
        before = len(self.writes)
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            for effect in self.reporter.due_patches(self.now_s, format_time(self.now_s), 100):
                self.writes.append(effect)
                self._perform(effect)
            self.now_s += tick_s
        return len(self.writes) - before

    def _perform(self, effect: StatusPatch | CreateMissingObject) -> None:
        if self.failures_left:
            self.failures_left -= 1
            if isinstance(effect, StatusPatch):
                self.reporter.patch_finished(effect, None, self.now_s)
            return
        if isinstance(effect, CreateMissingObject):
            wire = effect.obj
            add = self.queue if effect.resource == QUEUES else self.group
            add(wire["metadata"]["name"], **wire["spec"])
            return
        objects = self.groups if effect.namespace else self.queues
        found = objects.get(effect.name)
        if found is None or found["metadata"]["uid"] != effect.uid:
            self.reporter.patch_finished(effect, {}, self.now_s)
            return
        patched = apply_merge_patch(found["status"], effect.patch)
        assert isinstance(patched, PatchResult)
        status = self._stored_part(patched.value)
        objects[effect.name] = {**found, "status": status}
        self.reporter.patch_finished(effect, status, self.now_s)
        (self._apply_group if effect.namespace else self._apply_queue)(objects[effect.name])

    def _apply_queue(self, wire: Object) -> None:
        self.engine.queue_applied(wire)
        self.reporter.queue_applied(wire, self.now_s)

    def _apply_group(self, wire: Object) -> None:
        self.engine.group_applied(wire)
        self.reporter.group_applied(wire, self.now_s)

    # Results

    def status(self, name: str) -> Object:
        found: Object = (self.groups.get(name) or self.queues[name])["status"]
        return found

    def reasons(self, name: str) -> dict[str, str]:
        """Its conditions: reasons by type."""
        return {each["type"]: each["reason"] for each in self.status(name).get("conditions") or ()}


def _annotations(fields: Object) -> dict[str, str]:
    pairs = {
        GROUP_NAMES[0]: fields.get("group", ""),
        QUEUE_NAME: fields.get("queue", ""),
        TASK_SPEC: fields.get("role", ""),
        OPT_IN: "true" if GATE in fields.get("gates", ()) or fields.get("admitted") else "",
        STAMP: write_stamp(_stamp(fields)) if fields.get("admitted") else "",
    }
    return {name: value for name, value in pairs.items() if value}


def _stamp(fields: Object) -> Stamp:
    return Stamp(fields["uid"], fields["admitted"], {"cpu": fields["cpu"]}, "2026-01-01T00:00:00.000000Z")


def _pod(name: str, fields: Object) -> Object:
    reason = fields.get("reason") or ("Unschedulable" if fields.get("unschedulable") else "")
    scheduled = {"type": "PodScheduled", "status": "False", "reason": reason}
    metadata = {"name": name, "namespace": NAMESPACE, "uid": fields["uid"], "annotations": _annotations(fields)}
    return {
        "metadata": {**metadata, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if fields.get("leaving") else {})},
        "spec": {
            "schedulerName": fields.get("scheduler", "volcano"),
            "nodeName": fields.get("node", ""),
            "schedulingGates": [{"name": each} for each in fields.get("gates", ())],
        },
        "status": {"phase": fields["phase"], "conditions": [scheduled] if reason else []},
    }


def _task(name: str, fields: Object) -> TaskInfo:
    return TaskInfo(
        uid=fields["uid"],
        namespace=NAMESPACE,
        name=name,
        requests={"cpu": fields["cpu"]},
        group=fields.get("group", ""),
        queue=fields.get("queue", ""),
        role=fields.get("role", ""),
        opted_in=bool(GATE in fields.get("gates", ()) or fields.get("admitted")),
        gates=tuple(fields.get("gates", ())),
        stamp=_stamp(fields) if fields.get("admitted") else None,
        node_name=fields.get("node", ""),
        is_terminal_or_terminating=bool(fields.get("leaving")) or fields["phase"] in ("Succeeded", "Failed"),
        is_terminal=fields["phase"] in ("Succeeded", "Failed"),
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
