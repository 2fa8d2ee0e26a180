"""An orchestrator in one file: it decides where gated pods may run, and only then lets the scheduler see them.

A pod with the scheduling gate ``example.com/placement`` waits until this controller has chosen a zone for it. While a
pod has a gate, its node selector and its required node affinity may be tightened, and only tightened (KEP-3521). So
one write does three things to the pod, or none of them:

- ``nodeSelector`` gets the label ``topology.kubernetes.io/zone``. The zone is the one with the most free CPU among the
  zones where the pod fits on a node, or the one that the annotation ``example.com/zone`` of the pod names.
- Every term of the required node affinity gets the expression that the node does not have the label
  ``example.com/maintenance``, so that the pod is not disrupted soon.
- The gate is removed. Other gates of the pod stay.

A pod that fits in no zone waits, and is tried again when a pod ends or a node changes. The API server refuses what is
not a tightening, for example another zone than the one that is already in ``nodeSelector``. Then the pod keeps its gate
and gets an Event with the reason; it is tried again when it is changed, and every five minutes.

Start it, with the rights of ``placement-orchestrator-rights.yaml``; ``placement-orchestrator-sample.yaml`` has pods:

    kubectl label node node-0001 topology.kubernetes.io/zone=zone-a
    kubectl label node node-0002 topology.kubernetes.io/zone=zone-b
    kubectl apply -f placement-orchestrator-rights.yaml -f placement-orchestrator-sample.yaml
    python placement_orchestrator.py --kubeconfig .headgate/kubeconfig

All state is in the API, so the process may be killed at any time: at its start it lists nodes and pods and continues.
A second copy is harmless: each write names the version of the pod that it was decided for.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headgate.client.io.credentials import find_rest_config
from headgate.client.io.event_recorder import EventRecorder, EventToEmit
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.io.informer import Informer, InformerEvent, ListSynced, ObjectApplied, ObjectDeleted
from headgate.client.io.writer import Writer
from headgate.client.known_objects import is_older
from headgate.client.write_status import WriteOutcome
from headgate.http.transport import Transport
from headgate.kube import conditions, quantity
from headgate.kube.api_resources import PODS
from headgate.kube.node_affinity import required_node_affinity
from headgate.kube.pods.requests import pod_requests
from headgate.kube.quantity import ZERO, Quantity
from headgate.kube.scheduling_gates import gate_names
from headgate.kube.taints import first_untolerated
from headgate.runtime.work_queue import WorkQueue

GATE = "example.com/placement"
ZONE = "topology.kubernetes.io/zone"
CHOSEN_ZONE = "example.com/zone"
NOT_IN_MAINTENANCE = {"key": "example.com/maintenance", "operator": "DoesNotExist"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
POD_FIELDS = ("metadata.annotations", "metadata.deletionTimestamp", "spec", "status.phase")
NODE_FIELDS = ("metadata.labels", "spec", "status.allocatable", "status.conditions")
RETRY_REFUSED_S = 300.0
MAX_MESSAGE = 1024
NEW_ROOM_S = 1.0
"""Pods that wait for room are looked at this long after a change, and not once for each change."""
Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name of a pod."""
Place = tuple[str, str]
"""``node`` or ``zone``, and its name."""


# -- decisions: no I/O -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Placement:
    """A gated pod and the zone for it, and the reason in words."""

    pod: Object
    zone: str
    reason: str


@dataclass(frozen=True)
class NoRoom:
    pod: Object
    reason: str


