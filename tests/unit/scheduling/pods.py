"""Pods, plugins and a queue with a clock, for tests of the scheduling queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headgate.scheduling.framework.cluster_events import (
    NODE,
    POD,
    UPDATE,
    ClusterEvent,
    GateOwnership,
    no_gate_owned,
    on,
)
from headgate.scheduling.framework.interface import PreEnqueuePlugin, Rejection
from headgate.scheduling.plugins.priority_sort import PrioritySort
from headgate.scheduling.pod_lifecycle import PodState
from headgate.scheduling.queue.queued_pod_info import QueuedPodInfo
from headgate.scheduling.queue.scheduling_queue import DEFAULTS, QueueSettings, SchedulingQueue
from headgate.waiting.queueing_hints import ClusterEventWithHint

START_S = 1_000_000.0
PROFILE = "default-scheduler"
NODE_ADD = ClusterEvent(NODE, "Add")
HELPED_BY_NODES = on(NODE, "Add")


class AShape(msgspec.Struct, frozen=True, eq=False):
    requests: Mapping[str, int] = {}
    tolerations: tuple[str, ...] = ()


PLAIN = AShape()


class APod(msgspec.Struct, frozen=True):
    name: str
    uid: str
    namespace: str = "ns"
    scheduler_name: str = PROFILE
    priority: int = 0
    created_s: float = START_S
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    gates: tuple[str, ...] = ()
    node_name: str = ""
    nominated_node: str = ""
    shape: AShape = PLAIN
    note: str = ""

    def but(self, **changes: Any) -> APod:
        return msgspec.structs.replace(self, **changes)


def a_pod(name: str, **fields: Any) -> APod:
    return APod(name=name, uid=f"uid-{name}", **fields)


class Allows:
    """A PreEnqueue plugin that requires a label, and may be called again after some events."""

    def __init__(
        self, label: str, wakers: tuple[ClusterEventWithHint, ...] | None = None, name: str = "Allows"
    ) -> None:
        self.label, self.name = label, name
        self.wakers = on(POD, UPDATE) if wakers is None else wakers
        self.asked = 0

    def pre_enqueue(self, pod: Any, /) -> Rejection | None:
        self.asked += 1
        return None if self.label in pod.labels else Rejection(self.name, f"no label {self.label}", self.wakers)


class Raises:
    name = "Raises"

    def pre_enqueue(self, pod: Any, /) -> Rejection | None:
        raise RuntimeError(f"cannot read {pod.name}")


class Never:
    def matches(self, event: Any, /) -> bool:
        return False


class Clocked:
    """A queue, its clock, and short ways to say what happens to it."""

    def __init__(
        self, *plugins: PreEnqueuePlugin, settings: QueueSettings = DEFAULTS, owned: GateOwnership = no_gate_owned
    ) -> None:
        self.now_s = START_S
        self.queue: SchedulingQueue[APod] = SchedulingQueue({PROFILE: plugins}, PrioritySort(), settings, owned)

    def add(self, *pods: APod) -> None:
        for pod in pods:
            self.queue.add(pod, self.now_s)

    def update(self, pod: APod) -> None:
        self.queue.update(pod, self.now_s)

    def delete(self, *pods: APod, bound: bool = False) -> None:
        for pod in pods:
            self.queue.delete(pod.uid, self.now_s, bound=bound)

    def happens(self, event: ClusterEvent) -> int:
        return self.queue.event(event, self.now_s)

    def pop(self) -> QueuedPodInfo[APod]:
        popped = self.queue.pop(self.now_s)
        assert popped is not None
        return popped

    def names_popped(self) -> list[str]:
        found = []
        while (popped := self.queue.pop(self.now_s)) is not None:
            found.append(popped.pod.name)
        return found

    def fail(self, queued: QueuedPodInfo[APod], *rejections: Rejection) -> PodState | None:
        return self.queue.fail(queued, rejections, self.now_s)

    def park(self, pod: APod, *rejections: Rejection) -> QueuedPodInfo[APod]:
        """Lets a pod that may be tried fail."""
        self.add(pod)
        queued = self.pop()
        assert queued.uid == pod.uid
        self.fail(queued, *(rejections or (Rejection("Fit", "no room", HELPED_BY_NODES),)))
        return queued

    def where(self, pod: APod) -> PodState | None:
        queued = self.queue.get(pod.uid)
        return None if queued is None else queued.state

    def requeue_due(self, after_s: float = 0.0) -> int:
        self.now_s += after_s
        return self.queue.requeue_due(self.now_s)

    def pending(self) -> tuple[int, int, int, int]:
        found = self.queue.counters.pending()
        return found["active"], found["backoff"], found["gated"], found["unschedulable"]
