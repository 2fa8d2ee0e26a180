"""All nodes of one DaemonSet: its pods by node, the state of each node, and the counts of the status.

The state of a node is computed again when the node or a pod on it changes, or when a pod there becomes available; the
counts are then corrected by the difference. A new template computes the state of every node. ``node_state.py`` decides
for one node, ``rolling_update.py`` for all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.controllers.daemon_sets.node_state import (
    DaemonNodeState,
    DaemonPod,
    DaemonSetRules,
    NodeUpdateState,
    observe_node,
)
from headgate.controllers.daemon_sets.placement import NodeFit, PlacementNode
from headgate.kube.backoff import ExponentialBackoff
from headgate.waiting.heap import DeadlineHeap

Object = dict[str, Any]
UpdateGroup = tuple[NodeUpdateState, bool]
"""The state of a node in a rolling update, and whether the DaemonSet wants a pod there."""

_BACKOFF: Final = ExponentialBackoff(1.0, 900.0)
_FORGOTTEN_AFTER_S: Final = 2 * _BACKOFF.max_s


class DaemonSetCounts(msgspec.Struct):
    """Counts of nodes, as in the status."""

    desired: int = 0
    current: int = 0
    misscheduled: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0
    serving: int = 0
    """Nodes with an available pod: the old pod if there is one, otherwise the new pod."""

    def add(self, state: DaemonNodeState, sign: int) -> None:
        if state.update_state in (NodeUpdateState.NEW, NodeUpdateState.OLD) or state.old_is_available:
            self.serving += sign
        if state.fit != NodeFit.WANTED:
            if state.is_scheduled and state.fit != NodeFit.GONE:
                self.misscheduled += sign
            return
        self.desired += sign
        self.current += sign * state.is_scheduled
        self.ready += sign * state.is_ready
        self.updated += sign * state.is_updated
        self.available += sign * state.is_available


class _Failures(msgspec.Struct, frozen=True):
    generation: int
    count: int
    since_s: float


class DaemonNodes:
    def __init__(self, nodes: Mapping[str, PlacementNode]) -> None:
        self._nodes: Final = nodes
        self._pods: Final[dict[str, dict[str, DaemonPod]]] = {}
        self._states: Final[dict[str, DaemonNodeState]] = {}
        self._rules: DaemonSetRules | None = None
        self._stale_nodes: Final[set[str]] = set()  # nodes whose state must be computed again
        self._due: Final[DeadlineHeap[str]] = DeadlineHeap()
        self._failures: Final[dict[str, _Failures]] = {}
        self.groups: Final[dict[UpdateGroup, set[str]]] = {}
        self.counts: Final = DaemonSetCounts()
        self.unclaimed: Final[set[str]] = set()
        """Pods that have not been matched with the selector yet."""
        self.nodes_to_check: Final[set[str]] = set()
        """Nodes where pods may have to be created or deleted."""

    def __bool__(self) -> bool:
        return bool(self._pods)

    def put(self, node: str, uid: str, pod: DaemonPod) -> None:
        self._pods.setdefault(node, {})[uid] = pod
        self.unclaimed.add(uid)
        self._stale_nodes.add(node)

    def drop(self, node: str, uid: str) -> None:
        pods = self._pods[node]
        del pods[uid]
        if not pods:
            del self._pods[node]
        self.unclaimed.discard(uid)
        self._stale_nodes.add(node)

    def pods_on(self, node: str) -> list[DaemonPod]:
        return list(self._pods.get(node, {}).values())

    def all_pods(self) -> list[DaemonPod]:
        return [pod for pods in self._pods.values() for pod in pods.values()]

    def node_changed(self, name: str) -> bool:
        """Returns whether the change of the node affects the DaemonSet."""
        if self._rules is None:
            return True
        state = self._states.get(name)
        before = NodeFit.GONE if state is None else state.fit
        after = self._fit(name, self._rules)
        if before == after:
            return False
        self._stale_nodes.add(name)
        return name in self._pods or NodeFit.WANTED in (before, after)

    def refresh(self, rules: DaemonSetRules, now_s: float) -> None:
        """Computes the state of all changed nodes again."""
        if rules != self._rules:
            self._rules = rules
            self._stale_nodes.update(self._nodes, self._pods, self._states)
        self._stale_nodes.update(self._due.due(now_s))
        for name in self._stale_nodes:
            self._update_state(name, rules, now_s)
        self.nodes_to_check.update(self._stale_nodes)
        self._stale_nodes.clear()

    def fit(self, name: str) -> NodeFit:
        state = self._states.get(name)
        return NodeFit.GONE if state is None else state.fit

    def next_s(self) -> float:
        """The next time at which the state of a node changes without an event."""
        deadline_s = self._due.next_deadline_s()
        return math.inf if deadline_s is None else deadline_s

    def _fit(self, name: str, rules: DaemonSetRules) -> NodeFit:
        return rules.placement.fit(self._nodes.get(name))

    def _update_state(self, name: str, rules: DaemonSetRules, now_s: float) -> None:
        self._due.discard(name)
        before = self._states.pop(name, None)
        if before is not None:
            self.counts.add(before, -1)
            self._leave_group((before.update_state, before.fit == NodeFit.WANTED), name)
        state = observe_node(self._fit(name, rules), self.pods_on(name), rules, now_s)
        if state.fit == NodeFit.GONE and not state.is_scheduled:
            self._failures.pop(name, None)
            return
        self._states[name] = state
        self.counts.add(state, 1)
        if state.update_state != NodeUpdateState.NONE:
            self.groups.setdefault((state.update_state, state.fit == NodeFit.WANTED), set()).add(name)
        if state.until_s < math.inf:
            self._due.put(name, state.until_s)

    def _leave_group(self, group: UpdateGroup, name: str) -> None:
        nodes = self.groups.get(group)
        if nodes is not None:
            nodes.discard(name)
            if not nodes:
                del self.groups[group]

    # -- failed pods -----------------------------------------------------------------------------------------------

    def backoff_s(self, node: str, generation: int, now_s: float) -> float:
        """The time before a failed pod of the node is replaced. It doubles after each failure."""
        last = self._failures_of(node, generation, now_s)
        return max(last.since_s + _BACKOFF.delay_s(last.count) - now_s, 0.0) if last is not None else 0.0

    def ended_failed(self, node: str, generation: int, now_s: float) -> None:
        last = self._failures_of(node, generation, now_s)
        self._failures[node] = _Failures(generation, 1 if last is None else last.count + 1, now_s)

    def _failures_of(self, node: str, generation: int, now_s: float) -> _Failures | None:
        last = self._failures.get(node)
        is_current = last is not None and last.generation == generation and now_s - last.since_s <= _FORGOTTEN_AFTER_S
        return last if is_current else None