class Cluster:
    """The nodes and pods. Watch events go in and name the pods to look at; placements come out."""

    def __init__(self) -> None:
        self._nodes: dict[str, Object] = {}
        self._pods: dict[Key, Object] = {}
        self._used: dict[Place, Quantity] = {}  # the CPU of pods on each node, and on the way to each zone
        self.waiting_for_room: set[Key] = set()

    def on_node(self, event: InformerEvent) -> set[Key]:
        if isinstance(event, ObjectDeleted):
            self._nodes.pop(event.name, None)
        if isinstance(event, ObjectApplied):
            self._nodes[event.object["metadata"]["name"]] = event.object
        return self.waiting_for_room

    def on_pod(self, event: InformerEvent) -> set[Key]:
        if isinstance(event, ObjectDeleted):
            key = (event.namespace, event.name)
            self._set_pod(key, None)
            self.waiting_for_room.discard(key)
            return self.waiting_for_room
        if not isinstance(event, ObjectApplied):
            return set()
        pod = event.object
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        if is_older(pod["metadata"]["resourceVersion"], self._revision_of(key, pod["metadata"]["uid"])):
            return set()  # older than an own write
        self._set_pod(key, pod)
        return {key} if is_waiting(pod) else self.waiting_for_room if is_finished(pod) else set()

    def written(self, pod: Object) -> None:
        """The response to a write, which the watch may show later. The pod may be deleted meanwhile."""
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        if is_older(self._revision_of(key, pod["metadata"]["uid"]), pod["metadata"]["resourceVersion"]):
            self._set_pod(key, pod)

    def _revision_of(self, key: Key, uid: str) -> str:
        """The known revision of the pod with this uid; empty if it is not known."""
        known = self._pods.get(key, {"metadata": {}})["metadata"]
        return str(known["resourceVersion"]) if known.get("uid") == uid else ""

    def decide(self, key: Key) -> Placement | NoRoom | None:
        """None if the pod does not wait for this controller."""
        self.waiting_for_room.discard(key)
        pod = self._pods.get(key)
        if pod is None or not is_waiting(pod):
            return None
        chosen = (pod["metadata"].get("annotations") or {}).get(CHOSEN_ZONE)
        if chosen:
            return Placement(pod, chosen, f"the annotation {CHOSEN_ZONE} names it")
        cpu = cpu_of(pod)
        free = {zone: amount for zone, amount in self._free_cpu(pod, cpu).items() if amount >= cpu}
        if not free:
            self.waiting_for_room.add(key)
            return NoRoom(pod, f"no zone has a node with {cpu} of free CPU that the pod may use")
        zone = min(free, key=lambda name: (-free[name].nano, name))
        return Placement(pod, zone, f"it has the most free CPU, {free[zone]}")

    def _free_cpu(self, pod: Object, cpu: Quantity) -> dict[str, Quantity]:
        """The free CPU of each zone that has a node with room for the pod."""
        allowed = required_node_affinity(pod)
        allocatable_on_node = {
            name: quantity.amount(((node.get("status") or {}).get("allocatable") or {}).get("cpu", "0"))
            for name, node in self._nodes.items()
            if is_usable(node, pod) and allowed.matches(labels_of(node), name)
        }
        free_in_zone: dict[str, Quantity] = {}
        for name, allocatable in allocatable_on_node.items():
            free = allocatable - self._used.get(("node", name), ZERO)
            if free >= cpu:
                zone = labels_of(self._nodes[name])[ZONE]
                free_in_zone[zone] = free_in_zone.get(zone, ZERO) + free
        return {zone: free - self._used.get(("zone", zone), ZERO) for zone, free in free_in_zone.items()}

    def _set_pod(self, key: Key, pod: Object | None) -> None:
        before = self._pods.pop(key, None)
        if before is not None:
            self._count(place_of(before), -cpu_of(before))
        if pod is not None:
            self._pods[key] = pod
            self._count(place_of(pod), cpu_of(pod))

    def _count(self, place: Place | None, cpu: Quantity) -> None:
        if place is not None:
            self._used[place] = self._used.get(place, ZERO) + cpu
            if not self._used[place]:
                del self._used[place]


def place_of(pod: Object) -> Place | None:
    """Where the CPU of the pod counts: on its node, or in the zone that was chosen for it."""
    spec = pod["spec"]
    zone = (spec.get("nodeSelector") or {}).get(ZONE)
    if is_finished(pod) or GATE in gate_names(pod):
        return None
    if spec.get("nodeName"):
        return ("node", spec["nodeName"])
    return ("zone", zone) if zone else None


def is_waiting(pod: Object) -> bool:
    return GATE in gate_names(pod) and "deletionTimestamp" not in pod["metadata"]


def is_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def cpu_of(pod: Object) -> Quantity:
    return pod_requests(pod, spec_only=True).get("cpu", ZERO)


def labels_of(node: Object) -> dict[str, str]:
    return node["metadata"].get("labels") or {}


def is_usable(node: Object, pod: Object) -> bool:
    """Whether the node is ready, has a zone, is not cordoned or in maintenance, and has no taint against the pod."""
    ready = conditions.find((node.get("status") or {}).get("conditions"), "Ready")
    spec = node.get("spec") or {}
    return (
        ready is not None
        and ready["status"] == "True"
        and ZONE in labels_of(node)
        and NOT_IN_MAINTENANCE["key"] not in labels_of(node)
        and not spec.get("unschedulable")
        and first_untolerated(spec.get("taints"), pod["spec"].get("tolerations")) is None
    )


def tightening(pod: Object, zone: str) -> list[Object]:
    """The steps of a JSON patch: they add constraints and remove the gate, if the pod has not changed since."""
    spec = pod["spec"]
    gate = f"/spec/schedulingGates/{gate_names(pod).index(GATE)}"
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": pod["metadata"]["resourceVersion"]},
        {"op": "add", "path": "/spec/nodeSelector", "value": {**(spec.get("nodeSelector") or {}), ZONE: zone}},
        {"op": "add", "path": "/spec/affinity", "value": tightened_affinity(spec.get("affinity") or {})},
        {"op": "remove", "path": gate},
    ]


