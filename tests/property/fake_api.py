"""A fake API server for schedulers under test: pods, nodes, one revision for all, and events that wait for delivery.

It answers bindings as a server does and checks one invariant: where only the scheduler under test binds, no node ever
has more pods than fit. Watches deliver each resource in its own order, as late as the test chooses. A watch that was
cut lists again and delivers the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from clusters import a_node, a_pod
from headgate.scheduling.framework.effects import WriteResult

Object = dict[str, Any]

SIZES = {"n0": 4, "n1": 4, "n2": 2}
"""The nodes that may exist, and their CPU: a node that was deleted is created again with the same values."""
ZONES = {"n0": "east", "n1": "west", "n2": "west"}
MOST_PODS = 3
TAINT = {"key": "odd", "value": "", "effect": "NoSchedule"}
_NEAR = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
RULES: dict[str, Object] = {
    "": {},
    "apart": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_NEAR]}}},
    "near": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_NEAR]}}},
    "spread": {"topologySpreadConstraints": [{**_NEAR, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
    "choosy": {"nodeSelector": {"disk": "there"}},
    "tolerant": {"tolerations": [{"key": "odd", "operator": "Exists"}]},
}
"""Rules of a pod about other pods and about nodes."""


class Told(NamedTuple):
    """An event of a watch; without an object, a deletion."""

    name: str
    uid: str
    wire: Object | None


class Watch:
    """One resource, as a client of a watch sees it."""

    def __init__(self) -> None:
        self.waiting: list[Told] = []
        self.known: dict[str, Object] = {}

    def next(self) -> Told | None:
        if not self.waiting:
            return None
        told = self.waiting.pop(0)
        if told.wire is None:
            self.known.pop(told.name, None)
        else:
            self.known[told.name] = told.wire
        return told

    def list_again(self, there: Mapping[str, Object]) -> Iterator[Told]:
        """Delivers all waiting events at once, without those that later ones have replaced."""
        self.waiting.clear()
        for name, wire in list(self.known.items()):
            if uid_of(there.get(name)) != uid_of(wire):
                del self.known[name]
                yield Told(name, uid_of(wire), None)
        for name, wire in there.items():
            if self.known.get(name) != wire:
                self.known[name] = deepcopy(wire)
                yield Told(name, uid_of(wire), self.known[name])


def uid_of(wire: Object | None) -> str:
    return "" if wire is None else str(wire["metadata"]["uid"])


class SmallApi:
    def __init__(self) -> None:
        self.pods: dict[str, Object] = {}
        self.nodes: dict[str, Object] = {}
        self.watches = {"pods": Watch(), "nodes": Watch()}
        self.crowded: set[str] = set()
        """Nodes to which another client bound a pod without a check of the free capacity."""
        self.bound: dict[str, str] = {}
        """By uid, the node of every pod that was ever bound: it never changes."""
        self._revision = 0

    # Objects are created, changed and deleted

    def create_pod(self, name: str, cpu: int, gates: int, priority: int, port: int, rule: str = "") -> None:
        if name in self.pods:
            return
        self._revision += 1
        spec: Object = dict(RULES[rule])
        if gates:
            spec["schedulingGates"] = [{"name": f"example.com/{number}"} for number in range(gates)]
        labels = {"app": "web"} if cpu % 2 else {}
        wire = a_pod(name, {"cpu": str(cpu)}, priority=priority, labels=labels, **spec)
        wire["metadata"] |= {"uid": f"{name}-{self._revision}", "generation": 1}
        wire["metadata"]["creationTimestamp"] = (
            f"2026-01-01T00:{self._revision // 60 % 60:02}:{self._revision % 60:02}Z"
        )
        if port:
            wire["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
        if gates:
            condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
            wire["status"] = {"conditions": [condition]}
        self._store("pods", name, wire)

    def delete_pod(self, name: str) -> None:
        """A pod on a node terminates slowly (``reap``)."""
        wire = self.pods.get(name)
        if wire is not None and node_of(wire):
            self._change(name, lambda pod: pod["metadata"].update(deletionTimestamp="2026-01-02T00:00:00Z"))
        elif wire is not None:
            self._drop("pods", name)

    def reap(self) -> bool:
        """All terminating pods are deleted; whether there were any."""
        leaving = [name for name, wire in self.pods.items() if wire["metadata"].get("deletionTimestamp")]
        for name in leaving:
            self._drop("pods", name)
        return bool(leaving)

    def lift_gate(self, name: str) -> None:
        if name in self.pods and gates_of(self.pods[name]):
            self._change(name, lambda pod: pod["spec"]["schedulingGates"].pop(0))

    def touch_pod(self, name: str) -> None:
        if name in self.pods:
            self._change(name, lambda pod: _flip(pod["metadata"]["labels"], "app", "web"))

    def put_node(self, name: str) -> None:
        if name not in self.nodes:
            labels = {"kubernetes.io/hostname": name, "zone": ZONES[name]}
            node = a_node(name, cpu=str(SIZES[name]), pods=str(MOST_PODS), labels=labels)
            node["metadata"]["uid"] = f"{name}-{self._revision + 1}"
            self._store("nodes", name, node)

    def change_node(self, name: str, how: str) -> None:
        """Toggles one of: cordoned, tainted, without a zone, with a disk."""
        if name in self.nodes:
            node = deepcopy(self.nodes[name])
            if how == "cordoned":
                node["spec"]["unschedulable"] = not node["spec"].get("unschedulable")
            elif how == "tainted":
                node["spec"]["taints"] = [] if node["spec"].get("taints") else [dict(TAINT)]
            else:
                _flip(node["metadata"]["labels"], how, "there")
            self._store("nodes", name, node)

    def remove_node(self, name: str) -> None:
        if name in self.nodes:
            self._drop("nodes", name)

    def _change(self, name: str, change: Callable[[Object], Any]) -> None:
        wire = deepcopy(self.pods[name])
        change(wire)
        self._store("pods", name, wire)

    def _store(self, resource: str, name: str, wire: Object) -> None:
        self._revision += 1
        wire["metadata"]["resourceVersion"] = str(self._revision)
        self.there(resource)[name] = wire
        self.watches[resource].waiting.append(Told(name, uid_of(wire), deepcopy(wire)))
        self.check_room()

    def _drop(self, resource: str, name: str) -> None:
        self._revision += 1
        gone = self.there(resource).pop(name)
        self.watches[resource].waiting.append(Told(name, uid_of(gone), None))

    def there(self, resource: str) -> dict[str, Object]:
        return self.pods if resource == "pods" else self.nodes

    # Writes of schedulers

    def bind(self, name: str, uid: str, node: str) -> WriteResult:
        wire = self.pods.get(name)
        if wire is None or uid_of(wire) != uid:
            return WriteResult.GONE
        if node_of(wire) or wire["metadata"].get("deletionTimestamp"):
            return WriteResult.DONE if node_of(wire) == node else WriteResult.TAKEN
        if gates_of(wire):
            return WriteResult.GATED
        assert uid not in self.bound, f"{uid} is bound twice"
        self.bound[uid] = node
        self._change(name, lambda pod: _set_node(pod, node))
        return WriteResult.DONE

    def bind_by_another(self, name: str, node: str) -> None:
        wire = self.pods.get(name)
        if wire is not None and not gates_of(wire) and not node_of(wire):
            self.crowded.add(node)
            self.bind(name, uid_of(wire), node)

    def set_status(self, name: str, uid: str, condition: Mapping[str, Any] | None, promise: str | None) -> None:
        wire = self.pods.get(name)
        if wire is None or uid_of(wire) != uid:
            return

        def change(pod: Object) -> None:
            if condition is not None:
                assert not (gates_of(pod) and condition["reason"] == "Unschedulable"), f"{name} has a gate"
                pod["status"]["conditions"] = [dict(condition)]
            if promise is not None:
                pod["status"]["nominatedNodeName"] = promise

        self._change(name, change)

    def delete_by_uid(self, name: str, uid: str) -> bool:
        """Whether it existed."""
        if uid_of(self.pods.get(name)) != uid:
            return False
        self.delete_pod(name)
        return True

    # Invariants

    def check_room(self) -> None:
        for node in SIZES:
            if node not in self.crowded:
                there = self.on_node(node)
                assert sum(map(cpu_of, there)) <= SIZES[node], f"{node} is over-allocated"
                assert len(there) <= MOST_PODS, f"{node} has too many pods"

    def on_node(self, node: str) -> list[Object]:
        return [wire for wire in self.pods.values() if node_of(wire) == node]

    def could_run(self, wire: Object) -> list[str]:
        """The nodes on which a pod without rules fits, if necessary in place of pods of lower priority; computed from
        all objects."""
        return [
            node
            for node, shown in self.nodes.items()
            if not shown["spec"].get("unschedulable")
            and not shown["spec"].get("taints")
            and _fits(wire, node, self.on_node(node))
        ]


def _fits(wire: Object, node: str, there: list[Object]) -> bool:
    stay = [each for each in there if each["spec"]["priority"] >= wire["spec"]["priority"]]
    free_port = not ports_of(wire) or all(ports_of(each) != ports_of(wire) for each in stay)
    return free_port and len(stay) < MOST_PODS and sum(map(cpu_of, stay)) + cpu_of(wire) <= SIZES[node]


def _flip(labels: Object, name: str, value: str) -> None:
    if labels.pop(name, None) is None:
        labels[name] = value


def _set_node(pod: Object, node: str) -> None:
    pod["spec"]["nodeName"] = node
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]


def node_of(wire: Object) -> str:
    return str(wire["spec"].get("nodeName") or "")


def gates_of(wire: Object) -> list[Object]:
    return list(wire["spec"].get("schedulingGates") or ())


def cpu_of(wire: Object) -> int:
    return int(wire["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def ports_of(wire: Object) -> list[Object]:
    return list(wire["spec"]["containers"][0].get("ports") or ())


def reason_of(wire: Object) -> str:
    return str(next((each.get("reason") or "" for each in wire["status"].get("conditions") or ()), ""))
