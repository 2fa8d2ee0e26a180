"""How long pods wait behind each gate: of each gate, the waiting pods in the order of their creation, in a heap.

A gate can only be set when its pod is created, so the age of a gate is the age of its pod. A pod that waits too long is
*overdue* from the moment :meth:`GateAges.due` returns it. A change of the limit needs no new heap, since the heap has
times of creation and not deadlines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.gate_policies.pod_counts import waiting_gates
from headgate.kube.lenient_reader import find_object, find_text
from headgate.kube.timestamps import parse_time
from headgate.waiting.heap import Heap

Object = Mapping[str, Any]


class WaitingPod(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    created_s: float
    gates: frozenset[str]


class _GatePods:
    """The pods behind one gate, by uid. ``waiting`` and ``overdue`` have no pod in common."""

    def __init__(self) -> None:
        self.waiting: Final = Heap[str]()
        self.overdue: Final = Heap[str]()


class GateAges:
    def __init__(self) -> None:
        self._pods: Final[dict[str, WaitingPod]] = {}
        self._gates: Final[dict[str, _GatePods]] = {}

    def apply(self, pod: Object) -> frozenset[str]:
        """Returns the gates whose pods have changed."""
        metadata = find_object(pod, "metadata")
        uid, gates = find_text(metadata, "uid"), waiting_gates(pod)
        known = self._pods.get(uid)
        before = frozenset[str]() if known is None else known.gates
        if before == gates:
            return frozenset()
        for gate in before - gates:
            self._drop(gate, uid)
        if not gates:
            self._pods.pop(uid, None)
            return before
        created_s = parse_time(find_text(metadata, "creationTimestamp"))
        found = WaitingPod(
            find_text(metadata, "namespace"),
            find_text(metadata, "name"),
            uid,
            float("inf") if isinstance(created_s, str) else float(created_s),
            gates,
        )
        self._pods[uid] = found
        for gate in gates - before:
            self._gates.setdefault(gate, _GatePods()).waiting.put(uid, found.created_s)
        return before ^ gates

    def remove(self, uid: str) -> frozenset[str]:
        """Returns the gates of the pod."""
        known = self._pods.pop(uid, None)
        if known is None:
            return frozenset()
        for gate in known.gates:
            self._drop(gate, uid)
        return known.gates

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def due(self, gate: str, max_age_s: float, now_s: float) -> Iterator[WaitingPod]:
        """The pods that have become overdue, the oldest first."""
        pods = self._gates.get(gate)
        while pods is not None and (first := pods.waiting.first()) is not None and first[0] + max_age_s <= now_s:
            pods.waiting.pop()
            pods.overdue.put(first[1], first[0])
            yield self._pods[first[1]]

    def next_due_s(self, gate: str, max_age_s: float) -> float | None:
        """When the next pod becomes overdue."""
        pods = self._gates.get(gate)
        first = None if pods is None else pods.waiting.first()
        return None if first is None or first[0] == float("inf") else float(first[0]) + max_age_s

    def is_overdue(self, gate: str, uid: str) -> bool:
        pods = self._gates.get(gate)
        return pods is not None and uid in pods.overdue

    def reset(self, gate: str) -> None:
        """No pod is overdue until :meth:`due` says so again: the policy of the gate has changed."""
        pods = self._gates.get(gate)
        while pods is not None and (first := pods.overdue.first()) is not None:
            pods.overdue.pop()
            pods.waiting.put(first[1], first[0])

    def count(self, gate: str) -> int:
        pods = self._gates.get(gate)
        return 0 if pods is None else len(pods.waiting) + len(pods.overdue)

    def overdue_count(self, gate: str) -> int:
        pods = self._gates.get(gate)
        return 0 if pods is None else len(pods.overdue)

    def oldest_s(self, gate: str) -> float | None:
        """When the oldest pod was created."""
        pods = self._gates.get(gate)
        if pods is None:
            return None
        firsts = [first[0] for first in (pods.waiting.first(), pods.overdue.first()) if first is not None]
        return min(firsts, default=None)

    def _drop(self, gate: str, uid: str) -> None:
        pods = self._gates[gate]
        pods.waiting.discard(uid)
        pods.overdue.discard(uid)
        if not pods.waiting and not pods.overdue:
            del self._gates[gate]