def tightened_affinity(affinity: Object) -> Object:
    """Terms are alternatives, so the expression is needed in each. An empty term selects no node and must stay so."""
    result = copy.deepcopy(affinity)
    required = result.setdefault("nodeAffinity", {}).setdefault(REQUIRED, {})
    terms = required.setdefault("nodeSelectorTerms", [{"matchExpressions": [NOT_IN_MAINTENANCE]}])
    for term in terms:
        expressions = term.setdefault("matchExpressions", []) if term else [NOT_IN_MAINTENANCE]
        if NOT_IN_MAINTENANCE not in expressions:
            expressions.append(NOT_IN_MAINTENANCE)
    return result


# -- performing them ---------------------------------------------------------------------------------------------------


class Orchestrator:
    """Watches nodes and pods, and places one pod at a time, so that each decision knows those before it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._cluster = Cluster()
        self._queue: WorkQueue[Key] = WorkQueue()
        self._unsynced = {"nodes", "pods"}
        self._synced = asyncio.Event()
        self._emitted: dict[Key, tuple[str, str, str]] = {}  # the last Event about each pod that waits
        self._writer = Writer(transport, jitter=random.random, sleep=asyncio.sleep)
        self._events = EventRecorder(Writer(transport, jitter=random.random, sleep=asyncio.sleep, attempts=2))

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer("nodes", self._cluster.on_node, NODE_FIELDS).run())
            tasks.create_task(self._informer("pods", self._cluster.on_pod, POD_FIELDS).run())
            tasks.create_task(self._events.run())
            await self._synced.wait()  # without all nodes and pods, the free CPU would be wrong
            say("ready")
            tasks.create_task(self._work())

    def _informer(self, kind: str, handle: Callable[[InformerEvent], set[Key]], fields: tuple[str, ...]) -> Informer:
        def deliver(event: InformerEvent) -> None:
            for key in handle(event):
                self._queue.add(key, NEW_ROOM_S if key in self._cluster.waiting_for_room else 0.0)
            if isinstance(event, ObjectDeleted):
                self._emitted.pop((event.namespace, event.name), None)
            if isinstance(event, ListSynced):
                self._unsynced.discard(kind)
                if not self._unsynced:
                    self._synced.set()

        return Informer(
            self._transport,
            f"/api/v1/{kind}",
            deliver,
            jitter=random.random,
            sleep=asyncio.sleep,
            fields=fields,
            report=say,
        )

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            decision = self._cluster.decide(key)
            if isinstance(decision, NoRoom):
                self._emit(decision.pod, "Normal", "WaitingForRoom", decision.reason)
            if not isinstance(decision, Placement) or await self._place(decision):
                self._queue.forget(key)
            else:
                self._queue.add_rate_limited(key, random.random())
            self._queue.done(key)

    async def _place(self, placement: Placement) -> bool:
        """Returns False if it must be tried again soon."""
        pod, zone = placement.pod, placement.zone
        metadata = pod["metadata"]
        key = (metadata["namespace"], metadata["name"])
        steps = tightening(pod, zone)
        status = await self._writer.json_patch(PODS, *key, metadata["uid"], steps)
        if status.done:
            say(f"{'/'.join(key)}: zone {zone}, {placement.reason}")
            self._cluster.written(json.loads(status.body))
            self._emit(pod, "Normal", "Placed", f"zone {zone} was chosen: {placement.reason}")
            return True
        if status.outcome in (WriteOutcome.GONE, WriteOutcome.REPLACED):
            return True  # the watch shows it, and a new pod of this name is looked at by itself
        say(f"{'/'.join(key)}: zone {zone}: {status.outcome.value}: {status.message}")
        if status.outcome is WriteOutcome.REFUSED:
            next_step = (
                "constraints of a gated pod can be added, not changed; the pod keeps its gate until it is changed"
            )
            self._emit(pod, "Warning", "PlacementRefused", f"zone {zone} was refused: {status.message}; {next_step}")
            self._queue.add(key, RETRY_REFUSED_S)
            return True
        return False  # another client changed the pod, or the outcome is unknown: decide again from the present state

    def _emit(self, pod: Object, kind: str, reason: str, message: str) -> None:
        """Emits an Event about the pod, unless it was the last one."""
        metadata = pod["metadata"]
        key = (metadata["namespace"], metadata["name"])
        if self._emitted.get(key) == (metadata["uid"], reason, message):
            return
        self._emitted[key] = (metadata["uid"], reason, message)
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": key[0], "name": key[1], "uid": metadata["uid"]}
        self._events.emit(EventToEmit(about, reason, message[:MAX_MESSAGE], kind, "placement-orchestrator"))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", default="", help="the cluster [default: as kubectl finds it]")
    options = parser.parse_args()
    access = find_rest_config(options.kubeconfig)
    if isinstance(access, str):
        sys.exit(access)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    transport = HTTPTransport(access)
    try:
        await Orchestrator(transport).run()
    except asyncio.CancelledError:
        say("stopped")
    finally:
        await transport.close()


if __name__ == "__main__":
    asyncio.run(main())
