"""Plugins for the stories of KEP-3521: small, and counting what they are asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.kube.resource import Resource
from headgate.scheduling import effects, events
from headgate.scheduling.contract import READS_NODE, SKIP, Reason, Refusal, Rejection, Skip, Wait
from headgate.scheduling.events import Event
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.pod import Pod
from headgate.scheduling.podlike import PodLike
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker

FOOS = Resource("example.com", "v1", "foos", namespaced=True)


class Holds:
    """A PreEnqueue plugin that does what SchedulingGates does, and waits for other events, or for none."""

    name = "Holds"

    def __init__(self, wakers: tuple[Waker, ...]) -> None:
        self._wakers = wakers
        self.asked: list[str] = []

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        self.asked.append(pod.name)
        return Rejection(self.name, "gated", self._wakers, expires=False) if pod.gates else None


class Admits:
    """A PreEnqueue plugin that says yes or no to everybody, and a PreFilter that writes down who came that far."""

    name = "Admits"

    def __init__(self, *, admits: bool) -> None:
        self._admits = admits
        self.filtered: list[str] = []

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        return None if self._admits else Rejection(self.name, "not admitted", expires=False)

    def pre_filter(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | Refusal:
        self.filtered.append(pod.name)
        return SKIP


class FailsFirst:
    """A Bind plugin that fails once."""

    name = "FailsFirst"

    def __init__(self) -> None:
        self.asked = 0

    def bind(self, pod: Pod, node_name: str, /) -> effects.Bind:
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("not this time")
        return effects.Bind(pod, node_name)


class TurnsAway:
    """A Permit plugin that holds the first pod until a second comes, and then turns it away, once."""

    name = "TurnsAway"

    def __init__(self) -> None:
        self.came: list[str] = []
        self._held: str = ""
        self._answers: dict[str, Rejection | None] = {}

    def permit(self, pod: Pod, node_name: str, /) -> Rejection | Wait | None:
        self.came.append(pod.name)
        if len(self.came) == 1:
            self._held = pod.uid
            return Wait(300.0)
        if self._held:
            helped = events.on(events.NODE, events.NODE_LABEL)
            self._answers[self._held] = Rejection(self.name, "turned away", helped, expires=False)
            self._held = ""
        return None

    def released(self) -> Mapping[str, Rejection | None]:
        answers, self._answers = self._answers, {}
        return answers


class WantsFoo:
    """A filter that no node passes before there is a Foo."""

    name = "WantsFoo"
    reads = READS_NODE
    watched: Mapping[Resource, tuple[str, ...]] = {FOOS: ()}

    def __init__(self) -> None:
        self.foos: set[str] = set()

    def applied(self, resource: Resource, wire: Mapping[str, Any], /) -> Iterable[Event]:
        self.foos.add(wire["metadata"]["name"])
        return [Event(events.named(FOOS), events.ADD, new=wire)]

    def removed(self, resource: Resource, namespace: str, name: str, /) -> Iterable[Event]:
        self.foos.discard(name)
        return [Event(events.named(FOOS), events.DELETE)]

    def pre_filter(self, pod: Pod, matrix: NodeMatrix, /) -> Refusal | None:
        return None if self.foos else Refusal(Reason("there is no Foo"))

    def stamp(self, shape: Shape, matrix: NodeMatrix, /) -> int:
        return len(self.foos)

    def wakers(self, shape: Shape, /) -> tuple[Waker, ...]:
        return events.on(events.named(FOOS), events.ADD)
