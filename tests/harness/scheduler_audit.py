"""Watches every pod of a server from the start and checks every revision against the guarantees of a scheduler.

A bound pod keeps its node, and no node ever has more pods than fit. The scheduler may be killed, disconnected or given
wrong answers meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from harness.pod_watch import PodWatch
from harness.server import Server

Object = dict[str, Any]


class SchedulerAudit(PodWatch):
    """``room``: how much cpu each node has, in whole ones, as all pods ask for it."""

    def __init__(self, server: Server, capacity: Mapping[str, int]) -> None:
        super().__init__(server)
        self._capacity = capacity
        self._used: Counter[str] = Counter()
        self.node_of: dict[str, str] = {}
        """By uid, of all pods that ever got a node."""

    @property
    def bound(self) -> int:
        return len(self.node_of)

    def judge(self, kind: str, pod: Object) -> None:
        name, uid, node = pod["metadata"]["name"], pod["metadata"]["uid"], pod["spec"].get("nodeName") or ""
        before = self.node_of.get(uid, "")
        if before and node != before:
            self.problems.append(f"{name} went from {before} to {node or 'nowhere'} at {self._revision}")
        if node and not before:
            self.node_of[uid] = node
            self._used[node] += cpu_of(pod)
        if kind == "DELETED":
            self._used[node] -= cpu_of(pod)
        if self._used[node] > self._capacity.get(node, 0) and node:
            self.problems.append(f"{node} has {self._used[node]} on it at {self._revision}, and room for less")


def cpu_of(pod: Object) -> int:
    return sum(int(each["resources"]["requests"]["cpu"]) for each in pod["spec"]["containers"])
