"""Plugins for the tests of KEP-3521: small, and counting their calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.kube.api_resources import APIResource
from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo, PodLike
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.framework import cluster_events, effects
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.interface import (
    READS_NODE,
    SKIP,
    FilterReason,
    PermitWait,
    PreFilterRejection,
    Rejection,
    Skip,
)
from headgate.waiting.queueing_hints import ClusterEventWithHint

FOOS = APIResource("example.com", "v1", "foos", namespaced=True)


class Holds:
    """A PreEnqueue plugin that does what SchedulingGates does, and waits for other events, or for none."""

    name = "Holds"

    def __init__(self, wakers: tuple[ClusterEventWithHint, ...]) -> None:
        self._wakers = wakers
        self.asked: list[str] = []

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        self.asked.append(pod.name)
        return Rejection(self.name, "gated", self._wakers, expires=False) if pod.gates else None


class Admits:
    """A PreEnqueue plugin that accepts or rejects all pods, and a PreFilter plugin that records the pods that reach
    it."""

    name = "Admits"

    def __init__(self, *, admits: bool) -> None:
        self._admits = admits
        self.filtered: list[str] = []

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        return None if self._admits else Rejection(self.name, "not admitted", expires=False)

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | PreFilterRejection:
        self.filtered.append(pod.name)
        return SKIP


class FailsFirst:
    """A Bind plugin that fails once."""

    name = "FailsFirst"

    def __init__(self) -> None:
        self.asked = 0

    def bind(self, pod: PodInfo, node_name: str, /) -> effects.Bind:
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

    def permit(self, pod: PodInfo, node_name: str, /) -> Rejection | PermitWait | None:
        self.came.append(pod.name)
        if len(self.came) == 1:
            self._held = pod.uid
            return PermitWait(300.0)
        if self._held:
            helped = cluster_events.on(cluster_events.NODE, cluster_events.NODE_LABEL)
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
    watched: Mapping[APIResource, tuple[str, ...]] = {FOOS: ()}

    def __init__(self) -> None:
        self.foos: set[str] = set()

    def applied(self, resource: APIResource, wire: Mapping[str, Any], /) -> Iterable[ClusterEvent]:
        self.foos.add(wire["metadata"]["name"])
        return [ClusterEvent(cluster_events.named(FOOS), cluster_events.ADD, new=wire)]

    def removed(self, resource: APIResource, namespace: str, name: str, /) -> Iterable[ClusterEvent]:
        self.foos.discard(name)
        return [ClusterEvent(cluster_events.named(FOOS), cluster_events.DELETE)]

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> PreFilterRejection | None:
        return None if self.foos else PreFilterRejection(FilterReason("there is no Foo"))

    def stamp(self, shape: PodShape, matrix: NodeMatrix, /) -> int:
        return len(self.foos)

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return cluster_events.on(cluster_events.named(FOOS), cluster_events.ADD)
