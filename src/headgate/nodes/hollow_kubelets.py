"""All hollow kubelets as one pure state machine: it receives events and returns writes.

Time (seconds since 1970) and API objects are arguments; the same events in the same order give the same writes.
``nodes/hollow_nodes.py`` simulates the nodes, ``nodes/pod_workers.py`` the pods, and one heap has all timers. All state
is in the API: after a restart it is read from there. ``nodes/io/kubelet_runner.py`` connects the state machine to an
API server.
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
_CREATE_RETRY_S: Final = 2.0
_TIMER_RETRY_S: Final = 5.0


class HollowKubelets:
    """Every method returns the writes that follow. Writes to one object must be performed in the returned order."""

    def __init__(self, options: HollowOptions | None = None, initial_nodes: Sequence[Object] = ()) -> None:
        """``initial_nodes``: nodes to create, unless they exist at the start."""
        settings = options or HollowOptions()
        self._initial_nodes = {node["metadata"]["name"]: node for node in initial_nodes}
        self._expected = set(self._initial_nodes)  # nodes that the API has not shown with a Ready condition yet
        self._out: list[Effect] = []
        self._timers: TimerHeap[tuple[str, str]] = TimerHeap()
        self._nodes = HollowNodes(settings, self._timers, self._emit, self._node_changed, self._report_pods)
        self._workers = PodWorkers(settings, self._timers, self._emit, self._nodes.nodes)
        self._nodes_synced = False
        self._pods_synced = False

    def node_applied(self, node: Object, now_s: float) -> list[Effect]:
        self._nodes.applied(node, now_s)
        name = node["metadata"]["name"]
        if name in self._expected and self._nodes.nodes[name].observed:
            self._expected.discard(name)
        return self._flush(now_s)

    def node_removed(self, name: str, uid: str, now_s: float) -> list[Effect]:
        self._nodes.removed(name, uid, now_s)
        return self._flush(now_s)

    def pod_applied(self, pod: Object, now_s: float) -> list[Effect]:
        """Only pods that are bound to a node."""
        self._workers.applied(pod, now_s)
        return self._flush(now_s)

    def pod_removed(self, namespace: str, name: str, uid: str, now_s: float) -> list[Effect]:
        self._workers.removed(namespace, name, uid, now_s)
        return self._flush(now_s)

    def nodes_synced(self, now_s: float) -> list[Effect]:
        """The initial list of nodes is complete. Later calls, after further full lists, have no effect."""
        if not self._nodes_synced:
            self._nodes_synced = True
            for name, node in self._initial_nodes.items():
                if name not in self._nodes.nodes:
                    self._emit(CreateNode(node))
            self._start_workers(now_s)
        return self._flush(now_s)

    def pods_synced(self, now_s: float) -> list[Effect]:
        if not self._pods_synced:
            self._pods_synced = True
            self._start_workers(now_s)
        return self._flush(now_s)

    def due(self, now_s: float) -> list[Effect]:
        """Fires the timers that are due."""
        return self._flush(now_s)

    def clock_moved(self, by_s: float) -> None:
        """The clock was set forward by ``by_s``. Waits that have begun keep their duration."""
        self._timers.postpone_all(by_s)
        self._nodes.clock_moved(by_s)
        self._workers.clock_moved(by_s)

    @property
    def has_reported(self) -> bool:
        """Every initial node has reported its Ready condition once."""
        return not self._expected

    def next_deadline_s(self) -> float | None:
        return self._timers.next_deadline_s()

    def failed(self, effect: Effect, now_s: float) -> list[Effect]:
        """A write failed and may be retried."""
        if isinstance(effect, (PatchPodStatus, DeletePod)):
            self._workers.failed(effect, now_s)
        elif isinstance(effect, CreateNode):
            self._timers.set((_CREATE, effect.node["metadata"]["name"]), now_s + _CREATE_RETRY_S)
        else:
            self._nodes.failed(effect, now_s)
        return self._flush(now_s)

    def _start_workers(self, now_s: float) -> None:
        if self._nodes_synced and self._pods_synced:
            self._workers.start(now_s)

    def _node_changed(self, name: str, now_s: float) -> None:
        self._workers.node_changed(name, now_s)

    def _report_pods(self, name: str) -> None:
        self._workers.report_running(name)

    def _emit(self, effect: Effect) -> None:
        self._out.append(effect)

    def _flush(self, now_s: float) -> list[Effect]:
        """Fires the timers that are due, and returns all writes. A timer that fails is set again for later; the writes
        and timers after it are kept for the next call."""
        for timer, owner in self._timers.due(now_s):
            try:
                self._fire(timer, owner, now_s)
            except Exception as error:
                self._timers.set((timer, owner), now_s + _TIMER_RETRY_S)
                error.add_note(f"in the timer {timer!r} of {owner}")
                raise
        out, self._out = self._out, []
        return out

    def _fire(self, timer: str, owner: str, now_s: float) -> None:
        if timer == _CREATE:
            self._emit(CreateNode(self._initial_nodes[owner]))
        elif not self._nodes.timer_fired(timer, owner, now_s):
            self._workers.timer_fired(timer, owner, now_s)
