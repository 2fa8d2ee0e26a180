"""The fake API server with queues: queue gates, stamps, and a check of every grant at its revision.

A grant is the write that puts a stamp on a pod. At its revision the bound and promised pods must fit into every queue
from the pod's own up to the root, for the resources of the pod. Unless an administrator lowered a limit, no revision
exceeds one. The queue gate is removed once per pod, and no other gate with it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from clusters import a_pod
from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.names import GATE, GROUP_NAMES, LAPSED, LEASE, OPT_IN, QUEUE_NAME, STAMP
from headgate.kube.timestamps import format_time
from headgate.scheduling.framework.effects import WriteResult
from property.fake_api import SmallApi, Told, Watch, cpu_of, node_of, uid_of

Object = dict[str, Any]

TREE = {"a": "root", "a1": "a", "a2": "a", "b": "root"}
LEAVES = ("a1", "a2", "b", "default")
LIMITS = {"a": 5, "a1": 3, "a2": 4, "b": 2}
GROUPS = {"g2": 2, "g3": 3}
"""PodGroups of queue a1, with their minimum."""
FOREIGN = "example.com/0"


def path_of(queue: str) -> list[str]:
    found = [queue]
    while found[-1] in TREE:
        found.append(TREE[found[-1]])
    return found


class QueuedApi(SmallApi):
    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[str, Object] = {}
        self.groups: dict[str, Object] = {}
        self.watches |= {"queues": Watch(), "groups": Watch()}
        self.limits = dict(LIMITS)
        self.lifted: dict[str, str] = {}
        """By uid, the stamp that was written with the removal of the queue gate."""
        self.hears_the_dead = False
        """Whether writes of a crashed scheduler may arrive after its successor began: both may promise capacity to the
        same pod."""
        for name in TREE:
            self._store_queue(name)
        for name, members in GROUPS.items():
            meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
            spec = {"minMember": members, "queue": "a1"}
            self._store("groups", name, {"metadata": meta, "spec": spec, "status": {"phase": "Inqueue"}})

    def there(self, resource: str) -> dict[str, Object]:
        own = {"queues": self.queues, "groups": self.groups}
        return own[resource] if resource in own else super().there(resource)

    def _store(self, resource: str, name: str, wire: Object) -> None:
        if resource in ("pods", "nodes"):
            super()._store(resource, name, wire)
            return
        self._revision += 1
        wire["metadata"]["resourceVersion"] = str(self._revision)
        self.there(resource)[name] = wire
        self.watches[resource].waiting.append(Told(name, uid_of(wire), deepcopy(wire)))

    def _store_queue(self, name: str) -> None:
        meta = {"name": name, "uid": f"uid-{name}"}
        spec = {"parent": TREE[name], "capability": {"cpu": str(self.limits[name])}}
        self._store("queues", name, {"metadata": meta, "spec": spec, "status": {"state": "Open"}})

    # Actions of users

    def create_gated(
        self, name: str, cpu: int, queue: str, group: str, how: str, priority: int = 0, **more: str
    ) -> None:
        """``how``: gated as the webhook does it; with a foreign gate too; opted in and never gated; or not opted in.
        ``more``: ``lease``, and ``disk`` as the only label that the pod selects."""
        if name in self.pods:
            return
        self._revision += 1
        gates = {"gated": [GATE], "foreign": [FOREIGN, GATE], "bare": [], "plain": []}[how]
        spec: Object = {"schedulingGates": [{"name": each} for each in gates]} if gates else {}
        if "disk" in more:
            spec["nodeSelector"] = {"disk": more["disk"]}
        wire = a_pod(name, {"cpu": str(cpu)}, priority=priority, **spec)
        annotations = {QUEUE_NAME: queue, **({} if how == "plain" else {OPT_IN: "true"})}
        if "lease" in more:
            annotations[LEASE] = more["lease"]
        if group and how != "plain":  # pods that did not opt in hold no promises
            annotations[GROUP_NAMES[0]] = group
        wire["metadata"] |= {"uid": f"{name}-{self._revision}", "generation": 1, "annotations": annotations}
        wire["metadata"]["creationTimestamp"] = (
            f"2026-01-01T00:{self._revision // 60 % 60:02}:{self._revision % 60:02}Z"
        )
        if gates:
            condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
            wire["status"] = {"conditions": [condition]}
        self._store("pods", name, wire)

    def lift_gate(self, name: str) -> None:
        """Another controller lifts its own gate."""
        wire = self.pods.get(name)
        if wire is not None and FOREIGN in gate_names(wire):
            self._change(name, lambda pod: _drop_gate(pod, FOREIGN))

    def tear_gate(self, name: str) -> None:
        """A user lifts the queue gate."""
        wire = self.pods.get(name)
        if wire is not None and GATE in gate_names(wire):
            self._change(name, lambda pod: _drop_gate(pod, GATE))

    def regroup(self, name: str, group: str) -> None:
        """A user moves a pod that waits to another group, or out of its group."""
        wire = self.pods.get(name)
        if wire is not None and not node_of(wire) and OPT_IN in wire["metadata"]["annotations"]:
            self._change(name, lambda pod: _set_group(pod, group))

    def opt_out(self, name: str) -> None:
        """A user removes the annotation that asks for the queue gate."""
        wire = self.pods.get(name)
        if wire is not None and not node_of(wire):
            self._change(name, lambda pod: pod["metadata"]["annotations"].pop(OPT_IN, None))

    def set_minimum(self, group: str, members: int) -> None:
        if self.groups[group]["spec"]["minMember"] != members:
            wire = deepcopy(self.groups[group])
            wire["spec"]["minMember"] = members
            self._store("groups", group, wire)

    def set_limit(self, queue: str, cpu: int) -> None:
        if queue in self.limits and self.limits[queue] != cpu:
            self.limits[queue] = cpu
            self._store_queue(queue)

    def finish_pod(self, name: str) -> None:
        """The pod has ended: the watch of running pods reports it as deleted."""
        if name in self.pods and node_of(self.pods[name]):
            self._drop("pods", name)

    # Writes of schedulers

    def lift(self, name: str, uid: str, stamp: str) -> WriteResult:
        wire = self.pods.get(name)
        if wire is None or uid_of(wire) != uid:
            return WriteResult.GONE
        had = gate_names(wire)
        if wire["metadata"]["annotations"].get(STAMP, "") == stamp and GATE not in had:
            return WriteResult.DONE
        first = self.lifted.setdefault(uid, stamp) if stamp else stamp
        assert self.hears_the_dead or first == stamp, f"{uid} is granted twice"
        assert FOREIGN not in had, f"{uid} has a foreign gate"

        def change(pod: Object) -> None:
            if stamp:
                pod["metadata"]["annotations"][STAMP] = stamp
            if GATE in had:
                _drop_gate(pod, GATE)

        self._change(name, change)
        return WriteResult.DONE

    def unstamp(self, name: str, uid: str, stamp: str, lapse: str = "") -> WriteResult:
        """The stamp is removed if it is still the same one, and the same write records the lapse."""
        wire = self.pods.get(name)
        if wire is None or uid_of(wire) != uid:
            return WriteResult.GONE
        if wire["metadata"]["annotations"].get(STAMP) != stamp:
            return WriteResult.TAKEN
        assert not node_of(wire), f"{uid} has a node, and what it holds is nobody else's"
        self.lifted.pop(uid, None)

        def change(pod: Object) -> None:
            del pod["metadata"]["annotations"][STAMP]
            if lapse:
                pod["metadata"]["annotations"][LAPSED] = lapse

        self._change(name, change)
        return WriteResult.DONE

    def delete_slowly(self, name: str, gone_by_s: float) -> None:
        """The deletion timestamp of a pod on a node; a second deletion can only make it earlier."""
        wire = self.pods.get(name)
        if wire is None or not node_of(wire):
            self.delete_pod(name)
            return
        before = wire["metadata"].get("deletionTimestamp", "")
        by = format_time(gone_by_s)
        if not before or by < before:
            self._change(name, lambda pod: pod["metadata"].update(deletionTimestamp=by))

    # Invariants

    def used(self, queue: str) -> int:
        """The bound and promised amounts, in the queue and all queues below it."""
        return sum(held_cpu(wire) for wire in self.pods.values() if queue in path_of(queue_of(wire)) and holds(wire))


def holds(wire: Object) -> bool:
    """The allocated and reserved amounts, computed from the API alone."""
    if wire["metadata"].get("deletionTimestamp"):
        return False
    return bool(node_of(wire)) or is_stamped(wire)


def is_stamped(wire: Object) -> bool:
    return read_stamp(wire["metadata"]["annotations"].get(STAMP), uid_of(wire)) is not None


def held_cpu(wire: Object) -> int:
    """What a pod that holds capacity counts for: its requests on a node, what it was promised before."""
    stamp = None if node_of(wire) else read_stamp(wire["metadata"]["annotations"].get(STAMP), uid_of(wire))
    return cpu_of(wire) if stamp is None else stamp.requests["cpu"] // 1000


def queue_of(wire: Object) -> str:
    """Its promise fixes the queue of a pod."""
    annotations = wire["metadata"]["annotations"]
    stamp = read_stamp(annotations.get(STAMP), uid_of(wire))
    if stamp is not None:
        return stamp.queue
    return "a1" if annotations.get(GROUP_NAMES[0]) else str(annotations[QUEUE_NAME])


def may_be_granted(wire: Object) -> bool:
    """Whether no other component gates it, and it opted in if it has the queue gate."""
    gates = gate_names(wire)
    return FOREIGN not in gates and (GATE not in gates or wire["metadata"]["annotations"].get(OPT_IN) == "true")


def first_waiting(members: list[Object]) -> Object:
    """The member of a group that gets capacity next when the group has its minimum: they get it one by one, in this
    order, and a member that would fit waits for one before it that does not."""
    waiting = [each for each in members if not holds(each) and may_be_granted(each)]
    return min(
        waiting,
        key=lambda each: (
            -each["spec"].get("priority", 0),
            each["metadata"]["creationTimestamp"],
            each["metadata"]["name"],
        ),
    )


def gate_names(wire: Object) -> list[str]:
    return [each["name"] for each in wire["spec"].get("schedulingGates") or ()]


def _drop_gate(pod: Object, gate: str) -> None:
    pod["spec"]["schedulingGates"] = [each for each in pod["spec"]["schedulingGates"] if each["name"] != gate]
    pod["metadata"]["generation"] += 1


def _set_group(pod: Object, group: str) -> None:
    pod["metadata"]["annotations"].pop(GROUP_NAMES[0], None)
    if group:
        pod["metadata"]["annotations"][GROUP_NAMES[0]] = group
