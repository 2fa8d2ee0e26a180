"""A fleet of hollow kubelets as one pure state machine: events in, writes out.

Time is an argument (seconds since 1970), and so is everything from the API; the same events in the same order give the
same writes. ``nodes/hollow_nodes.py`` has the nodes, ``nodes/pod_workers.py`` the pods, and one heap has all timers.
The API is the only storage: a restarted fleet reads it and continues. ``nodes/io/kubelet_runner.py`` connects it to a
server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.nodes.effects import CreateNode, DeletePod, Effect, PatchPodStatus
from headgate.nodes.hollow_nodes import HollowNodes
from headgate.nodes.options import HollowOptions
from headgate.nodes.pod_workers import PodWorkers
from headgate.nodes.timer_heap import TimerHeap

Object = dict[str, Any]

_CREATE: Final = "create"
_CREATE_AGAIN_S: Final = 2.0
_TIMER_RETRY_S: Final = 5.0


class HollowKubelets:
    """Every method returns the writes that follow, in order; those to one object must be done in that order."""

    def __init__(self, options: HollowOptions | None = None, wanted: Sequence[Object] = ()) -> None:
        """``wanted``: nodes to create, unless they exist when the fleet starts."""
        settings = options or HollowOptions()
        self._wanted = {node["metadata"]["name"]: node for node in wanted}
        self._expected = set(self._wanted)  # nodes that the API has not shown with a Ready condition yet
        self._out: list[Effect] = []
        self._timers: TimerHeap[tuple[str, str]] = TimerHeap()
        self._machines = HollowNodes(settings, self._timers, self._emit, self._node_changed, self._repeat_pods)
        self._workers = PodWorkers(settings, self._timers, self._emit, self._machines.nodes)
        self._nodes_known = False
        self._pods_known = False

    def node_applied(self, node: Object, now_s: float) -> list[Effect]:
        self._machines.applied(node, now_s)
        name = node["metadata"]["name"]
        if name in self._expected and self._machines.nodes[name].observed:
            self._expected.discard(name)
        return self._take(now_s)

    def node_removed(self, name: str, uid: str, now_s: float) -> list[Effect]:
        self._machines.removed(name, uid, now_s)
        return self._take(now_s)

    def pod_applied(self, pod: Object, now_s: float) -> list[Effect]:
        """Only pods that are bound to a node."""
        self._workers.applied(pod, now_s)
        return self._take(now_s)

    def pod_removed(self, namespace: str, name: str, uid: str, now_s: float) -> list[Effect]:
        self._workers.removed(namespace, name, uid, now_s)
        return self._take(now_s)

    def nodes_synced(self, now_s: float) -> list[Effect]:
        """All nodes have been told. Called again after every further full list, which changes nothing."""
        if not self._nodes_known:
            self._nodes_known = True
            for name, node in self._wanted.items():
                if name not in self._machines.nodes:
                    self._emit(CreateNode(node))
            self._settle(now_s)
        return self._take(now_s)

    def pods_synced(self, now_s: float) -> list[Effect]:
        if not self._pods_known:
            self._pods_known = True
            self._settle(now_s)
        return self._take(now_s)

    def due(self, now_s: float) -> list[Effect]:
        """Rings what has run out."""
        return self._take(now_s)

    def clock_moved(self, by_s: float) -> None:
        """The clock was set by so much. What is under way takes as long as it would have."""
        self._timers.move(by_s)
        self._machines.clock_moved(by_s)
        self._workers.clock_moved(by_s)

    @property
    def has_reported(self) -> bool:
        """Every wanted node has said once how it is."""
        return not self._expected

    def next_deadline_s(self) -> float | None:
        return self._timers.next_deadline_s()

    def failed(self, effect: Effect, now_s: float) -> list[Effect]:
        """A write did not reach the server, and it makes sense to try again."""
        if isinstance(effect, (PatchPodStatus, DeletePod)):
            self._workers.failed(effect, now_s)
        elif isinstance(effect, CreateNode):
            self._timers.set((_CREATE, effect.node["metadata"]["name"]), now_s + _CREATE_AGAIN_S)
        else:
            self._machines.failed(effect, now_s)
        return self._take(now_s)

    def _settle(self, now_s: float) -> None:
        if self._nodes_known and self._pods_known:
            self._workers.settle(now_s)

    def _node_changed(self, name: str, now_s: float) -> None:
        self._workers.node_changed(name, now_s)

    def _repeat_pods(self, name: str) -> None:
        self._workers.repeat(name)

    def _emit(self, effect: Effect) -> None:
        self._out.append(effect)

    def _take(self, now_s: float) -> list[Effect]:
        """What is due now belongs to the same moment as the event that came now. A timer that fails rings again some
        time later; the writes and timers that it interrupted are still there for the next call."""
        for bell, owner in self._timers.due(now_s):
            try:
                self._fire(bell, owner, now_s)
            except Exception as error:
                self._timers.set((bell, owner), now_s + _TIMER_RETRY_S)
                error.add_note(f"in the timer {bell!r} of {owner}")
                raise
        out, self._out = self._out, []
        return out

    def _fire(self, bell: str, owner: str, now_s: float) -> None:
        if bell == _CREATE:
            self._emit(CreateNode(self._wanted[owner]))
        elif not self._machines.timer_fired(bell, owner, now_s):
            self._workers.timer_fired(bell, owner, now_s)
